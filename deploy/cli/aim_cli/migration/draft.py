"""A spec on its way from the old form to today's."""

from collections.abc import Iterable
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

    def put(self, value: Json, *path: str) -> None:
        """Set a value, unless today's field is there already: an explicit new name wins over the old one."""
        block = self.spec
        for name in path[:-1]:
            below = block.setdefault(name, {})
            if not isinstance(below, dict):
                return
            block = below
        block.setdefault(path[-1], value)

    def move(self, old: Iterable[str], new: Iterable[str]) -> None:
        """Rename a field."""
        value = self.take(*old)
        if value is not None:
            self.put(value, *new)

    def lose(self, field: str, reason: str) -> None:
        """Remark that a field has no place today."""
        self.tell(Weight.LOST, field, reason)

    def tell(self, weight: Weight, field: str, reason: str) -> None:
        """Remark something about a field of the old object."""
        self.findings.append(Finding(weight, str(self.origin), field, reason))
