"""The language of path templates: literal text with JSONPath placeholders (RT-073…RT-079).

It is the part of JSONPath that leads to one value; whatever could lead to several is refused, so that a path never
depends on the order of a list.
"""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias


class PathTemplateError(Exception):
    """The template cannot be rendered; the message names the expression and the cause (RT-113)."""


@dataclass(frozen=True, slots=True)
class Field:
    """Member of an object."""

    name: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Element:
    """Element of a list; negative numbers count from the end."""

    index: int


@dataclass(frozen=True, slots=True)
class Slice:
    """A section of a list, which must hold exactly one element to have a value."""

    start: int | None
    stop: int | None


@dataclass(frozen=True, slots=True)
class Filter:
    """The elements of a list whose member stands in a relation to a literal."""

    member: tuple[str, ...]
    operator: str
    literal: str | float | bool


Step: TypeAlias = Field | Element | Slice | Filter

PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
_STEP: Final = re.compile(
    r"""
      \.(?P<name>(?:\\.|[^.\[\]\s\\*])+)
    | \[\s*'(?P<single>[^']*)'\s*\]
    | \[\s*"(?P<double>[^"]*)"\s*\]
    | \[\s*(?P<index>-?\d+)\s*\]
    | \[\s*(?P<start>-?\d+)?\s*:\s*(?P<stop>-?\d+)?\s*\]
    | \[\?\(\s*@\.(?P<member>[\w.]+)\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>"[^"]*"|'[^']*'|[^\s)]+)\s*\)\]
    """,
    re.VERBOSE,
)
_UNSTEADY: Final = frozenset(
    {
        ("metadata", "managedFields"),
        ("metadata", "resourceVersion"),
        ("status", "conditions"),
        ("status", "observedGeneration"),
        ("status", "routing"),
    }
)
"""What changes with health or with each write, also with that of the path itself: the route would never rest."""


def template_problems(template: str) -> list[str]:
    """What is wrong with a template whatever service it is for, one text per placeholder; empty for a good one."""
    return [problem for match in PLACEHOLDER.finditer(template) if (problem := _problem(match[1].strip()))]


def _problem(expression: str) -> str:
    try:
        parse(expression)
    except PathTemplateError as error:
        return str(error)
    return ""


def parse(expression: str) -> tuple[Step, ...]:
    """The steps of an expression; a leading ``$`` is optional.

    Raises:
        PathTemplateError: the expression is empty, not of the supported forms, or follows what never rests.
    """
    body = expression.removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(body):
        match = _STEP.match(body, position)
        if match is None:
            raise PathTemplateError(f"expression {{{expression}}}: invalid expression at {body[position:]!r}")
        steps.append(_step(match))
        position = match.end()
    if not steps:
        raise PathTemplateError(f"expression {{{expression}}}: invalid expression, it is empty")
    fields = tuple(step.name for step in steps[:2] if isinstance(step, Field))
    if fields in _UNSTEADY:
        raise PathTemplateError(f"expression {{{expression}}}: invalid expression, a path cannot follow {fields[1]}")
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    quoted = match["single"] if match["single"] is not None else match["double"]
    if quoted is not None:
        return Field(quoted, quoted=True)
    if match["name"] is not None:
        return Field(re.sub(r"\\(.)", r"\1", match["name"]))
    if match["index"] is not None:
        return Element(int(match["index"]))
    if match["member"] is not None:
        return Filter(tuple(match["member"].split(".")), match["operator"], _literal(match["literal"]))
    return Slice(*(None if bound is None else int(bound) for bound in (match["start"], match["stop"])))


def _literal(text: str) -> str | float | bool:
    if text[0] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text
