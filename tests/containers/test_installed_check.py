"""What the chart brings besides the services, on a real control plane (`make test-e2e CLUSTER=real CONTAINERS=1`)."""

import asyncio
import base64
from pathlib import Path

import pytest
import trustme
from support.stack import Platform, started_platform

from aim_cli.errors import Exit
from aim_packaging.keys import new_key
from controller_runtime import JsonObject

_PATHS = {
    "ServiceAccount": "/api/v1/namespaces/aim-system/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/aim-system/networkpolicies",
    "Job": "/apis/batch/v1/namespaces/aim-system/jobs",
}


async def made(platform: Platform, objects: list[JsonObject]) -> None:
    for one in sorted(objects, key=lambda one: int(one["metadata"]["annotations"]["helm.sh/hook-weight"])):
        await platform.api.created(_PATHS[one["kind"]], one)


BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
SECRETS = "/api/v1/namespaces/aim-system/secrets"


async def in_secret(platform: Platform, name: str, key: str, content: bytes) -> None:
    """Put something else into a Secret."""
    data = {"data": {key: base64.b64encode(content).decode()}}
    assert (await platform.api.merge(f"{SECRETS}/{name}", data)).status == 200


async def checked(platform: Platform, log: Path) -> tuple[int, str]:
    """How the pod of the check ends, and what it says."""
    assert platform.chart is not None, "this runs where the chart is installed"
    process = await platform.chart.start("check", log)
    return await process.wait(), await asyncio.to_thread(log.read_text, encoding="utf-8")


@pytest.mark.spec("FW-546", "FW-612", "FW-710")
async def test_the_check_after_the_installation_finds_it_well_and_says_what_is_not(tmp_path: Path) -> None:
    async with started_platform(tmp_path / "platform") as platform:
        assert platform.chart is not None, "this runs where the chart is installed"
        await made(platform, await platform.chart.hooks())
        await platform.chart.broker_ready(platform.api)
        code, said = await checked(platform, tmp_path / "well.log")
        assert code == Exit.WELL, said
        assert {"role of serving", "broker", "streams", "freshness", "leaders", "clocks"} <= words(said)
        assert "UNKNOWN" not in said

        async def is_bad(what: str) -> None:
            log = tmp_path / f"{what}.log"
            code, said = await checked(platform, log)
            assert code == Exit.FOUND, said
            assert what in said, said

        seed = platform.chart.broker.seeds["aim-engine-nats-aim"].read_bytes()
        stranger = new_key()
        platform.chart.broker.cluster.strangers.add(stranger.public)
        await in_secret(platform, "aim-engine-nats-aim", "user.nk", stranger.seed.encode())
        await is_bad("refuses the credentials")
        await in_secret(platform, "aim-engine-nats-aim", "user.nk", seed)
        tls, authority = (
            platform.chart.broker.values["nats"]["tls"]["secretName"],
            platform.chart.broker.cluster.authority,
        )
        await in_secret(platform, tls, "ca.crt", trustme.CA().cert_pem.bytes())
        await is_bad("TLS with the message broker")
        await in_secret(platform, tls, "ca.crt", authority.read_bytes())
        binding = (await platform.api.get(f"{BINDINGS}/aim-engine-routing")).body
        await platform.api.delete(f"{BINDINGS}/aim-engine-routing")
        await is_bad("aim-engine-routing may not")
        # Without the broker it watches by itself, and nothing may be denied then.
        kept = {name: binding[name] for name in ("apiVersion", "kind", "roleRef", "subjects")}
        await platform.api.created(BINDINGS, {**kept, "metadata": {"name": "aim-engine-routing"}})
        await platform.chart.broker.cluster.stop()
        await is_bad("the message broker tls")


def words(said: str) -> set[str]:
    """What each finding is about."""
    return {line.split("  ")[1].strip() for line in said.splitlines() if not line.startswith(" ") and "  " in line}
