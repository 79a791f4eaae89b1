"""Deletion: finalizers, propagation policies, grace periods, and the collection of what lost its owner."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from controller_runtime import JsonObject
from embedded_apiserver import customtypes, status
from embedded_apiserver.resources import Key, Propagation, Registry, ResourceType
from embedded_apiserver.store import Event, EventType, Store, Version
from embedded_apiserver.values import timestamp
from embedded_apiserver.writing import WriteContext, Writer, is_released

FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"
_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
_DEFAULT_GRACE: Final = 30


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """metav1.DeleteOptions as far as it matters here."""

    propagation: Propagation | None = None
    grace_seconds: int | None = None
    uid: str = ""
    revision: str = ""
    dry_run: bool = False


class Deleter:
    """Deletes objects, or marks them as being deleted while something still holds them."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def delete(self, resource: ResourceType, key: Key, options: DeleteOptions) -> tuple[Version, bool]:
        """Delete one object; the flag tells whether it is gone now.

        Raises:
            ApiError: 404, 409 for a failed precondition, 403 for a namespace that has to stay.
        """
        live = self._store.get(resource.storage, key)
        if live is None:
            raise status.not_found(resource, key[1])
        self._check(resource, live, options)
        marked = self._mark(resource, live, options)
        if options.dry_run:
            return Version(key, marked, live.revision), is_released(marked)
        if is_released(marked):
            return self._store.remove(resource.storage, key), True
        if marked == live.obj:
            return live, False
        return self._store.put(resource.storage, key, marked), False

    def _check(self, resource: ResourceType, live: Version, options: DeleteOptions) -> None:
        if resource.qualified == "namespaces" and live.key[1] in _IMMORTAL:
            raise status.forbidden(resource, live.key[1], "this namespace may not be deleted")
        if options.uid and options.uid != live.uid:
            why = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({live.uid}). "
                "The object might have been deleted and then recreated"
            )
            raise status.precondition_failed(resource, live.key[1], why)
        if options.revision and options.revision != str(live.revision):
            why = (
                f"the ResourceVersion in the precondition ({options.revision}) does not match "
                f"the ResourceVersion in record ({live.revision}). The object might have been modified"
            )
            raise status.precondition_failed(resource, live.key[1], why)

    def _mark(self, resource: ResourceType, live: Version, options: DeleteOptions) -> JsonObject:
        obj = live.copy()
        metadata = obj["metadata"]
        finalizers = _finalizers(resource, metadata.get("finalizers") or [], options.propagation)
        metadata["finalizers"] = finalizers
        if not finalizers:
            del metadata["finalizers"]
        grace = _grace(resource, obj, options)
        if not metadata.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = timestamp(self._clock() + grace)
            metadata["deletionGracePeriodSeconds"] = grace
            if metadata.get("generation"):
                metadata["generation"] += 1
        elif grace < metadata.get("deletionGracePeriodSeconds", 0):
            metadata["deletionTimestamp"] = timestamp(self._clock() + grace)
            metadata["deletionGracePeriodSeconds"] = grace
        if resource.qualified == "namespaces":
            obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
        return obj


def _finalizers(resource: ResourceType, present: list[str], asked: Propagation | None) -> list[str]:
    """The finalizers with the one of the propagation policy; without a policy, one that is set already stands."""
    if asked is None and {FOREGROUND_FINALIZER, ORPHAN_FINALIZER} & set(present):
        return present
    policy = asked or resource.default_propagation
    kept = [name for name in present if name not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    if policy is Propagation.FOREGROUND:
        return [*kept, FOREGROUND_FINALIZER]
    return [*kept, ORPHAN_FINALIZER] if policy is Propagation.ORPHAN else kept


def _grace(resource: ResourceType, obj: JsonObject, options: DeleteOptions) -> int:
    """Seconds that the kubelet has to stop a pod; 0 for everything that no kubelet runs."""
    if resource.qualified != "pods" or not obj.get("spec", {}).get("nodeName"):
        return 0
    if obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_seconds is not None:
        return options.grace_seconds
    return int(obj["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE))


_log: Final = logging.getLogger(__name__)
_BATCH: Final = 64
_COLLECTOR: Final = "garbage-collector-controller"
_NAMESPACES: Final = "namespaces"

Reference = tuple[str, Key]
"""(storage, key) of an object."""


class _Standing(Enum):
    """What an owner reference is worth."""

    SOLID = auto()
    DANGLING = auto()
    WAITING = auto()


@dataclass(slots=True)
class _Index:
    """Who is owned by whom, by UID, and where each UID lives; namespaces with their number of objects."""

    dependents: defaultdict[str, set[Reference]] = field(default_factory=lambda: defaultdict(set))
    places: dict[str, Reference] = field(default_factory=dict)
    namespaces: defaultdict[str, set[Reference]] = field(default_factory=lambda: defaultdict(set))

    def record(self, reference: Reference, event: Event) -> None:
        """Follow one change."""
        namespace, uid = event.current.key[0], event.current.uid
        for owner in _owner_uids(event.previous):
            self.dependents[owner].discard(reference)
            if not self.dependents[owner]:
                del self.dependents[owner]
        if event.type is EventType.DELETED:
            self.places.pop(uid, None)
            self.namespaces[namespace].discard(reference)
            return
        self.places[uid] = reference
        self.namespaces[namespace].add(reference)
        for owner in _owner_uids(event.current):
            self.dependents[owner].add(reference)


class Collector:
    """Watches every change and removes what has to go."""

    def __init__(
        self, store: Store, registry: Registry, writer: Writer, deleter: Deleter, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._deleter = deleter
        self._clock = clock
        self._index = _Index()
        self._queue: asyncio.Queue[Reference] = asyncio.Queue()
        store.observe(self._observe)

    async def run(self) -> None:
        """Work until cancelled; yields to requests now and then."""
        done = 0
        while True:
            self._collect_one(*await self._queue.get())
            done += 1
            if done % _BATCH == 0:
                await asyncio.sleep(0)

    def collect(self) -> None:
        """Work off what waits, and what comes of that."""
        while not self._queue.empty():
            self._collect_one(*self._queue.get_nowait())

    def _collect_one(self, storage: str, key: Key) -> None:
        try:
            self._process(storage, key)
        except Exception:
            _log.exception("collecting %s %s/%s failed; the object stays as it is", storage, *key)

    def _observe(self, storage: str, event: Event) -> None:
        reference = (storage, event.current.key)
        dependents = list(self._index.dependents.get(event.current.uid, ()))
        self._index.record(reference, event)
        if event.type is EventType.DELETED:
            for dependent in dependents:
                self._queue.put_nowait(dependent)
            for waiting in self._waiting_for(storage, event.current):
                self._queue.put_nowait(waiting)
        elif _needs_attention(event):
            self._queue.put_nowait(reference)

    def _waiting_for(self, storage: str, gone: Version) -> Iterator[Reference]:
        """Whatever may have waited for an object that is gone: foreground owners, its namespace, its definition."""
        for uid in _owner_uids(gone):
            if uid in self._index.places:
                yield self._index.places[uid]
        namespace = gone.key[0]
        if namespace and not self._index.namespaces.get(namespace):
            yield (_NAMESPACES, ("", namespace))
        if not self._store.collection(storage).objects:
            yield (customtypes.STORAGE, ("", storage))

    def _process(self, storage: str, key: Key) -> None:
        version = self._store.get(storage, key)
        resource = self._registry.storage_type(storage)
        if version is None or resource is None:
            return
        if version.obj["metadata"].get("deletionTimestamp"):
            self._advance(resource, version)
        elif version.obj["metadata"].get("ownerReferences"):
            self._judge(resource, version)

    def _advance(self, resource: ResourceType, version: Version) -> None:
        finalizers = version.obj["metadata"].get("finalizers") or []
        if resource.storage == _NAMESPACES:
            self._empty_namespace(version)
        elif customtypes.CLEANUP_FINALIZER in finalizers:
            self._empty_definition(resource, version)
        elif ORPHAN_FINALIZER in finalizers:
            self._orphan_dependents(resource, version)
        elif FOREGROUND_FINALIZER in finalizers:
            self._delete_dependents_first(resource, version)

    def _empty_namespace(self, version: Version) -> None:
        name = version.key[1]
        for storage, key in sorted(self._index.namespaces.get(name, ())):
            self._delete(storage, key, Propagation.BACKGROUND)
        if not self._index.namespaces.get(name):
            self._index.namespaces.pop(name, None)
            released = version.copy()
            released["spec"] = {}
            self._settle(_NAMESPACES, version.key, released)

    def _empty_definition(self, resource: ResourceType, version: Version) -> None:
        storage = customtypes.storage_of(version.obj)
        for key in list(self._store.collection(storage).objects):
            self._delete(storage, key, Propagation.BACKGROUND)
        if not self._store.collection(storage).objects:
            self._drop_finalizer(resource, version, customtypes.CLEANUP_FINALIZER)

    def _orphan_dependents(self, resource: ResourceType, version: Version) -> None:
        for storage, key in sorted(self._index.dependents.get(version.uid, ())):
            self._drop_owners(storage, key, {version.uid})
        self._drop_finalizer(resource, version, ORPHAN_FINALIZER)

    def _delete_dependents_first(self, resource: ResourceType, version: Version) -> None:
        dependents = sorted(self._index.dependents.get(version.uid, ()))
        for storage, key in dependents:
            dependent, kind = self._store.get(storage, key), self._registry.storage_type(storage)
            if dependent is not None and kind is not None and not dependent.obj["metadata"].get("deletionTimestamp"):
                self._judge(kind, dependent)
        if not any(self._blocks(version.uid, reference) for reference in dependents):
            self._drop_finalizer(resource, version, FOREGROUND_FINALIZER)

    def _blocks(self, uid: str, dependent: Reference) -> bool:
        version = self._store.get(*dependent)
        return version is not None and any(
            owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in _owners(version)
        )

    def _judge(self, resource: ResourceType, version: Version) -> None:
        """Delete an object that no living owner holds; else drop the references that hold nothing."""
        standings = {owner["uid"]: self._standing(version, owner) for owner in _owners(version)}
        if _Standing.SOLID in standings.values():
            lost = {uid for uid, standing in standings.items() if standing is not _Standing.SOLID}
            if lost:
                self._drop_owners(resource.storage, version.key, lost)
            return
        waiting = _Standing.WAITING in standings.values()
        foreground = waiting and bool(self._index.dependents.get(version.uid))
        policy = Propagation.FOREGROUND if foreground else Propagation.BACKGROUND
        self._delete(resource.storage, version.key, policy)

    def _standing(self, version: Version, owner: JsonObject) -> _Standing:
        kind = self._registry.find_kind(owner["apiVersion"], owner["kind"])
        if kind is None:
            return _Standing.SOLID
        namespace = version.key[0]
        if kind.namespaced and not namespace:
            self._report(version, owner)
            return _Standing.SOLID
        found = self._store.get(kind.storage, (namespace if kind.namespaced else "", owner["name"]))
        if found is None or found.uid != owner["uid"]:
            if owner["uid"] in self._index.places:
                self._report(version, owner)
            return _Standing.DANGLING
        metadata = found.obj["metadata"]
        leaving = metadata.get("deletionTimestamp") and FOREGROUND_FINALIZER in (metadata.get("finalizers") or [])
        return _Standing.WAITING if leaving else _Standing.SOLID

    def _delete(self, storage: str, key: Key, policy: Propagation) -> None:
        resource, version = self._registry.storage_type(storage), self._store.get(storage, key)
        if resource is None or version is None or version.obj["metadata"].get("deletionTimestamp"):
            return
        self._deleter.delete(resource, key, DeleteOptions(propagation=policy))

    def _drop_owners(self, storage: str, key: Key, uids: set[str]) -> None:
        version = self._store.get(storage, key)
        if version is None:
            return
        obj = version.copy()
        kept = [owner for owner in _owners(version) if owner["uid"] not in uids]
        obj["metadata"]["ownerReferences"] = kept
        if not kept:
            del obj["metadata"]["ownerReferences"]
        self._store.put(storage, key, obj)

    def _drop_finalizer(self, resource: ResourceType, version: Version, finalizer: str) -> None:
        obj = version.copy()
        obj["metadata"]["finalizers"] = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
        if not obj["metadata"]["finalizers"]:
            del obj["metadata"]["finalizers"]
        self._settle(resource.storage, version.key, obj)

    def _settle(self, storage: str, key: Key, obj: JsonObject) -> None:
        """Store an object that lost a finalizer, or remove it if that was the last one."""
        if is_released(obj):
            self._store.remove(storage, key)
        else:
            self._store.put(storage, key, obj)

    def _report(self, version: Version, owner: JsonObject) -> None:
        """Tell about an owner in another namespace, as the real collector does."""
        namespace = version.key[0] or "default"
        message = (
            f"ownerRef [{owner['apiVersion']}/{owner['kind']}, namespace: {version.key[0]}, name: {owner['name']}, "
            f'uid: {owner["uid"]}] does not exist in namespace "{version.key[0]}"'
        )
        now = timestamp(self._clock())
        event: JsonObject = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{version.key[1]}.", "namespace": namespace},
            "involvedObject": {
                "apiVersion": version.obj["apiVersion"],
                "kind": version.obj["kind"],
                "name": version.key[1],
                "namespace": version.key[0],
                "uid": version.uid,
            },
            "type": "Warning",
            "reason": "OwnerRefInvalidNamespace",
            "message": message,
            "source": {"component": _COLLECTOR},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        resource = self._registry.find("", "v1", "events")
        assert resource is not None
        try:
            self._writer.create(resource, (namespace, ""), event, WriteContext(_COLLECTOR))
        except status.ApiError as error:
            # The namespace may be on its way out; then the event would be gone anyway.
            if error.code not in (403, 404):
                raise


def _owners(version: Version) -> list[JsonObject]:
    owners: list[JsonObject] = version.obj["metadata"].get("ownerReferences") or []
    return owners


def _owner_uids(version: Version | None) -> list[str]:
    return [] if version is None else [owner["uid"] for owner in _owners(version)]


def _needs_attention(event: Event) -> bool:
    """True for a change that a collector has to look at: a deletion that began, or new owner references."""
    if event.current.obj["metadata"].get("deletionTimestamp"):
        return True
    return bool(_owners(event.current)) and _owner_uids(event.previous) != _owner_uids(event.current)
