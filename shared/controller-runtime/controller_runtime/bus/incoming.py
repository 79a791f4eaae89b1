"""What a message of the state stream means to a world: a version of an object, a deletion, or a sync marker."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from controller_runtime.bus.delivery import Delivered
from controller_runtime.bus.entry import Entry, Version
from controller_runtime.bus.envelope import EnvelopeError, decode_state
from controller_runtime.bus.marker import Marker, decode_marker
from controller_runtime.bus.part import Key, Part
from controller_runtime.bus.subjects import FACTS_PART, Layout, SubjectError
from controller_runtime.sharing import shared
from controller_runtime.telemetry import tracing

NOT_OURS: Final = (EnvelopeError, SubjectError)
"""What `Decoder.read` raises for a message that no publisher of ours wrote."""


@dataclass(frozen=True, slots=True)
class Marked:
    """The publisher of a part was complete when it wrote this marker."""

    part: Part[Any]
    marker: Marker


@dataclass(frozen=True, slots=True)
class Deletion:
    """A tombstone."""

    part: Part[Any]
    key: Key
    version: Version


Incoming = Entry[Any] | Deletion | Marked


class Decoder:
    """Reads the messages of the parts that one service consumes."""

    def __init__(self, layout: Layout, parts: Iterable[Part[Any]], service: str) -> None:
        self._layout = layout
        self._parts = {part.name: part for part in parts}
        self._service = service
        self._markers = {layout.sync(name, self._owner(name)): part for name, part in self._parts.items()}

    @property
    def subjects(self) -> tuple[str, ...]:
        """What to ask the broker for: the parts, of the facts only the service's own, and all their markers."""
        return tuple(subject for part in self._parts.values() for subject in self.subjects_of(part))

    def subjects_of(self, part: Part[Any]) -> tuple[str, ...]:
        """What to ask the broker for to know one part, with its marker."""
        owner = self._owner(part.name)
        return self._layout.state_filter(part.name, owner), self._layout.sync(part.name, owner)

    def place(self, subject: str) -> tuple[Part[Any], Key] | None:
        """The object whose message lies under a subject; ``None`` if none can."""
        try:
            name, key = self._layout.parse_state(subject)
        except SubjectError:
            return None
        part = self._parts.get(name)
        return None if part is None else (part, key)

    def read(self, delivered: Delivered) -> Incoming:
        """What the message says.

        Raises:
            EnvelopeError: header or body make no sense.
            SubjectError: the subject does not.
        """
        message = delivered.message
        marked = self._markers.get(message.subject)
        if marked is not None:
            return Marked(marked, decode_marker(message.data))
        name, key = self._layout.parse_state(message.subject)
        if name not in self._parts:
            raise SubjectError(f"{message.subject!r} belongs to no part that {self._service} consumes")
        return self._version(self._parts[name], key, delivered)

    def _version(self, part: Part[Any], key: Key, delivered: Delivered) -> Incoming:
        state = decode_state(part.name, key, delivered.message.headers, delivered.message.data)
        # What stands for the resource version of a fact has no order: only the stream orders facts.
        version = Version(
            shared(state.uid),
            "" if part.name == FACTS_PART else state.resource_version,
            delivered.position.stream_sequence,
            # One text for all objects instead of one each.
            shared(state.epoch),
            shared(state.era),
        )
        raw = state.object()
        if raw is None:
            return Deletion(part, key, version)
        published = state.time.timestamp() if tracing.is_exporting() else 0.0
        return Entry(part, key, state.body, version, state.traceparent or None, raw=raw, published=published)

    def _owner(self, part: str) -> str:
        return self._service if part == FACTS_PART else ""
