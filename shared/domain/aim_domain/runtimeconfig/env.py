"""Merging of environment variables by name, with AIM_ENGINE_ARGS merged as JSON (RC-033…RC-036, RC-045)."""

from collections.abc import Iterable
from typing import Final

from controller_runtime import JsonObject, canonical, loads
from controller_runtime.core import EnvVar

ENGINE_ARGS: Final = "AIM_ENGINE_ARGS"


def merge_env(*levels: Iterable[EnvVar]) -> tuple[EnvVar, ...]:
    """Merge levels, least specific first: a name keeps its position, the later level replaces its value."""
    merged: dict[str, EnvVar] = {}
    for level in levels:
        for variable in level:
            base = merged.get(variable.name)
            merged[variable.name] = variable if base is None else _override(base, variable)
    return tuple(merged.values())


def _override(base: EnvVar, override: EnvVar) -> EnvVar:
    if override.name != ENGINE_ARGS or base.value_from is not None or override.value_from is not None:
        return override
    return EnvVar(name=ENGINE_ARGS, value=merge_engine_args(base.value or "", override.value or ""))


def merge_engine_args(base: str, override: str) -> str:
    """Deep merge of two JSON objects as text; what is no JSON object does not take part (RC-035).

    >>> merge_engine_args('{"a": {"x": 1}, "l": [1]}', '{"a": {"y": 2}, "l": [2]}')
    '{"a":{"x":1,"y":2},"l":[2]}'
    """
    if not base.strip() or not override.strip():
        return override if override.strip() else base
    base_object, override_object = _object(base), _object(override)
    if base_object is None or override_object is None:
        return override
    return canonical(deep_merge(base_object, override_object)).decode()


def deep_merge(base: JsonObject, override: JsonObject) -> JsonObject:
    """Nested objects merge, everything else of ``override`` replaces. Neither argument is modified."""
    merged = dict(base)
    for name, value in override.items():
        below = merged.get(name)
        merged[name] = deep_merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _object(text: str) -> JsonObject | None:
    try:
        return loads(text)
    except ValueError:
        return None
