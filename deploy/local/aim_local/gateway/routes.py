"""Which HTTPRoute a request takes, and what it becomes on the way. Pure functions and one table."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from math import gcd
from typing import Final, final

from controller_runtime import JsonObject, Key, parse_seconds

_GOLDEN: Final = 0.618


@dataclass(frozen=True, slots=True)
class Route:
    """One match of one rule of an accepted HTTPRoute.

    Attributes:
        owner: the HTTPRoute.
        created: when it was made; of equals the oldest wins.
        path: path that is matched, without a slash at its end (the root is empty).
        exact: whether deeper paths do not match.
        hostnames: hosts that match; empty for all.
        replacement: what replaces the matched prefix; None keeps the path.
        backends: the Services, each as often in a row of requests as its weight says; empty if the rule names none.
        timeout: seconds for the whole request; None without limit.
    """

    owner: Key
    created: str
    path: str
    exact: bool
    hostnames: tuple[str, ...]
    replacement: str | None
    backends: tuple[tuple[Key, int], ...]
    timeout: float | None

    @property
    def rank(self) -> tuple[bool, str, Key]:
        """Order among routes of the same path: exact ones first, then by age, then by name (Gateway API)."""
        return (not self.exact, self.created, self.owner)

    def backend(self, turn: int) -> Key | None:
        """The Service of the nth request; weights hold in each row of requests, not only in the long run."""
        total = sum(weight for _, weight in self.backends)
        place = turn * _step(total) % total if total else 0
        for service, weight in self.backends:
            if place < weight:
                return service
            place -= weight
        return None

    def rewrite(self, path: str) -> str:
        """The path for the backend."""
        if self.replacement is None:
            return path
        rest = path[len(self.path) :].lstrip("/")
        return f"{self.replacement.rstrip('/')}/{rest}"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes."""

    route: Route
    path: str
    backend: Key | None


def routes_of(route: JsonObject) -> Iterator[Route]:
    """The matches of an HTTPRoute."""
    metadata, spec = route["metadata"], route["spec"]
    owner = Key(metadata["namespace"], metadata["name"])
    for rule in spec.get("rules") or ():
        matches: list[JsonObject] = rule.get("matches") or [{}]
        for match in matches:
            wanted = match.get("path") or {}
            yield Route(
                owner=owner,
                created=metadata.get("creationTimestamp", ""),
                path=wanted.get("value", "/").rstrip("/"),
                exact=wanted.get("type") == "Exact",
                hostnames=tuple(spec.get("hostnames") or ()),
                replacement=_replacement(rule),
                backends=_backends(owner.namespace, rule),
                timeout=_timeout(rule),
            )


@final
class RouteTable:
    """Finds the route with the longest path that matches, in time that depends on the path alone."""

    def __init__(self) -> None:
        self._by_owner: dict[Key, tuple[Route, ...]] = {}
        self._by_path: dict[str, list[Route]] = {}
        self._turns = Counter[Key]()

    def put(self, owner: Key, routes: Iterable[Route]) -> None:
        """Replace the routes of an HTTPRoute; none removes it."""
        del self._turns[owner]
        for old in self._by_owner.pop(owner, ()):
            others = self._by_path[old.path]
            others.remove(old)
            if not others:
                del self._by_path[old.path]
        fresh = tuple(routes)
        if fresh:
            self._by_owner[owner] = fresh
        for route in fresh:
            held = self._by_path.setdefault(route.path, [])
            held.append(route)
            held.sort(key=lambda one: one.rank)

    def paths(self) -> list[str]:
        """All paths that are served."""
        return sorted(path or "/" for path in self._by_path)

    def find(self, host: str, path: str) -> Target | None:
        """Where a request to this host and path goes."""
        candidate = path.rstrip("/")
        exact_hit = True
        while True:
            for route in self._by_path.get(candidate, ()):
                if (exact_hit or not route.exact) and _host_matches(route.hostnames, host):
                    turn = self._turns[route.owner]
                    self._turns[route.owner] = turn + 1
                    return Target(route, route.rewrite(path), route.backend(turn))
            if not candidate:
                return None
            candidate, exact_hit = candidate.rpartition("/")[0], False


def _host_matches(hostnames: tuple[str, ...], host: str) -> bool:
    name = host.partition(":")[0].lower()
    return not hostnames or any(
        name == wanted or (wanted.startswith("*.") and name.endswith(wanted[1:])) for wanted in hostnames
    )


def _replacement(rule: JsonObject) -> str | None:
    for one in rule.get("filters") or ():
        rewrite = (one.get("urlRewrite") or {}).get("path") or {}
        if one.get("type") == "URLRewrite" and rewrite.get("type") == "ReplacePrefixMatch":
            return str(rewrite.get("replacePrefixMatch", "/"))
    return None


def _backends(namespace: str, rule: JsonObject) -> tuple[tuple[Key, int], ...]:
    named = rule.get("backendRefs") or ()
    return tuple((Key(one.get("namespace") or namespace, one["name"]), int(one.get("weight", 1))) for one in named)


def _step(total: int) -> int:
    """A step through the places of a row that comes to each once, and far from the last one each time."""
    return next(one for one in count(max(1, round(total * _GOLDEN))) if gcd(one, total) == 1)


def _timeout(rule: JsonObject) -> float | None:
    text = (rule.get("timeouts") or {}).get("request")
    return (parse_seconds(text) or None) if text else None
