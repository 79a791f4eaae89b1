"""What the chart brings besides the services, on a real control plane (`make test-e2e CLUSTER=real CONTAINERS=1`)."""

import asyncio
from pathlib import Path

import pytest
from support.stack import Platform, started_platform

from aim_cli.errors import Exit
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


async def checked(platform: Platform, log: Path) -> tuple[int, str]:
    """How the pod of the check ends, and what it says."""
    assert platform.chart is not None, "this runs where the chart is installed"
    process = await platform.chart.start("check", log)
    return await process.wait(), await asyncio.to_thread(log.read_text, encoding="utf-8")


@pytest.mark.spec("FW-546", "FW-612")
async def test_the_check_after_the_installation_finds_it_well_and_says_what_is_not(tmp_path: Path) -> None:
    async with started_platform(tmp_path / "platform") as platform:
        assert platform.chart is not None, "this runs where the chart is installed"
        await made(platform, await platform.chart.hooks())
        code, said = await checked(platform, tmp_path / "well.log")
        assert code == Exit.WELL, said
        assert {"role of serving", "streams", "freshness", "leaders", "clocks"} <= words(said)
        assert "UNKNOWN" not in said
        await platform.api.delete("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/aim-engine-routing")
        code, said = await checked(platform, tmp_path / "bad.log")
        assert code == Exit.FOUND, said
        assert "aim-engine-routing may not" in said


def words(said: str) -> set[str]:
    """What each finding is about."""
    return {line.split("  ")[1].strip() for line in said.splitlines() if not line.startswith(" ") and "  " in line}
