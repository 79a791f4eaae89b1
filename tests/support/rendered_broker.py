"""The chart's broker and the services' way to it, rendered by the real helm with the keys of `nats-keys`."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from support.broker_cluster import BrokerCluster, broker_cluster
from support.helm import NAMESPACE, broker_config, rendered
from typer.testing import CliRunner

from aim_local.ports import HOST
from aim_packaging.__main__ import app
from controller_runtime import JsonObject

NAMES: Final = (f"aim-engine-nats.{NAMESPACE}.svc", f"*.aim-engine-nats-headless.{NAMESPACE}.svc")
"""What docs/operations/broker.md says that the certificate has to be valid for."""
_URL: Final = "AIM_NATS_URL"
_CREDENTIALS: Final = "AIM_NATS_CREDENTIALS_FILE"
_AUTHORITY: Final = "AIM_NATS_CA_FILE"


@dataclass(frozen=True, slots=True)
class RenderedBroker:
    """The brokers, and what services and the command line need to reach them.

    Attributes:
        values: of the chart.
        secrets: with the keys of the users, as `nats-keys` wrote them.
    """

    values: JsonObject
    secrets: Path
    cluster: BrokerCluster
    service_env: Mapping[str, Mapping[str, str]]
    users: Mapping[str, JsonObject]
    """The brokers' users by name: `nkey` and `permissions`."""
    seeds: Mapping[str, Path]


def of_kind(objects: list[JsonObject], kind: str) -> dict[str, JsonObject]:
    """Objects by name."""
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


@asynccontextmanager
async def rendered_broker(
    folder: Path, *, traced: bool = False, address: str = HOST, port: int = 0
) -> AsyncIterator[RenderedBroker]:
    """Three brokers with TLS and users.

    Args:
        traced: whether the servers log each subject that is used.
        address, port: of the Service on the loopback; 0 takes a free port.
    """
    done = CliRunner().invoke(app, ["nats-keys", str(folder / "keys")])
    assert done.exit_code == 0, done.output
    wanted = yaml.safe_load((folder / "keys" / "values.yaml").read_text())
    wanted["nats"] |= {"replicas": 3, "tls": {"secretName": "nats-tls"}}
    chart = await rendered(folder, wanted)
    assert chart.status == 0, chart.errors
    config = broker_config(chart)
    seeds = _seeds(folder / "keys")
    users = _by_user(config, wanted)
    if traced:
        config |= {"trace": True, "max_traced_msg_len": 1}
    statefulset = of_kind(chart.objects, "StatefulSet")["aim-engine-nats"]
    async with broker_cluster(folder / "nats", config, statefulset, NAMES, address=address, port=port) as cluster:
        env = {
            name.removeprefix("aim-engine-"): _env(deployment, cluster, seeds)
            for name, deployment in of_kind(chart.objects, "Deployment").items()
        }
        yield RenderedBroker(wanted, folder / "keys" / "secrets.yaml", cluster, env, users, seeds)


def _by_user(config: JsonObject, values: JsonObject) -> dict[str, JsonObject]:
    keys = {key: user for user, key in values["nats"]["auth"]["publicKeys"].items()}
    return {keys[one["nkey"]]: one for one in config["authorization"]["users"]}


def _seeds(folder: Path) -> dict[str, Path]:
    """The files that pods find in their Secrets, by the Secret's name."""
    found = {}
    for secret in yaml.safe_load_all((folder / "secrets.yaml").read_text()):
        name = secret["metadata"]["name"]
        found[name] = folder / f"{name}.nk"
        found[name].write_bytes(base64.b64decode(secret["data"]["user.nk"]))
    return found


def _env(deployment: JsonObject, cluster: BrokerCluster, seeds: Mapping[str, Path]) -> dict[str, str]:
    """A service's variables about the broker, with paths of this machine instead of those of its volumes."""
    pod = deployment["spec"]["template"]["spec"]
    mounted = {one["name"]: one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    values = {one["name"]: one.get("value", "") for one in pod["containers"][0]["env"]}
    env = {name: value for name, value in values.items() if name.startswith("AIM_NATS_")}
    assert env[_URL] == f"tls://{NAMES[0]}:4222"
    assert env[_AUTHORITY] == "/etc/aim/nats-ca/ca.crt"
    assert env[_CREDENTIALS] == "/etc/aim/nats/user.nk"
    here = {_URL: cluster.url, _AUTHORITY: str(cluster.authority), _CREDENTIALS: str(seeds[mounted["nats"]])}
    return env | here
