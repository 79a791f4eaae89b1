"""The path prefix of a route: template or default, normalised and checked (RT-070…RT-072, RT-100…RT-108)."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pydantic import BaseModel

from aim_domain import AIMService, AIMServiceStatus
from aim_domain.naming import sanitise_segment
from aim_domain.path_template import PathTemplateError
from aim_routing.path_template import MissingValueError, render
from controller_runtime import to_json
from controller_runtime.texts import shortened

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
