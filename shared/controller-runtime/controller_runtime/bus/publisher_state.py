"""How a publisher is set up, what it tells of itself, and how it ends."""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

from controller_runtime.bus.connection import BusConnection
from controller_runtime.bus.deleted import MOST_DELETIONS
from controller_runtime.bus.interruption import Alarm
from controller_runtime.bus.marker import MARKER_INTERVAL
from controller_runtime.bus.streams import StreamLimits
from controller_runtime.bus.subjects import DEFAULT_LAYOUT, Layout
from controller_runtime.bus.sweep import CROWDED_AGE, TOMBSTONE_AGE
from controller_runtime.kube.guard import WriteGuard, unguarded


class SupersededError(Exception):
    """Another process publishes this part; this one must stop, or prove anew that it leads."""


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
            marker is withheld until a new list proves that the API server still answers.
        list_grace: how long to wait for a list that is older than what the stream holds to catch up, before the store
            itself is asked.
        governs: whether this process creates and repairs the streams (FW-766).
    """

    marker_interval: float = MARKER_INTERVAL
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
        markers: markers written.
        swept: tombstones removed.
        lag_seconds: how long the oldest version waits.
        finished: versions dealt with, and the seconds that they took in all.
        interrupted_by: why the part is not being vouched for; ``None`` while all is well.
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
    markers: int
    swept: int
    lag_seconds: float
    finished: tuple[int, float]
    interrupted_by: str | None
