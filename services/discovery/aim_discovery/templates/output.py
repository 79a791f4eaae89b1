"""What a discovery container printed: finding the array in the log, reading its first element (DI-261…DI-276)."""

import json
import re
from typing import Any, Final, Never, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aim_domain import MODEL_ID, SOURCE_URI, Metric, Precision, ProfileType
from controller_runtime import JsonObject, dumps, format_binary

LARGEST_ORIGINAL: Final = 128 << 10
"""Bytes up to which the raw output is kept in the status (DI-276)."""

_GB: Final = 1 << 30


class InvalidOutputError(ValueError):
    """The output is no discovery result (reason ``InvalidDiscoveryOutput``); the message says why."""


# Finding the array


def first_profile(log: str) -> JsonObject:
    """The first element of the printed array, whatever else is in the log (DI-261…DI-265).

    Raises:
        InvalidOutputError: no array of objects, or an empty one.
    """
    whole = _decoded(log)
    found = whole if _is_array_of_objects(whole) else _embedded(log)
    if not found:
        raise InvalidOutputError("the array is empty" if found == [] else "the log holds no JSON array of objects")
    return found[0]


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is not valid JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)


def _decoded(text: str) -> object:
    try:
        return _DECODER.decode(text)
    except ValueError:
        return None


def _is_array_of_objects(value: object) -> TypeGuard[list[JsonObject]]:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _embedded(text: str) -> list[JsonObject] | None:
    """The last non-empty array of objects in the text, at the outermost level."""
    end = len(text.rstrip())
    last: list[JsonObject] | None = None
    position = text.find("[")
    while position >= 0:
        try:
            value, after = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            if error.pos >= end or error.msg.startswith("Unterminated"):
                # All that follows belongs to an array that never ends; its inner arrays are no result.
                break
            after = position + 1
        except (ValueError, RecursionError):
            after = position + 1
        else:
            if value and _is_array_of_objects(value):
                last = value
            elif not isinstance(value, list):
                after = position + 1
        position = text.find("[", after)
    return last


# Reading the element


class _Raw(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _RawMetadata(_Raw):
    engine: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None
    metric: str | None = None
    precision: str | None = None
    type: str | None = None


class _RawProfile(_Raw):
    metadata: _RawMetadata | None = None
    engine_args: dict[str, Any] | None = None
    env_vars: dict[str, Any] | None = None


class _RawModel(_Raw):
    name: str = ""
    source: str = ""
    size_gb: float | None = None


class _RawElement(_Raw):
    profile: _RawProfile | None = None
    models: list[_RawModel] | None = Field(default=None)


def profile_and_sources(element: JsonObject, wanted_type: ProfileType | None) -> tuple[JsonObject, list[JsonObject]]:
    """JSON of ``status.profile`` and of ``status.modelSources``.

    Args:
        wanted_type: the template's own type, which replaces the discovered one (DI-275).

    Raises:
        InvalidOutputError: a member of another type, or a source that the API would refuse (DI-273).
    """
    try:
        raw = _RawElement.model_validate(element)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidOutputError(f"{'.'.join(str(step) for step in first['loc'])}: {first['msg']}") from error
    return _profile(raw.profile or _RawProfile(), element, wanted_type), [_source(model) for model in raw.models or ()]


def _profile(raw: _RawProfile, element: JsonObject, wanted_type: ProfileType | None) -> JsonObject:
    result: JsonObject = {"metadata": _metadata(raw.metadata or _RawMetadata(), wanted_type)}
    if raw.engine_args is not None:
        result["engine_args"] = raw.engine_args
    if raw.env_vars is not None:
        result["env_vars"] = {name: _text(value) for name, value in raw.env_vars.items()}
    if len(dumps(element)) <= LARGEST_ORIGINAL:
        result["originalDiscoveryOutput"] = element
    return result


def _metadata(raw: _RawMetadata, wanted_type: ProfileType | None) -> JsonObject:
    values = {
        "engine": raw.engine,
        "gpu": raw.gpu,
        "gpuCount": raw.gpu_count,
        "metric": raw.metric if raw.metric and Metric(raw.metric).known else None,
        "precision": raw.precision if raw.precision and Precision(raw.precision).known else None,
        "type": wanted_type.value if wanted_type else _type(raw.type),
    }
    return {name: value for name, value in values.items() if value not in (None, "")}


def _type(text: str | None) -> str | None:
    """The runtime also says ``general``, which the API does not know (DI-274)."""
    if text is None:
        return None
    return text if ProfileType(text).known else ProfileType.UNOPTIMIZED.value


def _text(value: object) -> str:
    """Environment variables are strings, whatever the profile's author wrote (DI-269)."""
    return value if isinstance(value, str) else dumps(value).decode()


def _source(raw: _RawModel) -> JsonObject:
    for text, pattern, what in ((raw.name, MODEL_ID.pattern, "name"), (raw.source, SOURCE_URI.pattern, "source")):
        if pattern is not None and not re.search(pattern, text):
            raise InvalidOutputError(f"models[].{what} {text!r} does not match {pattern}")
    size = int(raw.size_gb * _GB) if raw.size_gb is not None and raw.size_gb > 0 else 0
    return {"modelId": raw.name, "sourceUri": raw.source, **({"size": format_binary(size)} if size else {})}
