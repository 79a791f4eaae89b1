"""Services that have the same address or backend."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from aim_domain import AIMService, HTTPRoute, ParentReference, labels, spans_namespaces
from aim_domain.kinds import AIM_SERVICE
from aim_domain.naming import NamingError, http_route_name, inference_service_name
from aim_domain.parts import HTTP_ROUTES, SERVICES
from aim_routing.address import Address, canonical_hostnames
from aim_routing.route import HTTP_ROUTE_READY, accepted_message, recorded_time
from controller_runtime import (
    ClassifiedError,
    Depth,
    Event,
    EventType,
    Index,
    OwnerReference,
    View,
    find_condition,
    scoped,
)


def _backend(service: AIMService) -> list[str]:
    try:
        return [scoped(service.namespace, inference_service_name(service.name, service.namespace))]
    except NamingError:
        return []


SERVICES_BY_BACKEND = Index(SERVICES, "backend", _backend)
"""Services by the name of their InferenceService."""


def older_namesake(view: View, service: AIMService) -> AIMService | None:
    """The service that has the InferenceService's name by right, if it is another one."""
    sharing = [one for name in _backend(service) for one in view.select(SERVICES_BY_BACKEND, name).items]
    older = [one for one in sharing if one.uid != service.uid and not one.deleting and _age(one) < _age(service)]
    return min(older, key=_age, default=None)


def _age(service: AIMService) -> tuple[str, str]:
    created = service.metadata.creation_timestamp
    return (created.isoformat() if created else "", service.uid)


PATH_CONFLICT: Final = "PathConflict"
_EVER: Final = datetime.min.replace(tzinfo=UTC)


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


class Tenure(Enum):
    """How a service stands to an address (RT-210)."""

    HELD = "held"
    """Its route has the address, or had it when it was last seen."""
    FIRST = "first"
    """It has no route yet."""
    MOVED = "moved"
    """Its route has another address."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An address that a service asks for, and since when.

    Attributes:
        since: when the address became the route's, to the second; of one that is not held, the moment of the pass.
        stamp: what the route has to record because its creation does not state it (RT-211).
    """

    address: Address
    tenure: Tenure
    since: datetime
    stamp: datetime | None = None


def claim_of(service: AIMService, route: HTTPRoute | None, address: Address, now: datetime) -> Claim:
    """How old the service's claim to an address is (RT-210, RT-211)."""
    if route is not None and address_in_effect(route) == address:
        recorded = recorded_time(route, labels.ANNOTATION_ADDRESS_CLAIMED)
        return Claim(address, Tenure.HELD, claimed_at(route, service), stamp=recorded)
    reported = _reported_since(service, address)
    if reported is not None:
        return Claim(address, Tenure.HELD, reported, stamp=reported)
    moment = now.replace(microsecond=0)
    if route is None:
        return Claim(address, Tenure.FIRST, moment)
    return Claim(address, Tenure.MOVED, moment, stamp=moment)


def claimed_at(route: HTTPRoute, owner: AIMService | None) -> datetime:
    """Since when the route has its address: what it records, else its creation, never before its service (RT-211)."""
    since = recorded_time(route, labels.ANNOTATION_ADDRESS_CLAIMED) or route.metadata.creation_timestamp or _EVER
    # A tenant who may edit routes can write any time into the annotation.
    return max(since, (owner.metadata.creation_timestamp if owner is not None else None) or _EVER)


def _reported_since(service: AIMService, address: Address) -> datetime | None:
    """A route that others delete or change gives no address up: the status still reports it (RT-213)."""
    routing = service.status.routing
    accepted = find_condition(service.status.conditions, HTTP_ROUTE_READY)
    if routing is None or routing.path != address.path or tuple(routing.hostnames) != address.hostnames:
        return None
    if accepted is None or accepted.observed_generation != service.metadata.generation:
        return None
    # The status has no gateway but in these words; a move to another one must not count as old.
    name = http_route_name(service.name, service.namespace)
    return accepted.last_transition_time if accepted.message == accepted_message(address.gateway, name) else None


@dataclass(frozen=True, slots=True)
class Rivals:
    """Those with a better right with which an address overlaps.

    Attributes:
        namespace: of the first in another namespace, unless both sides may overlap; empty if there is none.
        service: the first of the own namespace with the same path; empty if there is none.
        error: why this is not known.
    """

    namespace: str = ""
    service: str = ""
    error: ClassifiedError | None = None


_Age = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, order=True)
class _Rival:
    since: datetime
    age: _Age
    namespace: str
    name: str
    shadows: bool = field(compare=False)
    allows: bool = field(compare=False)


def rivals_of(view: View, service: AIMService, claim: Claim) -> Rivals:
    """Which services have a better right to the address, or to a part of it (RT-122, RT-212)."""
    found: dict[str, HTTPRoute] = {}
    error: ClassifiedError | None = None
    for value in sorted(claim.address.search_values()):
        selection = view.select(ROUTES_BY_ADDRESS, value)
        error = error or selection.error
        found.update((route.uid, route) for route in selection.items)
    rivals = [rival for route in found.values() if (rival := _rival(view, service, claim.address, route))]
    first = sorted(rival for rival in rivals if _precedes(rival, service, claim))
    own = [rival.name for rival in first if rival.namespace == service.namespace and rival.shadows]
    others = [rival for rival in first if rival.namespace != service.namespace]
    spans = bool(others) and spans_namespaces(view, service)
    moved = claim.tenure is Tenure.MOVED
    refused = [one.namespace for one in others if not (one.allows and spans) or (moved and one.shadows)]
    return Rivals(next(iter(refused), ""), next(iter(own), ""), None if refused else error)


def _precedes(rival: _Rival, service: AIMService, claim: Claim) -> bool:
    """A route that exists precedes every new claim, but in one second the age of the services decides (RT-210)."""
    if claim.tenure is Tenure.MOVED:
        return True
    age = _rank(service)
    if claim.tenure is Tenure.FIRST:
        return rival.since != claim.since or rival.age < age
    return (rival.since, rival.age) < (claim.since, age)


def shared_path_event(rivals: Rivals, service: AIMService, gateway: ParentReference, path: str) -> Event | None:
    """The event for a service whose path another of its own namespace had before (RT-121)."""
    if not rivals.service:
        return None
    message = (
        f"path {path} on gateway {gateway.name} is also that of AIMService {service.namespace}/{rivals.service}, "
        "which had it before; the gateway serves that one: choose another pathTemplate"
    )
    return Event(EventType.WARNING, "RoutePathConflict", message, standing=True)


def read_of_others(service: AIMService) -> tuple[bool, str | None]:
    """All that is looked at in another service: whether it goes away, and which cluster config speaks for it."""
    return service.deleting, service.spec.runtime_config_name


def _rival(view: View, service: AIMService, address: Address, route: HTTPRoute) -> _Rival | None:
    owner, claimed = _owner(route), address_in_effect(route)
    if owner is None or claimed is None or owner.uid == service.uid or not address.overlaps(claimed):
        return None
    found = view.get(SERVICES, route.namespace, owner.name).value
    other = found if found is not None and found.uid == owner.uid else None
    since = claimed_at(route, other)
    if other is None:
        # Its service is gone, the route not yet: it still serves, so it counts until then, as of its own age.
        return _Rival(since, _rank(route), route.namespace, owner.name, address.is_shadowed_by(claimed), allows=False)
    allows = route.namespace != service.namespace and spans_namespaces(view, other)
    return _Rival(since, _rank(other), route.namespace, other.name, address.is_shadowed_by(claimed), allows)


def _owner(route: HTTPRoute) -> OwnerReference | None:
    owners = route.metadata.owner_references
    return next((one for one in owners if one.controller and one.kind == AIM_SERVICE.kind), None)


def _rank(one: AIMService | HTTPRoute) -> _Age:
    created = one.metadata.creation_timestamp
    return (created.isoformat() if created else "", one.namespace, one.name, one.uid)
