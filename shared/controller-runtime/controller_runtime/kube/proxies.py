"""The proxy of the environment, read as Go's clients and with them kubectl read it (FW-274, FW-790…FW-792).

One function for every server: the API server, registries, hubs and object stores. Python's own reading of ``NO_PROXY``
knows neither networks nor ``*.domain``, so that a cluster's service network goes to a proxy that cannot reach it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


_EVERYTHING: Final = "*"


_Address = IPv4Address | IPv6Address


def environment_proxy(url: str, variables: Mapping[str, str] = os.environ) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for a server; ``None`` = the server is asked directly.

    An upper-case variable takes precedence over its lower-case form, and an empty one counts as unset. This machine's
    own addresses never go through a proxy.
    """
    server = urlsplit(url)
    if not server.hostname or server.scheme not in _DEFAULT_PORTS:
        return None
    proxy = _variable(variables, f"{server.scheme}_proxy") or _variable(variables, "all_proxy")
    if not proxy or not needs_proxy(server, _variable(variables, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def plain_no_proxy(variables: Mapping[str, str]) -> str:
    """NO_PROXY for a library with its own reading, which knows networks but neither ``*.domain`` nor ports (FW-792)."""
    no_proxy = _variable(variables, "no_proxy")
    entries = (one.strip().removesuffix(":443") for one in no_proxy.split(","))
    return ",".join(one[1:] if one.startswith("*.") else one for one in entries if one)


def needs_proxy(server: SplitResult, no_proxy: str) -> bool:
    """Whether no entry of ``no_proxy`` exempts the server, which has a host."""
    host = (server.hostname or "").rstrip(".")
    address = _address(host)
    if host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback):
        return False
    port = server.port or _DEFAULT_PORTS.get(server.scheme)
    return not any(entry.exempts(host, address, port) for entry in _entries(no_proxy))


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of NO_PROXY.

    Attributes:
        network: of an entry that is an address or a network; it exempts no names.
        domain: of any other, in lower case: ``x.y`` exempts itself and what is below it, ``.x.y`` only what is below.
        port: ``None`` exempts every port.
    """

    network: IPv4Network | IPv6Network | None = None
    domain: str = ""
    port: int | None = None

    def exempts(self, host: str, address: _Address | None, port: int | None) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.network is not None:
            return address is not None and address in self.network
        return self.domain in {_EVERYTHING, host} or host.endswith(f".{self.domain.lstrip('.')}")


def _entries(no_proxy: str) -> Iterator[_Entry]:
    for text in (one.strip().lower() for one in no_proxy.split(",")):
        network = _network(text)
        host, port = _split_port(text)
        address = _address(host)
        if network is not None:
            yield _Entry(network)
        elif address is not None:
            yield _Entry(ip_network(address), port=port)
        elif text == _EVERYTHING:
            yield _Entry(domain=_EVERYTHING)
        elif host.strip("*."):
            yield _Entry(domain=(host[1:] if host.startswith("*.") else host).rstrip("."), port=port)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    prefix, slash, length = text.partition("/")
    if not slash or not length.isdecimal():
        return None
    try:
        return ip_network((prefix.strip("[]"), int(length)), strict=False)
    except ValueError:
        return None


def _split_port(text: str) -> tuple[str, int | None]:
    """``host:port``; the colons of an IPv6 address without brackets are its own."""
    host, colon, port = text.rpartition(":")
    if colon and port.isdecimal() and (":" not in host or host.endswith("]")):
        return host.strip("[]"), int(port)
    return text.strip("[]"), None


def _address(host: str) -> _Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _variable(variables: Mapping[str, str], name: str) -> str:
    return variables.get(name.upper()) or variables.get(name) or ""
