"""What two releases write on the broker, and what of it the other cannot read or would undo. Pure.

Both run at the same time while a release is rolled out, and back, so it counts in both directions.
"""

from collections.abc import Iterator
from typing import Any, Final

from compatibility.finding import Finding

from controller_runtime.json import JsonObject

_TURNS: Final = "services of the two releases set it in turns, or one of them finds nothing"
_MISSED: Final = "what one release writes, the other does not find"
_UNREAD: Final = "what one release writes, the other cannot read"
_MISREAD: Final = "what one release leaves out, the other takes for something else"
_WORDS: Final = ("title", "description", "default")
_BY_MEMBER: Final = ("$defs", "properties", "required", "enum", "additionalProperties")


def compared(former: JsonObject, present: JsonObject) -> Iterator[Finding]:
    """What breaks between what two releases say of themselves (`compatibility.reported`)."""
    for stream, config in former["streams"].items():
        if stream not in present["streams"]:
            yield Finding(f"stream {stream}", "", "is gone", _MISSED)
        else:
            yield from _others(f"stream {stream}", config, present["streams"][stream], _TURNS, added=True)
    for members in ("subjects", "headers", "types"):
        yield from _others(members, former[members], present[members], _MISSED)
    yield from _checkpoint(former["checkpoint"], present["checkpoint"])
    for name, schema in former["models"].items():
        yield from _models(name, schema, present["models"][name])


def _others(where: str, old: JsonObject, new: JsonObject, breaks: str, *, added: bool = False) -> Iterator[Finding]:
    for member, value in old.items():
        if member not in new:
            yield Finding(where, member, "is gone", breaks)
        elif new[member] != value:
            yield Finding(where, member, f"{value!r} became {new[member]!r}", breaks)
    if added:
        for member in new.keys() - old.keys():
            yield Finding(where, member, f"{new[member]!r} is new", breaks)


def _checkpoint(old: JsonObject, new: JsonObject) -> Iterator[Finding]:
    for member, field in old.items():
        if member not in new:
            if field["required"]:
                yield Finding("checkpoint", member, "is gone", _UNREAD)
        elif new[member]["type"] != field["type"]:
            yield Finding("checkpoint", member, f"{field['type']} became {new[member]['type']}", _UNREAD)
    for member, field in new.items():
        if field["required"] and not old.get(member, {}).get("required"):
            yield Finding("checkpoint", member, "is required now", _UNREAD)


def _models(name: str, old: JsonObject, new: JsonObject) -> Iterator[Finding]:
    before, now = ({name: schema, **schema.get("$defs", {})} for schema in (old, new))
    for model, schema in before.items():
        # One that is gone shows where it was used.
        if model in now:
            yield from _model(model, schema, now[model])


def _model(name: str, old: JsonObject, new: JsonObject) -> Iterator[Finding]:
    if old.get("enum") != new.get("enum"):
        yield Finding(name, "", f"values {old.get('enum')} became {new.get('enum')}", _UNREAD)
    before, now = (_bare({key: one[key] for key in one if key not in _BY_MEMBER}) for one in (old, new))
    if before != now:
        yield Finding(name, "", f"{before} became {now}", _UNREAD)
    had, has = old.get("properties") or {}, new.get("properties") or {}
    needed, needs = set(old.get("required") or ()), set(new.get("required") or ())
    for member, schema in had.items():
        if member not in has:
            if member in needed or new.get("additionalProperties") is False:
                yield Finding(name, member, "is gone", _UNREAD)
        elif _bare(schema) != _bare(has[member]):
            yield Finding(name, member, f"{_bare(schema)} became {_bare(has[member])}", _UNREAD)
        # A default is not written.
        elif member not in needed | needs and not _agree(schema.get("default"), has[member].get("default")):
            yield Finding(
                name, member, f"default {schema.get('default')!r} became {has[member].get('default')!r}", _MISREAD
            )
    for member in sorted(needs - needed):
        yield Finding(name, member, "is required now", _UNREAD)
    for member in sorted((needed - needs) & has.keys()):
        yield Finding(name, member, "is no longer required, and the former release needs it", _UNREAD)
    if old.get("additionalProperties") is False:
        for member in sorted(has.keys() - had.keys()):
            yield Finding(name, member, "is new, and the former release takes no others", _UNREAD)


def _agree(before: Any, now: Any) -> bool:
    """Whether two defaults say the same of what both releases know."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(_agree(before[name], now[name]) for name in before.keys() & now.keys())
    return bool(before == now)


def _bare(schema: Any) -> Any:
    """A schema without what says nothing about values."""
    if isinstance(schema, dict):
        return {key: _bare(value) for key, value in schema.items() if key not in _WORDS}
    return [_bare(one) for one in schema] if isinstance(schema, list) else schema
