"""Whom the NetworkPolicies of the chart let through."""

from pathlib import Path
from typing import Final

import pytest
from support.helm import of_kind, rendered

from aim_domain.services import SERVICES
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

POLICIES: Final = {f"aim-engine-{one}" for one in SERVICES}


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
    found = await policies(tmp_path, {"nats": {"enabled": False, "url": url}})
    assert found.keys() == {*POLICIES, "aim-engine-check"}
    for spec in found.values():
        assert tcp(*ports) in spec["egress"]


@pytest.mark.spec("FW-701")
async def test_name_services_and_the_api_server_are_reached_whatever_address_they_have(tmp_path: Path) -> None:
    by_default = [{"protocol": protocol, "port": port} for port in (53, 5353) for protocol in ("UDP", "TCP")]
    for name, spec in (await policies(tmp_path, {})).items():
        assert {"ports": by_default} in spec["egress"], "a cache on the node is at none of the pods' addresses"
        if name != "aim-engine-nats":
            anywhere = [{"ipBlock": {"cidr": one}} for one in ("0.0.0.0/0", "::/0")]
            assert {**tcp(443, 6443), "to": anywhere} in spec["egress"]
    peers: list[JsonObject] = [{"namespaceSelector": {}}]
    named: JsonObject = {"apiServerCidrs": ["10.0.0.1/32"], "dns": {"to": peers, "ports": [53]}}
    for name, spec in (await policies(tmp_path, {"networkPolicy": named})).items():
        assert {"ports": by_default[:2], "to": peers} in spec["egress"]
        if name != "aim-engine-nats":
            assert {**tcp(443, 6443), "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]} in spec["egress"]


@pytest.mark.spec("FW-701")
async def test_further_rules_are_added_to_those_of_the_services_or_the_broker(tmp_path: Path) -> None:
    to, back, broker = ({"ports": [{"port": port}]} for port in (3128, 9090, 4222))
    wanted: JsonObject = {
        "networkPolicy": {"extraIngress": [back], "extraEgress": [to]},
        "nats": {"extraIngress": [broker]},
    }
    found = await policies(tmp_path, wanted)
    for name in POLICIES:
        assert back in found[name]["ingress"]
        assert to in found[name]["egress"]
    assert broker in found["aim-engine-nats"]["ingress"]
    assert back not in found["aim-engine-nats"]["ingress"]
    without: JsonObject = {"networkPolicy": {"enabled": False}}
    assert await policies(tmp_path, without) == {}
