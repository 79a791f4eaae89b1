"""What every actor works with: an informer, a work queue, and a writer."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, final

import structlog

from aim_local.actors.objects import now_text, short_hash, uid_of
from controller_runtime import ApiError, JsonObject, Key, KubeClient, KubeError
from controller_runtime.backoff import Backoff
from controller_runtime.kind_names import KindName
from controller_runtime.kinds import EVENT, POD
from controller_runtime.kube import Bookmark, Delete, Reflector, Restarted, Upsert, as_sent
from controller_runtime.reconcile import TokenBucket, WorkQueue

Listener: TypeAlias = Callable[[Key, JsonObject], None]
"""Takes the key and the content of an object that appeared, changed or went away (then its last content)."""
Grouping: TypeAlias = Callable[[JsonObject], tuple[str, ...]]
_NOTHING: Mapping[Key, JsonObject] = MappingProxyType({})
_REMEMBERED: Final = 4096
"""Deleted objects whose answers to our own writes may still be under way."""


@final
class Informer:
    """A cache of one selection. Objects are shared and must not be changed."""

    def __init__(
        self, client: KubeClient, kind: KindName, *, label_selector: str = "", group_by: Grouping | None = None
    ) -> None:
        """``group_by`` names the groups of an object, such as its owner's UID; see `group`."""
        self._reflector = Reflector(client, kind, as_sent, label_selector=label_selector)
        self._group_by = group_by
        self._groups: defaultdict[str, dict[Key, JsonObject]] = defaultdict(dict)
        self._listeners: list[Listener] = []
        self._gone: dict[str, None] = {}
        self.objects: dict[Key, JsonObject] = {}
        self.synced = asyncio.Event()

    def listen(self, listener: Listener) -> None:
        """Be called at every change, after the cache has it. Listeners must not block."""
        self._listeners.append(listener)

    def get(self, key: Key) -> JsonObject | None:
        """The object as last seen."""
        return self.objects.get(key)

    def group(self, name: str) -> Mapping[Key, JsonObject]:
        """The objects of a group."""
        return self._groups.get(name, _NOTHING)

    def put(self, obj: JsonObject) -> None:
        """Take over what one of our own writes returned, so that the next step does not act on the past.

        The watch may have reported its deletion before the answer came.
        """
        held = self.objects.get(Key.of(obj))
        if uid_of(obj) not in self._gone and (held is None or _version(held) < _version(obj)):
            self._store(obj)

    def _has_seen(self, obj: JsonObject) -> bool:
        """Whether a write of our own brought this version, or a later one, already."""
        held = self.objects.get(Key.of(obj))
        return held is not None and uid_of(held) == uid_of(obj) and _version(held) >= _version(obj)

    def put_if(self, obj: JsonObject | None) -> None:
        """`put`, unless the write came to nothing."""
        if obj is not None:
            self.put(obj)

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        async with self._reflector as events:
            async for event in events:
                match event:
                    case Upsert(obj):
                        if not self._has_seen(obj):
                            self._store(obj)
                    case Delete(obj):
                        self._drop(obj)
                    case Restarted(objects):
                        for obj in objects:
                            self._store(obj)
                        self.synced.set()
                    case Bookmark():
                        pass

    def _store(self, obj: JsonObject) -> None:
        key = Key.of(obj)
        self._gone.pop(uid_of(obj), None)
        self._leave(key)
        self.objects[key] = obj
        for name in self._group_by(obj) if self._group_by is not None else ():
            self._groups[name][key] = obj
        self._notify(key, obj)

    def _drop(self, obj: JsonObject) -> None:
        key, held = Key.of(obj), self.objects.get(Key.of(obj))
        self._gone[uid_of(obj)] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        if held is not None and uid_of(held) != uid_of(obj):
            # Its successor, which a write of our own brought before.
            return
        self._leave(key)
        self._notify(key, self.objects.pop(key, obj))

    def _leave(self, key: Key) -> None:
        held = self.objects.get(key)
        if held is None or self._group_by is None:
            return
        for name in self._group_by(held):
            members = self._groups[name]
            members.pop(key, None)
            if not members:
                del self._groups[name]

    def _notify(self, key: Key, obj: JsonObject) -> None:
        for listener in self._listeners:
            listener(key, obj)


def _version(obj: JsonObject) -> int:
    text = str(obj["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdecimal() else 0


_log = structlog.get_logger(__name__)
_BACKOFF: Final = Backoff(base=0.5, cap=5.0, jitter=0.1)
_AT_ONCE: Final = 32
"""Keys that one actor handles at a time; were it all, no pods would run before all are made."""

Handler: TypeAlias = Callable[[Key], Awaitable[float | None]]
"""Reconciles the object of one key; returns the seconds after which to look again, if time alone matters."""


@final
class Workers:
    """Calls a handler for every added key."""

    def __init__(self, name: str, handler: Handler) -> None:
        self._name = name
        self._handler = handler
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._queue: WorkQueue[Key] = WorkQueue(backoff=_BACKOFF, rate=lambda: TokenBucket(rate=100, burst=1000))

    def add(self, key: Key) -> None:
        """Handle the key soon; if it is being handled, once more afterwards."""
        self._queue.add(key)

    async def run(self) -> None:
        """Handle keys until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._room.acquire()
                    key = (await self._queue.get()).key
                    group.create_task(self._work(key), name=f"{self._name} {key}")
        finally:
            self._queue.close()

    async def _work(self, key: Key) -> None:
        try:
            again = await self._handler(key)
        except KubeError as error:
            # The object changed or went away under us, or the server is briefly gone: look again with fresh eyes.
            _log.info("attempt failed; retrying", actor=self._name, object=str(key), error=str(error))
            self._queue.retry(key)
        else:
            self._queue.succeeded(key)
            if again is not None:
                self._queue.add_after(key, again)
        finally:
            self._queue.done(key)
            self._room.release()


@final
class Writer:
    """Writes of one actor under its own field manager."""

    def __init__(self, client: KubeClient, manager: str) -> None:
        self.client = client
        self._manager = manager

    async def status(self, kind: KindName, obj: JsonObject, status: JsonObject) -> JsonObject | None:
        """Make this the object's status; None if the object is gone or another one by now."""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": _identity(obj), "status": status}
        try:
            return await self.client.apply(kind, body, self._manager, subresource="status")
        except ApiError as error:
            if error.is_not_found or error.is_conflict:
                return None
            raise

    async def get(self, kind: KindName, name: str, namespace: str | None = None) -> JsonObject | None:
        """The object as it is now; None if it is gone."""
        try:
            return await self.client.get(kind, name, namespace)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def create(self, kind: KindName, obj: JsonObject) -> JsonObject | None:
        """Create the object; None if its name is taken or its namespace is going away."""
        try:
            return await self.client.create(kind, obj, self._manager)
        except ApiError as error:
            if error.is_already_exists or error.is_namespace_terminating or error.is_not_found:
                return None
            raise

    async def apply(self, kind: KindName, obj: JsonObject) -> JsonObject:
        """Create the object or bring its fields to these values."""
        return await self.client.apply(kind, obj, self._manager)

    async def patch(self, kind: KindName, obj: JsonObject, change: JsonObject) -> JsonObject | None:
        """Change exactly this version of the object; None if it is gone or another one by now."""
        metadata = obj["metadata"]
        try:
            return await self.client.merge_patch(
                kind,
                metadata["name"],
                metadata.get("namespace"),
                change,
                resource_version=metadata["resourceVersion"],
                field_manager=self._manager,
            )
        except ApiError as error:
            if error.is_not_found or error.is_conflict:
                return None
            raise

    async def delete(self, kind: KindName, obj: JsonObject, *, grace_seconds: int | None = None) -> None:
        """Delete exactly this object, if it is still there."""
        metadata = obj["metadata"]
        try:
            await self.client.delete(
                kind, metadata["name"], metadata.get("namespace"), uid=uid_of(obj), grace_seconds=grace_seconds
            )
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise

    async def remove_ended(self, pod: JsonObject) -> None:
        """Remove a pod that was given time to end and has ended, as its kubelet does."""
        await self.delete(POD, pod, grace_seconds=0)

    async def bind(self, pod: JsonObject, node: str) -> JsonObject:
        """Place the pod on the node, as a scheduler does; returns the pod as it is then."""
        key = Key(pod["metadata"]["namespace"], pod["metadata"]["name"])
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid_of(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        # To the client a subresource that can be created is a collection like any other.
        kind = KindName("", "v1", "Binding", f"{POD.plural}/{key.name}/binding", True)
        await self.client.create(kind, binding, self._manager)
        return {**pod, "spec": {**pod["spec"], "nodeName": node}}

    async def event(self, kind: KindName, obj: JsonObject, reason: str, message: str, *, warning: bool) -> None:
        """Report something about an object; a repetition is not reported again."""
        metadata, now = obj["metadata"], now_text()
        key = Key(metadata.get("namespace") or "default", metadata["name"])
        about = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": uid_of(obj),
        }
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{key.name}.{short_hash([about, reason, message], 16)}", "namespace": key.namespace},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "source": {"component": self._manager},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self.create(EVENT, event)


def _identity(obj: JsonObject) -> JsonObject:
    metadata = obj["metadata"]
    identity = {"name": metadata["name"], "uid": metadata["uid"]}
    if metadata.get("namespace"):
        identity["namespace"] = metadata["namespace"]
    return identity
