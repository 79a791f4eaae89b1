"""Objects of one kind, kept from a watch, with the keys of changed objects for whoever listens."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, final

from aim_local.actors.objects import uid_of
from controller_runtime import JsonObject, Key, KubeClient
from controller_runtime.kube.kinds import ResourceKind
from controller_runtime.kube.reflector import Bookmark, Delete, Reflector, Restarted, Upsert, as_sent

Listener: TypeAlias = Callable[[Key, JsonObject], None]
"""Told the key and the content of an object that appeared, changed or went away (then its last content)."""
Grouping: TypeAlias = Callable[[JsonObject], tuple[str, ...]]
_NOTHING: Mapping[Key, JsonObject] = MappingProxyType({})
_REMEMBERED: Final = 4096
"""Deleted objects whose answers to our own writes may still be under way."""


@final
class Informer:
    """A cache of one selection. Objects are shared, so nobody may change them."""

    def __init__(
        self, client: KubeClient, kind: ResourceKind, *, label_selector: str = "", group_by: Grouping | None = None
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
        """Be told of every change, after the cache has it. Listeners must not block."""
        self._listeners.append(listener)

    def get(self, key: Key) -> JsonObject | None:
        """The object as last seen."""
        return self.objects.get(key)

    def group(self, name: str) -> Mapping[Key, JsonObject]:
        """The objects of a group."""
        return self._groups.get(name, _NOTHING)

    def put(self, obj: JsonObject) -> None:
        """Take over what one of our own writes returned, so that the next step does not act on the past.

        The watch may have told of its deletion before the answer came.
        """
        held = self.objects.get(Key.of(obj))
        if uid_of(obj) not in self._gone and (held is None or _version(held) < _version(obj)):
            self._store(obj)

    def _seen(self, obj: JsonObject) -> bool:
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
                        if not self._seen(obj):
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
        self._tell(key, obj)

    def _drop(self, obj: JsonObject) -> None:
        key, held = Key.of(obj), self.objects.get(Key.of(obj))
        self._gone[uid_of(obj)] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        if held is not None and uid_of(held) != uid_of(obj):
            # Its successor, which a write of our own brought before.
            return
        self._leave(key)
        self._tell(key, self.objects.pop(key, obj))

    def _leave(self, key: Key) -> None:
        held = self.objects.get(key)
        if held is None or self._group_by is None:
            return
        for name in self._group_by(held):
            members = self._groups[name]
            members.pop(key, None)
            if not members:
                del self._groups[name]

    def _tell(self, key: Key, obj: JsonObject) -> None:
        for listener in self._listeners:
            listener(key, obj)


def _version(obj: JsonObject) -> int:
    text = str(obj["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdecimal() else 0
