"""The streams: how they are made, and whether those found are the right ones.

Every service makes what is missing and mends what the bus relies on. How much is kept is decided in one place
(`keeper`): five services that each applied their own setting would take turns in throwing history away.
That every write is synced to disk is a setting of the server, not of a stream.
"""

from dataclasses import dataclass
from typing import Final

import structlog

from controller_runtime.bus.connection import BusConnection
from controller_runtime.bus.errors import BusApiError
from controller_runtime.bus.stored import STREAM_NOT_FOUND
from controller_runtime.bus.subjects import DEFAULT_LAYOUT, Layout
from controller_runtime.json import JsonObject

_log = structlog.get_logger(__name__)

_NANOSECONDS: Final = 1_000_000_000
_NAME_IN_USE: Final = 10058
_NO_LIMIT: Final = -1


class StreamMismatchError(Exception):
    """A stream exists with settings that would break what the bus promises, and cannot be changed."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """What operators may set (settings ``nats_*``).

    Attributes:
        history_age: seconds.
        history_bytes: of the versions, as the broker counts them.
        decisions_age: seconds.
        decisions_bytes: of the decision records, as the broker counts them.
        replicas: copies of each stream in the broker's cluster.
    """

    history_age: float = 7 * 24 * 3600.0
    history_bytes: int = 1 << 30
    decisions_age: float = 7 * 24 * 3600.0
    decisions_bytes: int = 1 << 29
    replicas: int = 1


async def ensure_streams(
    connection: BusConnection, layout: Layout = DEFAULT_LAYOUT, limits: StreamLimits = StreamLimits()
) -> None:
    """Make the streams that are missing, and bring those found in line, except for `LIMITS` (FW-448).

    Safe to call from several processes at once.

    Raises:
        BusUnavailableError: no answer.
        BusApiError: the broker refused, for example for lack of storage or permission.
        StreamMismatchError: a stream of that name is of another nature.
    """
    for config in configs(layout, limits):
        # The present has no limits that anybody could choose: with one, objects would vanish.
        chosen = ("num_replicas",) if config["name"] == layout.state_stream else LIMITS
        await _ensure(connection, config, chosen)


def configs(layout: Layout, limits: StreamLimits) -> tuple[JsonObject, ...]:
    """Every stream as it should be.

    In this order: where decisions still lie in the history, it must give up their subjects before their own stream can
    take them.
    """
    return state_config(layout, limits), history_config(layout, limits), decisions_config(layout, limits)


def state_config(layout: Layout, limits: StreamLimits) -> JsonObject:
    """The present: one message per subject, kept for ever (with a limit, objects that never change would vanish)."""
    return {
        **_common(layout.state_stream, layout.state_subjects, limits),
        "max_msgs_per_subject": 1,
        "max_age": 0,
        "max_bytes": _NO_LIMIT,
    }


def history_config(layout: Layout, limits: StreamLimits) -> JsonObject:
    """The past: every version, as long as age and size allow."""
    return {
        **_common(layout.history_stream, layout.history_subjects, limits),
        "max_msgs_per_subject": _NO_LIMIT,
        "max_age": int(limits.history_age * _NANOSECONDS),
        "max_bytes": limits.history_bytes,
    }


def decisions_config(layout: Layout, limits: StreamLimits) -> JsonObject:
    """The reasons: apart from the versions, so that neither can push the other out (FW-445)."""
    return {
        **_common(layout.decisions_stream, layout.decision_subjects, limits),
        "max_msgs_per_subject": _NO_LIMIT,
        "max_age": int(limits.decisions_age * _NANOSECONDS),
        "max_bytes": limits.decisions_bytes,
    }


def _common(name: str, subjects: tuple[str, ...], limits: StreamLimits) -> JsonObject:
    return {
        "name": name,
        "subjects": list(subjects),
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "num_replicas": limits.replicas,
        "max_msgs": _NO_LIMIT,
        "max_msg_size": _NO_LIMIT,
        "max_consumers": _NO_LIMIT,
        "allow_direct": True,
        "deny_delete": False,
        "deny_purge": False,
        "duplicate_window": 120 * _NANOSECONDS,
    }


LIMITS: Final = ("max_age", "max_bytes", "num_replicas")
"""What only the keeper of the streams changes once they are made."""

_UNCHANGEABLE: Final = ("storage", "retention")


async def _ensure(connection: BusConnection, wanted: JsonObject, chosen: tuple[str, ...]) -> None:
    name = wanted["name"]
    found = await _config_of(connection, name)
    if found is None:
        try:
            await connection.api(f"STREAM.CREATE.{name}", wanted)
        except BusApiError as error:
            # Another process was faster, with other settings.
            if error.code != _NAME_IN_USE:
                raise
            return await _ensure(connection, wanted, chosen)
        _log.info("created a stream", stream=name)
        return None
    differing = {key: value for key, value in differences(found, wanted).items() if key not in chosen}
    if not differing:
        return None
    if wrong := [key for key in _UNCHANGEABLE if key in differing]:
        raise StreamMismatchError(
            f"stream {name} exists with other {', '.join(wrong)} than needed; move it away or use another broker"
        )
    _log.info("changing the configuration of a stream", stream=name, found=differing)
    await connection.api(f"STREAM.UPDATE.{name}", {**found, **{key: wanted[key] for key in differing}})
    return None


def differences(found: JsonObject, wanted: JsonObject) -> JsonObject:
    """The settings of a stream that are not as wanted, with the values found."""
    return {key: found.get(key) for key, value in wanted.items() if not _same(found.get(key), value)}


async def _config_of(connection: BusConnection, name: str) -> JsonObject | None:
    try:
        config: JsonObject = (await connection.api(f"STREAM.INFO.{name}"))["config"]
    except BusApiError as error:
        if error.code == STREAM_NOT_FOUND:
            return None
        raise
    return config


_ABSENT: Final = (None, 0, _NO_LIMIT)


def _same(found: object, wanted: object) -> bool:
    # The server leaves out what is false, zero or without a limit.
    return found == wanted or (found in _ABSENT and wanted in _ABSENT)
