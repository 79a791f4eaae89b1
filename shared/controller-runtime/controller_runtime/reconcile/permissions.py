"""What a service needs at the Kubernetes API: no more than follows from its declaration (FW-300, FW-301). Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from controller_runtime.api.meta import Kind
from controller_runtime.kind_names import DEFINITION
from controller_runtime.kinds import EVENT, LEASE, NAMESPACE
from controller_runtime.log.history.facts import FACTS
from controller_runtime.log.wire.part import Part
from controller_runtime.reconcile.access import Access, ApiVerb, Where, Writes, access
from controller_runtime.reconcile.plan import Verb
from controller_runtime.reconcile.reconciler import Reconciler, ServiceDefinition
from controller_runtime.reconcile.status_writer import STATUS

_NAMED: Final = "metadata.name="

_OF_WRITES: Final[dict[Verb, tuple[ApiVerb, ...]]] = {
    # What a create meets under its name is read, to see whose it is (FW-207).
    Verb.CREATE: (ApiVerb.CREATE, ApiVerb.GET),
    # An apply of what is not there is a create to the API server; what is not in the cache is looked for first.
    Verb.APPLY: (ApiVerb.CREATE, ApiVerb.GET, ApiVerb.PATCH),
    Verb.PATCH: (ApiVerb.PATCH,),
    Verb.DELETE: (ApiVerb.DELETE,),
}


def permissions(definition: ServiceDefinition) -> tuple[Access, ...]:
    """All that a service does while it reads over the bus, in a fixed order."""
    return _merged(
        [
            *_of_every_service(definition),
            *(one for part in definition.publishes for one in _watched(part)),
            *(one for reconciler in definition.reconcilers for one in _reconciled(reconciler)),
            *(need for one in definition.declared_writes for need in _accesses_of(one)),
            *definition.other_access,
            *(one for effect in definition.effects for one in effect.access),
        ]
    )


def direct_permissions(definition: ServiceDefinition) -> tuple[Access, ...]:
    """What a service needs besides to read what others publish while the broker is away (FW-404)."""
    others = [part for part in definition.consumes if part not in definition.publishes and part is not FACTS]
    return _merged(one for part in others for one in _watched(part))


def _of_every_service(definition: ServiceDefinition) -> Iterator[Access]:
    yield access(EVENT, ApiVerb.CREATE, ApiVerb.PATCH)
    # Which cluster this is: its UID tells apart what several wrote to one broker.
    yield access(NAMESPACE, ApiVerb.GET, name="kube-system")
    yield access(LEASE, ApiVerb.CREATE, where=Where.SYSTEM_NAMESPACE)
    for lease in definition.leases:
        yield access(LEASE, ApiVerb.GET, ApiVerb.UPDATE, name=lease, where=Where.SYSTEM_NAMESPACE)


def _watched(part: Part[Any]) -> Iterator[Access]:
    # The API server authorizes a list of one name as a request for that name.
    name = _only_name(part)
    yield access(part.kind, ApiVerb.LIST, ApiVerb.WATCH, name=name)
    if part.optional:
        yield access(DEFINITION, ApiVerb.LIST, ApiVerb.WATCH, name=part.kind.resource)


def _reconciled(reconciler: Reconciler[Any]) -> Iterator[Access]:
    kind: Kind[Any] = reconciler.part.kind
    if not reconciler.part.read_only:
        yield access(kind, ApiVerb.PATCH, subresource=STATUS)
        # Conditions that an apply cannot drop are looked up first (FW-412).
        yield access(kind, ApiVerb.GET)
    if reconciler.part.predecessors and not reconciler.status.is_listed:
        # What a predecessor owned is taken over by a patch of the object itself (FW-209).
        yield access(kind, ApiVerb.PATCH)


def _accesses_of(one: Writes) -> Iterator[Access]:
    verbs = {verb for written in one.verbs for verb in _OF_WRITES[written]}
    name = _only_name(one.part)
    # A create has no name yet when it is authorized.
    created = verbs & {ApiVerb.CREATE} if name else verbs
    yield access(one.part.kind, *created)
    yield access(one.part.kind, *(verbs - created), name=name)


def _only_name(part: Part[Any]) -> str:
    """The name of all objects of a part, if they have one; else empty."""
    selected = part.field_selector
    return selected.removeprefix(_NAMED) if selected.startswith(_NAMED) else ""


def _merged(needs: Iterable[Access]) -> tuple[Access, ...]:
    """One for each resource, names and reach. What is allowed for all names is not said again for some."""
    verbs: dict[tuple[str, str, frozenset[str], Where], set[ApiVerb]] = defaultdict(set)
    for one in needs:
        verbs[(one.group, one.resource, one.names, one.where)] |= one.verbs
    found = []
    for (group, resource, names, where), some in verbs.items():
        everywhere = verbs.get((group, resource, frozenset(), Where.CLUSTER), set())
        rest = some - everywhere if names or where is Where.SYSTEM_NAMESPACE else some
        if rest:
            found.append(Access(group, resource, frozenset(rest), names, where))
    return tuple(sorted(found, key=lambda one: (one.where, one.group, one.resource, sorted(one.names))))
