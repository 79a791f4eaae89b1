"""Which addresses requests may go to (FW-590…FW-592).

A user names hosts: in an image, as a registry, and through the answering server also by a token realm or a redirect.
What is asked runs beside the cluster's own addresses: the process itself, the node, the metadata service that hands out
the node's identity, the API server. So an address is judged after the name was resolved, at every hop, and exactly the
judged address is connected to: a name that resolves to something else a moment later gains nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import AF_INET, AddressFamily
from typing import Final, TypeAlias, final

from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from oci_registry.errors import RegistryError, RegistryErrorCode

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_METADATA: Final = frozenset(
    ip_address(one)
    for one in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:42::42", "fd20:ce::254")
)
"""Metadata services of clouds that are not link-local."""
_API_SERVER: Final = "the API server"
_NAT64: Final = IPv6Network("64:ff9b::/96")
_THIS_NETWORK: Final = IPv4Network("0.0.0.0/8")
_NO_HOSTS: Final = IPv4Network("240.0.0.0/4")


def _is_this_machine(address: Address) -> bool:
    return address.is_loopback or address.is_unspecified or address in _THIS_NETWORK


# Private networks are not among them: registries inside the cluster and the company are the usual case.
_REFUSED: Final[tuple[tuple[str, Callable[[Address], bool]], ...]] = (
    ("this machine itself", _is_this_machine),
    ("a metadata service", _METADATA.__contains__),
    ("a link-local address", lambda one: one.is_link_local),
    ("no address of a host", lambda one: one.is_multicast or one in _NO_HOSTS),
)


@dataclass(frozen=True, slots=True)
class Reach:
    """What requests may reach.

    Attributes:
        allowed: may be reached whatever else is said, the API server's own address aside.
        refused: may not be reached, beside what never may.
        api_server: its address; nothing opens it.
    """

    allowed: tuple[Network, ...] = ()
    refused: tuple[Network, ...] = ()
    api_server: URL | None = None

    def problem(self, address: Address) -> str | None:
        """Why an address may not be reached, or None if it may."""
        real = carried_address(address)
        if _is_in(self.allowed, real, address):
            return None
        if _is_in(self.refused, real, address):
            return "an address that --registry-refused-networks names"
        return next((what for what, holds in _REFUSED if holds(real)), None)

    def is_api_server(self, host: str, port: int | None) -> bool:
        """Whether host and port, as written in a URL, are the API server's."""
        own = self.api_server
        if own is None or own.host is None or own.port != port:
            return False
        return _same_host(host, own.host)


def read_address(text: str) -> Address | None:
    """An IP address as URLs write it, or None for a name."""
    try:
        return ip_address(text.strip("[]"))
    except ValueError:
        return None


def read_network(text: str) -> Network:
    """A network, or a single address.

    Raises:
        ValueError: it is neither.
    """
    return ip_network(text, strict=False)


def carried_address(address: Address) -> Address:
    """The IPv4 address that an IPv6 address leads to, if it is of a kind that does."""
    if isinstance(address, IPv4Address):
        return address
    carried = address.ipv4_mapped or address.sixtofour
    if carried is None and address in _NAT64:
        carried = IPv4Address(int(address) & 0xFFFFFFFF)
    return carried or address


def _is_in(networks: Iterable[Network], *addresses: Address) -> bool:
    return any(address in network for network in networks for address in addresses)


def _same_host(one: str, other: str) -> bool:
    first, second = read_address(one), read_address(other)
    if first is None or second is None:
        return one.rstrip(".").lower() == other.rstrip(".").lower()
    return carried_address(first) == carried_address(second)


@final
class JudgingResolver(AbstractResolver):
    """Resolves names, and refuses those that lead where requests may not go."""

    def __init__(self, inner: AbstractResolver, reach: Reach) -> None:
        self._inner = inner
        self._reach = reach

    async def resolve(self, host: str, port: int = 0, family: AddressFamily = AF_INET) -> list[ResolveResult]:
        """The addresses of a name.

        One that must not be reached refuses the whole name: its DNS server could try what gets through.

        Raises:
            RegistryError: `AddressRefused`.
        """
        found = await self._inner.resolve(host, port, family)
        closed = await self._addresses_of_api_server(port, family)
        for one in found:
            address = ip_address(one["host"].partition("%")[0])
            if carried_address(address) in closed:
                raise _refusal(host, _API_SERVER)
            problem = self._reach.problem(address)
            if problem is not None:
                raise _refusal(f"{host} ({address})", problem)
        return found

    async def close(self) -> None:
        """Close what resolves."""
        await self._inner.close()

    async def _addresses_of_api_server(self, port: int, family: AddressFamily) -> frozenset[Address]:
        own = self._reach.api_server
        if own is None or own.host is None or own.port != port:
            return frozenset()
        literal = read_address(own.host)
        if literal is not None:
            return frozenset({carried_address(literal)})
        try:
            found = await self._inner.resolve(own.host, port, family)
        except OSError:
            return frozenset()
        return frozenset(carried_address(ip_address(one["host"].partition("%")[0])) for one in found)


@final
class Gate:
    """Asked before each request and each hop of a redirect; names are judged when they are resolved."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Pass a request on, unless its URL itself says where it must not go.

        Raises:
            RegistryError: `AddressRefused`.
        """
        self.check(request.url)
        return await handler(request)

    def check(self, url: URL) -> None:
        """Refuse addresses written in a URL.

        Raises:
            RegistryError: `AddressRefused`.
        """
        host = url.host or ""
        if self._reach.is_api_server(host, url.port):
            raise _refusal(host, _API_SERVER)
        address = read_address(host)
        problem = None if address is None else self._reach.problem(address)
        if problem is not None:
            raise _refusal(host, problem)


def _refusal(what: str, problem: str) -> RegistryError:
    opened = "; if a registry is meant to be there, name its network in --registry-allowed-networks"
    return RegistryError(
        RegistryErrorCode.ADDRESS_REFUSED,
        f"{what} is {problem}, where no registry is asked for{'' if problem == _API_SERVER else opened}",
        reached=False,
    )
