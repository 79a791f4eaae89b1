"""List and watch one selection of one kind, for ever, without losing a change.

Usage::

    async with Reflector(client, kind, label_selector="…") as events:
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
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self, final

import structlog

from aim_shared.kube.backoff import Backoff
from aim_shared.kube.client import WATCH_GRACE, KubeClient, WatchEvent
from aim_shared.kube.errors import ApiError, KubeError
from aim_shared.kube.kinds import ResourceKind, resource_name
from aim_shared.kube.reflector_state import (
    Bookmark,
    Delete,
    Empty,
    Event,
    Known,
    ListFrom,
    Listing,
    Ready,
    Restarted,
    State,
    Upsert,
    Watching,
    after_failure,
    after_page,
    is_older,
    list_query,
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
]

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
        page_size: objects per page of a list, where the server pages.
        backoff: delays after failures.
        hasty: seconds; a watch that the server ends sooner, without one event, counts as a failure.
    """

    shortest_watch: int = 240
    longest_watch: int = 300
    grace: float = WATCH_GRACE
    page_size: int = 500
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.8, cap=30.0))
    hasty: float = 1.0


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
class Reflector:
    """The state machine around one list-and-watch; an async context manager and iterator of events."""

    def __init__(
        self,
        client: KubeClient,
        kind: ResourceKind,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        settings: ReflectorSettings | None = None,
        randomness: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._settings = settings or ReflectorSettings()
        self._random = randomness or random.Random()
        self._sleep = sleep
        self._state: State = Empty(ListFrom.CACHE)
        self._known = Known(kind)
        self._floor = ""
        self._pending: deque[Event] = deque()
        self._watch = AsyncExitStack()
        self._stream: AsyncIterator[WatchEvent] | None = None
        self._watch_opened = 0.0
        self._watch_events = 0
        self._interruptible: asyncio.Timeout | None = None
        self._relist_wanted: ListFrom | None = None
        self._delay = 0.0
        self._lists = self._watches = self._events = self._failures = 0
        self._last_error: Exception | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._watch.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._pending:
            self._pending.extend(await self.step())
        return self._pending.popleft()

    def relist(self, source: ListFrom = ListFrom.FLOOR) -> None:
        """Ask for a comparison with the server: by default a list not older than anything seen, told as `Restarted`.

        The watch then continues from that list. Changes between the two are folded into it, as in any list.
        Returns at once; several requests before the list starts are one, from the store if any asked for that.
        """
        if self._relist_wanted is not ListFrom.STORE:
            self._relist_wanted = source
        if self._interruptible is not None:
            self._interruptible.reschedule(asyncio.get_running_loop().time())

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

    async def step(self) -> tuple[Event, ...]:
        """Make one transition and report what it brought; a transition that failed is only delayed, not lost."""
        if self._delay:
            delay, self._delay = self._delay, 0.0
            await self._sleep(delay)
        try:
            return await self._transition()
        except (KubeError, ValueError) as error:
            await self._watch.aclose()
            self._state = after_failure(self._state, error)
            self._failed(error)
            return ()

    async def _transition(self) -> tuple[Event, ...]:
        if self._relist_wanted and isinstance(self._state, Ready | Watching):
            await self._watch.aclose()
            self._state = Empty(self._relist_wanted)
        match self._state:
            case Empty() | Listing() as state:
                return await self._list(state)
            case Ready(version):
                return await self._open(version)
            case Watching():
                return await self._read()

    async def _list(self, state: Empty | Listing) -> tuple[Event, ...]:
        if isinstance(state, Empty):
            # Cleared before the request goes out: a wish that comes later wants a later list.
            if self._relist_wanted is ListFrom.STORE:
                self._state = state = Empty(ListFrom.STORE)
            self._relist_wanted = None
            version, match = list_query(state.source, self._floor)
            token = ""
        else:
            version, match, token = None, None, state.continue_token
        page = await self._client.list(
            self._kind,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version=version,
            match=match,
            limit=self._settings.page_size,
            continue_token=token,
        )
        following = after_page(state, page)
        if isinstance(following, Listing):
            self._state = following
            return ()
        return self._restart(following)

    def _restart(self, listed: Restarted) -> tuple[Event, ...]:
        rewound = is_older(listed.resource_version, self._floor)
        deleted = self._known.replace(listed)
        self._lists += 1
        self._floor = listed.resource_version
        self._state = Ready(listed.resource_version)
        return (*deleted, replace(listed, rewound=rewound))

    async def _open(self, version: str) -> tuple[Event, ...]:
        seconds = self._random.randint(self._settings.shortest_watch, self._settings.longest_watch)
        self._stream = await self._watch.enter_async_context(
            self._client.watch(
                self._kind,
                self._namespace,
                resource_version=version,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                timeout_seconds=seconds,
                grace=self._settings.grace,
            )
        )
        self._watches += 1
        self._watch_opened, self._watch_events = time.monotonic(), 0
        self._state = Watching(version)
        return ()

    async def _read(self) -> tuple[Event, ...]:
        assert self._stream is not None
        try:
            async with asyncio.timeout(None) as self._interruptible:
                received = await anext(self._stream, None)
        except TimeoutError:
            # Only relist() sets this deadline; the next step sees its wish.
            return ()
        finally:
            self._interruptible = None
        if received is None:
            await self._ended()
            return ()
        event = self._known.take(received)
        self._events += 1
        self._watch_events += 1
        self._failures, self._last_error = 0, None
        self._floor = event.resource_version
        self._state = Watching(event.resource_version)
        return (event,)

    async def _ended(self) -> None:
        await self._watch.aclose()
        self._state = Ready(self._floor)
        lived = time.monotonic() - self._watch_opened
        if self._watch_events == 0 and lived < self._settings.hasty:
            self._failed(KubeError(f"watch {resource_name(self._kind)}: ended by the server after {lived:.3f} s"))
        else:
            self._failures, self._last_error = 0, None

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._last_error = error
        # Expiry is in the nature of watches. The first one costs nothing but a list; only a series is an illness.
        if self._failures > 1 or not (isinstance(error, ApiError) and error.is_expired):
            self._delay = self._settings.backoff.delay(self._failures, self._random)
        if isinstance(error, ApiError) and error.retry_after is not None:
            self._delay = max(self._delay, error.retry_after)
        _log.warning(
            "list or watch failed; will retry",
            resource=resource_name(self._kind),
            error=str(error),
            failures=self._failures,
            retry_in_seconds=round(self._delay, 1),
        )
