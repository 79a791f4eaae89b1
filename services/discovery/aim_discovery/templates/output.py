"""What a discovery container printed: finding the array in the log, reading its first element (DI-261…DI-276)."""

import json
import re
from typing import Annotated, Any, Final, Never, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aim_domain import MODEL_ID, SOURCE_URI, Metric, Precision, ProfileType
from aim_domain.bounds import MAX_ENTRIES, MAX_GPU_MODEL, MAX_STRING, MAX_VALUE
from controller_runtime import JsonObject, dumps, format_binary

LARGEST_ORIGINAL: Final = 128 << 10
"""Bytes up to which the raw output is kept in the status (DI-276)."""

_GB: Final = 1 << 30
_LARGEST_RESULT: Final = 1 << 20
"""Bytes of profile and sources; etcd takes objects of up to 1.5 MiB."""
_MOST_QUOTED: Final = 100
_OPENING: Final = re.compile(r"(?<!\x1b)\[(?=[\s\[\]{\"0-9tfn-])")
"""What may begin an array; not a colour, nor most words in brackets."""
_BEHIND: Final = 64 << 10
_MOST_FAILURES: Final = 10_000
_MOST_READ: Final = 8 << 20
"""Characters read in vain, beyond which a log is not worth its time: everybody's templates wait meanwhile."""


class InvalidOutputError(ValueError):
    """The output is no discovery result (reason ``InvalidDiscoveryOutput``); the message says why."""


# Finding the array


def first_profile(log: str) -> JsonObject:
    """The first element of the printed array, whatever else is in the log (DI-261…DI-265).

    Raises:
        InvalidOutputError: no array of objects, or an empty one; or its first element cannot be passed on (FW-597).
    """
    whole = _decoded(log)
    found = whole if _is_array_of_objects(whole) else _embedded(log)
    if not found:
        raise InvalidOutputError("the array is empty" if found == [] else "the log holds no JSON array of objects")
    try:
        dumps(found[0])
    except TypeError as error:
        raise InvalidOutputError(f"the profile cannot be stored: {error}") from error
    return found[0]


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is not valid JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)


def _decoded(text: str) -> object:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _is_array_of_objects(value: object) -> TypeGuard[list[JsonObject]]:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _embedded(text: str) -> list[JsonObject] | None:
    """The last non-empty array of objects in the text, at the outermost level.

    Raises:
        InvalidOutputError: reading on would cost more than a result is worth (FW-597).
    """
    text, last, position = text.rstrip(), None, 0
    failures, read = 0, 0
    while (found := _OPENING.search(text, position)) is not None:
        position = found.start()
        if position > _BEHIND:
            # An error counts the lines from the beginning of its text.
            text, position = text[position:], 0
        try:
            value, after = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            if error.pos >= len(text) or error.msg.startswith("Unterminated"):
                # All that follows belongs to an array that never ends; its inner arrays are no result.
                break
            failures, read = failures + 1, read + error.pos - position
            after = position + 1
        except ValueError:
            failures, after = failures + 1, position + 1
        except RecursionError:
            raise InvalidOutputError("the log holds an array that is nested too deeply") from None
        else:
            if value and _is_array_of_objects(value):
                last = value
        if failures > _MOST_FAILURES or read > _MOST_READ:
            raise InvalidOutputError("the log holds too much that looks like an array and is none")
        position = after
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
    size_gb: Annotated[float, Field(le=1e9)] | None = None


class _RawElement(_Raw):
    profile: _RawProfile | None = None
    models: list[_RawModel] | None = Field(default=None)


def profile_and_sources(element: JsonObject, wanted_type: ProfileType | None) -> tuple[JsonObject, list[JsonObject]]:
    """JSON of ``status.profile`` and of ``status.modelSources``.

    Args:
        wanted_type: the template's own type, which replaces the discovered one (DI-275).

    Raises:
        InvalidOutputError: a member of another type, a source that the API would refuse (DI-273), or too much of both.
    """
    try:
        raw = _RawElement.model_validate(element)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidOutputError(f"{'.'.join(str(step) for step in first['loc'])}: {first['msg']}") from error
    profile = _profile(raw.profile or _RawProfile(), element, wanted_type)
    sources = [_source(model) for model in raw.models or ()]
    # Text of values can be longer than the values were.
    _refuse_beyond_bounds(profile, sources)
    if len(dumps([profile, sources])) > _LARGEST_RESULT:
        raise InvalidOutputError(f"profile and models have more than {_LARGEST_RESULT} bytes")
    return profile, sources


def _refuse_beyond_bounds(profile: JsonObject, sources: list[JsonObject]) -> None:
    """The definition refuses a status with them, and with it everything else that the status says (CC-340)."""
    variables = profile.get("env_vars", {})
    for what, entries in (("env_vars", variables), ("models", sources)):
        if len(entries) > MAX_ENTRIES:
            raise InvalidOutputError(f"{what} has {len(entries)} entries, {MAX_ENTRIES} are allowed")
    metadata: JsonObject = profile["metadata"]
    texts = [("metadata", text) for text in metadata.values() if isinstance(text, str)]
    texts += [("models", text) for source in sources for text in source.values()]
    bounded = [
        # It becomes the model of the template's hardware.
        ("metadata.gpu", metadata.get("gpu", ""), MAX_GPU_MODEL),
        *((what, text, MAX_STRING) for what, text in texts),
        *(("env_vars", text, MAX_VALUE) for text in variables.values()),
    ]
    for what, text, most in bounded:
        if len(text) > most:
            raise InvalidOutputError(f"{what} has a text of {len(text)} characters, {most} are allowed")


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
            raise InvalidOutputError(f"models[].{what} {text[:_MOST_QUOTED]!r} does not match {pattern}")
    size = int(raw.size_gb * _GB) if raw.size_gb is not None and raw.size_gb > 0 else 0
    return {"modelId": raw.name, "sourceUri": raw.source, **({"size": format_binary(size)} if size else {})}
