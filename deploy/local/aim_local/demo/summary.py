"""What to say about an object in one line: its state, and why it is not further. Pure functions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from controller_runtime import JsonObject


class Mood(Enum):
    """How good a state is."""

    GOOD = "green"
    WAITING = "yellow"
    BAD = "red"


@dataclass(frozen=True, slots=True)
class Summary:
    """The state of an object, and the reason for it."""

    state: str
    why: str
    mood: Mood


_Teller: TypeAlias = Callable[[JsonObject], Summary]
_GOOD: Final = frozenset({"Ready", "Running", "Bound", "Succeeded", "Complete", "Accepted", "Programmed"})
_BAD: Final = frozenset({"Failed", "Degraded", "Lost", "NotAvailable", "Refused"})
_LONGEST: Final = 140


def summarise(obj: JsonObject) -> Summary:
    """The summary of an object of any kind."""
    return _TELLERS.get(obj.get("kind", ""), _own)(obj)


def complaints(obj: JsonObject) -> str:
    """All conditions that do not hold, for an error message."""
    conditions = _conditions(obj.get("status") or {})
    return "\n".join(f"  {one['type']}: {_reason(one)}" for one in conditions if one["status"] != "True")


def _summary_of(state: str, why: str = "") -> Summary:
    mood = Mood.GOOD if state in _GOOD else Mood.BAD if state in _BAD else Mood.WAITING
    return Summary(state, why if len(why) <= _LONGEST else f"{why[: _LONGEST - 1]}…", mood)


def _own(obj: JsonObject) -> Summary:
    """Kinds of the platform: their own overall status, and the first condition that does not hold."""
    status = obj.get("status") or {}
    state = str(status.get("status") or "Pending")
    if state in _GOOD:
        return _summary_of(state, _finding(obj))
    lacking = [one for one in _conditions(status) if one["status"] != "True"]
    # Ready only repeats what another one says, which knows it better.
    ready = next((one.get("reason") for one in lacking if one["type"] == "Ready"), None)
    others = [one for one in lacking if one["type"] != "Ready"]
    specific = [one for one in others if one.get("reason") == ready] or others or lacking
    why = f"{specific[0]['type']}: {_reason(specific[0])}" if specific else ""
    return _summary_of(state, " ".join(filter(None, (_progress(status), why))))


def _finding(obj: JsonObject) -> str:
    """What a finished object found out."""
    status = obj.get("status") or {}
    found = {
        "model": (status.get("resolvedModel") or {}).get("name"),
        "template": (status.get("resolvedTemplate") or {}).get("name"),
        "path": (status.get("routing") or {}).get("path"),
        "replicas": (status.get("runtime") or {}).get("replicas"),
        "models": status.get("discoveredModels"),
    }
    return ", ".join(f"{name} {value}" for name, value in found.items() if value is not None)


def _progress(status: JsonObject) -> str:
    return str((status.get("progress") or {}).get("displayPercentage") or "")


def _inference_service(obj: JsonObject) -> Summary:
    ready = _condition(obj, "Ready")
    if ready is None:
        return _summary_of("Pending")
    return _summary_of("Ready" if ready["status"] == "True" else "Starting", _reason(ready))


def _route(obj: JsonObject) -> Summary:
    parents = (obj.get("status") or {}).get("parents") or ()
    conditions = [one for parent in parents for one in parent.get("conditions") or ()]
    accepted = next((one for one in conditions if one["type"] == "Accepted"), None)
    if accepted is None:
        return _summary_of("Pending", "no gateway has accepted it yet")
    unresolved = [one for one in conditions if one["status"] != "True"]
    why = _reason(unresolved[0]) if unresolved else _paths(obj)
    return _summary_of("Accepted" if accepted["status"] == "True" else "Refused", why)


def _paths(route: JsonObject) -> str:
    rules = route["spec"].get("rules") or ()
    return ", ".join(match["path"]["value"] for rule in rules for match in rule.get("matches") or () if "path" in match)


def _job(obj: JsonObject) -> Summary:
    for type_ in ("Complete", "Failed"):
        ended = _condition(obj, type_)
        if ended is not None and ended["status"] == "True":
            return _summary_of(type_, _reason(ended) if type_ == "Failed" else "")
    return _summary_of("Active" if (obj.get("status") or {}).get("active") else "Pending")


def _pod(obj: JsonObject) -> Summary:
    status = obj.get("status") or {}
    phase = str(status.get("phase") or "Pending")
    for one in status.get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting")
        if waiting:
            return _summary_of(waiting["reason"], waiting.get("message", ""))
    ready = _condition(obj, "Ready")
    if phase == "Running" and ready is not None and ready["status"] != "True":
        return _summary_of("Starting")
    return _summary_of(phase, _reason(ready) if phase == "Failed" and ready else "")


def _claim(obj: JsonObject) -> Summary:
    size = (((obj["spec"].get("resources") or {}).get("requests")) or {}).get("storage", "")
    return _summary_of(str((obj.get("status") or {}).get("phase") or "Pending"), size)


_TELLERS: Final[Mapping[str, _Teller]] = MappingProxyType(
    {
        "InferenceService": _inference_service,
        "HTTPRoute": _route,
        "Job": _job,
        "Pod": _pod,
        "PersistentVolumeClaim": _claim,
    }
)


def _conditions(status: JsonObject) -> Iterable[JsonObject]:
    return status.get("conditions") or ()


def _condition(obj: JsonObject, type_: str) -> JsonObject | None:
    return next((one for one in _conditions(obj.get("status") or {}) if one["type"] == type_), None)


def _reason(condition: JsonObject) -> str:
    reason, message = condition.get("reason", ""), condition.get("message", "")
    return f"{reason}: {message}" if reason and message else str(reason or message)
