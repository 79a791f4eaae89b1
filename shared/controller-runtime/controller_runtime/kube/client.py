"""The Kubernetes verbs over raw JSON, lists page by page and watches line by line."""

import asyncio
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Final, Generic, Self, TypedDict, TypeVar, Unpack, final

from controller_runtime.json import JsonObject, dumps, loads
from controller_runtime.kind_names import KindName, collection_path, object_path
from controller_runtime.kinds import POD
from controller_runtime.kube.config import Connection
from controller_runtime.kube.errors import status_error
from controller_runtime.kube.guard import WriteGuard, seconds_to_write
from controller_runtime.kube.refusals import Refusals
from controller_runtime.kube.transport import (
    Request,
    RequestObserver,
    Transport,
    TransportSettings,
    TransportStatistics,
)
from controller_runtime.names import PREFIX

LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes beyond which a line is taken for garbage; etcd refuses objects above 1.5 MB."""


@final
class LineSplitter:
    """Collects chunks and gives back whole lines; linear in the number of bytes, however they are cut."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take a chunk; yield the lines that are complete now, without their ends, empty ones left out.

        Raises:
            ValueError: a line exceeds `LONGEST_LINE`.
        """
        *complete, rest = chunk.split(b"\n")
        for end in complete:
            line = b"".join((*self._parts, end))
            self._parts.clear()
            self._held = 0
            if line:
                yield line
        self._held += len(rest)
        if self._held > LONGEST_LINE:
            raise ValueError(f"a line of more than {LONGEST_LINE} bytes; check that this is a Kubernetes API server")
        if rest:
            self._parts.append(rest)


AT_ONCE: Final = 1 << 20
"""Bytes of a page up to which it is decoded in one step: some milliseconds, of which a longer way would take ten."""
STEP: Final = 128 << 10
"""Bytes of objects, or one object, that are handed on in one step."""
_MOST: Final = 32
"""Objects that are, however small."""

_BLANK: Final = b" \t\r\n"
_OPENING: Final = frozenset((b"{", b"["))
_CLOSING: Final = frozenset((b"}", b"]"))
# Possessive, because what is text will not turn out to be anything else. A quote alone begins a text that breaks off.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]"]', re.DOTALL)


async def take_in(body: bytes, take: Callable[[JsonObject], None]) -> JsonObject:
    """Hand on the objects of a list, in order; returns the list without them.

    Raises:
        ValueError: it is no list of objects, which may show when some were handed on already.
    """
    listed, step, objects = ListBody(body), 0, 0
    for size, obj in listed.objects():
        if objects and (step + size > STEP or objects == _MOST):
            step = objects = 0
            await asyncio.sleep(0)
        step, objects = step + size, objects + 1
        take(obj)
    return listed.rest


class ListBody:
    """The JSON of a list.

    Attributes:
        rest: the list without its objects, when all of them were read.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.rest: JsonObject = {}

    def objects(self) -> Iterator[tuple[int, JsonObject]]:
        """The objects, each with its size in bytes; of a short page, whose objects are there at once, their mean.

        Raises:
            ValueError: it is no list of objects.
        """
        if len(self._body) > AT_ONCE:
            yield from self._one_by_one()
            return
        self.rest = loads(self._body)
        items = self.rest.pop("items", None) or []
        if not (isinstance(items, list) and all(isinstance(item, dict) for item in items)):
            raise ValueError("the items of a list are not objects")
        for item in items:
            yield len(self._body) // len(items), item

    def _one_by_one(self) -> Iterator[tuple[int, JsonObject]]:
        body, depth, begin, named = self._body, 0, 0, False
        first, last = len(body), len(body)
        for token in _TOKEN.finditer(body):
            text = token[0]
            if text == b'"':
                raise ValueError("the list ends inside a string")
            if text in _OPENING:
                depth += 1
                if named and depth == 2 and text == b"[":
                    first = last = token.end()
                elif first <= token.start() and depth == 3:
                    begin = token.start()
                    between = b"" if last == first else b","
                    if text != b"{" or body[last:begin].strip(_BLANK) != between:
                        raise ValueError("the items of a list are not objects")
                named = False
            elif text in _CLOSING:
                depth -= 1
                if first <= token.start() and depth == 2:
                    last = token.end()
                    yield last - begin, loads(body[begin:last])
                elif first <= token.start() and depth == 1:
                    break
            elif depth == 1:
                # What follows it is its value, or else this is a value itself.
                named = text == b'"items"'
        # Without its objects, what is left has to be a list as well.
        self.rest = loads(body[:first] + body[last:])
        if self.rest.pop("items", None):
            raise ValueError("the items of a list are not objects")


T = TypeVar("T")

WATCH_GRACE: Final = 15.0
"""Seconds beyond a watch's own time limit after which its connection counts as dead."""

APPLY: Final = "application/apply-patch+yaml"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
_DRY: Final = "All"
_METADATA_ALONE: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Propagation(StrEnum):
    """What happens to the dependents of a deleted object."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class VersionMatch(StrEnum):
    """How a list's resourceVersion is meant."""

    NOT_OLDER_THAN = "NotOlderThan"
    EXACT = "Exact"


class WatchEventType(StrEnum):
    """What a watch reports; its ERROR is raised as `ApiError` instead."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@final
@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch, as the server sent it."""

    type: WatchEventType
    object: JsonObject


@final
@dataclass(frozen=True, slots=True)
class ObjectPage(Generic[T]):
    """One page of a list.

    Attributes:
        items: the objects, each with ``apiVersion`` and ``kind`` (which servers leave out in lists), or what was made
            of them.
        resource_version: version of the collection, from which a watch continues.
        continue_token: asks for the next page; empty on the last.
    """

    items: tuple[T, ...]
    resource_version: str
    continue_token: str


class ListOptions(TypedDict, total=False):
    """Which objects of a collection a list is to have.

    ``resource_version`` None is the newest state (a consistent read), ``"0"`` whatever the server has cached, for
    which it ignores the limit.
    """

    label_selector: str
    field_selector: str
    resource_version: str | None
    match: VersionMatch | None
    limit: int | None
    continue_token: str


@final
class KubeClient:
    """The client; an async context manager that owns its connections.

    Every method raises `ApiError` when the server refuses and `ApiConnectionError` when it does not answer.
    Idempotent calls (get, list, apply, delete, log) are repeated a few times before that.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        service: str,
        version: str = "dev",
        settings: TransportSettings | None = None,
        observer: RequestObserver | None = None,
        randomness: random.Random | None = None,
        transport: Transport | None = None,
    ) -> None:
        """``service`` and ``version`` make the user agent ``<prefix>-<service>/<version>``.

        Args:
            transport: carries the requests; a session of its own by default.
        """
        own = transport or Transport(connection, f"{PREFIX}-{service}/{version}", settings, observer, randomness)
        self._transport = own
        self._guard: WriteGuard | None = None
        self._urgent = False
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._transport)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return self._transport.server

    def as_bearer(self, token: str) -> "KubeClient":
        """Another client of the same API server, with connections of its own, as the bearer of a token.

        Raises:
            ConfigError: this client authenticates by certificate, which goes before a token.
        """
        bearer = copy(self)
        bearer._transport = self._transport.as_bearer(token)
        bearer._stack = AsyncExitStack()
        return bearer

    def guarded(self, guard: WriteGuard) -> "KubeClient":
        """The same client (shared connections, no opening or closing of its own) that asks before each write.

        The guard is asked before every attempt, repetitions included: a leader whose Lease ran out while a call waited
        for its turn must not write any more (FW-407).
        """
        return self._twin(guard=guard, urgent=self._urgent)

    def check_guard(self) -> None:
        """For who is about to note that something was written.

        Raises:
            NotLeaderError: a write would be refused.
        """
        if self._guard is not None:
            seconds_to_write(self._guard)

    def for_leases(self) -> "KubeClient":
        """The same client without queue and guard.

        A renewal that waits behind slow calls comes too late, and leadership cannot be what permits to lead.
        """
        return self._twin(guard=None, urgent=True)

    def statistics(self) -> TransportStatistics:
        """Numbers of the shared transport."""
        return self._transport.statistics()

    @property
    def refusals(self) -> Refusals:
        """What the API server refuses to the whole process."""
        return self._transport.refusals

    async def version(self) -> JsonObject:
        """``GET /version``: proof of a working connection (FW-282)."""
        return loads(await self._transport.call(Request("version", "GET", "/version", "version")))

    async def get(
        self, kind: KindName, name: str, namespace: str | None = None, *, subresource: str | None = None
    ) -> JsonObject:
        """Read one object, fresh from the store."""
        return await self._send("get", "GET", kind, object_path(kind, name, namespace, subresource))

    async def get_metadata(self, kind: KindName, name: str, namespace: str | None = None) -> JsonObject:
        """Read the metadata of one object: the rest, such as the data of a Secret, stays in the API server (FW-096)."""
        path = object_path(kind, name, namespace, None)
        request = Request("get", "GET", path, kind.resource, accept=_METADATA_ALONE, urgent=self._urgent)
        metadata: JsonObject = loads(await self._transport.call(request))["metadata"]
        return metadata

    async def list(
        self, kind: KindName, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> ObjectPage[JsonObject]:
        """Read one page of a collection; all of it unless limited."""
        return await self.list_in_form(kind, lambda obj: obj, namespace, **options)

    async def list_in_form(
        self,
        kind: KindName,
        form: Callable[[JsonObject], T],
        namespace: str | None = None,
        **options: Unpack[ListOptions],
    ) -> ObjectPage[T]:
        """Read one page of a collection, of which nothing is kept but what is made of each object."""
        parameters = _present(
            labelSelector=options.get("label_selector"),
            fieldSelector=options.get("field_selector"),
            resourceVersion=options.get("resource_version"),
            resourceVersionMatch=options.get("match"),
            limit=options.get("limit"),
            **{"continue": options.get("continue_token")},
        )
        path, resource = collection_path(kind, namespace), kind.resource
        body = await self._transport.call(Request("list", "GET", path, resource, parameters, urgent=self._urgent))
        items: list[T] = []
        try:
            answer = await take_in(body, lambda obj: items.append(form(_complete(kind, obj))))
        except ValueError as error:
            raise ValueError(f"list {resource}: the answer is no list of objects: {error}") from error
        metadata = answer.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise ValueError(f"list {resource}: the answer has no metadata")
        return ObjectPage(tuple(items), str(metadata.get("resourceVersion", "")), str(metadata.get("continue") or ""))

    @asynccontextmanager
    async def watch(
        self,
        kind: KindName,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 270,
        grace: float = WATCH_GRACE,
        send_initial_events: bool = False,
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        """Open a watch with bookmarks: ``async with client.watch(…) as events: async for event in events``.

        The iteration ends when the server closes the watch, which it does after ``timeout_seconds``. It
        raises `ApiError` on an ERROR event as on a refused request (`ApiError.is_expired`: list again), and
        `ApiConnectionError` also when nothing was heard ``grace`` seconds beyond the time limit.
        """
        parameters = _present(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            timeoutSeconds=timeout_seconds,
            sendInitialEvents="true" if send_initial_events else None,
            resourceVersionMatch=VersionMatch.NOT_OLDER_THAN if send_initial_events else None,
        )
        request = Request("watch", "GET", collection_path(kind, namespace), kind.resource, parameters)
        async with (
            self._transport.stream(request, timeout_seconds + grace) as chunks,
            aclosing(_events(str(request), chunks)) as events,
        ):
            yield events

    async def create(self, kind: KindName, obj: JsonObject, field_manager: str, *, dry_run: bool = False) -> JsonObject:
        """POST a new object (FW-410). Not repeated: the second try of a success would be AlreadyExists.

        Args:
            dry_run: let the server check everything and keep nothing.
        """
        namespace = obj["metadata"].get("namespace")
        return await self._send(
            "create",
            "POST",
            kind,
            collection_path(kind, namespace),
            _present(fieldManager=field_manager, dryRun=_DRY if dry_run else None),
            body=obj,
            idempotent=False,
        )

    async def replace(self, kind: KindName, obj: JsonObject, field_manager: str) -> JsonObject:
        """PUT an object, guarded by the ``metadata.resourceVersion`` it carries."""
        return await self._send(
            "update",
            "PUT",
            kind,
            _path_of(kind, obj),
            {"fieldManager": field_manager},
            body=obj,
            idempotent=False,
        )

    async def apply(
        self,
        kind: KindName,
        obj: JsonObject,
        field_manager: str,
        *,
        force: bool = True,
        subresource: str | None = None,
    ) -> JsonObject:
        """Server-side apply of the fields in ``obj`` (FW-202); returns the whole object as stored."""
        return await self._send(
            "apply",
            "PATCH",
            kind,
            _path_of(kind, obj, subresource),
            {"fieldManager": field_manager, "force": "true" if force else "false"},
            body=obj,
            content_type=APPLY,
        )

    async def merge_patch(
        self,
        kind: KindName,
        name: str,
        namespace: str | None,
        patch: JsonObject,
        *,
        resource_version: str,
        field_manager: str,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> JsonObject:
        """Merge patch that fails with a conflict unless the object still has that version (FW-411).

        Args:
            dry_run: let the server check everything and keep nothing.
        """
        metadata = {**(patch.get("metadata") or {}), "resourceVersion": resource_version}
        return await self._send(
            "patch",
            "PATCH",
            kind,
            object_path(kind, name, namespace, subresource),
            _present(fieldManager=field_manager, dryRun=_DRY if dry_run else None),
            body={**patch, "metadata": metadata},
            content_type=MERGE_PATCH,
            idempotent=False,
        )

    async def json_patch(
        self,
        kind: KindName,
        name: str,
        namespace: str | None,
        operations: Sequence[JsonObject],
        *,
        field_manager: str,
        subresource: str | None = None,
    ) -> JsonObject:
        """JSON patch (RFC 6902); a ``test`` that does not hold is `ApiError.is_failed_json_patch_test`."""
        return await self._send(
            "patch",
            "PATCH",
            kind,
            object_path(kind, name, namespace, subresource),
            {"fieldManager": field_manager},
            body=list(operations),
            content_type=JSON_PATCH,
            idempotent=False,
        )

    async def delete(
        self,
        kind: KindName,
        name: str,
        namespace: str | None = None,
        *,
        uid: str,
        propagation: Propagation = Propagation.BACKGROUND,
        grace_seconds: int | None = None,
    ) -> JsonObject | None:
        """Delete exactly the object with this UID; another one of the same name gives a conflict.

        Args:
            grace_seconds: time to end, for pods; ``None`` = their own, 0 = removed at once, as by their kubelet.

        Returns the object as stored when finalizers or its grace period hold it back, ``None`` when it is gone.
        """
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation,
            **({} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}),
        }
        answer = await self._send("delete", "DELETE", kind, object_path(kind, name, namespace), body=body)
        # What is gone is answered with a Status or, for some kinds, with the object as it last was.
        return answer if (answer.get("metadata") or {}).get("deletionTimestamp") else None

    async def pod_log(
        self,
        namespace: str,
        name: str,
        container: str | None = None,
        *,
        tail_lines: int | None = None,
        previous: bool = False,
        limit_bytes: int | None = None,
    ) -> str:
        """The log of a container; bytes that are no UTF-8 are replaced."""
        parameters = _present(
            container=container,
            tailLines=tail_lines,
            previous="true" if previous else None,
            limitBytes=limit_bytes,
        )
        path = object_path(POD, name, namespace, "log")
        body = await self._transport.call(Request("get", "GET", path, "pods/log", parameters))
        return body.decode(errors="replace")

    def _twin(self, *, guard: WriteGuard | None, urgent: bool) -> "KubeClient":
        twin = copy(self)
        # Leaving a twin must not close what it shares.
        twin._stack = AsyncExitStack()
        twin._guard = guard
        twin._urgent = urgent
        return twin

    async def _send(
        self,
        verb: str,
        method: str,
        kind: KindName,
        path: str,
        parameters: dict[str, str] | None = None,
        *,
        body: object = None,
        content_type: str = "application/json",
        idempotent: bool = True,
    ) -> JsonObject:
        request = Request(
            verb,
            method,
            path,
            kind.resource,
            parameters or {},
            None if body is None else dumps(body),
            content_type,
            idempotent,
            None if method == "GET" else self._guard,
            self._urgent,
        )
        return loads(await self._transport.call(request))


def _present(**parameters: object) -> dict[str, str]:
    return {name: str(value) for name, value in parameters.items() if value not in {None, ""}}


def _path_of(kind: KindName, obj: JsonObject, subresource: str | None = None) -> str:
    metadata = obj["metadata"]
    return object_path(kind, metadata["name"], metadata.get("namespace"), subresource)


def _complete(kind: KindName, item: JsonObject) -> JsonObject:
    item.setdefault("apiVersion", kind.api_version)
    item.setdefault("kind", kind.kind)
    return item


async def _events(request: str, chunks: AsyncIterator[bytes]) -> AsyncGenerator[WatchEvent]:
    lines = LineSplitter()
    async for chunk in chunks:
        for line in lines.feed(chunk):
            event = loads(line)
            obj = event.get("object")
            if not isinstance(obj, dict):
                raise ValueError(f"{request}: a watch event without an object: {line[:200]!r}")
            if event.get("type") == "ERROR":
                raise status_error(request, obj)
            yield WatchEvent(WatchEventType(str(event.get("type"))), obj)
