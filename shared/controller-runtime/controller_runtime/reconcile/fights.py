"""Two managers that write one field: each overwrite is answered later than the one before (FW-812…FW-815).

Server-side apply with force always wins, so a client that reverts a field and a service that sets it again write as
fast as they can, for ever, and neither of them knows of the other. Three overwrites of one field within a minute are
no accident: from then on our side waits, 2 s at first and at most five minutes, and says on the owner which manager it
is. What is not fought over is applied at once, with the contested fields as the other manager left them.

Pure: times come in, verdicts go out. Nothing is remembered of a child that is in order, and a field that stays as it
was applied for a minute is forgotten.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias, cast

from controller_runtime import annotation_keys
from controller_runtime.api.enums import ConditionStatus, EventType
from controller_runtime.json import JsonObject, canonical, loads
from controller_runtime.log.wire.part import Key
from controller_runtime.reconcile.child import FieldPath, applied_hash, differing
from controller_runtime.reconcile.conditions import soonest, timestamp
from controller_runtime.reconcile.plan import Event

WINDOW: Final = 60.0
"""Seconds within which overwrites of one field are counted, and after which one that held is forgotten."""
MOST: Final = 3
"""The overwrite of one field within `WINDOW` that is not answered at once any more."""
FIRST_WAIT: Final = 2.0
LONGEST_WAIT: Final = 300.0
FIELD_CONFLICT: Final = "FieldConflict"
"""Reason of the condition and of the Event that name the other manager."""
EXISTENCE: Final[FieldPath] = ()
"""The path of an object as a whole: another client deletes it."""
_NAMED_FIELDS: Final = 3

ChildKey: TypeAlias = tuple[str, Key]
"""Kind and key of a child: a namesake that replaces it is the same child."""


@dataclass(slots=True)
class _Field:
    """One field that was found different from what is desired.

    Attributes:
        wanted: digest of the desired value: another one begins from zero.
        since: when the field last changed hands.
        ours: whether we applied it and have not found it overwritten since.
        overwrites: when it was overwritten, in the last `WINDOW`.
        waits: how often an overwrite was answered late.
        until: when the next apply is due, while ``ours`` is false.
    """

    wanted: bytes
    since: float
    ours: bool = False
    overwrites: list[float] = field(default_factory=list)
    waits: int = 0
    until: float = 0.0
    manager: str = ""

    def is_quiet(self, now: float) -> bool:
        return self.ours and now - self.since >= WINDOW

    def overwritten(self, now: float) -> bool:
        """Count an overwrite; whether it is the one that makes it a fight."""
        self.ours, self.since = False, now
        self.overwrites = [*(at for at in self.overwrites if now - at <= WINDOW), now]
        if self.waits == 0 and len(self.overwrites) < MOST:
            return False
        self.until = now + min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self.waits, 16))
        self.waits += 1
        return self.waits == 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may be applied of a child now.

    Attributes:
        held: contested fields whose turn has not come.
        begun: fields whose fight has just begun: who overwrites them is to be found out.
        fields: what may be applied.
    """

    fields: frozenset[FieldPath] = frozenset()
    held: frozenset[FieldPath] = frozenset()
    begun: frozenset[FieldPath] = frozenset()


@dataclass(frozen=True, slots=True)
class Contest:
    """Fields of a child that one manager keeps overwriting; an empty manager is one that managedFields do not name."""

    child: str
    manager: str
    fields: tuple[FieldPath, ...]


def wanted_fields(desired: JsonObject, live: JsonObject) -> dict[FieldPath, bytes]:
    """The fields of a desired body that differ in the live object, with a digest of the desired value."""
    found = {path: _digest(value) for path, value in differing(desired, live)}
    stored = (live["metadata"].get("annotations") or {}).get(annotation_keys.APPLIED_HASH)
    if stored != (mark := applied_hash(desired)):
        found["metadata", "annotations", annotation_keys.APPLIED_HASH] = mark.encode()
    return found


def _digest(value: object) -> bytes:
    return hashlib.blake2b(canonical(value), digest_size=8).digest()


class Fights:
    """The contested fields of the children of one controller, by owner."""

    def __init__(self) -> None:
        self._owners: dict[str, dict[ChildKey, dict[FieldPath, _Field]]] = {}

    def judge(self, owner: str, child: ChildKey, wanted: Mapping[FieldPath, bytes], now: float) -> Verdict:
        """What of the differences of a child may be applied now.

        Args:
            owner: UID of the reconciled object.
            wanted: the fields that differ, with a digest of what is desired; none when the child is in order.
        """
        known = self._owners.get(owner, {}).get(child, {})
        self._settle(owner, child, wanted, now)
        held, begun = set(), set()
        for path, digest in wanted.items():
            one = known.get(path)
            if one is None or one.wanted != digest or one.is_quiet(now):
                one = _Field(digest, now, overwrites=[now])
                self._owners.setdefault(owner, {}).setdefault(child, {})[path] = one
            elif one.ours and one.overwritten(now):
                begun.add(path)
            if now < one.until:
                held.add(path)
        return Verdict(frozenset(wanted) - held, frozenset(held), frozenset(begun))

    def applied(self, owner: str, child: ChildKey, paths: Iterable[FieldPath], now: float) -> None:
        """An apply of these fields went through."""
        known = self._owners.get(owner, {}).get(child, {})
        for path in paths:
            if (one := known.get(path)) is not None:
                one.ours, one.since = True, now

    def note_managers(self, owner: str, child: ChildKey, managers: Mapping[FieldPath, str]) -> None:
        """It was found out who overwrites these fields."""
        known = self._owners.get(owner, {}).get(child, {})
        for path, manager in managers.items():
            if path in known:
                known[path].manager = manager

    def deleted(self, owner: str, child: ChildKey) -> None:
        """We deleted a child ourselves."""
        self._owners.get(owner, {}).pop(child, None)

    def forget(self, owner: str) -> None:
        """The reconciled object is gone."""
        self._owners.pop(owner, None)

    def contests(self, owner: str, now: float) -> list[Contest]:
        """What is fought over on behalf of an object, by child and manager."""
        found: dict[tuple[str, str], list[FieldPath]] = {}
        for (kind, key), fields in self._owners.get(owner, {}).items():
            for path, one in fields.items():
                if one.waits and not one.is_quiet(now):
                    found.setdefault((f"{kind} {key}", one.manager), []).append(path)
        return [Contest(child, manager, tuple(sorted(paths, key=str))) for (child, manager), paths in found.items()]

    def keep(self, owner: str, children: Collection[ChildKey]) -> None:
        """Forget children that are applied no more: what is not judged again would stay contested."""
        known = self._owners.get(owner, {})
        for child in known.keys() - set(children):
            del known[child]

    def due(self, owner: str, now: float) -> float | None:
        """Seconds until a field may be applied again, or its fight is over; `None` = there is none.

        What should have been applied by now waits for something else, such as a write before it that fails.
        """
        fields = (one for known in self._owners.get(owner, {}).values() for one in known.values() if one.waits)
        ends = (one.since + WINDOW if one.ours else one.until for one in fields)
        return soonest(max(0.1, end - now) for end in ends if end > now - 1.0)

    def _settle(self, owner: str, child: ChildKey, wanted: Collection[FieldPath], now: float) -> None:
        """Fields that are as they shall be: the other side gave in, or time has passed over them."""
        if (known := self._owners.get(owner, {}).get(child)) is None:
            return
        for path, one in list(known.items()):
            if path in wanted:
                continue
            if not one.ours:
                one.ours, one.since = True, now
            if one.is_quiet(now):
                del known[path]
        if not known:
            del self._owners[owner][child]
            if not self._owners[owner]:
                del self._owners[owner]


# What is sent meanwhile


def yielding(body: JsonObject, live: JsonObject, held: Iterable[FieldPath]) -> JsonObject:
    """The body with the held fields as they are in the live object, so that its apply changes none of them."""
    for path in held:
        body = cast(JsonObject, _replaced(body, live, path))
    return body


def _replaced(body: object, live: object, path: FieldPath) -> object:
    if not path:
        return live
    first, *rest = path
    theirs = _member(live, first)
    if isinstance(body, list | tuple):
        return [_replaced(item, theirs, tuple(rest)) if at == first else item for at, item in enumerate(body)]
    if not isinstance(body, dict) or first not in body:
        return body
    if not rest and theirs is None:
        return {name: value for name, value in body.items() if name != first}
    return {**body, first: _replaced(body[first], theirs, tuple(rest))}


def _member(value: object, name: str | int) -> object:
    if isinstance(name, int):
        return value[name] if isinstance(value, list) and name < len(value) else None
    return value.get(name) if isinstance(value, dict) else None


# Who it is


def other_manager(live: JsonObject, path: FieldPath, ours: str) -> str:
    """The manager other than ours that owns a field of an object, the latest of several; empty if there is none."""
    entries: Sequence[JsonObject] = live["metadata"].get("managedFields") or ()
    owning = [
        entry
        for entry in entries
        if entry.get("manager") != ours and not entry.get("subresource") and _owns(entry.get("fieldsV1"), live, path)
    ]
    latest = max(owning, key=lambda entry: str(entry.get("time") or ""), default=None)
    return "" if latest is None else str(latest.get("manager") or "")


def _owns(fields: JsonObject | None, value: object, path: FieldPath) -> bool:
    """Whether a field set has a path; one that ends above it owns all that is below."""
    if fields is None:
        return False
    if not path or not fields:
        return True
    first, *rest = path
    below = _member(value, first)
    names = [f"f:{first}"] if isinstance(first, str) else [name for name in fields if _is_item(name, first, below)]
    return any(name in fields and _owns(fields[name], below, tuple(rest)) for name in names)


def _is_item(name: str, index: int, item: object) -> bool:
    """Whether a name of a field set means the item of a list: by index, by value, or by its keys."""
    form, _, text = name.partition(":")
    if form == "i":
        return text == str(index)
    if form == "v":
        return text.encode() == canonical(item)
    if form != "k" or not isinstance(item, dict):
        return False
    return all(item.get(key) == value for key, value in loads(text).items())


# How it is reported


def with_contests(
    status: JsonObject | None,
    contests: Sequence[Contest],
    *,
    type_: str,
    stored: Sequence[JsonObject],
    generation: int,
    message: str,
    now: datetime,
) -> tuple[JsonObject | None, Event | None]:
    """A status with the condition that tells of contests, and the one Event of each fight (FW-814).

    Args:
        type_: of the condition; a plan that has it already keeps its own.
        stored: the conditions that are stored.
    """
    conditions = () if status is None else status.get("conditions") or ()
    if status is None or not contests or any(one["type"] == type_ for one in conditions):
        return status, None
    before = next((one for one in stored if one.get("type") == type_ and one.get("reason") == FIELD_CONFLICT), None)
    reported: JsonObject = {
        "type": type_,
        "status": ConditionStatus.FALSE.value,
        "reason": FIELD_CONFLICT,
        "message": message,
        "lastTransitionTime": (before or {}).get("lastTransitionTime") or timestamp(now),
        "observedGeneration": generation,
    }
    event = Event(EventType.WARNING, FIELD_CONFLICT, message, condition=type_, status=ConditionStatus.FALSE.value)
    return {**status, "conditions": [*conditions, reported]}, event if before is None else None


def message_of(contests: Sequence[Contest], ours: str, pause: str) -> str:
    """Which manager overwrites what, and what ends it.

    Args:
        ours: field manager of this side.
        pause: command that pauses the reconciled object.
    """
    return "; ".join(_sentence(contest, ours) for contest in contests) + (
        f"; configure that client to leave the child alone, or pause this object: {pause}"
    )


def _sentence(contest: Contest, ours: str) -> str:
    by = f"field manager {contest.manager!r}" if contest.manager else "another client or an admission webhook"
    if contest.fields == (EXISTENCE,):
        return f"{contest.child} contested: another client deletes it each time {ours} creates it"
    fields = [field_text(path) for path in contest.fields if path != EXISTENCE]
    more = f" and {len(fields) - _NAMED_FIELDS} more" if len(fields) > _NAMED_FIELDS else ""
    named = ", ".join(fields[:_NAMED_FIELDS])
    return f"{contest.child} contested: {by} overwrites {named}{more}, which {ours} sets"


def field_text(path: FieldPath) -> str:
    """A path as it stands in messages of Kubernetes: ``spec.rules[0].timeouts``."""
    text = ""
    for step in path:
        plain = isinstance(step, str) and step.replace("-", "").replace("_", "").isalnum()
        text += f".{step}" if plain else f"[{step}]" if isinstance(step, int) else f'["{step}"]'
    return text.removeprefix(".")
