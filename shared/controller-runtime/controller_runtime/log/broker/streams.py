"""The streams: how they are created, and whether those found are the right ones (FW-767, FW-768)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from controller_runtime.json import JsonObject
from controller_runtime.log.broker.address import BusApiError
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.reading import STREAM_NOT_FOUND
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT, Layout

GOVERNOR: Final = "serving"
"""The service that creates and repairs the streams, for messages of the others (FW-448)."""

LIMITS: Final = ("max_age", "max_bytes", "num_replicas")
"""What operators choose by settings of the governing service (FW-448)."""

_FREE: Final = frozenset({"name", "description", "metadata", "placement", "compression", "first_seq"})
"""What an operator may choose at the broker: no message differs by it."""

_BREAKING: Final = frozenset(
    {
        "subjects",
        "storage",
        "retention",
        "discard",
        "discard_new_per_subject",
        "max_msgs",
        "max_bytes",
        "max_age",
        "max_msg_size",
        "max_msgs_per_subject",
        "no_ack",
        "sealed",
        "mirror",
        "sources",
        "republish",
        "subject_transform",
        "subject_delete_marker_ttl",
        "persist_mode",
    }
)
"""What loses, hides or forges messages. The rest is repaired as well, and keeps no part from being confirmed: a
service of a release with other wishes must be able to go on beside this one."""

_FINAL: Final = frozenset(
    {
        "storage",
        "sealed",
        "mirror",
        "deny_delete",
        "deny_purge",
        "allow_msg_ttl",
        "allow_msg_schedules",
        "allow_msg_counter",
        "persist_mode",
    }
)
"""What nats-server sets once and never takes back (2.15)."""

_ABSENT: Final[tuple[object, ...]] = (None, 0, -1, "", [], {}, "default")
"""The server leaves out what is false, zero, empty or without a limit; ``default`` is that of `persist_mode`."""


@dataclass(frozen=True, slots=True)
class StreamFault:
    """A stream that is configured in another way than the bus needs.

    Attributes:
        differing: found and expected value by the name of the setting.
        swept: whether publishers remove messages from it, as from the present.
    """

    stream: str
    differing: Mapping[str, tuple[object, object]]
    swept: bool = False

    @property
    def is_breaking(self) -> bool:
        """Whether the stream may lose, hide or forge messages, so that no part may be confirmed."""
        return bool(_BREAKING & self.differing.keys()) or (self.swept and "deny_delete" in self.differing)

    @property
    def final(self) -> tuple[str, ...]:
        """The settings that the broker does not change back."""
        by_queue = "workqueue" in self.differing.get("retention", ())
        return tuple(key for key in self.differing if key in _FINAL or (key == "retention" and by_queue))

    @property
    def repair(self) -> JsonObject:
        """What the broker changes back, with the expected values; of a sealed stream it changes nothing."""
        if "sealed" in self.differing:
            return {}
        return {key: wanted for key, (_, wanted) in self.differing.items() if key not in self.final}

    @property
    def cause(self) -> str:
        """Each setting with the value found and the one expected."""
        return ", ".join(
            f"{key} is {_formatted(found)}, not {_formatted(wanted)}" for key, (found, wanted) in self._reportable()
        )

    @property
    def remedy(self) -> str:
        """What to do; a command where there is one."""
        if not self.final:
            return (
                f"{GOVERNOR} repairs it; if this stays: kubectl get pods -A -l app.kubernetes.io/component={GOVERNOR}"
            )
        first = "sealed" if "sealed" in self.final else self.final[0]
        return f"the broker never changes {first} back; {GOVERNOR} re-creates the stream after: {self.command}"

    @property
    def command(self) -> str:
        """The command that removes the stream."""
        return f"nats stream rm {self.stream} --force"

    def __str__(self) -> str:
        return f"stream {self.stream} changed: {self.cause}; {self.remedy}"

    def _reportable(self) -> list[tuple[str, tuple[object, object]]]:
        """What is final comes first, and what follows from sealing is left out."""
        implied = {"discard", "deny_delete", "deny_purge"} if "sealed" in self.differing else set()
        shown = [(key, both) for key, both in self.differing.items() if key not in implied]
        return sorted(shown, key=lambda one: one[0] not in _FINAL)


def stream_fault(found: JsonObject, wanted: JsonObject, ignored: Collection[str] = ()) -> StreamFault | None:
    """What is wrong with a stream; ``None`` if nothing.

    Args:
        ignored: settings that are not compared.
    """
    differing = {key: both for key, both in differences(found, wanted).items() if key not in ignored}
    return StreamFault(str(wanted["name"]), differing, wanted["max_msgs_per_subject"] == 1) if differing else None


def differences(found: JsonObject, wanted: JsonObject) -> dict[str, tuple[object, object]]:
    """The settings that are not as wanted, with both values; what is not wanted at all has to be absent."""
    keys = [*wanted, *(key for key in found if key not in wanted and key not in _FREE)]
    both = {key: (found.get(key), wanted.get(key)) for key in keys}
    return {key: values for key, values in both.items() if not _same(*values)}


def _same(found: object, wanted: object) -> bool:
    return found == wanted or (found in _ABSENT and wanted in _ABSENT)


def _formatted(value: object) -> str:
    if value is None:
        return "unset"
    if value == -1:
        return "unlimited"
    return str(value).lower() if isinstance(value, bool) else str(value)


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
    for config in stream_configs(layout, limits):
        await _ensure(connection, config, chosen_limits(str(config["name"]), layout), governs=governs)


def chosen_limits(stream: str, layout: Layout) -> tuple[str, ...]:
    """The settings of a stream that operators choose; the present has no limits: with one, objects would vanish."""
    return ("num_replicas",) if stream == layout.state_stream else LIMITS


def stream_configs(layout: Layout, limits: StreamLimits) -> tuple[JsonObject, ...]:
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
    fault = stream_fault(found, wanted, chosen)
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
