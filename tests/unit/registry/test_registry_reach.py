"""Which addresses requests to registries may go to, whatever a user, a redirect or a DNS answer names."""

from ipaddress import ip_address
from socket import AF_INET, AddressFamily
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from oci_registry import RegistryError, RegistryErrorCode, RegistrySettings
from oci_registry.endpoints import is_internal_address
from oci_registry.reach import Gate, JudgingResolver, Reach, read_network

API_SERVER = "https://10.96.0.1:443"


class Names(AbstractResolver):
    """Whatever a DNS server of an attacker says."""

    def __init__(self, **answers: list[str]) -> None:
        self._answers = {name.replace("_", "."): addresses for name, addresses in answers.items()}

    async def resolve(self, host: str, port: int = 0, family: AddressFamily = AF_INET) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=one, port=port, family=int(family), proto=0, flags=0)
            for one in self._answers[host]
        ]

    async def close(self) -> None:
        """Nothing is open."""


def reach(**values: Any) -> Reach:
    settings = RegistrySettings.model_validate(values)
    return Reach(settings.registry_allowed_networks, settings.registry_refused_networks, URL(API_SERVER))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "0.1.2.3", "::",
        "169.254.169.254", "169.254.0.1", "fe80::1",
        "100.100.100.200", "168.63.129.16", "fd00:ec2::254",
        "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
    ],
)  # fmt: skip
@pytest.mark.spec("FW-590")
def test_no_request_goes_to_the_machine_the_link_or_a_metadata_service(address: str) -> None:
    assert reach().problem(ip_address(address))


@pytest.mark.parametrize(
    "address", ["10.0.0.5", "172.16.3.4", "192.168.1.1", "100.64.0.1", "fd12::1", "140.82.121.33", "2606:4700::1"]
)
@pytest.mark.spec("FW-590")
def test_registries_of_the_cluster_and_the_company_can_be_asked(address: str) -> None:
    assert reach().problem(ip_address(address)) is None


@pytest.mark.spec("FW-590")
def test_an_administrator_opens_and_closes_networks() -> None:
    some = reach(registry_allowed_networks="127.0.0.1, 10.1.2.0/24", registry_refused_networks="10.0.0.0/8")
    problems = {one: some.problem(ip_address(one)) for one in ("127.0.0.1", "127.0.0.2", "10.1.2.3", "10.1.3.3")}
    assert [one for one, problem in problems.items() if problem is None] == ["127.0.0.1", "10.1.2.3"]
    assert "--registry-refused-networks" in str(problems["10.1.3.3"])


@pytest.mark.parametrize("text", ["10.0.0.0/33", "registry.example"])
@pytest.mark.spec("FW-590", "FW-272")
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"registry_allowed_networks"):
        reach(registry_allowed_networks=text)
    with pytest.raises(ValueError, match=r"does not appear to be|bits set|not a valid|permitted"):
        read_network(text)


@pytest.mark.parametrize("answer", [["169.254.169.254"], ["93.184.216.34", "127.0.0.1"], ["::ffff:127.0.0.1"]])
@pytest.mark.spec("FW-590")
async def test_a_name_is_judged_by_all_that_it_resolves_to(answer: list[str]) -> None:
    resolver = JudgingResolver(Names(evil_example=answer, good_example=["10.0.0.7"]), reach())
    with pytest.raises(RegistryError, match=r"evil\.example") as failed:
        await resolver.resolve("evil.example", 443)
    assert failed.value.code is RegistryErrorCode.ADDRESS_REFUSED
    assert not failed.value.reached
    assert not failed.value.code.is_transient
    assert [one["host"] for one in await resolver.resolve("good.example", 443)] == ["10.0.0.7"]


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest", "http://[::1]:8080/", "http://127.0.0.1/"])
@pytest.mark.spec("FW-590")
def test_an_address_that_is_written_in_a_url_is_judged(url: str) -> None:
    with pytest.raises(RegistryError, match="--registry-allowed-networks"):
        Gate(reach()).check(URL(url))


@pytest.mark.spec("FW-591")
async def test_nothing_opens_the_api_server() -> None:
    own = reach(registry_allowed_networks="0.0.0.0/0")
    with pytest.raises(RegistryError, match="the API server"):
        Gate(own).check(URL(API_SERVER))
    with pytest.raises(RegistryError, match="the API server"):
        Gate(own).check(URL("https://[::ffff:10.96.0.1]/v2/"))
    Gate(own).check(URL("https://10.96.0.1:5000/"))
    resolver = JudgingResolver(Names(evil_example=["10.96.0.1"]), own)
    with pytest.raises(RegistryError, match="the API server"):
        await resolver.resolve("evil.example", 443)
    assert await resolver.resolve("evil.example", 5000)


@pytest.mark.spec("FW-591")
async def test_an_api_server_with_a_name_is_known_by_its_addresses() -> None:
    named = Reach(api_server=URL("https://api.example:6443"))
    with pytest.raises(RegistryError, match="the API server"):
        Gate(named).check(URL("https://API.example.:6443/"))
    resolver = JudgingResolver(Names(api_example=["10.0.0.2"], evil_example=["10.0.0.2"]), named)
    with pytest.raises(RegistryError, match="the API server"):
        await resolver.resolve("evil.example", 6443)
    assert await resolver.resolve("evil.example", 443)


@pytest.mark.parametrize("host", ["::ffff:127.0.0.1", "::ffff:169.254.169.254", "[::ffff:10.0.0.1]"])
@pytest.mark.spec("MS-127", "FW-590")
def test_an_ipv4_address_in_an_ipv6_one_is_the_same_address(host: str) -> None:
    assert is_internal_address(host)
