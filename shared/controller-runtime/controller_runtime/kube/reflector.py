"""List and watch one selection of one kind, for ever, without losing a change.

Usage::

    async with Reflector(client, kind, as_sent, label_selector="…") as events:
        async for event in events:
            ...

The events are those of `reflector_state`. The consumer's pace is the reflector's: what it does not fetch waits
in the connection. Errors never come out of the iteration; they are logged, shown in the statistics, and retried.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar, final

import structlog

from controller_runtime.api.meta import Identity, ObjectKey
from controller_runtime.backoff import Backoff
from controller_runtime.json import JsonObject
from controller_runtime.kind_names import DEFINITION, KindName
from controller_runtime.kube.client import WATCH_GRACE, KubeClient, WatchEvent, WatchEventType
from controller_runtime.kube.errors import ApiError, KubeError
from controller_runtime.kube.reflector_state import (
    Bookmark,
    Delete,
    Empty,
    Event,
    Item,
    KnownVersions,
    ListComplete,
    ListFrom,
    Listing,
    Page,
    Ready,
    Restarted,
    State,
    Upsert,
    Watching,
    after_failed_page,
    after_failure,
    after_page,
    as_sent,
    is_older,
    list_query,
    merged,
)

__all__ = [
    "Bookmark",
    "Delete",
    "Event",
    "Reflector",
    "ReflectorSettings",
    "ReflectorStatistics",
    "Restarted",
    "Upsert",
    "as_sent",
]

T = TypeVar("T")

_log = structlog.get_logger(__name__)


@final
@dataclass(frozen=True, slots=True)
class ReflectorSettings:
    """Times and sizes.

    Attributes:
        shortest_watch: least seconds after which a watch is renewed; the span up to ``longest_watch`` spreads
            the renewals of many reflectors.
        longest_watch: most seconds.
        grace: seconds of silence beyond that, after which the connection counts as dead.
        opening: most seconds until a watch answers at all.
        longest_wait: seconds beyond which a server's ``Retry-After`` is not respected (FW-427).
        page_size: objects per page of a list: what is decoded at a time, and in one step of the event loop.
        backoff: delays after failures.
        min_watch_seconds: seconds; a watch that the server ends sooner, without one event, counts as a failure.
    """

    shortest_watch: int = 240
    longest_watch: int = 300
    grace: float = WATCH_GRACE
    opening: float = 30.0
    longest_wait: float = 30.0
    page_size: int = 100
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.8, cap=30.0))
    min_watch_seconds: float = 1.0


@final
@dataclass(frozen=True, slots=True)
class ReflectorStatistics:
    """A moment of a reflector.

    Attributes:
        state: name of the state.
        resource_version: newest version seen.
        objects: objects in the selection.
        lists: lists completed.
        watches: watches opened.
        events: events taken from watches, bookmarks included.
        failures: errors since the last sign of health.
        last_error: the latest of them; None while healthy. An `ApiError` with code 403 names the permission
            that is missing (FW-403).
    """

    state: str
    resource_version: str
    objects: int
    lists: int
    watches: int
    events: int
    failures: int
    last_error: Exception | None


@final
class Reflector(Generic[T]):
    """The state machine around one list-and-watch; an async context manager and iterator of events.

    Args:
        form: what is kept of an object. The decoded objects of one list of ten thousand take 300 MB, so each gets this
            form at once, when its page arrives.
        optional: a kind that the server does not know has no objects, without a warning; its definition is watched
            instead, so that nothing is asked again and again (RC-150).
    """

    def __init__(
        self,
        client: KubeClient,
        kind: KindName,
        form: Callable[[JsonObject], T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        optional: bool = False,
        settings: ReflectorSettings | None = None,
        randomness: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._kind = kind
        self._form = form
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._optional = optional
        self._undefined = self._awaits_definition = False
        self._settings = settings or ReflectorSettings()
        self._random = randomness or random.Random()
        self._sleep = sleep
        self._state: State[T] = Empty(ListFrom.STORE)
        self._known = KnownVersions(kind)
        self._floor = ""
        self._pending: deque[Event[T]] = deque()
        self._watch = AsyncExitStack()
        self._stream: AsyncIterator[WatchEvent] | None = None
        self._receiving: asyncio.Task[WatchEvent | None] | None = None
        self._comparing: asyncio.Task[_Compared[T]] | None = None
        self._since: dict[ObjectKey, Item[Upsert[T] | Delete]] = {}
        self._wakeup: asyncio.Future[None] | None = None
        self._watch_opened = 0.0
        self._watch_events = 0
        self._relist_wanted: ListFrom | None = None
        self._relist_under_way: ListFrom | None = None
        self._delay = 0.0
        self._lists = self._watches = self._events = self._failures = 0
        self._last_error: Exception | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._end_comparison()
        finally:
            await self._close_watch()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event[T]:
        while not self._pending:
            self._pending.extend(await self.step())
        return self._pending.popleft()

    def relist(self, source: ListFrom = ListFrom.FLOOR) -> None:
        """Ask for a comparison with the server: by default a list not older than anything seen, yielded as `Restarted`.

        The watch goes on until the list is there, and then continues from it. Changes between the two are folded into
        it, as in any list. Returns at once, and ends any pause between two attempts; several requests before the list
        starts are one, from the store if any asked for that.
        """
        if self._relist_wanted is not ListFrom.STORE:
            self._relist_wanted = source
        self._stir()

    def statistics(self) -> ReflectorStatistics:
        """Current numbers."""
        return ReflectorStatistics(
            type(self._state).__name__,
            self._floor,
            len(self._known),
            self._lists,
            self._watches,
            self._events,
            self._failures,
            self._last_error,
        )

    async def step(self) -> tuple[Event[T], ...]:
        """Make one transition and report what it brought; a transition that failed is only delayed, not lost."""
        if self._delay:
            delay, self._delay = self._delay, 0.0
            if not self._is_list_due():
                await self._pause(delay)
        try:
            return await self._transition()
        except (KubeError, ValueError) as error:
            await self._close_watch()
            if self._is_undefined(error) and isinstance(self._state, Ready):
                # The definition went away below the watch: the list finds that there is nothing left.
                self._state = Empty(ListFrom.STORE)
                return ()
            self._state = after_failure(self._state, error)
            self._failed(error)
            return ()

    async def _transition(self) -> tuple[Event[T], ...]:
        if isinstance(self._state, Empty | Listing):
            # The list to come is as good as one beside would be; what else was wished for is not forgotten.
            await self._end_comparison()
        elif self._comparing is None and self._relist_wanted is not None:
            self._comparing = asyncio.create_task(self._compare())
            self._comparing.add_done_callback(lambda _: self._stir())
        elif self._comparing is not None and self._comparing.done():
            return await self._compared(self._comparing.result())
        match self._state:
            case Empty() | Listing() as state:
                return await self._list(state)
            case Ready(version):
                return await self._open(version)
            case Watching():
                return await self._read()

    # Waiting

    def _stir(self) -> None:
        """End every wait: a list was asked for, or a comparison is complete."""
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    def _stirring(self) -> asyncio.Future[None]:
        if self._wakeup is None or self._wakeup.done():
            self._wakeup = asyncio.get_running_loop().create_future()
        return self._wakeup

    def _is_list_due(self) -> bool:
        """Whether the next step begins a requested list, or takes one in."""
        if self._comparing is None or isinstance(self._state, Empty | Listing):
            return self._relist_wanted is not None
        # A wish beside a comparison is the comparison's; without a pause the watch would be tried again in a circle.
        return self._comparing.done()

    async def _pause(self, seconds: float) -> None:
        """Wait between two attempts, unless a wish comes."""
        sleeping = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait((sleeping, self._stirring()), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()

    def _delay_after(self, failures: int, error: Exception) -> float:
        asked = error.retry_after if isinstance(error, ApiError) else None
        # The server's word counts, but not for any length: changes go unseen meanwhile.
        return max(self._settings.backoff.delay(failures, self._random), min(asked or 0.0, self._settings.longest_wait))

    # Lists

    def _fulfilled(self, state: Empty) -> Empty:
        """Fold what was wished for into a list that is about to begin; a wish that comes later wants a later list."""
        wanted, self._relist_wanted = self._relist_wanted, None
        return Empty(ListFrom.STORE) if wanted is ListFrom.STORE else state

    async def _compare(self) -> "_Compared[T]":
        """List beside the watch, however often it takes."""
        state: Empty | Listing[T] = Empty(ListFrom.FLOOR)
        failures, floor = 0, self._floor
        while True:
            if isinstance(state, Empty):
                state, floor = self._fulfilled(state), self._floor
                self._relist_under_way = state.source
                # What the watch brought before lies at or below the floor, which the list is not older than.
                self._since.clear()
            try:
                following = after_page(state, await self._page(state))
            except (KubeError, ValueError) as error:
                failures += 1
                state = after_failed_page(state, error)
                delay = self._delay_after(failures, error)
                self._log_failure(error, failures, delay)
                if self._relist_wanted is None:
                    await self._pause(delay)
                continue
            if isinstance(following, ListComplete):
                return _Compared(following, floor)
            state = following

    async def _compared(self, compared: "_Compared[T]") -> tuple[Event[T], ...]:
        """The list beside the watch is there: only now does the watch give way to one that follows the list."""
        self._comparing = self._relist_under_way = None
        await self._close_watch()
        listed, floor = compared
        # A store that went back knows nothing of what the watch brought.
        if not is_older(listed.resource_version, floor):
            listed = merged(listed, self._since.values())
        self._since.clear()
        return self._restart(listed, floor)

    async def _end_comparison(self) -> None:
        comparing, self._comparing = self._comparing, None
        await _end(comparing)
        self._since.clear()
        unfulfilled, self._relist_under_way = self._relist_under_way, None
        if unfulfilled is ListFrom.STORE:
            # The list that comes instead may have begun before the request, or come from a cache.
            self._relist_wanted = unfulfilled

    async def _list(self, state: Empty | Listing[T]) -> tuple[Event[T], ...]:
        if isinstance(state, Empty):
            self._state = state = self._fulfilled(state)
        following = after_page(state, await self._page(state))
        if isinstance(following, Listing):
            self._state = following
            return ()
        return self._restart(following, self._floor)

    async def _page(self, state: Empty | Listing[T]) -> Page[T]:
        if isinstance(state, Empty):
            version, match = list_query(state.source, self._floor)
            token = ""
        else:
            version, match, token = None, None, state.continue_token
        try:
            page = await self._client.list_in_form(
                self._kind,
                lambda obj: Item(self._known.identity_of(obj), self._form(obj)),
                self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                resource_version=version,
                match=match,
                limit=self._settings.page_size,
                continue_token=token,
            )
        except ApiError as error:
            if not self._is_undefined(error):
                raise
            return await self._nothing(error)
        self._undefined = False
        return Page(page.items, page.resource_version, page.continue_token)

    def _is_undefined(self, error: Exception) -> bool:
        return self._optional and isinstance(error, ApiError) and error.is_not_found

    async def _nothing(self, error: ApiError) -> Page[T]:
        """The list of a kind that has no definition, at a version from which the definition can be watched."""
        defined = await self._client.list(DEFINITION, field_selector=self._definition)
        if defined.items:
            # It was made a moment ago and is not served yet, which no event of a later version would tell.
            raise error
        self._undefined = True
        return Page((), defined.resource_version, "")

    @property
    def _definition(self) -> str:
        return f"metadata.name={self._kind.resource}"

    def _restart(self, listed: ListComplete[T], floor: str) -> tuple[Event[T], ...]:
        rewound = is_older(listed.resource_version, floor)
        deleted = self._known.replace(listed)
        self._lists += 1
        self._floor = listed.resource_version
        self._state = Ready(listed.resource_version)
        return (*deleted, listed.restarted(rewound=rewound))

    # Watches

    async def _open(self, version: str) -> tuple[Event[T], ...]:
        seconds = self._random.randint(self._settings.shortest_watch, self._settings.longest_watch)
        self._awaits_definition = self._undefined
        watch = self._client.watch(
            DEFINITION if self._undefined else self._kind,
            None if self._undefined else self._namespace,
            resource_version=version,
            label_selector="" if self._undefined else self._label_selector,
            field_selector=self._definition if self._undefined else self._field_selector,
            timeout_seconds=seconds,
            grace=self._settings.grace,
        )
        try:
            async with asyncio.timeout(self._settings.opening):
                self._stream = await self._watch.enter_async_context(watch)
        except TimeoutError as error:
            raise KubeError(f"watch {self._kind.resource}: not opened within {self._settings.opening:g} s") from error
        self._watches += 1
        self._watch_opened, self._watch_events = time.monotonic(), 0
        self._state = Watching(version)
        return ()

    async def _read(self) -> tuple[Event[T], ...]:
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._receive())
        await asyncio.wait((self._receiving, self._stirring()), return_when=asyncio.FIRST_COMPLETED)
        if not self._receiving.done():
            return ()
        receiving, self._receiving = self._receiving, None
        received = receiving.result()
        if received is None:
            await self._end_of_watch()
            return ()
        if self._awaits_definition and received.type is not WatchEventType.BOOKMARK:
            await self._close_watch()
            self._state = Empty(ListFrom.STORE)
            return ()
        event = self._formed(self._known.take(received))
        self._events += 1
        self._watch_events += 1
        self._failures, self._last_error = 0, None
        self._floor = event.resource_version
        self._state = Watching(event.resource_version)
        if self._comparing is not None and not isinstance(event, Bookmark):
            self._remember(Identity.of(received.object), event)
        return (event,)

    def _formed(self, event: Upsert[JsonObject] | Delete | Bookmark) -> Upsert[T] | Delete | Bookmark:
        return Upsert(self._form(event.obj), event.resource_version) if isinstance(event, Upsert) else event

    async def _receive(self) -> WatchEvent | None:
        assert self._stream is not None
        return await anext(self._stream, None)

    def _remember(self, identity: Identity, event: Upsert[T] | Delete) -> None:
        """Keep an event for the list that is under way; of each object the last one, in the order of the last ones."""
        self._since.pop(identity.key, None)
        self._since[identity.key] = Item(identity, event)

    async def _close_watch(self) -> None:
        receiving, self._receiving = self._receiving, None
        try:
            # A generator in which a task waits cannot be closed.
            await _end(receiving)
        finally:
            await self._watch.aclose()

    async def _end_of_watch(self) -> None:
        await self._close_watch()
        self._state = Ready(self._floor)
        lived = time.monotonic() - self._watch_opened
        if self._watch_events == 0 and lived < self._settings.min_watch_seconds:
            self._failed(KubeError(f"watch {self._kind.resource}: ended by the server after {lived:.3f} s"))
        else:
            self._failures, self._last_error = 0, None

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._last_error = error
        # Expiry is in the nature of watches. The first one costs nothing but a list; only a series is an illness.
        at_once = self._failures == 1 and isinstance(error, ApiError) and error.is_expired
        self._delay = 0.0 if at_once else self._delay_after(self._failures, error)
        self._log_failure(error, self._failures, self._delay)

    def _log_failure(self, error: Exception, failures: int, delay: float) -> None:
        _log.warning(
            "list or watch failed; retrying",
            resource=self._kind.resource,
            error=str(error),
            failures=failures,
            beside_a_watch=isinstance(self._state, Watching),
            retry_in_seconds=round(delay, 1),
        )


class _Compared(NamedTuple, Generic[T]):
    """A list that was fetched beside a watch, and where the watch was when it was asked for."""

    listed: ListComplete[T]
    floor: str


async def _end(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and wait for its end, whatever that is, also when this is cancelled meanwhile."""
    if task is None:
        return
    task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
