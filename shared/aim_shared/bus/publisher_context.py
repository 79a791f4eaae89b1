"""What the parts of a publisher work with, and what outlives its sessions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aim_shared.bus.connection import BusConnection
from aim_shared.bus.envelope import StateMessage
from aim_shared.bus.intake import Intake
from aim_shared.bus.marker_writer import MarkerWriter
from aim_shared.bus.part import Part
from aim_shared.bus.publisher_state import PublisherSettings, VouchingState
from aim_shared.bus.pump import Unwritable
from aim_shared.bus.scoping import Scoping
from aim_shared.bus.subjects import Layout
from aim_shared.bus.writer import Writer
from aim_shared.kube.guard import WriteGuard


@dataclass(frozen=True, slots=True)
class PublisherContext:
    """What all sessions of a publisher have in common.

    Attributes:
        service: for facts, which service's.
        guard: asked before every write.
        loaded: told of all messages found in the stream when a session begins, once all were read.
    """

    connection: BusConnection
    part: Part[Any]
    service: str
    layout: Layout
    settings: PublisherSettings
    guard: WriteGuard
    loaded: Callable[[Sequence[StateMessage]], None] | None
    intake: Intake
    scoping: Scoping
    writer: Writer
    markers: MarkerWriter
    unwritable: Unwritable
    vouching: VouchingState
