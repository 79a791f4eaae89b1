"""``aim state`` and ``aim diff``: objects as they were, by the event log (FW-615)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from aim_cli.answer import Answer, columns
from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.states import state_of
from aim_cli.cluster.targets import known_kind
from aim_cli.errors import Exit
from aim_cli.log.connecting import history
from aim_cli.log.targets import LOGGED, Target, kind_name, located
from controller_runtime import Key
from controller_runtime.log import EnvelopeError, History, Knowledge, LoggedVersion, StateAt, state_at

_MOST: Final = 12
"""Members of one object that a table names."""
_LONGEST: Final = 60
_OF_NO_INTEREST: Final = frozenset({"metadata.resourceVersion", "metadata.managedFields"})

Past: TypeAlias = Mapping[tuple[str, Key], StateAt]


@dataclass(frozen=True, slots=True)
class Scope:
    """Of which objects: one, or all of a namespace (``None`` = everywhere)."""

    target: Target | None
    namespace: str | None

    def admits(self, key: Key) -> bool:
        """Whether an object is meant."""
        return self.target is not None or self.namespace in (None, key.namespace)


async def state(nats_url: str, scope: Scope, at: datetime) -> Answer:
    """What there was at a time.

    Raises:
        UnreachableError: the log cannot be read.
    """
    async with history(nats_url) as log:
        remarks = await _dropped(log, at)
        return state_answer(await _past(log, scope, at), scope, remarks)


async def diff(nats_url: str, scope: Scope, since: datetime, until: datetime) -> Answer:
    """What differs between two points in time.

    Raises:
        UnreachableError: the log cannot be read.
    """
    async with history(nats_url) as log:
        remarks = await _dropped(log, since)
        return diff_answer(await _past(log, scope, since), await _past(log, scope, until), scope, remarks)


async def _dropped(log: History, at: datetime) -> tuple[str, ...]:
    since = (await log.complete_since()).get("versions")
    if since is None or since <= at:
        return ()
    return (f"the log of versions is complete since {since:%Y-%m-%d %H:%M:%S} UTC; what came before was dropped",)


async def _past(log: History, scope: Scope, at: datetime) -> Past:
    if scope.target is None:
        return await log.state_at(at, [part.name for part in LOGGED])
    target = await located(log, scope.target)
    part, key = target.part.name, target.key
    found = of_versions(await log.versions(part, key), at)
    return {} if found is None else {(part, key): found}


def of_versions(versions: Iterable[LoggedVersion], at: datetime) -> StateAt | None:
    """What is known of one object at a time; ``None`` if the log holds nothing of it."""
    some = tuple(versions)
    if not some:
        return None
    before = next((one for one in reversed(some) if one.state.time <= at), None)
    after = next((one for one in some if one.state.time > at), None)
    return state_at(before, after, None, at)


def body_of(known: StateAt | None) -> JsonObject | None:
    """The object; ``None`` where there was none, or that is unknown."""
    if known is None or known.knowledge is not Knowledge.PRESENT or known.version is None:
        return None
    try:
        return known.version.state.object()
    except EnvelopeError:
        return None


def state_answer(past: Past, scope: Scope, remarks: tuple[str, ...] = ()) -> Answer:
    """What there was, and of what that cannot be said."""
    known = {where: one for where, one in past.items() if scope.admits(where[1])}
    bodies = {where: body for where, one in known.items() if (body := body_of(one)) is not None}
    unknown = [
        f"{_name_of(where)}: not known: {one.hole or 'it cannot be read'}"
        for where, one in known.items()
        if _is_unknown(one)
    ]
    rows = [(kind_name(part), str(key), _state(part, body)) for (part, key), body in bodies.items()]
    code = Exit.ABSENT if scope.target is not None and not bodies else Exit.WELL
    lines = columns(("KIND", "NAME", "STATE"), sorted(rows))
    if not bodies:
        lines = (_nothing(scope, is_known=not (remarks or unknown)),)
    return Answer(list(bodies.values()), lines, code, (*remarks, *unknown))


def _nothing(scope: Scope, *, is_known: bool) -> str:
    if scope.target is None:
        return "there was nothing" if is_known else "what there was is not known"
    return f"{scope.target} was not there" if is_known else f"whether {scope.target} was there is not known"


def diff_answer(before: Past, after: Past, scope: Scope, remarks: tuple[str, ...] = ()) -> Answer:
    """What differs, object by object; ends with 1 if anything is."""
    data, lines = [], []
    for where in sorted({*before, *after}):
        # Of what is not known at one of the times it is unknown that it came or went.
        if not scope.admits(where[1]) or any(_is_unstated(past.get(where)) for past in (before, after)):
            continue
        old, new = body_of(before.get(where)), body_of(after.get(where))
        changes = [] if old is None or new is None else list(members(old, new))
        verb = "created" if old is None and new else "deleted" if new is None and old else "changed" if changes else ""
        if not verb:
            continue
        lines.append(f"{verb:8}{_name_of(where)}")
        lines += [f"        {path}: {_short(was)} -> {_short(now)}" for path, was, now in changes[:_MOST]]
        if len(changes) > _MOST:
            lines.append(f"        and {len(changes) - _MOST} more; -o json has all")
        reported = [{"member": path, "before": was, "after": now} for path, was, now in changes]
        data.append({"kind": kind_name(where[0]), "name": str(where[1]), "change": verb, "members": reported})
    unknowns = [where for past in (before, after) for where, one in past.items() if _is_unknown(one)]
    unknown = [f"{_name_of(where)}: not known" for where in unknowns if scope.admits(where[1])]
    code = Exit.FOUND if data else Exit.WELL
    return Answer(data, tuple(lines) or ("no differences",), code, (*remarks, *dict.fromkeys(unknown)))


def members(old: object, new: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    """Members of two JSON values that differ, with both values."""
    if old == new or path in _OF_NO_INTEREST:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from members(old.get(name), new.get(name), f"{path}.{name}" if path else name)
    elif (before := _by_type(old)) and (after := _by_type(new)):
        for name in sorted({*before, *after}):
            yield from members(before.get(name), after.get(name), f"{path}[{name}]")
    else:
        yield path, old, new


def _by_type(value: object) -> JsonObject:
    """Conditions are a map by type, whatever their order; of anything else nothing."""
    if not isinstance(value, list) or not all(isinstance(one, dict) and "type" in one for one in value):
        return {}
    by_type = {str(one["type"]): one for one in value}
    return by_type if len(by_type) == len(value) else {}


def _is_unstated(known: StateAt | None) -> bool:
    """Whether there was something of which the log does not say what."""
    if known is None or known.knowledge is Knowledge.ABSENT:
        return False
    return body_of(known) is None


def _is_unknown(known: StateAt) -> bool:
    return known.hole is not None or _is_unstated(known)


def _name_of(where: tuple[str, Key]) -> str:
    return f"{kind_name(where[0])} {where[1]}"


def _state(part: str, body: JsonObject) -> str:
    # The log also holds kinds that no command is asked about, such as RoleBindings.
    kind = next((known_kind(one.kind.resource) for one in LOGGED if one.name == part), None)
    return "" if kind is None else state_of(kind, body)


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
