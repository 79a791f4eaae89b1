"""`metadata.managedFields`: sets of field paths, and which manager owns which since when."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from controller_runtime import JsonObject, canonical, dumps, loads

Path: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[Path]
Trie: TypeAlias = dict[str, Any]

EMPTY: Final[FieldSet] = frozenset()
MEMBER: Final = "."
"""Marks in a trie that the path up to here belongs to the set."""


@lru_cache(maxsize=4096)
def single_key_element(name: str, value: str) -> str:
    """The element of a list-map item with one key, a text, as nearly all have."""
    return key_element({name: value})


def key_element(keys: dict[str, object]) -> str:
    """The element of a list-map item."""
    return f"k:{canonical(keys).decode()}"


def value_element(value: object) -> str:
    """The element of a set item."""
    return f"v:{canonical(value).decode()}"


def trie(paths: Iterable[Path]) -> Trie:
    """The paths as nested objects, members marked."""
    root: Trie = {}
    for path in paths:
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node[MEMBER] = {}
    return root


def encode(paths: Iterable[Path]) -> JsonObject:
    """FieldsV1: as the trie, but a leaf is `{}`; keys are sorted."""
    root: Trie = {}
    leaf: Trie = {}
    previous: Path = ()
    for path in sorted(paths):
        if previous and path[: len(previous)] == previous:
            # A sorted path comes right before those below it: only then is it no leaf.
            leaf[MEMBER] = {}
        leaf = root
        for element in path:
            leaf = leaf.setdefault(element, {})
        previous = path
    return root


def decode(fields: object) -> FieldSet:
    """The paths of a FieldsV1 object.

    Raises:
        ValueError: the object is not FieldsV1.
    """
    paths: set[Path] = set()
    _collect(fields, (), paths)
    return frozenset(paths)


def _collect(node: object, path: Path, paths: set[Path]) -> None:
    if not isinstance(node, dict):
        raise ValueError(f"fieldsV1 has {node!r} at {render(path)}: expected an object")
    if not node and path:
        paths.add(path)
    for element, child in node.items():
        if element == MEMBER:
            if path:
                paths.add(path)
        elif element[:2] in _RENDERERS:
            _collect(child, (*path, element), paths)
        else:
            raise ValueError(f"fieldsV1 has the element {element!r}: expected f:, k:, v: or i:")


def _render_keys(text: str) -> str:
    pairs = ",".join(f"{name}={dumps(value).decode()}" for name, value in loads(text).items())
    return f"[{pairs}]"


_RENDERERS: Final[dict[str, Callable[[str], str]]] = {
    "f:": lambda text: f".{text}",
    "k:": _render_keys,
    "v:": lambda text: f"[={text}]",
    "i:": lambda text: f"[{text}]",
}


def render(path: Path) -> str:
    """The path as messages show it: `.spec.containers[name="x"].image`."""
    return "".join(_RENDERERS[element[:2]](element[2:]) for element in path)


class Operation(Enum):
    """How a manager came to own fields."""

    APPLY = "Apply"
    UPDATE = "Update"


class ManagerId(NamedTuple):
    """What tells entries apart. An applier is the same whatever API version it uses, so it has none here."""

    manager: str
    operation: Operation
    api_version: str
    subresource: str

    def __str__(self) -> str:
        """As conflict messages name a manager."""
        text = f'"{self.manager}"'
        if self.subresource:
            text = f'{text} with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation is Operation.UPDATE else text


def manager_id(manager: str, operation: Operation, api_version: str, subresource: str) -> ManagerId:
    """The identity of an entry."""
    return ManagerId(manager, operation, "" if operation is Operation.APPLY else api_version, subresource)


@dataclass(frozen=True, slots=True)
class Ownership:
    """What one manager owns; `time` is RFC 3339 in seconds."""

    api_version: str
    time: str
    fields: FieldSet


Owners = dict[ManagerId, Ownership]

_MAX_UPDATE_ENTRIES: Final = 10
_ANCIENT: Final = "ancient-changes"


@dataclass(slots=True)
class ManagedFields:
    """The decoded entries of one object."""

    owners: Owners = field(default_factory=dict)

    @classmethod
    def decode(cls, entries: object) -> "ManagedFields":
        """Decode the JSON form.

        Raises:
            ValueError: an entry has an unknown operation or malformed fields.
        """
        owners: Owners = {}
        for entry in entries if isinstance(entries, list) else []:
            if not entry:
                continue
            if not isinstance(entry, dict):
                raise ValueError(f"managedFields has {entry!r}: expected an object")
            key = manager_id(
                str(entry.get("manager", "")),
                Operation(entry.get("operation")),
                str(entry.get("apiVersion", "")),
                str(entry.get("subresource", "")),
            )
            fields = decode(entry.get("fieldsV1") or {})
            if key in owners:
                fields |= owners[key].fields
            owners[key] = Ownership(str(entry.get("apiVersion", "")), str(entry.get("time") or ""), fields)
        return cls(owners)

    def encode(self) -> list[JsonObject]:
        """The JSON form: appliers first, then by time and name; managers that own nothing are left out."""
        self._merge_ancient()
        owned = [(key, owner) for key, owner in self.owners.items() if owner.fields]
        owned.sort(key=lambda pair: _order(*pair))
        return [_entry(key, owner) for key, owner in owned]

    def fields(self, key: ManagerId) -> FieldSet:
        """What this manager owns."""
        owner = self.owners.get(key)
        return owner.fields if owner else EMPTY

    def disown(self, fields: Mapping[ManagerId, FieldSet]) -> None:
        """Take fields from managers."""
        for key, lost in fields.items():
            owner = self.owners[key]
            self.owners[key] = replace(owner, fields=owner.fields - lost)

    def _merge_ancient(self) -> None:
        """Join the oldest updaters when there are too many, so that an object's size stays bounded."""
        updates = [
            (key, owner) for key, owner in self.owners.items() if key.operation is Operation.UPDATE and owner.fields
        ]
        excess = len(updates) - _MAX_UPDATE_ENTRIES
        if excess <= 0:
            return
        updates.sort(key=lambda pair: _order(*pair))
        for key, owner in updates[: excess + 1]:
            del self.owners[key]
            target = manager_id(_ANCIENT, Operation.UPDATE, owner.api_version, key.subresource)
            fields = owner.fields | self.fields(target)
            self.owners[target] = Ownership(owner.api_version, owner.time, fields)


def _order(key: ManagerId, owner: Ownership) -> tuple[str, ...]:
    return key.operation.value, owner.time, key.manager, owner.api_version, key.subresource


def _entry(key: ManagerId, owner: Ownership) -> JsonObject:
    entry: dict[str, Any] = {
        "apiVersion": owner.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": encode(owner.fields),
        "manager": key.manager,
        "operation": key.operation.value,
    }
    if owner.time:
        entry["time"] = owner.time
    if key.subresource:
        entry["subresource"] = key.subresource
    return entry


def is_reset(entries: object) -> bool:
    """Whether a client asks to forget all owners: a list of one empty entry (an empty list is ignored)."""
    return isinstance(entries, list) and len(entries) == 1 and not entries[0]
