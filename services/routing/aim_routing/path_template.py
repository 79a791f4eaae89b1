"""Path templates: literal text with JSONPath placeholders, rendered against the AIMService (RT-073…RT-093).

The expression language is the part of JSONPath that leads to one value; whatever could lead to several is refused,
so that a path never depends on the order of a list.
"""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from aim_domain.naming import sanitise_segment
from controller_runtime import JsonObject, dumps


class PathTemplateError(Exception):
    """The template cannot be rendered; the message names the expression and the cause (RT-113)."""


class MissingValueError(PathTemplateError):
    """A placeholder leads to nothing.

    Attributes:
        fields: the plain field names it follows from the root, as far as the expression consists of them.
    """

    def __init__(self, message: str, fields: tuple[str, ...]) -> None:
        super().__init__(message)
        self.fields = fields


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

_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
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
_MAPS_WITH_FREE_KEYS: Final = {"labels": "label", "annotations": "annotation"}


def render(template: str, service: JsonObject) -> str:
    """The template with every placeholder replaced, not yet normalised.

    Raises:
        PathTemplateError: a placeholder is malformed or leads to no, several or unusable values.
    """
    return _PLACEHOLDER.sub(lambda match: _value_of(match[1].strip(), service), template)


def _value_of(expression: str, service: JsonObject) -> str:
    steps = parse(expression)
    fields = tuple(step.name for step in steps[:2] if isinstance(step, Field))
    if fields in _UNSTEADY:
        raise PathTemplateError(f"expression {{{expression}}}: invalid expression, a path cannot follow {fields[1]}")
    text = _scalar(expression, _single(expression, steps, service)).strip()
    verbatim = _is_annotation(steps)
    value = text if verbatim else sanitise_segment(text)
    if not value:
        raise PathTemplateError(f"expression {{{expression}}}: the value is empty")
    return value


def parse(expression: str) -> tuple[Step, ...]:
    """The steps of an expression; a leading ``$`` is optional.

    Raises:
        PathTemplateError: the expression is empty or not of the supported forms.
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


def _single(expression: str, steps: tuple[Step, ...], root: JsonObject) -> object:
    values: list[object] = [root]
    for done, step in enumerate(steps):
        values = [found for value in values for found in _follow(step, value)]
        if not values:
            raise _missing(expression, steps, done)
    if len(values) > 1:
        raise PathTemplateError(f"expression {{{expression}}}: several results, exactly one is needed")
    return values[0]


def _missing(expression: str, steps: tuple[Step, ...], at: int) -> MissingValueError:
    step, parent = steps[at], steps[at - 1] if at else None
    fields = tuple(step.name for step in steps if isinstance(step, Field))
    if isinstance(step, Field) and isinstance(parent, Field) and parent.name in _MAPS_WITH_FREE_KEYS:
        what = f"{_MAPS_WITH_FREE_KEYS[parent.name]} {step.name!r} not found on the AIMService"
    else:
        what = "no result"
    return MissingValueError(f"expression {{{expression}}}: {what}", fields)


def _follow(step: Step, value: object) -> list[object]:
    if isinstance(step, Field):
        return [value[step.name]] if isinstance(value, dict) and step.name in value else []
    if not isinstance(value, list):
        return []
    if isinstance(step, Element):
        return [value[step.index]] if -len(value) <= step.index < len(value) else []
    if isinstance(step, Slice):
        return value[step.start : step.stop]
    return [item for item in value if _holds(step, item)]


def _holds(step: Filter, item: object) -> bool:
    for name in step.member:
        if not isinstance(item, dict) or name not in item:
            return False
        item = item[name]
    if step.operator in ("==", "!="):
        return (item == step.literal) is (step.operator == "==")
    if isinstance(item, bool) or not isinstance(item, int | float) or not isinstance(step.literal, float):
        return False
    below, equal = item < step.literal, item == step.literal
    return {"<": below, "<=": below or equal, ">": not below and not equal, ">=": not below}[step.operator]


def _scalar(expression: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return dumps(value).decode()
    raise PathTemplateError(f"expression {{{expression}}}: the value is not a string, number or boolean")


def _is_annotation(steps: tuple[Step, ...]) -> bool:
    """Whether the value comes from one of the annotation forms, which may hold several segments (RT-091)."""
    return (
        len(steps) == 3
        and steps[:2] == (Field("metadata"), Field("annotations"))
        and steps[2] == Field(getattr(steps[2], "name", ""), quoted=True)
    )
