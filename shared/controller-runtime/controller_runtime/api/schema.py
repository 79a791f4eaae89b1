"""Constraints that a CRD publishes, as data beside the types.

`Schema` values sit in the `Annotated[...]` of a field, or in the class variable `schema_info` of a model. pydantic
ignores them; only the CRD generator reads them. So the API server enforces them on writes, and a reader never refuses
a stored object because of a rule that came later (CC-014).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final


class ListType(StrEnum):
    """How server-side apply merges a list."""

    ATOMIC = "atomic"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class CelRule:
    """One `x-kubernetes-validations` entry; `field_path` is relative to the node that carries the rule (CC-016)."""

    rule: str
    message: str
    field_path: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """OpenAPI constraints of one node; several in one annotation are merged, later ones win.

    `required` is relative to the parent object, `defaulted` publishes the python default as the structural default,
    `any_value` publishes an enumeration as a plain string.
    """

    required: bool = False
    defaulted: bool = False
    free_form: bool = False
    any_value: bool = False
    int_or_string: bool = False
    atomic_map: bool = False
    format: str | None = None
    pattern: str | None = None
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    max_properties: int | None = None
    list_type: ListType | None = None
    map_keys: tuple[str, ...] = ()
    rules: tuple[CelRule, ...] = field(default=())

    def merged(self, other: Schema) -> Schema:
        """This schema with everything that `other` states; rules of both are kept."""
        chosen: dict[str, Any] = {}
        for item in fields(self):
            theirs = getattr(other, item.name)
            chosen[item.name] = getattr(self, item.name) if theirs == item.default else theirs
        chosen["rules"] = (*self.rules, *other.rules)
        return Schema(**chosen)


REQUIRED: Final = Schema(required=True)
"""The API server demands the field; the python default only serves objects stored before that rule."""
DEFAULTED: Final = Schema(defaulted=True)
"""The python default is the structural default, filled in by the API server."""


def list_map(*keys: str) -> Schema:
    """A list merged by key, so that several managers can own different items (CC-022)."""
    return Schema(list_type=ListType.MAP, map_keys=keys)


def immutable(name: str) -> Schema:
    """The transition rule `self == oldSelf` on the node called `name` (CC-161)."""
    return Schema(rules=(CelRule("self == oldSelf", f"{name} is immutable"),))
