"""Whom the NetworkPolicies of the chart let through."""

from pathlib import Path
from typing import Final

import pytest
from support.helm import of_kind, rendered

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

POLICIES: Final = {f"aim-engine-{one}" for one in ("model-sync", "discovery", "artifacts", "serving", "routing")}


async def policies(folder: Path, values: JsonObject) -> dict[str, JsonObject]:
    """The specs of all policies by name."""
    found = of_kind(await rendered(folder, values), "NetworkPolicy")
    return {name: one["spec"] for name, one in found.items()}


def tcp(*ports: int) -> JsonObject:
    return {"ports": [{"protocol": "TCP", "port": one} for one in ports]}


@pytest.mark.spec("FW-701")
@pytest.mark.parametrize(
    ("url", "ports"),
    [
        ("tls://broker:4333", [4333]),
        ("nats://broker", [4222]),
        ("tls://one.example:4333, tls://[fd00::1]:4334,tls://three.example:4333", [4333, 4334]),
    ],
)
async def test_services_and_the_check_reach_an_existing_broker_at_the_ports_of_its_url(
    tmp_path: Path, url: str, ports: list[int]
) -> None:
    found = await policies(tmp_path, {"nats": {"enable": False, "url": url}})
    assert found.keys() == {*POLICIES, "aim-engine-check"}
    for spec in found.values():
        assert tcp(*ports) in spec["egress"]
