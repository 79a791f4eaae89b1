"""Path templates rendered against the AIMService (RT-073…RT-093)."""

from typing import Final

from aim_domain.naming import sanitise_segment
from aim_domain.path_template import (
    PLACEHOLDER,
    Element,
    Field,
    Filter,
    PathTemplateError,
    Slice,
    Step,
    check_template,
    parse,
)
from controller_runtime import JsonObject, dumps


class MissingValueError(PathTemplateError):
    """A placeholder leads to nothing.

    Attributes:
        fields: the plain field names it follows from the root, as far as the expression consists of them.
    """

    def __init__(self, message: str, fields: tuple[str, ...]) -> None:
        super().__init__(message)
        self.fields = fields


_MAX_VALUE: Final = 4096
"""Characters of a value: far more than a path holds; an annotation may have 64 times as many, at each placeholder."""
_MAPS_WITH_FREE_KEYS: Final = {"labels": "label", "annotations": "annotation"}


def render(template: str, service: JsonObject) -> str:
    """The template with every placeholder replaced, not yet normalised.

    Raises:
        PathTemplateError: the template is too long, has a brace without its other half, or a placeholder is malformed
            or leads to no, several or unusable values.
    """
    check_template(template)
    return PLACEHOLDER.sub(lambda match: _value_of(match[1].strip(), service), template)


def _value_of(expression: str, service: JsonObject) -> str:
    steps = parse(expression)
    text = _scalar(expression, _single(expression, steps, service)).strip()
    if len(text) > _MAX_VALUE:
        raise PathTemplateError(f"expression {{{expression}}}: the path is longer than 200 characters")
    verbatim = _is_annotation(steps)
    value = text if verbatim else sanitise_segment(text)
    if not value:
        raise PathTemplateError(f"expression {{{expression}}}: the value is empty")
    return value


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
