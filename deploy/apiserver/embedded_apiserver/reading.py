"""Get, list and watch: selectors, and consistent reads of the present, of pages of the past, and of changes."""

import asyncio
import base64
import binascii
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final, TypeAlias

import orjson

from controller_runtime import JsonObject
from embedded_apiserver import status
from embedded_apiserver.presentation import Presenter
from embedded_apiserver.resources import Key, ResourceType
from embedded_apiserver.status import ApiError, bad_request
from embedded_apiserver.store import Collection, Event, EventType, Store, Version, Watcher

Matcher: TypeAlias = Callable[[JsonObject], bool]
LabelTest: TypeAlias = Callable[[Mapping[str, str]], bool]

_KEY: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_SET: Final = re.compile(rf"^({_KEY})\s+(in|notin)\s*\(([^()]*)\)$")
_EQUALITY: Final = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*({_VALUE})?$")
_ORDER: Final = re.compile(rf"^({_KEY})\s*([<>])\s*(-?\d+)$")
_EXISTS: Final = re.compile(rf"^(!?)\s*({_KEY})$")

_COMMON_FIELDS: Final = ("metadata.name", "metadata.namespace")


def label_test(selector: str) -> LabelTest | None:
    """The test of a label selector; None for one that selects everything.

    Raises:
        ApiError: 400 for a selector that can't be parsed.
    """
    tests = [_requirement(part.strip()) for part in _split(selector) if part.strip()]
    if not tests:
        return None
    return lambda labels: all(test(labels) for test in tests)


def _split(selector: str) -> list[str]:
    return re.split(r",(?![^()]*\))", selector)


def _requirement(text: str) -> LabelTest:
    for pattern, build in (
        (_SET, _set_test),
        (_EQUALITY, _equality_test),
        (_ORDER, _order_test),
        (_EXISTS, _exists_test),
    ):
        match = pattern.match(text)
        if match:
            return build(match)
    raise bad_request(f'unable to parse requirement: found "{text}", expected a label selector requirement')


def _set_test(match: re.Match[str]) -> LabelTest:
    key, values = match[1], {value.strip() for value in match[3].split(",")}
    if match[2] == "in":
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values


def _equality_test(match: re.Match[str]) -> LabelTest:
    key, value = match[1], match[3] or ""
    if match[2] == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _order_test(match: re.Match[str]) -> LabelTest:
    key, above, bound = match[1], match[2] == ">", int(match[3])

    def test(labels: Mapping[str, str]) -> bool:
        try:
            number = int(labels.get(key, ""))
        except ValueError:
            return False
        return number > bound if above else number < bound

    return test


def _exists_test(match: re.Match[str]) -> LabelTest:
    key, negated = match[2], match[1] == "!"
    return lambda labels: (key in labels) != negated


def field_tests(resource: ResourceType, selector: str) -> list[tuple[str, bool, str]]:
    """The terms of a field selector: path, True for equality, value.

    Raises:
        ApiError: 400 for a field that the type can't be selected by.
    """
    terms: list[tuple[str, bool, str]] = []
    for part in filter(None, (piece.strip() for piece in selector.split(","))):
        match = re.match(r"^([^=!]+)(==|=|!=)(.*)$", part)
        if match is None:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        path = match[1].strip()
        if path not in _COMMON_FIELDS and path not in resource.selectable_fields:
            raise _unsupported_field(resource, path)
        terms.append((path, match[2] != "!=", match[3].strip()))
    return terms


def _unsupported_field(resource: ResourceType, path: str) -> ApiError:
    if resource.custom:
        return bad_request(f"field label not supported: {path}")
    return bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def field_value(obj: JsonObject, path: str) -> str:
    """The text of a field as selectors compare it; "" if absent."""
    value: object = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def matcher(resource: ResourceType, labels: str, fields: str) -> Matcher | None:
    """One test for both selectors, over objects in storage form; None if everything is selected."""
    test = label_test(labels)
    terms = field_tests(resource, fields)
    if test is None and not terms:
        return None

    def matches(obj: JsonObject) -> bool:
        if test is not None and not test(obj["metadata"].get("labels") or {}):
            return False
        return all((field_value(obj, path) == value) == equal for path, equal, value in terms)

    return matches


class VersionMatch(StrEnum):
    """How a list treats its resourceVersion."""

    UNSET = ""
    EXACT = "Exact"
    NOT_OLDER_THAN = "NotOlderThan"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """metav1.ListOptions of a list or a watch."""

    namespace: str = ""
    matcher: Matcher | None = None
    revision: str = ""
    match: VersionMatch = VersionMatch.UNSET
    limit: int = 0
    continued: str = ""
    timeout_seconds: float = 0
    bookmarks: bool = False
    send_initial_events: bool | None = None
    as_of: int | None = None


_LATEST: Final = -1
_END: Final = "\0"


@dataclass(frozen=True, slots=True)
class _Page:
    """A continue token: the revision that all pages show, and the last key of the former page.

    The revision is -1 in a token that a 410 offers: it goes on with the present, as inconsistent as that may be.
    """

    revision: int
    start: Key

    def encode(self, *, namespaced: bool) -> str:
        namespace, name = self.start
        start = f"/{name}" if namespaced or not namespace else f"{namespace}/{name}"
        token = orjson.dumps({"v": "meta.k8s.io/v1", "rv": self.revision, "start": start + _END})
        return base64.urlsafe_b64encode(token).decode().rstrip("=")

    @classmethod
    def decode(cls, token: str, namespace: str) -> "_Page":
        try:
            decoded = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            first, _, last = str(decoded["start"]).removesuffix(_END).rpartition("/")
            return cls(int(decoded["rv"]), (first or namespace, last))
        except (ValueError, TypeError, KeyError, binascii.Error):
            raise status.bad_request("invalid continue token: continue key is not valid") from None


class Reader:
    """Reads the store in the forms of the API."""

    def __init__(self, store: Store, *, bookmark_seconds: float) -> None:
        self._store = store
        self._bookmark_seconds = bookmark_seconds

    def objects(self, resource: ResourceType) -> Iterable[JsonObject]:
        """The present objects of all namespaces, as stored."""
        return (version.obj for version in self._store.collection(resource.storage).objects.values())

    def get(self, resource: ResourceType, key: Key, as_of: int | None = None) -> Version:
        """The present version of an object, or the one as of a revision, or a 404."""
        if as_of is None:
            version = self._store.get(resource.storage, key)
        else:
            version = self._past(self._store.collection(resource.storage), as_of)[1].get(key)
        if version is None:
            raise status.not_found(resource, key[1])
        return version

    def require(self, revision: str, as_of: int | None = None) -> None:
        """Refuse to answer from before the version that the client has seen.

        Raises:
            ApiError: 504 for a version that is still to come, 500 for one that is no number.
        """
        asked = self._known_revision(revision)
        present = self._store.revision if as_of is None else as_of
        if asked > present:
            raise self._too_large(asked, present)

    def list(self, resource: ResourceType, options: ListOptions, presenter: Presenter) -> bytes:
        """A list, or one page of it.

        Raises:
            ApiError: 410 for a version that is no longer kept, 504 for one that is still to come.
        """
        collection = self._store.collection(resource.storage)
        # As the real server, whose cache sends everything at once to clients that accept cached data.
        limit = 0 if options.revision == "0" else options.limit
        page = _Page.decode(options.continued, options.namespace) if options.continued else None
        revision, versions = self._snapshot(collection, options, page)
        left = versions if page is None else (version for version in versions if version.key > page.start)
        found = (version for version in left if _selects(options, version))
        # A selector looks into each object; without one there is a count to tell.
        most = limit + 1 if limit and options.matcher is not None else None
        selected = list(islice(found, most))
        metadata: JsonObject = {"resourceVersion": str(revision)}
        if limit and len(selected) > limit:
            if options.matcher is None:
                metadata["remainingItemCount"] = len(selected) - limit
            selected = selected[:limit]
            metadata["continue"] = _Page(revision, selected[-1].key).encode(namespaced=bool(options.namespace))
        return presenter.many(selected, metadata)

    def select(self, resource: ResourceType, options: ListOptions) -> tuple[Version, ...]:
        """The present objects of a selection."""
        objects = self._store.collection(resource.storage).objects
        return tuple(version for version in objects.values() if _selects(options, version))

    def _past(self, collection: Collection, revision: int) -> tuple[int, dict[Key, Version]]:
        """The objects as they were, or as long ago as is still known."""
        known = min(max(revision, collection.floor), self._store.revision)
        return known, collection.at(known)

    def _snapshot(
        self, collection: Collection, options: ListOptions, page: _Page | None
    ) -> tuple[int, Iterable[Version]]:
        if page is not None and page.revision != _LATEST:
            if page.revision < collection.floor:
                again = _Page(_LATEST, page.start).encode(namespaced=bool(options.namespace))
                raise status.expired(_TOO_OLD_PAGE, continued=again)
            return page.revision, collection.at(page.revision).values()
        asked = self._asked_revision(options.revision)
        present = self._store.revision if options.as_of is None else options.as_of
        if asked > present:
            raise self._too_large(asked, present)
        if options.as_of is not None:
            revision, versions = self._past(collection, options.as_of)
            return revision, versions.values()
        if asked and options.match is VersionMatch.EXACT:
            if asked < collection.floor:
                raise status.expired("The resourceVersion for the provided list is too old.")
            return asked, collection.at(asked).values()
        return self._store.revision, (collection.objects[key] for key in collection.ordered())

    def _too_large(self, asked: int, present: int) -> status.ApiError:
        message = f"Timeout: Too large resource version: {asked}, current: {present}"
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        return status.ApiError(504, status.Reason.TIMEOUT, message, {"causes": [cause], "retryAfterSeconds": 1})

    def _asked_revision(self, text: str) -> int:
        if text and not text.isdigit():
            raise status.bad_request(f"invalid resource version: {_malformed(text)}")
        return int(text or 0)

    def _known_revision(self, text: str) -> int:
        if text and not text.isdigit():
            # The real server takes the blame where it reads from its cache.
            raise status.ApiError(500, status.Reason.UNKNOWN, _malformed(text))
        return int(text or 0)

    def watch(self, resource: ResourceType, options: ListOptions, presenter: Presenter) -> AsyncIterator[bytes]:
        """The stream of changes; starts when its first line is asked for, and loses nothing from then on.

        Raises:
            ApiError: 500 for a malformed resourceVersion.
        """
        asked = self._known_revision(options.revision)
        stream = _Stream(self._store, resource, options, presenter, self._bookmark_seconds)
        return stream.lines(asked)


class _Stream:
    """One running watch."""

    def __init__(
        self, store: Store, resource: ResourceType, options: ListOptions, presenter: Presenter, bookmark_seconds: float
    ) -> None:
        self._store = store
        self._collection = store.collection(resource.storage)
        self._watcher = Watcher(options.namespace)
        self._options = options
        self._presenter = presenter
        self._bookmark_seconds = bookmark_seconds
        self._after = 0

    async def lines(self, asked: int) -> AsyncIterator[bytes]:
        """All lines of the watch, several at once where several are due."""
        wants_initial = self._options.send_initial_events
        if asked and not wants_initial and asked < self._collection.floor:
            yield _expired_line(asked, self._collection.floor)
            return
        first = b""
        if wants_initial or (not asked and wants_initial is None):
            first = self._initial()
        elif asked:
            # A version that is still to come: what happens before it is not sent.
            self._after = asked
            self._watcher.preload(self._collection.since(asked))
        self._collection.watchers.add(self._watcher)
        try:
            yield first
            async for chunk in self._live():
                yield chunk
        finally:
            self._collection.watchers.discard(self._watcher)

    def _initial(self) -> bytes:
        versions = (self._collection.objects[key] for key in self._collection.ordered())
        lines = [self._presenter.line(EventType.ADDED, v, None) for v in versions if _selects(self._options, v)]
        if self._options.send_initial_events:
            lines.append(self._presenter.bookmark(self._store.revision, initial_end=True))
        return b"".join(lines)

    async def _live(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._options.timeout_seconds
        bookmark_at = min(end, loop.time() + self._bookmark_seconds)
        while not self._watcher.closed and loop.time() < end:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(bookmark_at):
                    await self._watcher.wait()
            # Taken together, so the bookmark covers exactly what the events before it show.
            events, revision = self._watcher.take(), self._store.revision
            due = [event for event in events if event.current.revision > self._after]
            lines = [line for line in map(self._line, due) if line]
            if loop.time() >= bookmark_at:
                bookmark_at = min(end, loop.time() + self._bookmark_seconds)
                if self._options.bookmarks and revision >= self._after and not self._watcher.closed:
                    lines.append(self._presenter.bookmark(revision, initial_end=False))
            if lines:
                yield b"".join(lines)

    def _line(self, event: Event) -> bytes | None:
        matcher = self._options.matcher
        if matcher is None:
            return self._presenter.line(event.type, event.current, event)
        before = event.previous is not None and matcher(event.previous.obj)
        after = event.type is not EventType.DELETED and matcher(event.current.obj)
        if after:
            kind = EventType.MODIFIED if before else EventType.ADDED
            return self._presenter.line(kind, event.current, event)
        return self._presenter.line(EventType.DELETED, event.departed(), event) if before else None


def _malformed(revision: str) -> str:
    return f'resourceVersion: Invalid value: "{revision}": strconv.ParseUint: parsing "{revision}": invalid syntax'


def _selects(options: ListOptions, version: Version) -> bool:
    if options.namespace and version.key[0] != options.namespace:
        return False
    return options.matcher is None or options.matcher(version.obj)


def _expired_line(asked: int, floor: int) -> bytes:
    """The ERROR event of a watch from a version that is no longer kept; the response itself is a 200."""
    error = status.expired(f"too old resource version: {asked} ({floor})")
    return orjson.dumps({"type": str(EventType.ERROR), "object": error.body()}) + b"\n"


_TOO_OLD_PAGE: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
DEFAULT_WATCH_SECONDS: Final = 1800.0
"""Watches without timeoutSeconds end after this time, as those of the real server do after 30 to 60 minutes."""
