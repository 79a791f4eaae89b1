"""Two services on one path: the gateway serves the older route, and the younger service is told (RT-121)."""

from aim_domain import AIMService, HTTPRoute, ParentReference, RoutingSettings
from aim_domain.parts import HTTP_ROUTES
from controller_runtime import Event, EventType, Index, View


def _address(gateway: ParentReference, namespace: str, path: str) -> str:
    return "|".join((gateway.namespace or namespace, gateway.name, gateway.section_name or "", path))


def _addresses(route: HTTPRoute) -> list[str]:
    paths = [match.path.value for rule in route.spec.rules for match in rule.matches if match.path]
    return [_address(parent, route.namespace, path) for parent in route.spec.parent_refs for path in paths]


ROUTES_BY_ADDRESS = Index(HTTP_ROUTES, "address", _addresses)
"""Routes by gateway and path."""


def conflict_event(view: View, service: AIMService, settings: RoutingSettings, path: str) -> Event | None:
    """The event for a service whose path an older route has on the same gateway."""
    assert settings.gateway is not None
    routes = view.select(ROUTES_BY_ADDRESS, _address(settings.gateway, service.namespace, path)).items
    own = next((route for route in routes if _is_of(route, service)), None)
    others = [route for route in routes if not _is_of(route, service) and (own is None or _age(route) < _age(own))]
    if not others:
        return None
    oldest = min(others, key=_age)
    message = (
        f"path {path} on gateway {settings.gateway.name} is already served by HTTPRoute "
        f"{oldest.namespace}/{oldest.name}, which is older and takes precedence; choose another pathTemplate"
    )
    return Event(EventType.WARNING, "RoutePathConflict", message, standing=True)


def _is_of(route: HTTPRoute, service: AIMService) -> bool:
    return any(owner.uid == service.uid for owner in route.metadata.owner_references)


def _age(route: HTTPRoute) -> tuple[str, str, str]:
    created = route.metadata.creation_timestamp
    return (created.isoformat() if created else "", route.namespace, route.name)
