"""What the streams hold of a part, as a publisher takes note of it when a session begins."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from controller_runtime.bus.envelope import Logged, StateMessage
from controller_runtime.bus.judgement import Stored
from controller_runtime.bus.logbook import NEVER_READ, Logbook, Place
from controller_runtime.bus.marker import Marker
from controller_runtime.bus.part import Key
from controller_runtime.bus.publisher_context import PublisherContext
from controller_runtime.bus.snapshot import read_logged, read_present
from controller_runtime.bus.stored import StoredMessage, StreamState, message_at, stream_state


@dataclass(slots=True)
class Found:
    """What reading the streams brought, besides what the writer has to know.

    Attributes:
        unreadable: sequences of messages of the state stream that nobody can read.
        unlogged: objects whose present version the history may lack. Their bodies are fetched when their turn comes:
            a history that was lost lacks everything.
        told: what was found, where somebody has to be told.
        foreign: messages under the subjects of the part that no publisher wrote.
        logbook: what was seen of the history.
    """

    logbook: Logbook
    unreadable: list[int] = field(default_factory=list)
    unlogged: list[Key] = field(default_factory=list)
    told: list[StateMessage] = field(default_factory=list)
    foreign: int = 0


class _Present(NamedTuple):
    """A present version that was not found in the history yet; see `Link`."""

    key: Key
    sequence: int
    id: str
    epoch: str
    previous: int
    repeats: bool


async def read_streams(
    context: PublisherContext, connection_session: int, state_created: str, marker: Marker | None
) -> Found:
    """Take note of what the streams hold; nothing is written, as the part may be somebody else's.

    In place: what is as it was known stays the same object. Until the reading comes to its end, what is known may
    be partly old; whatever ends it before, the next session believes none of it and reads the history as well.

    Args:
        state_created: when the state stream was made.
        marker: the part's, as it was before this reading.
    """
    stored, progress, writer = context.writer.stored, context.progress, context.writer
    connection, layout, part = context.setup.connection, context.setup.layout, context.part.name
    everything = layout.log_filter(part, context.service)
    history = await stream_state(connection, layout.history_stream, everything)
    logbook, progress.logbook = writer.logged_since(progress.logbook), NEVER_READ
    counts = context.scoping.stream_created == state_created and await _is_there(context, logbook, history)
    found, unlogged, seen = Found(logbook), dict[str, _Present](), set[Key]()

    def take(key: Key, message: StoredMessage) -> None:
        state = writer.read(key, message)
        if state is None:
            found.unreadable.append(message.sequence)
            seen.discard(key)
            return
        seen.add(key)
        before = stored.get(key)
        if not counts or before is None or not before.is_message(state, message.sequence):
            stored[key] = Stored.of(state, message.sequence, message.stored)
            place = state.id, state.epoch, state.previous, state.repeats
            unlogged[layout.log(part, key)] = _Present(key, message.sequence, *place)
        elif before.stored is None:
            stored[key] = replace(before, stored=message.stored)
        if context.loaded is not None:
            found.told.append(state)

    # Of what is known the headers tell that it is still there; what is not is fetched when it is looked up.
    known = counts and progress.read_in == connection_session and context.loaded is None
    found.foreign = await read_present(connection, layout, part, context.service, take, headers_only=known)
    stored.keep(seen)
    if not counts:
        found.logbook = await _told_by(marker, context, state_created, history) or Logbook.of(history)
        writer.begin_log(found.logbook.place)
        if found.logbook.last:
            # Under which sequence it has what only repeats, no marker tells.
            unlogged = {subject: one for subject, one in unlogged.items() if one.repeats}
        oldest = await _read_history(context, everything, unlogged, history)
        found.logbook = replace(found.logbook, oldest=min(found.logbook.oldest, oldest))
    progress.read_in = connection_session
    found.unlogged += [one.key for one in unlogged.values()]
    return found


async def _read_history(
    context: PublisherContext, everything: str, unlogged: dict[str, _Present], history: StreamState
) -> int:
    """Take out what the history has; returns where its oldest of that lies. What was logged since `read_present`
    is left, and looked up before it is copied.

    Args:
        everything: the subjects of the part.
        history: as it was before.
    """
    writer, oldest = context.writer, history.last_sequence + 1
    # The broker takes into memory what it looks through: everything only where nearly everything is wanted.
    subjects = (everything,) if 2 * len(unlogged) > history.messages else tuple(unlogged)

    def take(subject: str, sequence: int, logged: Logged) -> None:
        nonlocal oldest
        present = unlogged.get(subject)
        at = None if present is None else logged.holds(present, present.sequence)
        if present is not None and at is not None:
            del unlogged[subject]
            writer.note_logged(Place(sequence, logged.id))
            held = writer.stored[present.key]
            if held.logged != at:
                writer.stored[present.key] = replace(held, logged=at)
            oldest = min(oldest, sequence)

    await read_logged(context.setup.connection, context.setup.layout, subjects, take)
    return oldest


async def _told_by(
    marker: Marker | None, context: PublisherContext, state_created: str, history: StreamState
) -> Logbook | None:
    """Where the history has all that was found, if the last publisher knew just that, and it is there yet (FW-505)."""
    stored = context.writer.stored
    if marker is None or marker.stream_created != state_created or marker.proof != stored.proof:
        return None
    told, nothing_since = marker.history, all(one.sequence <= marker.state_sequence for one in stored.values())
    if not nothing_since or not await _is_there(context, told, history):
        return None
    return told


async def _is_there(context: PublisherContext, logbook: Logbook, history: StreamState) -> bool:
    """Whether the history still has what was seen in it then."""
    if not logbook.counts(history):
        return False
    if not logbook.last:
        return True
    last = await message_at(context.setup.connection, context.setup.layout.history_stream, logbook.last)
    return last is not None and Logged.of(last.headers).id == logbook.id
