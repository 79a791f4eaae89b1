"""Whether the configuration of a stream is the one that the bus relies on (FW-767, FW-768). Pure.

A setting changes what a stream holds as well as any publisher: `max_age` empties it, `republish` and `sources` put
messages on subjects that only one service may write, `sealed` ends it. So every setting is compared, also those of
servers to come, but for what changes no message.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from controller_runtime.json import JsonObject

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
"""What loses, hides or forges messages. The rest is repaired as well, and keeps no part from being vouched for: a
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
        """Whether the stream may lose, hide or forge messages, so that no part may be vouched for."""
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
        return ", ".join(f"{key} is {_shown(found)}, not {_shown(wanted)}" for key, (found, wanted) in self._told())

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

    def _told(self) -> list[tuple[str, tuple[object, object]]]:
        """What is final comes first, and what follows from sealing is left out."""
        implied = {"discard", "deny_delete", "deny_purge"} if "sealed" in self.differing else set()
        shown = [(key, both) for key, both in self.differing.items() if key not in implied]
        return sorted(shown, key=lambda one: one[0] not in _FINAL)


def fault_of(found: JsonObject, wanted: JsonObject, ignored: Collection[str] = ()) -> StreamFault | None:
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


def _shown(value: object) -> str:
    if value is None:
        return "unset"
    if value == -1:
        return "unlimited"
    return str(value).lower() if isinstance(value, bool) else str(value)
