"""The Gateway controller: programs Gateways, accepts HTTPRoutes."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final, TypeAlias, final

from aim_domain.kinds import GATEWAY, HTTP_ROUTE
from aim_local.actors.failures import Failure, WantedFailure, WantedFailures
from aim_local.actors.objects import condition, is_going, now_text, timed
from aim_local.actors.runtime import Informer, Workers, Writer
from aim_local.actors.settings import ActorSettings
from controller_runtime import JsonObject, Key

CONTROLLER: Final = "local.aim/gateway-controller"
Lookup: TypeAlias = Callable[[Key], JsonObject | None]
_UNRESOLVED: Final = frozenset({"RefNotPermitted", "InvalidKind", "BackendNotFound", "UnsupportedProtocol"})
"""Reasons of a route for `ResolvedRefs`; all others are reasons for `Accepted`."""


def gateway_status(gateway: JsonObject, now: str, wanted_failure: WantedFailure | None = None) -> JsonObject:
    """The status of a Gateway; one that fails is accepted, but not programmed for the reason in the argument."""
    generation = gateway["metadata"].get("generation", 1)
    present = gateway.get("status") or {}
    wanted = [_observed("Accepted", True, "Accepted", generation), _programmed(wanted_failure, generation)]
    before = {one["name"]: one.get("conditions") or () for one in present.get("listeners") or ()}
    listeners = []
    for listener in gateway["spec"]["listeners"]:
        conditions = [*wanted, _observed("ResolvedRefs", True, "ResolvedRefs", generation)]
        listeners.append(
            {
                "name": listener["name"],
                "supportedKinds": [{"group": GATEWAY.group, "kind": "HTTPRoute"}],
                "attachedRoutes": 0,
                "conditions": timed(conditions, before.get(listener["name"], ()), now),
            }
        )
    if wanted_failure is not None:
        return {"conditions": timed(wanted, present.get("conditions") or (), now), "listeners": listeners}
    return {
        "addresses": [{"type": "IPAddress", "value": "127.0.0.1"}],
        "conditions": timed(wanted, present.get("conditions") or (), now),
        "listeners": listeners,
    }


def gateways_of(route: JsonObject) -> list[Key]:
    """The Gateways that the route names as parents."""
    return [_parent_key(route, parent) for parent in _parents(route)]


def route_parents(
    route: JsonObject, gateway: Lookup, service: Lookup, now: str, wanted_failure: WantedFailure | None = None
) -> list[JsonObject]:
    """An entry per parent Gateway that exists; others have no controller, so no status."""
    before = {
        _identity(one["parentRef"]): one.get("conditions") or ()
        for one in (route.get("status") or {}).get("parents") or ()
    }
    entries = []
    for parent in _parents(route):
        found = gateway(_parent_key(route, parent))
        if found is None:
            continue
        wanted = _failing(route, wanted_failure) or [_accepted(route, parent, found), _resolved(route, service)]
        conditions = timed(wanted, before.get(_identity(parent), ()), now)
        entries.append({"parentRef": parent, "controllerName": CONTROLLER, "conditions": conditions})
    return entries


def is_served(route: JsonObject) -> bool:
    """Whether some Gateway accepted the route as it is now."""
    return "True" in _decisions(route)


def is_undecided(route: JsonObject) -> bool:
    """Whether no Gateway has said anything of the route as it is now: proxies serve what they had until one does."""
    return not _decisions(route)


def _decisions(route: JsonObject) -> list[str]:
    generation = route["metadata"].get("generation", 1)
    entries = (route.get("status") or {}).get("parents") or ()
    return [
        one["status"]
        for entry in entries
        for one in entry.get("conditions") or ()
        if one["type"] == "Accepted" and one.get("observedGeneration", 0) >= generation
    ]


def _parents(route: JsonObject) -> list[JsonObject]:
    parents = route["spec"].get("parentRefs") or ()
    return [one for one in parents if one.get("kind", GATEWAY.kind) == GATEWAY.kind]


def _parent_key(route: JsonObject, parent: JsonObject) -> Key:
    return Key(parent.get("namespace") or route["metadata"]["namespace"], parent["name"])


def _identity(parent: JsonObject) -> tuple[object, ...]:
    return (parent.get("namespace"), parent["name"], parent.get("sectionName"), parent.get("port"))


def _failing(route: JsonObject, wanted: WantedFailure | None) -> list[JsonObject]:
    """Conditions of a route that is asked to fail, for the reason in the argument; none if it is not."""
    if wanted is None:
        return []
    generation, reason = route["metadata"].get("generation", 1), wanted.argument or "UnsupportedValue"
    accepted, why = reason in _UNRESOLVED, wanted.message or f"asked to fail with {reason}"
    return [
        _observed("Accepted", accepted, "Accepted" if accepted else reason, generation, "" if accepted else why),
        _observed(
            "ResolvedRefs", not accepted, reason if accepted else "ResolvedRefs", generation, why if accepted else ""
        ),
    ]


def _programmed(wanted: WantedFailure | None, generation: int) -> JsonObject:
    if wanted is None:
        return _observed("Programmed", True, "Programmed", generation)
    reason = wanted.argument or "AddressNotAssigned"
    return _observed("Programmed", False, reason, generation, wanted.message or f"asked to fail with {reason}")


def _accepted(route: JsonObject, parent: JsonObject, gateway: JsonObject) -> JsonObject:
    generation = route["metadata"].get("generation", 1)
    section = parent.get("sectionName")
    listeners = [one for one in gateway["spec"]["listeners"] if section in (None, one["name"])]
    if not listeners:
        return _observed("Accepted", False, "NoMatchingParent", generation, f"no listener named {section}")
    if not any(_admits(listener, gateway, route) for listener in listeners):
        message = f"no listener admits routes of namespace {route['metadata']['namespace']}"
        return _observed("Accepted", False, "NotAllowedByListeners", generation, message)
    return _observed("Accepted", True, "Accepted", generation)


def _admits(listener: JsonObject, gateway: JsonObject, route: JsonObject) -> bool:
    """Whether the listener takes routes of that namespace; selectors of namespaces are taken to match."""
    allowed = ((listener.get("allowedRoutes") or {}).get("namespaces") or {}).get("from", "Same")
    same = gateway["metadata"]["namespace"] == route["metadata"]["namespace"]
    return allowed in ("All", "Selector") or (allowed == "Same" and same)


def _resolved(route: JsonObject, service: Lookup) -> JsonObject:
    generation = route["metadata"].get("generation", 1)
    for rule in route["spec"].get("rules") or ():
        for backend in rule.get("backendRefs") or ():
            key = Key(backend.get("namespace") or route["metadata"]["namespace"], backend["name"])
            if service(key) is None:
                return _observed("ResolvedRefs", False, "BackendNotFound", generation, f"service {key} not found")
    return _observed("ResolvedRefs", True, "ResolvedRefs", generation)


def _observed(type_: str, holds: bool, reason: str, generation: int, message: str = "") -> JsonObject:
    return {**condition(type_, holds, reason), "message": message, "observedGeneration": generation}


@final
class Gateways:
    """Writes the status of Gateways and routes, again whenever something they refer to comes or goes."""

    def __init__(
        self,
        writer: Writer,
        settings: ActorSettings,
        failures: WantedFailures,
        *,
        gateways: Informer,
        routes: Informer,
        services: Informer,
    ) -> None:
        self._writer = writer
        self._settings = settings
        self._failures = failures
        self._gateways = gateways
        self._routes = routes
        self._services = services
        self._by_reference: defaultdict[Key, set[Key]] = defaultdict(set)
        self._references: dict[Key, frozenset[Key]] = {}
        self.gateway_workers = Workers("gateways", self._handle_gateway)
        self.route_workers = Workers("routes", self._handle_route)
        gateways.listen(self._on_gateway)
        routes.listen(self._on_route)
        services.listen(lambda key, _: self._wake(key))
        failures.listen(self._look_again)

    def _look_again(self) -> None:
        for key in self._gateways.objects:
            self.gateway_workers.add(key)
        for key in self._routes.objects:
            self.route_workers.add(key)

    def _gateway(self, key: Key) -> JsonObject | None:
        """The Gateway, unless it is to have no controller."""
        found = self._gateways.get(key)
        return None if found is None or self._failures.of(Failure.GATEWAY_MISSING, found) else found

    def _on_gateway(self, key: Key, _: JsonObject) -> None:
        self.gateway_workers.add(key)
        self._wake(key)

    def _on_route(self, key: Key, route: JsonObject) -> None:
        present = self._routes.get(key) is not None
        references = frozenset([*gateways_of(route), *_backends_of(route)]) if present else frozenset[Key]()
        for gone in self._references.pop(key, frozenset()) - references:
            self._by_reference[gone].discard(key)
        for one in references:
            self._by_reference[one].add(key)
        if references:
            self._references[key] = references
        self.route_workers.add(key)

    def _wake(self, key: Key) -> None:
        for route in self._by_reference.get(key, ()):
            self.route_workers.add(route)

    async def _handle_gateway(self, key: Key) -> None:
        gateway = self._gateways.get(key)
        if gateway is None or is_going(gateway):
            return
        missing = self._gateway(key) is None
        failure = self._failures.of(Failure.GATEWAY, gateway)
        status: JsonObject = {} if missing else gateway_status(gateway, now_text(), failure)
        if status != (gateway.get("status") or {}):
            await asyncio.sleep(self._settings.delay)
            await self._writer.status(GATEWAY, gateway, status)

    async def _handle_route(self, key: Key) -> None:
        route = self._routes.get(key)
        if route is None or is_going(route):
            return
        failure = self._failures.of(Failure.ROUTE, route)
        parents = route_parents(route, self._gateway, self._services.get, now_text(), failure)
        if parents != ((route.get("status") or {}).get("parents") or []):
            await asyncio.sleep(self._settings.delay)
            written = await self._writer.status(HTTP_ROUTE, route, {"parents": parents})
            if written is not None:
                self._routes.put(written)


def _backends_of(route: JsonObject) -> list[Key]:
    return [
        Key(backend.get("namespace") or route["metadata"]["namespace"], backend["name"])
        for rule in route["spec"].get("rules") or ()
        for backend in rule.get("backendRefs") or ()
    ]
