"""What the parts of a publisher work with, and what outlives its sessions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from controller_runtime.bus.connection import BusConnection
from controller_runtime.bus.envelope import StateMessage
from controller_runtime.bus.intake import Intake
from controller_runtime.bus.marker_writer import MarkerWriter
from controller_runtime.bus.part import Part
from controller_runtime.bus.publisher_state import PublisherSettings, VouchingState
from controller_runtime.bus.pump import Unwritable
from controller_runtime.bus.scoping import Scoping
from controller_runtime.bus.subjects import Layout
from controller_runtime.bus.writer import Writer
from controller_runtime.kube.guard import WriteGuard


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
