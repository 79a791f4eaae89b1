"""Objects as the event log knows them: by the part that they belong to."""

from dataclasses import dataclass
from typing import Any, Final

from aim_cli.asking import Ref
from aim_cli.errors import TargetError
from aim_cli.targets import Where
from aim_cli.targets import target as named
from aim_domain import parts
from controller_runtime import Key, Part

PARTS: tuple[Part[Any], ...] = tuple(part for part in vars(parts).values() if isinstance(part, Part))

_ANYWHERE: Final = Where()


@dataclass(frozen=True, slots=True)
class Target:
    """One object of one part."""

    part: Part[Any]
    key: Key

    def __str__(self) -> str:
        return f"{self.part.kind.kind} {self.key}"


def target(kind: str, name: str | None, where: Where = _ANYWHERE) -> Target:
    """As `aim_cli.targets.target`, of the kinds that are published.

    Raises:
        TargetError: no such kind, or a name of another form.
    """
    found = target_of(named(kind, name, where))
    if found is None:
        raise TargetError(f"the event log holds nothing of the kind {kind!r}")
    return found


def target_of(ref: Ref) -> Target | None:
    """The first part of the kind; ``None`` of kinds that nobody publishes."""
    part = next((part for part in PARTS if part.kind.resource == ref.kind.resource), None)
    return None if part is None else Target(part, Key(ref.namespace, ref.name))


def kind_name(part: str) -> str:
    """The kind of a part, for people; the part's own name where the table does not know it."""
    return next((known.kind.kind for known in PARTS if known.name == part), part)
