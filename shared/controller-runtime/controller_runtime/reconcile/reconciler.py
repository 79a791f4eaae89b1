"""Which changes of an object matter to those who look at a part of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from controller_runtime.api.meta import Resource
from controller_runtime.core.objects import Namespace
from controller_runtime.errors import ClassifiedError
from controller_runtime.json import JsonObject
from controller_runtime.kind_names import KindName
from controller_runtime.log.cache.store import Cache, Derived
from controller_runtime.log.cache.view import Lookup, View
from controller_runtime.log.wire.part import Key, Part
from controller_runtime.log.wire.version import KEPT_DECODED, Change
from controller_runtime.names import PREFIX
from controller_runtime.reconcile.access import Access, Writes
from controller_runtime.reconcile.child import is_subset, same_status
from controller_runtime.reconcile.conditions import RECONCILED
from controller_runtime.reconcile.effect_type import EffectType, OpenClients, api_server_alone
from controller_runtime.reconcile.plan import Plan, Verb
from controller_runtime.shard import MOST_SHARDS, shards
from controller_runtime.telemetry.catalogue import Readings

T = TypeVar("T", bound=Resource)


def differs(change: Change[T], predicate: Callable[[T], object]) -> bool:
    """Creation, deletion, or a change of what ``shown`` makes of the object; it includes the UID where that counts."""
    before, after = change.before, change.after
    return before is None or after is None or predicate(before) != predicate(after)


def namespace_terminating(namespace: str, lookup: Lookup[Namespace]) -> bool | ClassifiedError:
    """Whether clean-up can be skipped because the namespace and all in it go away.

    A namespace that does not exist counts as terminating. Where that is not known, the error is to be retried.
    """
    if not namespace:
        return False
    if lookup.error is not None:
        return lookup.error
    return lookup.value is None or lookup.value.deleting


def is_left_by_predecessor(child: Resource, owner: Resource, kind: KindName) -> bool:
    """Whether an earlier owner of this name controls the child: garbage collection has not reached it yet.

    Args:
        owner: the one that is there now.
        kind: the owner's.
    """
    return any(
        one.name == owner.name and one.uid != owner.uid
        for one in child.metadata.owner_references
        # Not by version: what an earlier release made is a predecessor's as well.
        if one.controller and (one.api_version.rpartition("/")[0], one.kind) == (kind.group, kind.kind)
    )


C = TypeVar("C", bound=Resource)


class WatchMapping(Protocol):
    """Turns a change of a part into keys of the reconciled part, where no question that was asked explains it."""

    @property
    def part(self) -> Part[Any]: ...

    def keys(self, change: Change[Any], view: View) -> Iterable[Key]:
        """Keys to reconcile; empty when the change does not matter (FW-114…FW-116, FW-170)."""
        ...


@dataclass(frozen=True, slots=True)
class MappingBy(Generic[C]):
    """The usual `WatchMapping`: a function of the change and a view over the cache after it."""

    part: Part[C]
    find: Callable[[Change[C], View], Iterable[Key]]

    def keys(self, change: Change[C], view: View) -> Iterable[Key]:
        return self.find(change, view)


def mapping_name(mapping: WatchMapping) -> str:
    """What to call a mapping in a log: the function that it is made of, else its type."""
    return mapping.find.__qualname__ if isinstance(mapping, MappingBy) else type(mapping).__qualname__


@dataclass(frozen=True, slots=True)
class Predicate(Generic[C]):
    """What the decisions of a service look at in other objects of a part: a change of the rest enqueues none (FW-501).

    Attributes:
        of: pure: everything that a decision may see, as something comparable. That an object comes, goes or is made
            again is news in any case, and so is what an index, a summary or a line makes of it.
    """

    part: Part[C]
    of: Callable[[C], object]


@dataclass(frozen=True, slots=True)
class StatusOwnership:
    """Which part of a shared status this service writes (FW-370, FW-379).

    Exactly one of the two styles: everything but the foreign fields and conditions, or only the listed ones.

    Attributes:
        contested: type of the condition that names another manager of a child's fields (FW-814).
    """

    only_fields: frozenset[str] = frozenset()
    only_conditions: frozenset[str] = frozenset()
    foreign_fields: frozenset[str] = frozenset()
    foreign_conditions: frozenset[str] = frozenset()
    contested: str = RECONCILED

    def own(self, status: Mapping[str, Any]) -> JsonObject:
        """The portion of a stored status that this service owns."""
        conditions = [c for c in status.get("conditions") or [] if self._owns_condition(c["type"])]
        own = {name: value for name, value in status.items() if name != "conditions" and self._owns_field(name)}
        return {**own, "conditions": conditions} if conditions else own

    def is_stored(self, desired: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
        """Whether the stored status says what is desired.

        Of a foreign field a plan may set some members; the others stay with their writer and do not count (FW-379).
        """
        names = [name for name in desired if name != "conditions" and not self._owns_field(name)]
        own = {name: value for name, value in desired.items() if name not in names}
        return same_status(own, self.own(stored)) and is_subset({name: desired[name] for name in names}, stored)

    def _owns_field(self, name: str) -> bool:
        return name in self.only_fields if self.is_listed else name not in self.foreign_fields

    def _owns_condition(self, name: str) -> bool:
        if self.is_listed:
            return name in self.only_conditions or name == self.contested
        return name not in self.foreign_conditions

    @property
    def is_listed(self) -> bool:
        """Whether only what is listed is this service's."""
        return bool(self.only_fields or self.only_conditions)


@dataclass(frozen=True, slots=True)
class Reconciler(Generic[T]):
    """One controller of a service.

    Attributes:
        controller: name of FW-201, used in labels, Event sources and metrics.
        part: the kind it reconciles.
        reconcile: the decision: object, view and clock in, plan out. Pure.
        mappings: changes that matter although no question of the last pass has another answer now. A change of the
            object itself always enqueues it.
        finalizer: added before the first pass, or as ``cleans_up`` says (FW-180, FW-181).
        finalize: the clean-up plan of a deleting object; the finalizer is removed once a pass returns ``None``.
        cleans_up: whether a clean-up of the object would have something to do, once a plan is carried out; until then
            it needs no finalizer. Without this it always does.
        status: which part of the status is its own.
        event_source: component of its Kubernetes Events; default ``<prefix>-<controller>-controller`` (FW-120).
        ignores: whether an own change of the object needs no pass (routing ignores most status changes, FW-378).
    """

    controller: str
    part: Part[T]
    reconcile: Callable[[T, View, datetime], Plan]
    mappings: tuple[WatchMapping, ...] = ()
    finalizer: str | None = None
    finalize: Callable[[T, View, datetime], Plan | None] | None = None
    cleans_up: Callable[[T, View, Plan], bool] | None = None
    status: StatusOwnership = field(default_factory=StatusOwnership)
    event_source: str | None = None
    ignores: Callable[[Change[T]], bool] = field(default=lambda _: False)


@dataclass(frozen=True, slots=True)
class ServiceDefinition:
    """What a service publishes, consumes and reconciles (design: one declaration, in its ``service.py``).

    Attributes:
        name: also names its Lease and field manager ``<prefix>-<name>``.
        publishes: parts that it alone watches.
        consumes: parts of its cache, its own included where it reads them.
        indexes: look-ups its reconcilers and enqueues use: indexes, summaries and lines.
        predicates: of which parts its decisions look at a portion only.
        reconcilers: its controllers.
        writes: what its plans may do to other objects than their own; the executor carries out nothing else, and its
            role allows nothing else.
        effects: what its plans may ask for.
        clients: opens what the runners of its effects need, and closes it at the end.
        other_access: what else it needs there.
        readings: metrics that follow from its cache (FW-286).
        governs_streams: whether its settings decide about the limits of the streams; exactly one service of a platform.
        divisible: whether shards of it may decide without knowing of each other's decisions: none that spends a budget
            of the whole cluster (FW-890).
        shards: into how many it is divided by namespace.
        kept_decoded: bytes of JSON whose typed forms are kept (FW-459): what one pass reads should fit.
    """

    name: str
    publishes: tuple[Part[Any], ...]
    consumes: tuple[Part[Any], ...]
    indexes: tuple[Derived, ...] = ()
    predicates: tuple[Predicate[Any], ...] = ()
    reconcilers: tuple[Reconciler[Any], ...] = ()
    writes: tuple[Writes, ...] = ()
    effects: tuple[EffectType[Any, Any, Any], ...] = ()
    clients: OpenClients = api_server_alone
    other_access: tuple[Access, ...] = ()
    readings: Callable[[Cache], Readings] = field(default=lambda _: {})
    governs_streams: bool = False
    divisible: bool = False
    shards: int = 1
    kept_decoded: int = KEPT_DECODED

    def __post_init__(self) -> None:
        if not 1 <= self.shards <= (MOST_SHARDS if self.divisible else 1):
            raise ValueError(f"{self.name} cannot be divided into {self.shards} shards")

    @property
    def field_manager(self) -> str:
        return f"{PREFIX}-{self.name}"

    @property
    def leases(self) -> tuple[str, ...]:
        """The Leases that it may use, whatever the number of its shards."""
        most = MOST_SHARDS if self.divisible else 1
        return tuple(one.lease(self.field_manager) for one in shards(most))

    @property
    def declared_writes(self) -> tuple[Writes, ...]:
        """What its plans may do, with the finalizers that the framework adds to them (FW-180)."""
        finalized = (one.part for one in self.reconcilers if one.finalizer is not None)
        return (*self.writes, *(Writes(part, frozenset({Verb.PATCH})) for part in finalized))
