"""Two services on overlapping addresses of one gateway (RT-121…RT-127).

What counts are the routes that are there, and the age of the services that they belong to. Each service looks only at
its own overlaps: nobody has to know who else waits, and the oldest of those that overlap ends up with its route in
whatever order they are looked at.
"""

from dataclasses import dataclass, field
from typing import Final

from aim_domain import AIMService, HTTPRoute, ParentReference, spans_namespaces
from aim_domain.kinds import AIM_SERVICE
from aim_domain.parts import HTTP_ROUTES, SERVICES
from aim_routing.address import Address, canonical_hostnames
from controller_runtime import ClassifiedError, Depth, Event, EventType, Index, OwnerReference, View

PATH_CONFLICT: Final = "PathConflict"


def address_of(gateway: ParentReference, namespace: str, hostnames: tuple[str, ...], path: str) -> Address:
    """The address of a route of that namespace."""
    parent = f"{gateway.kind} {gateway.namespace or namespace}/{gateway.name}"
    listener = f"{gateway.section_name or ''}:{gateway.port or ''}".strip(":")
    return Address(parent, canonical_hostnames(hostnames), path, listener)


def address_in_effect(route: HTTPRoute) -> Address | None:
    """What the stored route of a service claims: it has one parent and one match (RT-049, RT-050)."""
    paths = [match.path.value for rule in route.spec.rules for match in rule.matches if match.path]
    if not route.spec.parent_refs or not paths:
        return None
    return address_of(route.spec.parent_refs[0], route.namespace, route.spec.hostnames, paths[0])


def _claims(route: HTTPRoute) -> set[str]:
    address = address_in_effect(route) if _owner(route) else None
    return set() if address is None else address.index_values()


ROUTES_BY_ADDRESS = Index(HTTP_ROUTES, "address", _claims, depth=Depth.SPEC)
"""Routes of services by what they claim."""


@dataclass(frozen=True, slots=True)
class Rivals:
    """Those older ones with which an address overlaps.

    Attributes:
        namespace: of the oldest in another namespace, unless both sides may overlap; empty if there is none.
        service: the oldest of the own namespace with the same path; empty if there is none.
        error: why this cannot be told.
    """

    namespace: str = ""
    service: str = ""
    error: ClassifiedError | None = None


@dataclass(frozen=True, slots=True, order=True)
class _Rival:
    age: tuple[str, str, str, str]
    namespace: str
    name: str
    shadows: bool = field(compare=False)
    allows: bool = field(compare=False)


def rivals_of(view: View, service: AIMService, address: Address) -> Rivals:
    """Who has a better right to the address, or to a part of it."""
    found: dict[str, HTTPRoute] = {}
    error: ClassifiedError | None = None
    for value in sorted(address.search_values()):
        selection = view.select(ROUTES_BY_ADDRESS, value)
        error = error or selection.error
        found.update((route.uid, route) for route in selection.items)
    rivals = [rival for route in found.values() if (rival := _rival(view, service, address, route))]
    older = sorted(rival for rival in rivals if rival.age < _age(service))
    own = [rival.name for rival in older if rival.namespace == service.namespace and rival.shadows]
    others = [rival for rival in older if rival.namespace != service.namespace]
    refused = [rival.namespace for rival in others if not (rival.allows and spans_namespaces(view, service))]
    return Rivals(next(iter(refused), ""), next(iter(own), ""), None if refused else error)


def shared_path_event(rivals: Rivals, service: AIMService, gateway: ParentReference, path: str) -> Event | None:
    """The event for a service whose path an older one of its own namespace has as well (RT-121)."""
    if not rivals.service:
        return None
    message = (
        f"path {path} on gateway {gateway.name} is also that of AIMService {service.namespace}/{rivals.service}, "
        "which is older; the gateway serves one of them: choose another pathTemplate"
    )
    return Event(EventType.WARNING, "RoutePathConflict", message, standing=True)


def read_of_others(service: AIMService) -> tuple[bool, str | None]:
    """All that is looked at in another service: whether it goes away, and which cluster config speaks for it."""
    return service.deleting, service.spec.runtime_config_name


def _rival(view: View, service: AIMService, address: Address, route: HTTPRoute) -> _Rival | None:
    owner, claimed = _owner(route), address_in_effect(route)
    if owner is None or claimed is None or owner.uid == service.uid or not address.overlaps(claimed):
        return None
    other = view.get(SERVICES, route.namespace, owner.name).value
    if other is None or other.uid != owner.uid:
        # Its service is gone, the route not yet: it still serves, so it counts until then, as of its own age.
        return _Rival(_age(route), route.namespace, owner.name, address.is_shadowed_by(claimed), allows=False)
    allows = route.namespace != service.namespace and spans_namespaces(view, other)
    return _Rival(_age(other), route.namespace, other.name, address.is_shadowed_by(claimed), allows)


def _owner(route: HTTPRoute) -> OwnerReference | None:
    owners = route.metadata.owner_references
    return next((one for one in owners if one.controller and one.kind == AIM_SERVICE.kind), None)


def _age(one: AIMService | HTTPRoute) -> tuple[str, str, str, str]:
    created = one.metadata.creation_timestamp
    return (created.isoformat() if created else "", one.namespace, one.name, one.uid)
