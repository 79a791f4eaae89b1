"""Addresses on a gateway: which of them overlap (RT-122, RT-124), and how overlapping ones are found without a scan.

Hostnames and paths are two trees. A hostname lies below each wildcard that covers it, a path below each of its
prefixes. What overlaps with an address is therefore at, above or below it in both trees.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

ANY_HOST: Final = ""
"""The root of all hostnames: what a route without hostnames serves."""

_DEPTH: Final = 8
"""Nodes deeper than this are indexed with their ancestor of this depth: deep names cost no more look-ups."""

_AT: Final = "="
_BELOW: Final = "<"


@dataclass(frozen=True, slots=True)
class Address:
    """What a route claims; all three in canonical form.

    Attributes:
        gateway: kind, namespace and name of the parent, for people as well; without listener, because a path belongs
            to one namespace on all listeners of a Gateway.
        hostnames: empty for all.
        path: prefix, by whole segments; no slash at its end unless it is the root.
        listener: of the gateway; empty for all.
    """

    gateway: str
    hostnames: tuple[str, ...]
    path: str
    listener: str = ""

    def overlaps(self, other: "Address") -> bool:
        """Whether a request could match both."""
        return (
            self.gateway == other.gateway
            and paths_overlap(self.path, other.path)
            and any(hosts_overlap(one, two) for one, two in product(self._hosts, other._hosts))
        )

    def by_host(self) -> Iterable["Address"]:
        """The same with one hostname each."""
        return tuple(replace(self, hostnames=(one,)) for one in self.hostnames) or (self,)

    def lies_within(self, host: str, path: str) -> bool:
        """Whether every request that matches is for that host and below that path."""
        below = paths_overlap(self.path, path) and len(self.path.rstrip("/")) >= len(path.rstrip("/"))
        return below and all(_covers(host, one) for one in self._hosts)

    def touches(self, host: str, path: str) -> bool:
        """Whether some request that matches is for that host and below that path."""
        return paths_overlap(self.path, path) and any(hosts_overlap(host, one) for one in self._hosts)

    def index_values(self) -> set[str]:
        """Under which values of an index the claim is found."""
        return self._values(_places)

    def search_values(self) -> set[str]:
        """Under which of these values everything that overlaps is found (and deep neighbours that do not)."""
        return self._values(_sought)

    def is_shadowed_by(self, other: "Address") -> bool:
        """Whether the very same requests, on some listener, could go to the other one."""
        same_listener = self.listener == other.listener or not (self.listener and other.listener)
        return same_listener and self.path == other.path and self.overlaps(other)

    @property
    def _hosts(self) -> tuple[str, ...]:
        return self.hostnames or (ANY_HOST,)

    def _values(self, marked: Callable[[list[str]], list[str]]) -> set[str]:
        hosts = {node for host in self._hosts for node in marked(_host_nodes(host))}
        paths = marked(_path_nodes(self.path))
        return {f"{self.gateway}|{host}|{path}" for host, path in product(hosts, paths)}


def canonical_hostnames(hostnames: Iterable[str]) -> tuple[str, ...]:
    """Lower case, each once, in the order given."""
    return tuple(dict.fromkeys(one.lower() for one in hostnames))


def paths_overlap(one: str, other: str) -> bool:
    """Whether the paths are equal or one lies below the other."""
    short, long = sorted((one.rstrip("/"), other.rstrip("/")), key=len)
    return long == short or long.startswith(f"{short}/")


def hosts_overlap(one: str, other: str) -> bool:
    """Whether some host matches both; a wildcard stands for one or more labels."""
    return _covers(one, other) or _covers(other, one)


def _covers(wide: str, narrow: str) -> bool:
    return wide in (ANY_HOST, narrow) or (wide.startswith("*.") and narrow.endswith(wide[1:]))


def _path_nodes(path: str) -> list[str]:
    """The path, then its prefixes up to the root."""
    segments = [one for one in path.split("/") if one][:_DEPTH]
    return [f"/{'/'.join(segments[:count])}" for count in range(len(segments), -1, -1)]


def _host_nodes(host: str) -> list[str]:
    """The hostname, then the wildcards that cover it up to all hosts."""
    labels = host.split(".")
    wildcards = [f"*.{'.'.join(labels[count:])}" for count in range(1, len(labels))]
    nodes = dict.fromkeys([host, *wildcards, ANY_HOST])
    return [node for node in nodes if node.count(".") < _DEPTH]


def _places(nodes: list[str]) -> list[str]:
    return [_AT + nodes[0], *(_BELOW + above for above in nodes[1:])]


def _sought(nodes: list[str]) -> list[str]:
    return [_BELOW + nodes[0], *(_AT + node for node in nodes)]
