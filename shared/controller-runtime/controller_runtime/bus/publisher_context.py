"""What a publisher is made of, and what of it outlives its sessions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from controller_runtime.bus.envelope import StateMessage
from controller_runtime.bus.intake import Intake
from controller_runtime.bus.logbook import NEVER_READ, Logbook
from controller_runtime.bus.marker_writer import MarkerWriter
from controller_runtime.bus.part import Part
from controller_runtime.bus.publisher_state import Phase, PublisherSetup
from controller_runtime.bus.pump import Unwritable
from controller_runtime.bus.scoping import Scoping
from controller_runtime.bus.writer import Writer


@dataclass(slots=True)
class Progress:
    """What has come of a publisher so far.

    Attributes:
        sessions: begun.
        withheld: why the part is not being vouched for; ``None`` while all is well.
        swept: tombstones removed.
        differences: repairs of the last comparison.
        repaired: repairs in all.
        forgotten_seen: objects that had been forgotten when the last comparison was made.
        logbook: what the last comparison saw of the history; nothing while what it found there was not dealt with.
        read_in: session of the connection in which the last comparison was made.
    """

    phase: Phase = Phase.WAITING
    sessions: int = 0
    withheld: str | None = None
    swept: int = 0
    differences: int = 0
    repaired: int = 0
    forgotten_seen: int = 0
    logbook: Logbook = NEVER_READ
    read_in: int = 0


@dataclass(frozen=True, slots=True)
class PublisherContext:
    """What the sessions of a publisher have in common.

    Attributes:
        service: for facts, which service's.
        loaded: told of all messages found in the stream when a session begins, once all were read.
    """

    setup: PublisherSetup
    part: Part[Any]
    service: str
    loaded: Callable[[Sequence[StateMessage]], None] | None
    intake: Intake
    scoping: Scoping
    writer: Writer
    markers: MarkerWriter
    unwritable: Unwritable
    progress: Progress
