"""The path of a service: its template and its canonical form."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pydantic import BaseModel

from aim_domain import AIMService, AIMServiceStatus
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
from controller_runtime import JsonObject, dumps, to_json
from controller_runtime.texts import shortened


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


MAX_PATH: Final = 200
_AMBIGUOUS: Final = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]|(?:^|/)\s*\.+\s*(?:/|$)")


class PathProblem(Enum):
    """Why there is no path."""

    INVALID = "invalid"
    """The template is wrong for this service."""
    NOT_YET = "not yet"
    """It reads a status field that is not populated yet (RT-115)."""


@dataclass(frozen=True, slots=True)
class Path:
    """The outcome: a path, or the problem with its explanation."""

    value: str = ""
    problem: PathProblem | None = None
    message: str = ""


def path_of(service: AIMService, template: str | None) -> Path:
    """The path of a service; an empty template stands for the default (RT-071)."""
    try:
        if not template:
            return Path(normalise(f"/{service.namespace}/{service.uid}"))
        path = normalise(render(template, to_json(service)))
        if path == "/" and template != "/":
            raise PathTemplateError("the path is empty after normalisation, which would capture all traffic")
    except MissingValueError as missing:
        not_yet = _is_known_status_field(missing.fields)
        return Path(
            problem=PathProblem.NOT_YET if not_yet else PathProblem.INVALID, message=_explain(template, missing)
        )
    except PathTemplateError as error:
        return Path(problem=PathProblem.INVALID, message=_explain(template, error))
    return Path(path)


def normalise(rendered: str) -> str:
    """Lower-case segments of ``a-z0-9-``, single slashes, at most 200 characters.

    Raises:
        PathTemplateError: empty, too long, or without a safe canonical form (RT-109).
    """
    text = rendered.strip()
    if not text:
        raise PathTemplateError("the path is empty")
    if _AMBIGUOUS.search(text):
        raise PathTemplateError(
            "the path has a percent-encoding, a backslash, a control character or a segment of dots only, "
            "which proxies read in different ways; write it without"
        )
    text = f"/{text.lstrip('/')}".rstrip("/") if not text.startswith("/") else text.rstrip("/")
    if len((text or "/").encode()) > MAX_PATH:
        raise PathTemplateError(f"the path is longer than {MAX_PATH} characters")
    segments = [segment for part in text.split("/") if part and (segment := sanitise_segment(part))]
    return f"/{'/'.join(segments)}"


def _explain(template: str | None, error: PathTemplateError) -> str:
    # A template that is too long to be read is too long for a condition.
    quoted = shortened(repr(template), 256)
    return f"path template {quoted}: {error}; correct pathTemplate on the AIMService or on its runtime config"


def _is_known_status_field(fields: tuple[str, ...]) -> bool:
    if not fields or fields[0] != "status":
        return False
    model: type[BaseModel] | None = AIMServiceStatus
    for name in fields[1:]:
        if model is None:
            return False
        field = next((info for key, info in model.model_fields.items() if (info.alias or key) == name), None)
        if field is None:
            return False
        model = next((kind for kind in _models_in(field.annotation)), None)
    return True


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in getattr(annotation, "__args__", ()) for model in _models_in(inner)]
