"""Definitions of two releases: what the later ones no longer allow, keep or serve. Pure.

Objects of the former release lie in the store, manifests for it in repositories of users, and its services still write
while the new ones start. So all of a schema counts, spec and status alike, and only in one direction: what is allowed
in addition breaks nobody.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from compatibility.finding import Finding

from controller_runtime.json import JsonObject

_WRITERS: Final = "manifests and services of the former release are refused"
_STORED: Final = "an object that lies in the store cannot be changed any more"
_CHANGES: Final = "a change that manifests or services of the former release make is refused"
_LOST: Final = "what stored objects have there is dropped, and who reads it finds nothing"
_CLIENTS: Final = "clients and manifests that name it find no such kind"
_OTHERS: Final = "the same manifest means something else"
_UNJUDGED: Final = "nobody can tell whom it breaks: look, and give the reason in the list"

_TIGHTER_WHEN_LOWER: Final = ("maxLength", "maxItems", "maxProperties", "maximum")
_TIGHTER_WHEN_HIGHER: Final = ("minLength", "minItems", "minProperties", "minimum")
_TIGHTER_WHEN_SET: Final = ("exclusiveMaximum", "exclusiveMinimum", "uniqueItems")
_TIGHTER_WHEN_OTHER: Final = ("pattern", "format", "multipleOf")
_LOOSER_WHEN_SET: Final = ("nullable", "x-kubernetes-preserve-unknown-fields")
_MERGED_BY: Final = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
_MERGE_DEFAULTS: Final = {
    "x-kubernetes-list-type": "atomic",
    "x-kubernetes-map-type": "granular",
    "x-kubernetes-list-map-keys": [],
}
_WORDS: Final = ("description", "title", "example", "externalDocs", "x-kubernetes-validations")
"""What says nothing about values; the rules are compared by themselves."""
_COMPARED: Final = frozenset(
    chain(
        (
            "type",
            "x-kubernetes-int-or-string",
            "enum",
            "properties",
            "required",
            "items",
            "additionalProperties",
            "default",
        ),
        _TIGHTER_WHEN_LOWER,
        _TIGHTER_WHEN_HIGHER,
        _TIGHTER_WHEN_SET,
        _TIGHTER_WHEN_OTHER,
        _LOOSER_WHEN_SET,
        _MERGED_BY,
        _WORDS,
    )
)
_ABSENT: Final = object()


def compared(former: Mapping[str, JsonObject], present: Mapping[str, JsonObject]) -> Iterator[Finding]:
    """What breaks between two sets of definitions, by name of the definition."""
    for name, old in sorted(former.items()):
        if name not in present:
            yield Finding(name, "", "the definition is gone", _CLIENTS)
        else:
            yield from _definition(name, old["spec"], present[name]["spec"])


def _definition(name: str, old: JsonObject, new: JsonObject) -> Iterator[Finding]:
    yield from _named(name, old, new)
    if old.get("conversion", {}).get("strategy", "None") != new.get("conversion", {}).get("strategy", "None"):
        yield Finding(name, "conversion", "the strategy is another one", _UNJUDGED)
    served = {one["name"]: one for one in new["versions"] if one["served"]}
    for version in old["versions"]:
        if version["served"] and version["name"] not in served:
            yield Finding(name, "", f"version {version['name']} is no longer served", _CLIENTS)
        elif version["served"]:
            yield from _version(f"{name} {version['name']}", version, served[version["name"]])
    stored, stores = (next(one["name"] for one in spec["versions"] if one["storage"]) for spec in (old, new))
    if stored != stores and stored not in served:
        yield Finding(name, "", f"{stores} is stored, {stored} no longer served", "stored objects cannot be read")


def _named(name: str, old: JsonObject, new: JsonObject) -> Iterator[Finding]:
    for member in ("group", "scope"):
        if old[member] != new[member]:
            yield Finding(name, member, f"{old[member]} became {new[member]}", _CLIENTS)
    before, now = old["names"], new["names"]
    for member in ("kind", "listKind", "plural", "singular"):
        if before.get(member) != now.get(member):
            yield Finding(name, f"names.{member}", f"{before.get(member)} became {now.get(member)}", _CLIENTS)
    for member in ("shortNames", "categories"):
        for gone in sorted(set(before.get(member) or ()) - set(now.get(member) or ())):
            yield Finding(name, f"names.{member}", f"{gone} is gone", "commands that name it find nothing")


def _version(where: str, old: JsonObject, new: JsonObject) -> Iterator[Finding]:
    for subresource in sorted({*(old.get("subresources") or {}), *(new.get("subresources") or {})}):
        before, now = ((one.get("subresources") or {}).get(subresource, _ABSENT) for one in (old, new))
        path = f"subresources.{subresource}"
        if now is _ABSENT:
            yield Finding(where, path, "is gone", "who writes there is refused")
        elif before is _ABSENT and subresource == "status":
            yield Finding(where, path, "is new", "a status that is written with the object is dropped")
        elif before is not _ABSENT and before != now:
            yield Finding(where, path, "is another one", _UNJUDGED)
    gone = [one for one in old.get("selectableFields") or () if one not in (new.get("selectableFields") or ())]
    for one in gone:
        yield Finding(where, "selectableFields", f"{one['jsonPath']} is gone", "who selects by it is refused")
    columns = {one["name"] for one in new.get("additionalPrinterColumns") or ()}
    for one in old.get("additionalPrinterColumns") or ():
        if one["name"] not in columns:
            yield Finding(
                where, "additionalPrinterColumns", f"{one['name']} is gone", "who reads it there finds nothing"
            )
    yield from _schema(where, "", old["schema"]["openAPIV3Schema"], new["schema"]["openAPIV3Schema"])


def _schema(where: str, path: str, old: JsonObject, new: JsonObject) -> Iterator[Finding]:
    """What breaks at one place, and further in."""
    for what, breaks in chain(
        _types(old, new), _enums(old, new), _limits(old, new), _rules(old, new), _merging(old, new), _rest(old, new)
    ):
        yield Finding(where, path, what, breaks)
    if old.get("type") != new.get("type"):
        # Whatever is further in is not the same thing any more.
        return
    yield from _properties(where, path, old, new)
    if "items" in old and "items" in new:
        yield from _schema(where, f"{path}[]", old["items"], new["items"])
    before, now = old.get("additionalProperties"), new.get("additionalProperties")
    if isinstance(before, dict) and isinstance(now, dict):
        yield from _schema(where, f"{path}.*".lstrip("."), before, now)
    elif before and now is not True:
        yield Finding(where, path, "keys that the schema does not name have other values, or none", _WRITERS)


def _properties(where: str, path: str, old: JsonObject, new: JsonObject) -> Iterator[Finding]:
    before, now = old.get("properties") or {}, new.get("properties") or {}
    for name, schema in before.items():
        inner = f"{path}.{name}" if path else name
        if name in now:
            yield from _schema(where, inner, schema, now[name])
        elif not new.get("x-kubernetes-preserve-unknown-fields"):
            yield Finding(where, inner, "is gone", _LOST)
    had, needs = set(old.get("required") or ()), set(new.get("required") or ())
    for name in sorted(needs):
        inner = f"{path}.{name}" if path else name
        if "default" in now.get(name, {}):
            continue
        if name not in had:
            yield Finding(where, inner, "is required now and has no default", _WRITERS)
        elif "default" in before.get(name, {}):
            yield Finding(where, inner, "is required and has no default any more", _WRITERS)


_Found = Iterator[tuple[str, str]]


def _types(old: JsonObject, new: JsonObject) -> _Found:
    before, now = (_type(one) for one in (old, new))
    if before != now:
        yield f"type {before} became {now}", _STORED
    for member in _LOOSER_WHEN_SET:
        if old.get(member) and not new.get(member):
            yield f"{member} is gone", _LOST if "preserve" in member else _WRITERS
    if "default" in old and "default" not in new:
        yield f"default {old['default']!r} is gone", _OTHERS
    elif "default" in old and old["default"] != new["default"]:
        yield f"default {old['default']!r} became {new['default']!r}", _OTHERS
    elif "default" in new and "default" not in old:
        yield f"default {new['default']!r} is new", _OTHERS


def _type(schema: JsonObject) -> str:
    return str(schema.get("type") or ("int-or-string" if schema.get("x-kubernetes-int-or-string") else "any"))


def _enums(old: JsonObject, new: JsonObject) -> _Found:
    if "enum" not in new:
        return
    if "enum" not in old:
        yield f"only {', '.join(map(str, new['enum']))} are allowed now", _WRITERS
        return
    for gone in (one for one in old["enum"] if one not in new["enum"]):
        yield f"enum value {gone!r} is gone", _STORED


def _limits(old: JsonObject, new: JsonObject) -> _Found:
    yield from _tightened(old, new, _TIGHTER_WHEN_LOWER, lambda before, now: now < before)
    yield from _tightened(old, new, _TIGHTER_WHEN_HIGHER, lambda before, now: now > before)
    yield from _tightened(old, new, _TIGHTER_WHEN_OTHER, lambda before, now: now != before)
    for member in _TIGHTER_WHEN_SET:
        if new.get(member) and not old.get(member):
            yield f"{member} is new", _STORED


def _tightened(
    old: JsonObject, new: JsonObject, members: tuple[str, ...], tighter: Callable[[Any, Any], bool]
) -> _Found:
    for member in members:
        if member not in new:
            continue
        if member not in old:
            yield f"{member} {new[member]} is new", _STORED
        elif tighter(old[member], new[member]):
            yield f"{member} {old[member]} became {new[member]}", _STORED


def _rules(old: JsonObject, new: JsonObject) -> _Found:
    known = {_condition(one) for one in old.get("x-kubernetes-validations") or ()}
    for rule in new.get("x-kubernetes-validations") or ():
        if _condition(rule) not in known:
            yield f"rule {rule['rule']!r} is new", _CHANGES if _is_of_changes_only(rule) else _STORED


def _condition(rule: JsonObject) -> tuple[str, bool]:
    return rule["rule"], bool(rule.get("optionalOldSelf"))


def _is_of_changes_only(rule: JsonObject) -> bool:
    """Whether it compares an object with what it was, so that one that is left alone cannot break it."""
    without_texts = re.sub(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", "", rule["rule"])
    return re.search(r"\boldSelf\b", without_texts) is not None and not rule.get("optionalOldSelf")


def _merging(old: JsonObject, new: JsonObject) -> _Found:
    for member in _MERGED_BY:
        before, now = (one.get(member, _MERGE_DEFAULTS[member]) for one in (old, new))
        if before != now:
            yield f"{member} {before} became {now}", "who applies a part of it takes or leaves other parts than before"


def _rest(old: JsonObject, new: JsonObject) -> _Found:
    for member in sorted({*old, *new} - _COMPARED):
        if old.get(member, _ABSENT) != new.get(member, _ABSENT):
            yield f"{member} is another one", _UNJUDGED
