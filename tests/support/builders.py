"""Objects and worlds for unit tests of reconcilers: plain data in, a fresh and synced view out.

world = world_of([parts.SERVICES, parts.MODELS], aim_service("chat"), aim_model("qwen"))
plan = decide(RECONCILER, world.object(parts.SERVICES, "ml", "chat"), world.view(), NOW)
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

from aim_cli.cluster import refs as resources
from aim_domain import NAMESPACE_CONFIGS_BY_NAMESPACE
from aim_domain.kinds import kind_of
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, KAIWO_CONFIGS, NAMESPACE_CONFIGS, RUNTIME_CONFIGS
from controller_runtime import FACT, Change, ClassifiedError, JsonObject, Key, Kind, Part, Resource, World, timestamp
from controller_runtime.core import Pod
from controller_runtime.kinds import POD
from controller_runtime.log.cache.store import Derived
from controller_runtime.log.cache.view import WorldView
from controller_runtime.log.history.facts import fact_key
from controller_runtime.log.wire.part import published_form
from controller_runtime.log.wire.version import Entry, Version

T = TypeVar("T", bound=Resource)

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
"""The usual clock of a pass."""
NAMESPACE = "ml"
"""The usual namespace."""

_versions = count(1000)


def next_version() -> str:
    """A resourceVersion that is newer than all before it, of whatever kind: worlds leave older ones aside."""
    return str(next(_versions))


EARLIER = NOW - timedelta(hours=1)
"""When objects came, unless a test says otherwise: long enough ago for all that is told only after a while."""


def make(
    kind: Kind[Any] | resources.Resource,
    name: str,
    *,
    namespace: str | None = None,
    uid: str | None = None,
    generation: int = 1,
    created: datetime = EARLIER,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owners: Iterable[JsonObject] = (),
    finalizers: Iterable[str] = (),
    deleting: datetime | None = None,
    **body: Any,
) -> JsonObject:
    """Stored JSON of an object of any kind; ``body`` are its other members, usually spec and status."""
    scope = {"namespace": namespace or NAMESPACE} if kind.namespaced else {}
    optional = {
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "ownerReferences": list(owners),
        "finalizers": list(finalizers),
        "deletionTimestamp": None if deleting is None else timestamp(deleting),
    }
    metadata = {
        "name": name,
        **scope,
        "uid": uid or f"{kind.singular}-{name}-uid",
        "resourceVersion": next_version(),
        "generation": generation,
        "creationTimestamp": timestamp(created),
        **{key: value for key, value in optional.items() if value},
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}


def owner(obj: JsonObject, *, controller: bool = True) -> JsonObject:
    """An owner reference to an object."""
    metadata = obj["metadata"]
    reference = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**reference, "controller": True} if controller else reference


def condition(
    type_: str, status: bool | str, reason: str = "Because", message: str = "", since: datetime = NOW
) -> JsonObject:
    """A stored condition."""
    text = status if isinstance(status, str) else str(status)
    return {
        "type": type_,
        "status": text,
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(since),
    }


def ready_status(**fields: Any) -> JsonObject:
    """A status with value Ready and the condition of it."""
    return {"status": "Ready", "conditions": [condition("Ready", True, "AllComponentsReady")], **fields}


def waiting(
    container: str, reason: str, message: str = "", *, restarts: int = 0, last_exit: int | None = None
) -> JsonObject:
    """Status of a container that waits."""
    last = {} if last_exit is None else {"terminated": {"exitCode": last_exit}}
    return {
        "name": container,
        "restartCount": restarts,
        "state": {"waiting": {"reason": reason, "message": message}},
        "lastState": last,
    }


def terminated(container: str, exit_code: int, reason: str = "Error", message: str = "") -> JsonObject:
    """Status of a container that has ended."""
    return {"name": container, "state": {"terminated": {"exitCode": exit_code, "reason": reason, "message": message}}}


def pod(
    name: str = "p",
    phase: str = "Running",
    *containers: JsonObject,
    init: Iterable[JsonObject] = (),
    ready: bool | None = None,
    conditions: Iterable[JsonObject] = (),
    reason: str = "",
    **metadata: Any,
) -> Pod:
    """A typed pod; further arguments go to `make`."""
    status = {
        "phase": phase,
        "reason": reason,
        "containerStatuses": list(containers),
        "initContainerStatuses": list(init),
        "conditions": [*conditions, *([] if ready is None else [condition("Ready", ready)])],
    }
    return Pod.model_validate(make(POD, name, status=status, **metadata))


def fact(
    service: str,
    effect: str,
    key: str,
    about: JsonObject,
    part: Part[Any],
    *,
    outcome: JsonObject | None = None,
    failure: ClassifiedError | None = None,
    attempts: int = 0,
    observed: datetime = NOW,
) -> JsonObject:
    """The fact that an effect left behind; put it into a world that has the part of facts."""
    where = fact_key(service, effect, key)
    metadata = about["metadata"]
    problem = (
        None
        if failure is None
        else {"category": failure.category.value, "reason": failure.reason, "message": failure.message}
    )
    return {
        "apiVersion": FACT.api_version,
        "kind": FACT.kind,
        "metadata": {"namespace": where.namespace, "name": where.name, "uid": where.name},
        "effect": effect,
        "about": key,
        "owner": {
            "part": part.name,
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "observedAt": observed.isoformat(),
        "attempts": attempts,
        "outcome": outcome,
        "failure": problem,
    }


@dataclass(frozen=True)
class BuiltWorld:
    """A world in which every part is synced and fresh, unless a test makes it stale.

    Attributes:
        stored: each object whole, as the API server has it.
    """

    world: World
    sequences: Iterator[int]
    stored: dict[tuple[Part[Any], Key], JsonObject] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        """The clock of a pass."""
        return NOW

    def view(self, failure: ClassifiedError | None = None, failing_since: datetime | None = None) -> WorldView:
        """A new view for one pass."""
        return WorldView(self.world, failure, failing_since)

    def object(self, part: Part[T], namespace: str, name: str) -> T:
        """An object that must be there and be readable."""
        entry = self.world.get(part, Key(namespace if part.kind.namespaced else "", name))
        assert entry is not None, f"{part} has no {namespace}/{name}"
        decoded = entry.decode()
        assert not isinstance(decoded, ClassifiedError), decoded
        return decoded

    def put(self, part: Part[Any], *objects: JsonObject) -> list[Change[Any]]:
        """Add objects, or replace them by newer versions; returns what that changed.

        They are trimmed as on the bus, so that no decision passes a test by something that no service gets to see.
        """
        changes: list[Change[Any]] = []
        for obj in objects:
            metadata = obj["metadata"]
            key = Key(metadata.get("namespace") or "", metadata["name"])
            version = Version(metadata["uid"], metadata.get("resourceVersion", ""), next(self.sequences), "e1")
            self.stored[part, key] = obj
            changes += self.world.put(Entry.of(part, key, published_form(part, obj), version), 0.0)
        return changes

    def make_stale(self, part: Part[Any]) -> None:
        """Let the part's publisher be down (FW-019)."""
        self.world.mark(part, fresh=False)


def world_of(parts: Iterable[Part[Any]], *objects: JsonObject, indexes: Iterable[Derived] = ()) -> BuiltWorld:
    """A world with these parts and objects; each object goes to the first part of its kind that selects it."""
    known = tuple(parts)
    world = World(known, indexes)
    for part in known:
        world.mark(part, synced=True, fresh=True, epoch="e1")
    result = BuiltWorld(world, count(1))
    for obj in objects:
        result.put(_part_for(known, obj), obj)
    return result


def config_world(*configs: JsonObject) -> BuiltWorld:
    """A world with every level of the runtime configuration."""
    parts = (RUNTIME_CONFIGS, CLUSTER_RUNTIME_CONFIGS, NAMESPACE_CONFIGS, KAIWO_CONFIGS)
    return world_of(parts, *configs, indexes=[NAMESPACE_CONFIGS_BY_NAMESPACE])


def _part_for(parts: Iterable[Part[Any]], obj: JsonObject) -> Part[Any]:
    labels = obj["metadata"].get("labels") or {}
    for part in parts:
        same_kind = (part.kind.api_version, part.kind.kind) == (obj["apiVersion"], obj["kind"])
        if same_kind and _selects(part.label_selector, labels):
            return part
    known = "a kind of this world" if kind_of(obj["apiVersion"], obj["kind"]) else "a known kind"
    raise AssertionError(f"no part takes {obj['kind']} {obj['metadata']['name']}: not {known}, or its labels differ")


def _selects(selector: str, labels: Mapping[str, str]) -> bool:
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value.lstrip("=")):
            return False
    return True
