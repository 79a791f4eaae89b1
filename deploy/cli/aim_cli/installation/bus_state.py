"""What the broker holds of an installation: parts, epochs, streams (``aim bus``, ``aim doctor``; FW-611)."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_cli.answer import Answer, columns
from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.targets import HERE, Where
from aim_cli.errors import Exit
from aim_cli.log.connecting import broker, layout
from aim_cli.log.targets import LOGGED
from aim_cli.units import format_size
from aim_domain.services import SERVICES
from controller_runtime import MOST_SHARDS
from controller_runtime.log import (
    CHECKPOINT_INTERVAL,
    FACTS_PART,
    STREAM_NOT_FOUND,
    BusApiError,
    BusConnection,
    Checkpoint,
    Contents,
    EnvelopeError,
    History,
    StreamFault,
    StreamLimits,
    chosen_limits,
    decode_checkpoint,
    epoch_time,
    facts_part_name,
    last_message,
    stream_configs,
    stream_fault,
)

STALE: Final = 3 * CHECKPOINT_INTERVAL
"""Seconds after which a checkpoint is late: two of them were left out."""


@dataclass(frozen=True, slots=True)
class PartState:
    """One part, as its publisher reported last.

    Attributes:
        checkpoint: ``None`` where none was ever written.
        age: seconds since it was, by the broker's clock.
        optional: the cluster need not know the kind.
    """

    name: str
    checkpoint: Checkpoint | None
    age: float
    optional: bool = False

    @property
    def late(self) -> bool:
        """Whether its publisher is silent."""
        return self.checkpoint is None or self.age > STALE


@dataclass(frozen=True, slots=True)
class StreamState:
    """One stream; ``held`` is ``None`` where it does not exist.

    Attributes:
        fault: what another client changed of its configuration; limits are the operator's (FW-768).
    """

    name: str
    held: Contents | None
    limit: int
    replicas: int
    lag: int
    fault: StreamFault | None = None


@dataclass(frozen=True, slots=True)
class BusState:
    """Everything.

    Attributes:
        holes: of each part, how many places its history is not whole at, and of how many objects; empty if not asked.
    """

    parts: tuple[PartState, ...]
    streams: tuple[StreamState, ...]
    now: datetime
    holes: tuple[tuple[str, int, int], ...] = ()


async def bus_state(nats_url: str, *, holes: bool = False, where: Where = HERE) -> BusState:
    """Ask the broker.

    Args:
        where: the cluster whose broker a remedy names.

    Raises:
        UnreachableError: it does not answer.
    """
    async with broker(nats_url, where=where) as connection:
        names = layout()
        streams = await stream_states(connection)
        now = next((one.held.now for one in streams if one.held is not None), datetime.now().astimezone())
        if streams[0].held is None:
            return BusState((), tuple(streams), now)
        parts = [await _part(connection, part.name, "", now, optional=part.optional) for part in LOGGED]
        for service in SERVICES:
            parts += await _facts(connection, service, now)
        found = await history_holes(History(connection, names)) if holes else ()
        return BusState(tuple(parts), tuple(streams), now, found)


async def stream_states(connection: BusConnection) -> list[StreamState]:
    """How full each stream is; a few requests, however many messages there are."""
    return [await _stream(connection, wanted) for wanted in stream_configs(layout(), StreamLimits())]


async def _stream(connection: BusConnection, wanted: JsonObject) -> StreamState:
    name = str(wanted["name"])
    try:
        info = await connection.api(f"STREAM.INFO.{name}")
    except BusApiError as error:
        if error.code != STREAM_NOT_FOUND:
            raise
        return StreamState(name, None, 0, 0, 0)
    listed = await connection.api(f"CONSUMER.LIST.{name}", {"offset": 0})
    lag = max((int(one.get("num_pending") or 0) for one in listed.get("consumers") or ()), default=0)
    config = info["config"]
    limit, replicas = int(config.get("max_bytes") or -1), int(config.get("num_replicas") or 1)
    # Of the limits the command does not know what the services were given.
    fault = stream_fault(config, wanted, chosen_limits(name, layout()))
    return StreamState(name, Contents.of(info), limit, replicas, lag, fault)


async def _part(
    connection: BusConnection, name: str, service: str, now: datetime, *, optional: bool = False
) -> PartState:
    shown = f"{name}/{service}" if service else name
    message = await last_message(connection, layout().state_stream, layout().sync(name, service))
    if message is None:
        return PartState(shown, None, 0, optional)
    try:
        checkpoint = decode_checkpoint(message.data)
    except EnvelopeError:
        return PartState(shown, None, 0, optional)
    return PartState(shown, checkpoint, max(0.0, (now - message.stored).total_seconds()), optional)


async def _facts(connection: BusConnection, service: str, now: datetime) -> list[PartState]:
    """The facts of a service, and those of its shards (FW-894)."""
    filtered = {"subjects_filter": layout().sync("*", service)}
    info = await connection.api(f"STREAM.INFO.{layout().state_stream}", filtered)
    written = info["state"].get("subjects") or {}
    names = (facts_part_name(shard) for shard in range(1, MOST_SHARDS))
    divided = [await _part(connection, name, service, now) for name in names if layout().sync(name, service) in written]
    # One that is silent may be of a former number of shards; who leads each shard now, Leases tell.
    return [await _part(connection, FACTS_PART, service, now), *(one for one in divided if not one.late)]


async def history_holes(history: History) -> tuple[tuple[str, int, int], ...]:
    """As `BusState.holes`; reads the whole history."""
    found: list[tuple[str, int, int]] = []
    for part in LOGGED:
        chains = await history.chains((part.name, key) for key in await history.keys((part.name, "")))
        # What was dropped by age at the beginning is stated by the stream; a hole is what lies between.
        counts = Counter(
            key for (_, key), chain in chains.items() for one in chain.versions[1:] if one.hole is not None
        )
        if counts:
            found.append((part.name, counts.total(), len(counts)))
    return tuple(found)


def answer(state: BusState) -> Answer:
    """As data and as lines; needs attention if a stream is missing or changed, or a publisher silent."""
    late = [one for one in state.parts if one.checkpoint is not None and one.late]
    missing = [one for one in state.streams if one.held is None]
    changed = [one.fault for one in state.streams if one.fault is not None]
    lines = (
        *map(str, changed),
        *(f"there is no stream {one.name}: no service has ever been connected" for one in missing),
        *columns(("PART", "OBJECTS", "MARKER", "EPOCH SINCE", "PUBLISHER"), map(_part_row, state.parts)),
        *columns(
            ("STREAM", "MESSAGES", "SIZE", "LIMIT", "REPLICAS", "LAG", "COMPLETE SINCE"),
            map(stream_row, state.streams),
        ),
        *(f"holes in {part}: {count} in the histories of {objects} objects" for part, count, objects in state.holes),
    )
    code = Exit.FOUND if late or missing or changed else Exit.WELL
    return Answer(_data(state), lines, code)


def _part_row(one: PartState) -> tuple[str, ...]:
    if one.checkpoint is None:
        return one.name, "", "none", "", ""
    reported = "late: " if one.late else ""
    objects = "?" if one.checkpoint.objects < 0 else str(one.checkpoint.objects)
    since = f"{epoch_time(one.checkpoint.epoch):%Y-%m-%d %H:%M:%S}"
    return one.name, objects, f"{reported}{one.age:.0f}s ago", since, one.checkpoint.source


def stream_row(one: StreamState) -> tuple[str, ...]:
    """A stream in words: name, messages, size, limit, replicas, lag, since when it is complete."""
    if one.held is None:
        return one.name, "", "", "", "", "", "missing"
    limit = format_size(one.limit) if one.limit > 0 else "none"
    since = "the beginning" if one.held.complete_since is None else f"{one.held.complete_since:%Y-%m-%d %H:%M:%S}"
    if one.name == layout().state_stream:
        # It holds the present alone.
        since = ""
    return one.name, str(one.held.messages), format_size(one.held.size), limit, str(one.replicas), str(one.lag), since


def _data(state: BusState) -> JsonObject:
    return {
        "parts": [
            {
                "part": one.name,
                "objects": None if one.checkpoint is None or one.checkpoint.objects < 0 else one.checkpoint.objects,
                "markerAgeSeconds": None if one.checkpoint is None else round(one.age, 1),
                "epoch": "" if one.checkpoint is None else one.checkpoint.epoch,
                "publisher": "" if one.checkpoint is None else one.checkpoint.source,
                "late": one.late,
            }
            for one in state.parts
        ],
        "streams": [
            {
                "stream": one.name,
                "exists": one.held is not None,
                "messages": 0 if one.held is None else one.held.messages,
                "bytes": 0 if one.held is None else one.held.size,
                "limit": one.limit,
                "replicas": one.replicas,
                "lag": one.lag,
                "changed": "" if one.fault is None else one.fault.cause,
            }
            for one in state.streams
        ],
        "holes": [{"part": part, "holes": count, "objects": objects} for part, count, objects in state.holes],
    }
