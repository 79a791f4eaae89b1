"""Conditions by kind, and every reason with its remedy."""

from collections.abc import Iterator
from typing import Final

from aim_domain.kinds import OWN_KINDS
from aim_packaging.reference.reason_catalogue import CONDITIONS, EXTRA, REASONS
from aim_packaging.reference.tables import code, table
from controller_runtime import ParentCondition, condition_type

_HEAD: Final = """\
# Conditions and reasons

`Ready` repeats reason and message of the condition that decides; `aim why KIND NAME` follows that across objects to the
first cause and prints the remedy with the names of your objects in it. Gateways and Kubernetes give further reasons of
their own, which are passed on as they are. What keeps a service itself from its work is an Event on its pod:
[operations](../operations/start.md).

## Conditions

"""
_RECONCILED: Final = "Reconciled"
_COMPONENTS: Final = {kind.kind: kind.model.components for kind in OWN_KINDS}
_PARENTS: Final = (
    ParentCondition.DEPENDENCIES_REACHABLE,
    ParentCondition.AUTH_VALID,
    ParentCondition.CONFIG_VALID,
    _RECONCILED,
)
_OF_CONFIGS: Final = ("Ready", ParentCondition.CONFIG_VALID, _RECONCILED)
"""Runtime configs depend on nothing; serving judges their fields alone."""


def page() -> str:
    """When each condition is true and on which kinds it is; what each reason means."""
    return "\n".join([_HEAD.rstrip("\n"), "", *_conditions(), *_reasons(), ""])


def conditions_of(kind: str) -> tuple[str, ...]:
    """The conditions that a kind can have, in their order."""
    own = tuple(condition_type(component) for component in _COMPONENTS[kind])
    return ("Ready", *own, *EXTRA.get(kind, ()), *_PARENTS) if own else _OF_CONFIGS


def _conditions() -> Iterator[str]:
    rows = ((code(type_), _kinds(type_), meaning) for type_, meaning in CONDITIONS.items())
    return table(("condition", "on", "true when"), rows)


def _kinds(type_: str) -> str:
    """Where a condition is, in as few words as possible."""
    there = [kind for kind in _COMPONENTS if type_ in conditions_of(kind)]
    configs = [kind for kind in _COMPONENTS if not _COMPONENTS[kind]]
    if len(there) == len(_COMPONENTS):
        return "all"
    return "all but runtime configs" if len(there) == len(_COMPONENTS) - len(configs) else ", ".join(there)


def _reasons() -> Iterator[str]:
    for title, reasons in REASONS.items():
        yield from ("", f"## {title}", "")
        rows = ((code(one.name), _of(one.of), one.meaning, one.remedy) for one in reasons)
        yield from table(("reason", "of", "means", "what to do"), rows)


def _of(conditions: str) -> str:
    return ", ".join(code(one) if one in CONDITIONS or one.startswith("…") else one for one in conditions.split(", "))
