"""The streams: how they are created, and whether those found are the right ones.

One service governs them: it creates what is missing and repairs what the bus relies on (FW-766). The others only
compare, and have no permission for more, because a user that may update a stream may forge and delete any message of
it. How much is kept is decided by the same service (`keeper`). That every write is synced to disk is a setting of the
server, not of a stream.
"""

from dataclasses import dataclass
from typing import Final

import structlog

from controller_runtime.bus.connection import BusConnection
from controller_runtime.bus.errors import BusApiError
from controller_runtime.bus.stored import STREAM_NOT_FOUND
from controller_runtime.bus.stream_faults import GOVERNOR, LIMITS, StreamFault, fault_of
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
    connection: BusConnection,
    layout: Layout = DEFAULT_LAYOUT,
    limits: StreamLimits = StreamLimits(),
    *,
    governs: bool = True,
) -> None:
    """Create the streams that are missing, and repair those found, except for `LIMITS` (FW-448).

    Safe to call from several processes at once.

    Args:
        governs: whether this process is of the service that governs the streams; else it only looks (FW-766).

    Raises:
        BusUnavailableError: no answer.
        BusApiError: the broker refused, for example for lack of storage or permission.
        StreamMismatchError: a stream breaks what the bus promises, or is missing, and this process cannot change that.
    """
    for config in configs(layout, limits):
        await _ensure(connection, config, chosen_limits(str(config["name"]), layout), governs=governs)


def chosen_limits(stream: str, layout: Layout) -> tuple[str, ...]:
    """The settings of a stream that operators choose; the present has no limits: with one, objects would vanish."""
    return ("num_replicas",) if stream == layout.state_stream else LIMITS


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


async def _ensure(connection: BusConnection, wanted: JsonObject, chosen: tuple[str, ...], *, governs: bool) -> None:
    name = wanted["name"]
    found = await _config_of(connection, name)
    if found is None:
        if not governs:
            raise StreamMismatchError(
                f"stream {name} does not exist: {GOVERNOR}, which creates it, has not done so yet; if this stays: "
                f"kubectl get pods -A -l app.kubernetes.io/component={GOVERNOR}"
            )
        try:
            await connection.api(f"STREAM.CREATE.{name}", wanted)
        except BusApiError as error:
            # Another process was faster, with other settings.
            if error.code != _NAME_IN_USE:
                raise
            return await _ensure(connection, wanted, chosen, governs=governs)
        _log.info("created a stream", stream=name)
        return None
    fault = fault_of(found, wanted, chosen)
    if fault is None:
        return None
    if governs:
        try:
            await repair_stream(connection, found, fault)
        except BusApiError as error:
            # The keeper reports what breaks nothing.
            if fault.is_breaking:
                raise StreamMismatchError(f"{fault}; the broker refuses the repair: {error}") from error
    # What this process has just repaired may have cost messages, which the reading that follows finds.
    if fault.is_breaking and (fault.final or not governs):
        raise StreamMismatchError(str(fault))
    return None


async def repair_stream(connection: BusConnection, found: JsonObject, fault: StreamFault) -> None:
    """Set back what the broker lets a client set back; what it does not stays (`StreamFault.final`).

    Raises:
        BusUnavailableError: no answer.
        BusApiError: the broker refused.
    """
    if not fault.repair:
        return
    _log.warning("repairing the configuration of a stream", stream=fault.stream, found=fault.cause)
    changed = {**found, **fault.repair}
    # A setting that is not wanted at all is left out: null is none for some of them.
    wanted = {key: value for key, value in changed.items() if value is not None}
    await connection.api(f"STREAM.UPDATE.{fault.stream}", wanted)


async def _config_of(connection: BusConnection, name: str) -> JsonObject | None:
    try:
        config: JsonObject = (await connection.api(f"STREAM.INFO.{name}"))["config"]
    except BusApiError as error:
        if error.code == STREAM_NOT_FOUND:
            return None
        raise
    return config
