"""The Gateway controller: programs Gateways, accepts HTTPRoutes."""

import asyncio
from collections import defaultdict
from typing import final

from aim_domain.kinds import GATEWAY, HTTP_ROUTE
from aim_local.actors.failures import Failure
from aim_local.actors.gateway_status import gateway_status, gateways_of, route_parents
from aim_local.actors.informer import Informer
from aim_local.actors.objects import is_going, now_text
from aim_local.actors.settings import ActorSettings
from aim_local.actors.wanted_failures import WantedFailures
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from controller_runtime import JsonObject, Key


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
        """The Gateway, unless nobody is to be in charge of it."""
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
