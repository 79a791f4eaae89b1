"""The services' own decisions over a cache in memory, carried out in that memory alone (FW-613). Pure.

What a plan creates or changes is there for the next pass, as it would be in the cluster. What only others could do (a
download, the status of an InferenceService, a gateway's word) does not happen: it ends where the platform would wait.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final

from controller_runtime import (
    Cache,
    Child,
    ClassifiedError,
    Decision,
    Effect,
    EventType,
    JsonObject,
    Key,
    Part,
    Plan,
    Reconciler,
    ServiceDefinition,
    WriteMode,
    decide,
    needs_apply,
    timestamp,
)
from controller_runtime.log import CacheView, Entry, FactOwner, Version, published_form
from controller_runtime.manager import FACTS_BY_OWNER, paused_indexes
from controller_runtime.reconcile import Target, children_in_order, foreign_owner, to_create, to_update, with_owner

_EPOCH: Final = "plan"
_MADE: Final = "plan-"
"""How the UID of an object begins that is only planned."""
_MOST_ROUNDS: Final = 30
_FEW_ROUNDS: Final = 3
_HORIZON: Final = timedelta(minutes=2)
"""How far the clock is moved where a decision only waits for time to pass."""


@dataclass(frozen=True, slots=True)
class Where:
    """An object in the sandbox."""

    part: Part[Any]
    key: Key

    def __str__(self) -> str:
        return f"{self.part.kind.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class Step:
    """Something that a service would do; ``verb`` is create, change, delete, patch or ask."""

    service: str
    verb: str
    what: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """An effect that a service would carry out now, and the object that it is for."""

    service: str
    effect: Effect
    owner: FactOwner


@dataclass(slots=True)
class Sandbox:
    """Objects, and each service's cache of them.

    Attributes:
        read: namespaces of which objects could be read, of parts that could not be read as a whole.
        warnings: standing Warning Events of the last decision of each service about an object, `reason: message`.
    """

    definitions: Sequence[ServiceDefinition]
    now: datetime
    objects: dict[tuple[str, Key], JsonObject] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    touched: dict[tuple[str, Key], Where] = field(default_factory=dict)
    caches: dict[str, Cache] = field(default_factory=dict)
    read: dict[str, frozenset[str]] = field(default_factory=dict)
    warnings: dict[tuple[str, str, Key], tuple[str, ...]] = field(default_factory=dict)
    _known: set[tuple[str, str, str]] = field(default_factory=set)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        for one in self.definitions:
            cache = Cache(one.consumes, (*one.indexes, FACTS_BY_OWNER, *paused_indexes(one)))
            for part in cache.parts:
                cache.mark(part, synced=True, fresh=True, epoch=_EPOCH)
            self.caches[one.name] = cache

    def unknown(self, part: str) -> None:
        """Of this part nothing could be read; decisions take it as they take a view that is stale."""
        self.read[part] = frozenset()
        for cache in self.caches.values():
            for one in cache.parts:
                if one.name == part:
                    cache.mark(one, synced=True, fresh=False, epoch=_EPOCH)

    def is_made(self, part: Part[Any], key: Key) -> bool:
        """Whether an object is only planned."""
        return str(self.objects[part.name, key]["metadata"].get("uid", "")).startswith(_MADE)

    def is_read(self, part: str, namespace: str) -> bool:
        """Whether an object of a namespace that is not here does not exist."""
        return part not in self.read or namespace in self.read[part]

    def put(self, part: Part[Any], obj: JsonObject, *, only: str = "") -> Where:
        """Take in an object, or a newer version of it; facts into the cache of their own service alone."""
        metadata = obj["metadata"]
        key = Key(metadata.get("namespace") or "" if part.kind.namespaced or only else "", metadata["name"])
        self.objects[part.name, key] = obj
        number = next(self._numbers)
        version = Version(metadata.get("uid", ""), str(metadata.get("resourceVersion") or ""), number, _EPOCH)
        for service, cache in self.caches.items():
            if any(one.name == part.name for one in cache.parts) and only in ("", service):
                cache.put(Entry.of(part, key, published_form(part, obj), version), 0.0)
        return Where(part, key)

    def run(self, first: Iterable[Where]) -> None:
        """Decide about these objects, and about all that is made or changed by it, until nothing changes any more."""
        self.touched = {(one.part.name, one.key): one for one in first}
        end = self.now + _HORIZON
        for _ in range(_MOST_ROUNDS):
            changed, waits = False, []
            for where in list(self.touched.values()):
                for definition in self.definitions:
                    for reconciler in definition.reconcilers:
                        if reconciler.part.name == where.part.name:
                            moved, again = self._pass(definition, reconciler, where)
                            changed |= moved
                            waits += [again] if again is not None else []
            if changed:
                continue
            if not waits or self.now + timedelta(seconds=min(waits)) > end:
                return
            self.now += timedelta(seconds=max(1.0, min(waits)))

    def consider(self, service: str, some: Iterable[Where]) -> None:
        """Let one service decide about objects that follow what was changed, each until its decision is carried out."""
        definition = next(one for one in self.definitions if one.name == service)
        for where in some:
            for reconciler in definition.reconcilers:
                rounds = _FEW_ROUNDS if reconciler.part.name == where.part.name else 0
                while rounds and self._pass(definition, reconciler, where)[0]:
                    rounds -= 1

    def _pass(
        self, definition: ServiceDefinition, reconciler: Reconciler[Any], where: Where
    ) -> tuple[bool, float | None]:
        """Take one decision; whether anything changed, and in how many seconds it wants to look again."""
        raw = self.objects.get((where.part.name, where.key))
        if raw is None:
            return False, None
        finalizers = raw["metadata"].get("finalizers") or []
        if reconciler.finalizer is not None and reconciler.finalizer not in finalizers:
            raw = {**raw, "metadata": {**raw["metadata"], "finalizers": [*finalizers, reconciler.finalizer]}}
            self.put(where.part, raw)
        cache = self.caches[definition.name]
        entry = cache.get(where.part, where.key)
        value = None if entry is None else entry.decode()
        if value is None or isinstance(value, ClassifiedError):
            self._note(
                Step(definition.name, "refuse", str(where), value.message if value else "it is not in its cache")
            )
            return False, None
        plan = decide(Decision(reconciler, value, CacheView(cache), self.now))
        return self._carry_out(definition.name, reconciler, where, raw, plan), plan.requeue_after

    def _carry_out(self, service: str, reconciler: Reconciler[Any], where: Where, raw: JsonObject, plan: Plan) -> bool:
        changed = False
        self.warnings[service, where.part.name, where.key] = tuple(
            f"{event.reason}: {event.message}"
            for event in plan.events
            if event.standing and event.type is EventType.WARNING and not event.condition and event.about is None
        )
        for effect in plan.effects:
            if (service, effect.kind, effect.key) in self._known:
                continue
            self._note(Step(service, "ask", f"{effect.kind} {effect.key}", str(where)))
            if effect.not_before is None:
                owner = FactOwner(
                    part=where.part.name,
                    namespace=where.key.namespace,
                    name=where.key.name,
                    uid=str(raw["metadata"].get("uid", "")),
                )
                self.questions.append(Question(service, effect, owner))
        for patch in plan.patches:
            key = Key(patch.namespace if patch.part.kind.namespaced else "", patch.name)
            there = self.objects.get((patch.part.name, key))
            if there is not None and (merged := merge(there, patch.body)) != there:
                self._store(patch.part, merged)
                self._note(Step(service, "patch", f"{patch.part.kind.kind} {key}", patch.why))
                changed = True
        for delete in plan.deletes:
            key = Key(delete.namespace if delete.part.kind.namespaced else "", delete.name)
            if self.objects.pop((delete.part.name, key), None) is not None:
                for cache in self.caches.values():
                    if any(one.name == delete.part.name for one in cache.parts):
                        cache.delete(delete.part, key, Version(delete.uid, "", next(self._numbers), _EPOCH), 0.0)
                self._note(Step(service, "delete", f"{delete.part.kind.kind} {key}", delete.why))
                changed = True
        target = Target(where.part, raw)
        for child in children_in_order(plan.children):
            changed |= self._child(service, target, child)
        stored = raw.get("status") or {}
        if plan.status is not None and not reconciler.status.is_stored(plan.status, stored):
            current = self.objects[where.part.name, where.key]
            self._store(where.part, {**current, "status": with_status(reconciler, stored, plan.status)})
            changed = True
        return changed

    def _child(self, service: str, target: Target, child: Child) -> bool:
        key = Key(child.namespace if child.part.kind.namespaced else "", child.name)
        body, live = with_owner(target, child), self.objects.get((child.part.name, key))
        what = f"{child.part.kind.kind} {key}"
        if live is None:
            made = to_create(body, None, hashed=child.mode is WriteMode.APPLY)
            self._store(child.part, self.completed(made))
            self._note(Step(service, "create", what, size_of(body)))
            return True
        if (error := foreign_owner(target, child, live)) is not None:
            self._note(Step(service, "refuse", what, error.message))
            return False
        if child.mode is WriteMode.APPLY and needs_apply(body, live):
            merged = merge(live, to_update(body, live))
            if merged != live:
                self._store(child.part, merged)
                self._note(Step(service, "change", what))
                return True
        return False

    def completed(self, obj: JsonObject) -> JsonObject:
        """An object as the API server would have made it."""
        number = next(self._numbers)
        own = {
            "uid": f"{_MADE}{number}",
            "resourceVersion": "",
            "generation": 1,
            "creationTimestamp": timestamp(self.now),
        }
        return {**obj, "metadata": {**own, **obj["metadata"]}}

    def _store(self, part: Part[Any], obj: JsonObject) -> None:
        where = self.put(part, obj)
        self.touched.setdefault((part.name, where.key), where)

    def note_answer(self, service: str, kind: str, key: str) -> None:
        """An effect was carried out: it is no step of the plan, nor is that it would be repeated."""
        self._known.add((service, kind, key))
        asking = (service, "ask", f"{kind} {key}")
        self.steps = [one for one in self.steps if (one.service, one.verb, one.what) != asking]

    def _note(self, step: Step) -> None:
        if step not in self.steps:
            self.steps.append(step)


def merge(obj: JsonObject, patch: JsonObject) -> JsonObject:
    """A JSON merge patch (RFC 7386)."""
    merged = dict(obj)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            before = merged.get(name)
            merged[name] = merge(before if isinstance(before, dict) else {}, value)
        else:
            merged[name] = value
    return merged


def with_status(reconciler: Reconciler[Any], stored: JsonObject, reported: JsonObject) -> JsonObject:
    """The stored status with this service's portion replaced by what it wrote; members of others stay."""
    own = reconciler.status.own(stored)
    gone = {one["type"] for one in own.get("conditions") or ()}
    conditions = {one["type"]: one for one in stored.get("conditions") or () if one["type"] not in gone}
    conditions |= {one["type"]: one for one in reported.get("conditions") or ()}
    kept = {name: value for name, value in stored.items() if name not in own and name != "conditions"}
    members = {name: value for name, value in reported.items() if name != "conditions" and value is not None}
    return {**merge(kept, members), "conditions": list(conditions.values())}


def size_of(body: JsonObject) -> str:
    """What a volume asks for; nothing of others."""
    requests = ((body.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return str(requests.get("storage", ""))
