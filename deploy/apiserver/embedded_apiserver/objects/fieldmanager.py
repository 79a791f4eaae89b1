"""Server-side apply and ownership tracking, after the rules of structured-merge-diff."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from controller_runtime import JsonObject
from embedded_apiserver.objects.managedfields import (
    EMPTY,
    FieldSet,
    ManagedFields,
    ManagerId,
    Operation,
    Ownership,
    Path,
    is_reset,
    manager_id,
    render,
)
from embedded_apiserver.objects.patch import PatchError
from embedded_apiserver.objects.schema import Schema
from embedded_apiserver.objects.schema_node import ListType, Node
from embedded_apiserver.objects.typed import (
    Comparison,
    compare,
    ensure_named,
    item_element,
    merge,
    remove,
    to_fieldset,
)
from embedded_apiserver.objects.values import clone

__all__ = ["ApplyConflict", "Conflict", "Operation", "TypedPatchError", "apply", "update"]


class TypedPatchError(Exception):
    """An applied configuration does not fit the schema; the server answers HTTP 500."""

    def __init__(self, errors: list[str]) -> None:
        """One text per misfit, each with its path."""
        self.errors = tuple(errors)
        super().__init__(errors[0] if len(errors) == 1 else "\n".join(["errors:", *(f"  {text}" for text in errors)]))

    def status_message(self, named: str, api_version: str, kind: str) -> str:
        """The message of the Status answer; `named` is namespace/name as the configuration gives them."""
        return f"failed to create typed patch object ({named}; {api_version}, Kind={kind}): {self}"


def check_typed(node: Node, config: object) -> None:
    """Check a configuration before it is merged.

    Raises:
        TypedPatchError: an undeclared field, a value of another type, a list item without its key, or twice.
    """
    errors: list[str] = []
    _check(node, config, (), errors)
    if errors:
        raise TypedPatchError(errors)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_SCALARS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "string": (lambda value: isinstance(value, str), "string"),
    "boolean": (lambda value: isinstance(value, bool), "boolean"),
    "integer": (_number, "numeric (int or float)"),
    "number": (_number, "numeric (int or float)"),
}


_NUMERIC: Final = frozenset({"integer", "number"})
_GO_TYPES: Final = {str: "string", bool: "bool", list: "[]interface {}", dict: "map[string]interface {}"}
"""How the real server's message names what is no number."""


def _check(node: Node | None, value: object, path: Path, errors: list[str]) -> None:
    if node is None or value is None or node.int_or_string:
        return
    if node.type in _SCALARS:
        fits, expected = _SCALARS[node.type]
        if not fits(value):
            shown = _GO_TYPES.get(type(value), "") if node.type in _NUMERIC else _type_name(value)
            errors.append(f"{render(path)}: expected {expected}, got {shown or _type_name(value)}")
    elif node.type == "object":
        _check_object(node, value, path, errors)
    elif node.type == "array":
        _check_list(node, value, path, errors)


def _type_name(value: object) -> str:
    if isinstance(value, dict):
        return "map"
    return "list" if isinstance(value, list) else f"&value.valueUnstructured{{Value:{value!r}}}"


def _check_object(node: Node, value: object, path: Path, errors: list[str]) -> None:
    if not isinstance(value, dict):
        errors.append(f"{render(path)}: expected map, got {_type_name(value)}")
        return
    for key, member in value.items():
        below = (*path, f"f:{key}")
        child = node.child(key)
        if child is not None:
            _check(child, member, below, errors)
        elif not node.knows(key):
            errors.append(f"{render(below)}: field not declared in schema")


def _check_list(node: Node, value: object, path: Path, errors: list[str]) -> None:
    if not isinstance(value, list):
        errors.append(f"{render(path)}: expected list, got {_type_name(value)}")
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if node.list_type is not ListType.ATOMIC:
            identity = item_element(node, item)
            if identity is None:
                errors.append(f"{render(path)}: element {index}: {_missing_key(node, item)}")
                continue
            if identity in seen:
                errors.append(f"{render(path)}: duplicate entries for key {render((identity,))}")
            seen.add(identity)
            element = identity
        _check(node.items, item, (*path, element), errors)


def _missing_key(node: Node, item: object) -> str:
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    keys = " ".join(f'"{key}"' for key in node.list_keys)
    return (
        f"associative list with keys has an element that omits all key fields [{keys}] "
        "(and doesn't have default values for any key fields)"
    )


_SYSTEM_METADATA: Final = (
    "uid", "resourceVersion", "creationTimestamp", "generation", "selfLink", "deletionTimestamp",
    "deletionGracePeriodSeconds",
)  # fmt: skip
_NEVER_OWNED: Final[FieldSet] = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (*_SYSTEM_METADATA[:5], "name", "namespace", "managedFields", "clusterName")
    }
)
_IDENTITY: Final = frozenset({"apiVersion", "kind", "metadata"})
_BEFORE_FIRST_APPLY: Final = "before-first-apply"


class Conflict(NamedTuple):
    """A field that another manager owns and this apply would change; `manager` as messages name it."""

    manager: str
    path: str


class ApplyConflict(Exception):  # noqa: N818 - the API calls it a conflict, and it is one of several answers
    """An apply without force would change other managers' fields; the server answers 409."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        """Word the conflicts as the real server does."""
        self.conflicts = tuple(conflicts)
        super().__init__(_conflict_message(self.conflicts))

    def causes(self) -> list[JsonObject]:
        """`Status.details.causes`."""
        return [
            {
                "reason": "FieldManagerConflict",
                "message": f"conflict with {conflict.manager}",
                "field": conflict.path,
            }
            for conflict in self.conflicts
        ]


def _conflict_message(conflicts: Sequence[Conflict]) -> str:
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: conflict with {conflicts[0].manager}: {conflicts[0].path}"
    lines: list[str] = []
    for manager in sorted({conflict.manager for conflict in conflicts}):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {conflict.path}" for conflict in conflicts if conflict.manager == manager]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def apply(
    live: JsonObject | None,
    config: JsonObject,
    *,
    manager: str,
    force: bool,
    api_version: str,
    subresource: str,
    schema: Schema,
    now: str,
    reset_paths: Collection[str] = (),
) -> JsonObject:
    """The object after a server-side apply; neither input is changed, defaulting and validation come after.

    Args:
        live: the stored object, None when the apply creates it.
        config: what the manager wants, complete: fields that it owned and left out are removed.
        manager: the field manager.
        force: take over fields of others instead of failing.
        api_version: group/version of the request.
        subresource: empty for the main resource; with `status` all but the status is ignored.
        schema: of this version and kind.
        now: RFC 3339 in seconds, the time of changed entries.
        reset_paths: top-level fields that this endpoint ignores (`status` on a main resource that has the subresource).

    Raises:
        ApplyConflict: another manager owns a field with another value, and `force` is not set.
        TypedPatchError: the configuration does not fit the schema.
        PatchError: the configuration carries managedFields (400).
    """
    if config.get("metadata", {}).get("managedFields"):
        raise PatchError(400, "BadRequest", "metadata.managedFields must be nil")
    check_typed(schema.root, config)
    wanted = _visible(config, subresource, reset_paths)
    base = live if live is not None else {}
    managed = _managed_before_apply(live, schema.root, now, reset_paths)
    key = manager_id(manager, Operation.APPLY, api_version, subresource)
    last = managed.fields(key)
    before = managed.owners[key].time if key in managed.owners else ""
    mine = to_fieldset(schema.root, wanted) - _NEVER_OWNED
    managed.owners[key] = Ownership(api_version, now, mine)
    result: JsonObject = merge(schema.root, base, wanted)
    result = _prune(schema.root, result, last, managed)
    _restore_system_metadata(result, live)
    difference = compare(schema.root, _unmanaged(base), _unmanaged(result))
    taken = _take(managed, key, difference)
    if taken and not force:
        raise ApplyConflict(_conflicts(taken))
    if live is not None and not (difference.changed or difference.removed):
        if mine == last:
            return clone(live)
        # Who owns what changed, the object did not: that keeps the time of the entry, and a new one has none.
        managed.owners[key] = Ownership(api_version, before, mine)
    managed.disown(taken)
    _forget_removed(managed, difference, except_for=key)
    return _with_managed(result, managed)


def update(
    live: JsonObject | None,
    new: JsonObject,
    *,
    manager: str,
    operation: Operation = Operation.UPDATE,
    api_version: str,
    subresource: str,
    schema: Schema,
    now: str,
) -> JsonObject:
    """The new object with ownership of what changed given to the manager; neither input is changed.

    `new` is the final content (fields that the endpoint ignores put back, defaults filled in) with the managedFields
    that the client sent: none or `[]` keeps those of `live`, `[{}]` forgets all owners. On a subresource they are
    ignored.
    """
    managed = _managed_of_update(live, new, subresource)
    key = manager_id(manager, operation, api_version, subresource)
    difference = compare(schema.root, _unmanaged(live or {}), _unmanaged(new))
    changed = frozenset(difference.changed) - _NEVER_OWNED
    managed.disown(_take(managed, key, difference))
    _forget_removed(managed, difference, except_for=None)
    if changed:
        managed.owners[key] = Ownership(api_version, now, managed.fields(key) | changed)
    return _with_managed(new, managed)


def _visible(config: JsonObject, subresource: str, reset_paths: Collection[str]) -> JsonObject:
    if subresource:
        visible = {key: value for key, value in config.items() if key in {"apiVersion", "kind", subresource}}
        names = {key: config["metadata"][key] for key in ("name", "namespace") if key in config.get("metadata", {})}
        return {**visible, "metadata": names}
    return {key: value for key, value in config.items() if key not in reset_paths or key in _IDENTITY}


def _unmanaged(obj: JsonObject) -> JsonObject:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _managed_of(obj: JsonObject | None) -> ManagedFields:
    try:
        return ManagedFields.decode(((obj or {}).get("metadata") or {}).get("managedFields"))
    except ValueError:
        # As the real server: entries that can't be read count as none.
        return ManagedFields()


def _managed_before_apply(live: JsonObject | None, root: Node, now: str, reset_paths: Collection[str]) -> ManagedFields:
    managed = _managed_of(live)
    if live is not None and not managed.owners:
        seen = {name: value for name, value in _unmanaged(live).items() if name not in reset_paths}
        fields = frozenset(compare(root, {}, seen).added) - _NEVER_OWNED
        version = str(live.get("apiVersion", ""))
        key = manager_id(_BEFORE_FIRST_APPLY, Operation.UPDATE, version, "")
        managed.owners[key] = Ownership(version, now, fields)
    return managed


def _managed_of_update(live: JsonObject | None, new: JsonObject, subresource: str) -> ManagedFields:
    entries = (new.get("metadata") or {}).get("managedFields")
    if subresource or not entries:
        return _managed_of(live)
    if is_reset(entries):
        return ManagedFields()
    try:
        return ManagedFields.decode(entries)
    except ValueError:
        return _managed_of(live)


def _restore_system_metadata(result: JsonObject, live: JsonObject | None) -> None:
    former: dict[str, Any] = (live or {}).get("metadata") or {}
    metadata = {key: value for key, value in result.get("metadata", {}).items() if key not in _SYSTEM_METADATA}
    metadata.update({key: former[key] for key in _SYSTEM_METADATA if key in former})
    result["metadata"] = metadata


def _prune(root: Node, merged: JsonObject, last: FieldSet, managed: ManagedFields) -> JsonObject:
    """Remove what the manager owned, left out now, and has no other owner."""
    claimed = EMPTY.union(*(owner.fields for owner in managed.owners.values()))
    if last <= claimed:
        return merged
    everything = ensure_named(root, to_fieldset(root, merged))
    former = ensure_named(root, last)
    without_mine: JsonObject = remove(root, merged, former)
    left = ensure_named(root, to_fieldset(root, without_mine))
    with_claimed: JsonObject = remove(root, merged, everything - left - ensure_named(root, claimed))
    kept = ensure_named(root, to_fieldset(root, with_claimed))
    # What has no owner stays, unless it was this manager's.
    result: JsonObject = remove(root, merged, (everything - kept) & former)
    return result


def _take(managed: ManagedFields, key: ManagerId, difference: Comparison) -> Mapping[ManagerId, FieldSet]:
    changed = difference.changed
    if not changed:
        return {}
    return {
        other: shared for other, owner in managed.owners.items() if other != key and (shared := owner.fields & changed)
    }


def _forget_removed(managed: ManagedFields, difference: Comparison, *, except_for: ManagerId | None) -> None:
    if difference.removed:
        managed.disown({key: frozenset(difference.removed) for key in managed.owners if key != except_for})


def _conflicts(taken: Mapping[ManagerId, FieldSet]) -> list[Conflict]:
    return [
        Conflict(str(manager), render(path))
        for manager, fields in sorted(taken.items(), key=lambda pair: str(pair[0]))
        for path in sorted(fields)
    ]


def _with_managed(obj: JsonObject, managed: ManagedFields) -> JsonObject:
    result = clone(_unmanaged(obj))
    entries = managed.encode()
    if entries:
        result.setdefault("metadata", {})["managedFields"] = entries
    return result
