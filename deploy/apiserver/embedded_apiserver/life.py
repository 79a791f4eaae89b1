"""One life of the API server: the store, everything that works on it, and what time brings to an end."""

import asyncio
from collections.abc import Callable
from typing import Final

from controller_runtime import JsonObject, dumps, loads
from embedded_apiserver import customtypes
from embedded_apiserver.builtins import builtin_types
from embedded_apiserver.deletion import Collector, Deleter
from embedded_apiserver.reading import Reader
from embedded_apiserver.resourceapi import ResourceApi
from embedded_apiserver.resources import Key, Registry, ResourceType
from embedded_apiserver.store import Event, EventType, Limits, Store, Version
from embedded_apiserver.subresources import PodLogs
from embedded_apiserver.writing import FieldValidation, WriteContext, Writer

EVENT_SECONDS: Final = 3600.0
"""How long an Event lives after it was last written: `--event-ttl` of the real server, by default."""
EVENTS_KEPT: Final = 5_000
"""Events that may be there at once; the oldest go first. The real server has a disk instead."""
INTERVAL: Final = 5.0
_EVENTS: Final = "events"


class Upkeep:
    """Ends what is old; `run` does so every few seconds.

    Args:
        store: whose Events and former versions are looked after.
        clock: the wall clock in seconds.
    """

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        # In order of the last write, because each write moves its key to the end.
        self._written: dict[Key, float] = {}
        store.observe(self._observe)

    async def run(self) -> None:
        """Look after the store until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            self.look()

    def look(self) -> None:
        """End what is over now."""
        oldest = self._clock() - EVENT_SECONDS
        while self._written:
            key, written = next(iter(self._written.items()))
            if written >= oldest and len(self._written) <= EVENTS_KEPT:
                break
            self._store.remove(_EVENTS, key)
        self._store.trim()

    def _observe(self, storage: str, event: Event) -> None:
        if storage != _EVENTS:
            return
        self._written.pop(event.current.key, None)
        if event.type is not EventType.DELETED:
            self._written[event.current.key] = self._clock()


_FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public")
_MANAGER: Final = "aim-local"
_IDENTITY: Final = ("uid", "creationTimestamp", "generation", "deletionTimestamp")


class Life:
    """What a server knows; lost with its etcd.

    Args:
        limits: what is kept of the past.
        bookmark_seconds: how often idle watches get a bookmark.
        clock: the wall clock in seconds.
    """

    def __init__(self, *, limits: Limits, bookmark_seconds: float, clock: Callable[[], float]) -> None:
        self.store: Final = Store(limits, clock)
        self.registry: Final = Registry()
        for resource in builtin_types():
            self.registry.add(resource)
        self._writer = Writer(self.store, self.registry, clock)
        deleter = Deleter(self.store, clock)
        self.store.observe(self._follow_definitions)
        self._collector = Collector(self.store, self.registry, self._writer, deleter, clock)
        self._upkeep = Upkeep(self.store, clock)
        self.logs: Final = PodLogs(self.store)
        self.api: Final = ResourceApi(
            registry=self.registry,
            reader=Reader(self.store, bookmark_seconds=bookmark_seconds),
            writer=self._writer,
            deleter=deleter,
            logs=self.logs,
            clock=clock,
        )
        for namespace in _FIRST_NAMESPACES:
            self._create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    async def run(self) -> None:
        """Collect what lost its place or is over, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._collector.run())
            tasks.create_task(self._upkeep.run())

    def install(self, given: JsonObject) -> None:
        """Create or replace a custom resource definition.

        Raises:
            ApiError: the definition is invalid.
            ValueError: it is of another kind.
        """
        crd = loads(dumps(given))
        resource = self.registry.storage_type(customtypes.STORAGE)
        assert resource is not None
        if crd.get("kind") != resource.kind:
            raise ValueError(f"expected a {resource.kind}, got {crd.get('kind')!r}: remove it from the CRD files")
        key = ("", crd["metadata"]["name"])
        if self.store.get(resource.storage, key) is None:
            self._create(crd)
        else:
            self._writer.update(resource, key, crd, WriteContext(_MANAGER))

    def restore(self, given: JsonObject, applied_by: str = "") -> None:
        """Store an object with the identity and the status that it names, as from a backup; checked as any other is.

        Args:
            applied_by: field manager that has applied the status; else an unnamed manager has updated it.

        Raises:
            ApiError: the object is invalid, or its namespace is not there.
            ValueError: no such kind is served.
        """
        obj = loads(dumps(given))
        resource = self.registry.find_kind(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise ValueError(f"no kind {obj['kind']} of {obj['apiVersion']} is served: install its definition first")
        metadata, status = obj["metadata"], obj.get("status")
        metadata.pop("resourceVersion", None)
        key = (metadata.get("namespace", "") if resource.namespaced else "", metadata["name"])
        live = self.store.get(resource.storage, key)
        if live is not None and live.uid != metadata.get("uid", live.uid):
            self.store.remove(resource.storage, key)
            live = None
        identity = {name: metadata.pop(name) for name in _IDENTITY if name in metadata}
        rehearsal = WriteContext(_MANAGER, FieldValidation.STRICT, dry_run=True)
        write = self._writer.create if live is None else self._writer.update
        checked = write(resource, key, obj, rehearsal).copy()
        checked["metadata"] |= identity
        stored = self.store.put(resource.storage, key, checked)
        if status is not None and resource.has_status:
            self._restore_status(resource, stored, status, applied_by)

    def _restore_status(self, resource: ResourceType, stored: Version, status: JsonObject, applied_by: str) -> None:
        if not applied_by:
            reported = {**stored.copy(), "status": status}
            self._writer.update(
                resource, stored.key, reported, WriteContext(_MANAGER, FieldValidation.STRICT), "status"
            )
            return
        applied = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": stored.key[1]},
            "status": status,
        }
        context = WriteContext(applied_by, FieldValidation.STRICT, force=True)
        self._writer.apply(resource, stored.key, applied, context, "status")

    def wipe(self) -> None:
        """Let every object be gone but the definitions and the first namespaces; without admission."""
        for storage in self.store.storages():
            if storage == customtypes.STORAGE:
                continue
            for key in list(self.store.collection(storage).objects):
                if storage != "namespaces" or key[1] not in _FIRST_NAMESPACES:
                    self.store.remove(storage, key)
        self.collect()

    def collect(self) -> None:
        """Collect now what lost its place, instead of when `run` gets there."""
        self._collector.collect()

    def _create(self, obj: JsonObject) -> None:
        resource = self.registry.find_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        self._writer.create(resource, ("", obj["metadata"]["name"]), obj, WriteContext(_MANAGER))

    def _follow_definitions(self, storage: str, event: Event) -> None:
        """Serve what the stored definitions say; inside the write, so that a created type can be used at once."""
        if storage != customtypes.STORAGE:
            return
        crd = event.current.obj
        served = customtypes.storage_of(crd)
        unchanged = event.previous is not None and event.previous.obj["spec"] == crd["spec"]
        if event.type is EventType.DELETED:
            self.registry.remove_storage(served)
            self.store.close_watchers(served)
        elif not unchanged:
            self.registry.remove_storage(served)
            for resource in customtypes.types_of(crd):
                self.registry.add(resource)
        if event.type is EventType.ADDED:
            # Nothing is known of the time before; there the real server's cache of a new type begins, too.
            self.store.collection(served).forget(self.store.revision)
