"""What the streams hold of a part, as a publisher takes note of it when a session begins."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from controller_runtime.bus.envelope import Logged, StateMessage
from controller_runtime.bus.judgement import Stored
from controller_runtime.bus.logbook import NEVER_READ, Logbook
from controller_runtime.bus.part import Key
from controller_runtime.bus.publisher_context import PublisherContext
from controller_runtime.bus.snapshot import read_logged, read_present
from controller_runtime.bus.stored import StoredMessage, stream_state


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


async def read_streams(context: PublisherContext, connection_session: int, state_created: str) -> Found:
    """Take note of what the streams hold; nothing is written, as the part may be somebody else's.

    In place: what is as it was known stays the same object. Until the reading comes to its end, what is known may
    be partly old; whatever ends it before, the next session believes none of it and reads the history as well.
    """
    stored, progress = context.writer.stored, context.progress
    connection, layout, part = context.setup.connection, context.setup.layout, context.part.name
    everything = layout.log_filter(part, context.service)
    history = await stream_state(connection, layout.history_stream, everything)
    logbook, progress.logbook = progress.logbook, NEVER_READ
    counts = logbook.counts(connection_session, history) and context.scoping.stream_created == state_created
    found, unlogged, seen = Found(logbook), dict[str, _Present](), set[Key]()

    def take(key: Key, message: StoredMessage) -> None:
        state = context.writer.read(key, message)
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
    known = counts and context.loaded is None
    found.foreign = await read_present(
        context.setup.connection, layout, part, context.service, take, headers_only=known
    )
    stored.keep(seen)
    if not counts:
        # The broker takes into memory what it looks through: everything only where nearly everything is wanted.
        wanted = (everything,) if 2 * len(unlogged) > history.messages else tuple(unlogged)
        oldest = await _read_history(context, wanted, unlogged, history.last_sequence + 1)
        found.logbook = Logbook(connection_session, history.created, history.deleted, oldest, history.last_sequence)
    found.logbook = found.logbook.at(history)
    found.unlogged += [one.key for one in unlogged.values()]
    return found


async def _read_history(
    context: PublisherContext, subjects: Sequence[str], unlogged: dict[str, _Present], oldest: int
) -> int:
    """Take out what the history has; returns where its oldest of that lies. What was logged since `read_present`
    is left, and looked up before it is copied."""
    stored = context.writer.stored

    def take(subject: str, sequence: int, logged: Logged) -> None:
        nonlocal oldest
        present = unlogged.get(subject)
        at = None if present is None else logged.holds(present, present.sequence)
        if present is not None and at is not None:
            del unlogged[subject]
            held = stored[present.key]
            if held.logged != at:
                stored[present.key] = replace(held, logged=at)
            oldest = min(oldest, sequence)

    await read_logged(context.setup.connection, context.setup.layout, subjects, take)
    return oldest
