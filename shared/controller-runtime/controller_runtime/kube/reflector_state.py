"""The decisions of a reflector, without its I/O: states, what leads from one to the next, what is reported.

A reflector goes ``Empty → Listing → Ready → Watching``. A watch that ends or breaks goes back to ``Ready`` and
resumes where it was; one whose version has expired goes back to ``Empty``. What vanished without a watch is
found by comparing the next list with the names known from before.

A requested comparison lists *beside* the watch, which goes on meanwhile: a server that refuses the list
must not take the events as well. Once the list is there, `merged` folds into it what the watch brought meanwhile, and
the watch starts over from the result.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from typing import Generic, NamedTuple, TypeAlias, TypeVar, final

from controller_runtime.api.meta import Identity, ObjectKey, version_of
from controller_runtime.json import JsonObject
from controller_runtime.kind_names import KindName
from controller_runtime.kube.client import VersionMatch, WatchEvent, WatchEventType
from controller_runtime.kube.errors import ApiError, KubeError

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class Restarted(Generic[T]):
    """The whole selection, from a list: the first one, one after a gap, or one that was asked for.

    Objects that the reflector knew and the list lacks were reported by a `Delete` each, just before.

    Attributes:
        objects: all objects, in the form that was asked for.
        resource_version: version of the collection.
        rewound: the server is behind what it showed before (a restored store): compare no versions across this.
        from_store: a consistent read, so that nothing newer existed then. Another list may come from a cache that
            lags behind.
    """

    objects: Sequence[T]
    resource_version: str
    rewound: bool = False
    from_store: bool = False


@final
@dataclass(frozen=True, slots=True)
class Upsert(Generic[T]):
    """An object appeared in the selection or changed.

    Attributes:
        obj: the object, in the form that was asked for.
    """

    obj: T
    resource_version: str


@final
@dataclass(frozen=True, slots=True)
class Delete:
    """An object left the selection: deleted, or no longer matched by the selectors.

    Attributes:
        obj: its last content as the server sent it. Where the selection was merely left, this is the *old*
            content under the *new* resourceVersion of an object that lives on. When synthetic: only type, name,
            namespace, UID and last known version.
        resource_version: version at which it was gone; when synthetic, that of the list that lacked it.
        synthetic: found by comparison, not reported by the server.
    """

    obj: JsonObject
    resource_version: str
    synthetic: bool = False


@final
@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing else happened up to this version."""

    resource_version: str


Event: TypeAlias = Restarted[T] | Upsert[T] | Delete | Bookmark


def as_sent(obj: JsonObject) -> JsonObject:
    """The form of an object that the server gave it."""
    return obj


class ListFrom(Enum):
    """How fresh a list must be."""

    FLOOR = "not older than the newest version seen"
    STORE = "the newest state: a consistent read"


@final
@dataclass(frozen=True, slots=True)
class Empty:
    """About to list."""

    source: ListFrom


class Item(NamedTuple, Generic[T]):
    """An object of a list, or of a watch, in the form that was asked for."""

    identity: Identity
    obj: T


@final
@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list, as `ObjectPage`, with every object in the form that was asked for."""

    items: tuple[Item[T], ...]
    resource_version: str
    continue_token: str


@final
@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """Some pages have arrived; each as it came, so that the next one costs nothing but itself."""

    source: ListFrom
    pages: tuple[tuple[Item[T], ...], ...]
    continue_token: str


@final
@dataclass(frozen=True, slots=True)
class ListComplete(Generic[T]):
    """All pages have arrived; ``from_store`` as in `Restarted`."""

    items: tuple[Item[T], ...]
    resource_version: str
    from_store: bool = False

    def restarted(self, *, rewound: bool) -> Restarted[T]:
        """The event for it."""
        return Restarted(tuple(item.obj for item in self.items), self.resource_version, rewound, self.from_store)


@final
@dataclass(frozen=True, slots=True)
class Ready:
    """Complete up to a version; about to watch from there."""

    resource_version: str


@final
@dataclass(frozen=True, slots=True)
class Watching:
    """A watch is open."""

    resource_version: str


State: TypeAlias = Empty | Listing[T] | Ready | Watching


class ListQuery(NamedTuple):
    """Version parameters of a list request."""

    resource_version: str | None
    match: VersionMatch | None


def list_query(source: ListFrom, floor: str) -> ListQuery:
    """The version parameters for a first page; without a version seen yet, nothing but the newest state will do."""
    # Never version 0, "whatever is cached": to that the server answers with all objects at once, whatever the limit.
    if source is ListFrom.STORE or not floor:
        return ListQuery(None, None)
    return ListQuery(floor, VersionMatch.NOT_OLDER_THAN)


def after_page(state: Empty | Listing[T], page: Page[T]) -> Listing[T] | ListComplete[T]:
    """Add a page; the last one completes the list."""
    pages = (*state.pages, page.items) if isinstance(state, Listing) else (page.items,)
    if page.continue_token:
        return Listing(state.source, pages, page.continue_token)
    return ListComplete(tuple(chain(*pages)), page.resource_version, from_store=state.source is ListFrom.STORE)


def after_failure(state: State[T], error: KubeError | ValueError) -> State[T]:
    """Where to go on after an error.

    An expired continue token or version, a version ahead of the server, and an unintelligible event all mean
    that only a new list helps; everything else is repeated from where it was.
    """
    if isinstance(state, Empty | Listing):
        return after_failed_page(state, error)
    if isinstance(error, ApiError) and error.is_version_too_large:
        return Empty(ListFrom.STORE)
    if isinstance(error, ValueError) or (isinstance(error, ApiError) and error.is_expired):
        return Empty(ListFrom.FLOOR)
    return Ready(state.resource_version)


def after_failed_page(state: Empty | Listing[T], error: KubeError | ValueError) -> Empty:
    """How to list again after an error; from the first page, because a token ages."""
    refused = isinstance(error, ApiError) and (error.is_expired or error.is_version_too_large)
    # The floor itself may be what the server cannot satisfy, so the second try leaves it out.
    return Empty(ListFrom.STORE if refused else state.source)


def merged(listed: ListComplete[T], since: Iterable[Item[Upsert[T] | Delete]]) -> ListComplete[T]:
    """A list with what a watch brought while it was fetched; nothing in it is older than what was yielded already.

    Args:
        since: at least every event after the one that the watch was at when the list was asked for, in order.
    """
    items = {item.identity.key: item for item in listed.items}
    version = listed.resource_version
    for identity, event in since:
        # The list shows this, or what came after it.
        if not is_older(listed.resource_version, event.resource_version):
            continue
        if isinstance(event, Upsert):
            items[identity.key] = Item(identity, event.obj)
        else:
            items.pop(identity.key, None)
        version = event.resource_version
    return replace(listed, items=tuple(items.values()), resource_version=version)


def is_older(version: str, than: str) -> bool:
    """Whether one resourceVersion lies before another of the same store; False where they are no numbers."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


@final
class KnownVersions:
    """Names, UIDs and versions of the objects reported so far: enough to notice what vanished."""

    def __init__(self, kind: KindName) -> None:
        self._kind = kind
        self._objects: dict[ObjectKey, Identity] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def identity_of(self, obj: JsonObject) -> Identity:
        """The identity of an object: the one that is known, if it is that.

        Raises:
            ValueError: its metadata tell no name or version.
        """
        reported = Identity.of(obj)
        known = self._objects.get(reported.key)
        return known if known is not None and known == reported else reported

    def replace(self, listed: ListComplete[T]) -> tuple[Delete, ...]:
        """Take over a list; report what it lacks, and objects whose name now belongs to another one."""
        before = self._objects
        self._objects = {identity.key: identity for identity, _ in listed.items}
        return tuple(self._missing(before, listed.resource_version))

    def take(self, event: WatchEvent) -> Upsert[JsonObject] | Delete | Bookmark:
        """Take over an event of a watch and report it.

        Raises:
            ValueError: it names no version or no object.
        """
        version = version_of(event.object)
        if event.type is WatchEventType.BOOKMARK:
            return Bookmark(version)
        identity = Identity.of(event.object)
        if event.type is WatchEventType.DELETED:
            self._objects.pop(identity.key, None)
            return Delete(event.object, version)
        self._objects[identity.key] = identity
        return Upsert(event.object, version)

    def _missing(self, before: dict[ObjectKey, Identity], version: str) -> Iterable[Delete]:
        for key, last in before.items():
            now = self._objects.get(key)
            if now is None or now.uid != last.uid:
                yield Delete(self._stub(last), version, synthetic=True)

    def _stub(self, last: Identity) -> JsonObject:
        metadata = {"name": last.key.name, "uid": last.uid, "resourceVersion": last.resource_version}
        if last.key.namespace:
            metadata["namespace"] = last.key.namespace
        return {"apiVersion": self._kind.api_version, "kind": self._kind.kind, "metadata": metadata}
