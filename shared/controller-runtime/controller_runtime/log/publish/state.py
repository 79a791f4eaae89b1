"""How a publisher is set up, what it reports of itself, how its sessions end, and how it removes old tombstones."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Final

from controller_runtime.kube.guard import WriteGuard, unguarded
from controller_runtime.log.broker.address import BusApiError, BusUnavailableError
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.reading import delete_message, message_at
from controller_runtime.log.broker.streams import StreamLimits
from controller_runtime.log.publish.checkpoint import CHECKPOINT_INTERVAL
from controller_runtime.log.publish.judgement import StoredVersion
from controller_runtime.log.wire.part import Key
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT, Layout
from controller_runtime.log.wire.version import CROWDED_SECONDS, MOST_DELETIONS


class InterruptedSessionError(Exception):
    """Writing cannot go on for now; what was not acknowledged is looked at again in the next session."""


class Alarm:
    """Ends the sessions of all publishers of a process at once, for example when a stream was changed (FW-767)."""

    def __init__(self) -> None:
        self._raised = asyncio.Event()
        self._cause = ""

    def sound(self, cause: str) -> None:
        """End the sessions of this moment; those that begin later are not concerned."""
        self._cause = cause
        self._raised.set()
        self._raised = asyncio.Event()

    async def wait(self) -> str:
        """Why, once it sounds."""
        await self._raised.wait()
        return self._cause


@contextmanager
def interrupting() -> Iterator[None]:
    """What the broker does not answer, or refuses, ends the session and not the process."""
    try:
        yield
    except (BusUnavailableError, BusApiError) as error:
        raise InterruptedSessionError(str(error)) from error


TOMBSTONE_AGE: Final = timedelta(hours=1)
"""How long a tombstone stays; caches remember deletions as long."""

CROWDED_AGE: Final = timedelta(seconds=CROWDED_SECONDS)
"""How long those stay that are too many: the oldest beyond `MOST_DELETIONS`. Caches do the same."""


def tombstones(stored: Mapping[Key, StoredVersion]) -> list[tuple[Key, StoredVersion]]:
    """What a sweep has to look at, the oldest first."""
    return sorted(((key, held) for key, held in stored.items() if held.deleted), key=lambda found: found[1].sequence)


class Swept(Enum):
    """The end of a tombstone."""

    REMOVED = "removed"
    GONE = "another client removed it"
    YOUNG = "it stays, and so do all later ones"


async def sweep(connection: BusConnection, stream: str, held: StoredVersion, *, now: datetime, age: timedelta) -> Swept:
    """Remove a tombstone if it is old enough.

    Args:
        now: the broker's clock, as are the times of the messages.

    Raises:
        BusUnavailableError: no answer.
        BusApiError: the broker refused.
    """
    stored = held.stored
    if stored is None:
        message = await message_at(connection, stream, held.sequence)
        if message is None:
            return Swept.GONE
        stored = message.stored
    if now - stored < age:
        return Swept.YOUNG
    return Swept.REMOVED if await delete_message(connection, stream, held.sequence) else Swept.GONE


class SupersededError(Exception):
    """Another process publishes this part; this one must stop, or prove again that it leads."""


class Phase(StrEnum):
    """Where a publisher stands."""

    WAITING = "waiting"
    """For the broker or the Lease."""
    LOADING = "loading"
    """Reads the streams and compares."""
    LIVE = "live"
    """Publishes what the watch brings."""


@dataclass(frozen=True, slots=True)
class PublisherSettings:
    """Times and sizes; seconds where not said otherwise.

    Attributes:
        concurrency: objects that are published at the same time.
        compare_interval: between comparisons with Kubernetes; varied by a fifth.
        tombstones: how many may reach the age of `tombstone_age`; the oldest beyond go at `crowded_age`.
        watch_silence: how long the watch may bring nothing, not even a bookmark (which come every minute), before the
            checkpoint is withheld until a new list proves that the API server still answers.
        list_grace: how long to wait for a list that is older than what the stream holds to catch up, before the store
            itself is asked.
        governs: whether this process creates and repairs the streams (FW-766).
    """

    checkpoint_interval: float = CHECKPOINT_INTERVAL
    compare_interval: float = 600.0
    sweep_interval: float = 60.0
    tombstone_age: timedelta = TOMBSTONE_AGE
    tombstones: int = MOST_DELETIONS
    crowded_age: timedelta = CROWDED_AGE
    watch_silence: float = 75.0
    list_grace: float = 5.0
    concurrency: int = 64
    limits: StreamLimits = field(default_factory=StreamLimits)
    governs: bool = True


DEFAULT_SETTINGS: Final = PublisherSettings()


@dataclass(frozen=True, slots=True)
class PublisherSetup:
    """What all publishers of a process have in common.

    Attributes:
        source: name of the process.
        cluster: UID of kube-system; empty if it is not to be checked.
        guard: asked before every write.
        alarm: sounds when a stream was found changed.
    """

    connection: BusConnection
    source: str
    cluster: str = ""
    layout: Layout = DEFAULT_LAYOUT
    guard: WriteGuard = unguarded
    settings: PublisherSettings = DEFAULT_SETTINGS
    alarm: Alarm = field(default_factory=Alarm)


@dataclass(frozen=True, slots=True)
class PublisherStatistics:
    """A moment of a publisher, for metrics.

    Attributes:
        waiting: versions under way.
        dropped: versions that newer ones replaced before they were published.
        stale: versions not written because the stream held a newer one.
        rereads: outcomes that had to be looked up.
        copied: present versions that the history lacked.
        differences: repairs that the last comparison brought.
        repaired: repairs in all.
        checkpoints: checkpoints written.
        swept: tombstones removed.
        lag_seconds: how long the oldest version waits.
        finished: versions dealt with, and the seconds that they took in all.
        interrupted_by: why the part is not being confirmed; ``None`` while all is well.
    """

    phase: Phase
    epoch: str
    objects: int
    waiting: int
    published: int
    dropped: int
    stale: int
    refused: int
    rereads: int
    copied: int
    sessions: int
    differences: int
    repaired: int
    checkpoints: int
    swept: int
    lag_seconds: float
    finished: tuple[int, float]
    interrupted_by: str | None
