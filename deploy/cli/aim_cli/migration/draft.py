"""A spec on its way from the old form to today's."""

from collections.abc import Sequence
from copy import deepcopy
from typing import TypeAlias

from aim_cli.migration.findings import Finding, Origin, Weight
from controller_runtime import JsonObject

Json: TypeAlias = JsonObject | list["Json"] | str | int | float | bool | None


class Draft:
    """The old spec, which rules change in place; what they have to say about it is collected.

    Everything that no rule touches stays, so a field that has kept its name and meaning needs no rule. What today's
    kind does not know is found afterwards, by its schema.

    Attributes:
        spec: the spec so far.
        findings: remarks in the order of the rules.
    """

    def __init__(self, origin: Origin, spec: JsonObject) -> None:
        self.origin = origin
        self.spec: JsonObject = deepcopy(spec)
        self.findings: list[Finding] = []

    def block(self, *path: str) -> JsonObject:
        """The object at a path; an empty one, which is no part of the spec, where there is none."""
        value: object = self.spec
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}

    def items(self, *path: str) -> list[JsonObject]:
        """The objects in the list at a path."""
        value = self.block(*path[:-1]).get(path[-1])
        return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

    def take(self, *path: str) -> Json:
        """Remove a value and return it, None when it is absent; a block that becomes empty goes as well."""
        block = self.block(*path[:-1])
        value: Json = block.pop(path[-1], None)
        if len(path) > 1 and value is not None and not block:
            self.take(*path[:-1])
        return value

    def put(self, value: Json, *path: str) -> Json:
        """Set a value, unless today's field is there already: an explicit new name wins over the old one.

        Returns what is in its place then.
        """
        block = self.spec
        for name in path[:-1]:
            below: Json = block.setdefault(name, {})
            if not isinstance(below, dict):
                return below
            block = below
        there: Json = block.setdefault(path[-1], value)
        return there

    def move(self, old: Sequence[str], new: Sequence[str], *, overruled: bool = False) -> None:
        """Rename a field; that another value stands under the new name is a conflict.

        Args:
            overruled: the old kind itself did not look at the old name then.
        """
        value = self.take(*old)
        if value is not None and self.put(value, *new) != value and not overruled:
            self.tell(Weight.CONFLICT, f"spec.{'.'.join(old)}", f"spec.{'.'.join(new)} says something else, and stays")

    def lose(self, field: str, reason: str) -> None:
        """Remark that a field has no place today."""
        self.tell(Weight.LOST, field, reason)

    def tell(self, weight: Weight, field: str, reason: str) -> None:
        """Remark something about a field of the old object."""
        self.findings.append(Finding(weight, str(self.origin), field, reason))
