"""Which object a command is about: kinds by any of their names, objects by ``namespace/name``."""

from dataclasses import dataclass
from typing import Any

from aim_domain import parts
from controller_runtime import Key, Kind, Part

PARTS: tuple[Part[Any], ...] = tuple(part for part in vars(parts).values() if isinstance(part, Part))


class TargetError(Exception):
    """The words of the command name nothing that exists."""


@dataclass(frozen=True, slots=True)
class Target:
    """One object of one part."""

    part: Part[Any]
    key: Key

    def __str__(self) -> str:
        return f"{self.part.kind.kind} {self.key}"


def target(kind: str, name: str) -> Target:
    """Resolve a kind (kind, plural, singular or short name) and ``namespace/name``, or ``name`` in the cluster's scope.

    Raises:
        TargetError: no such kind, or a namespace is missing or too many.
    """
    part = next((part for part in PARTS if kind.lower() in names_of(part.kind)), None)
    if part is None:
        known = ", ".join(sorted({part.kind.plural for part in PARTS}))
        raise TargetError(f"there is no kind {kind!r}; known are {known}")
    namespace, slash, plain = name.rpartition("/")
    if bool(slash) is not part.kind.namespaced or not plain or (slash and not namespace):
        form = "namespace/name" if part.kind.namespaced else "name"
        raise TargetError(f"{part.kind.kind} is named as {form}, got {name!r}")
    return Target(part, Key(namespace, plain))


def names_of(kind: Kind[Any]) -> set[str]:
    """Every name by which a user may call a kind, in lower case."""
    return {kind.singular, kind.plural, *kind.short_names, kind.resource}


def kind_name(part: str) -> str:
    """The kind of a part, for people; the part's own name where the table does not know it."""
    return next((known.kind.kind for known in PARTS if known.name == part), part)
