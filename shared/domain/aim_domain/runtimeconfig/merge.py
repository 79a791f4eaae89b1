"""Merging of config levels and of their environment variables (RC-030…RC-037, RC-045, RC-125)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from aim_domain.api.runtime_config import RuntimeConfigSpec
from controller_runtime import JsonObject, canonical, loads, to_json
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


# References


def in_reference_order(values: Mapping[str, str]) -> list[str]:
    """Names of variables in the order given, but each after those that its value refers to as ``$(NAME)`` (RC-170).

    Kubernetes expands a reference only to a variable that stands earlier in the list, and leaves all others as text.
    Variables that refer to each other in a circle keep the order in which they are reached.

    >>> in_reference_order({"ADAPTERS": "$(SHARE)/adapters", "PRICE": "$$(SHARE)", "SHARE": "/mnt"})
    ['SHARE', 'ADAPTERS', 'PRICE']
    """
    ordered: dict[str, None] = {}
    entered: set[str] = set()
    for first in values:
        # Without recursion: a list may refer from each variable to the next one.
        path = [] if first in entered else [(first, references(values[first]))]
        while path:
            name, referred = path[-1]
            entered.add(name)
            below = next((one for one in referred if one in values and one not in entered), None)
            if below is None:
                ordered[name] = None
                path.pop()
            else:
                path.append((below, references(values[below])))
    return list(ordered)


def references(value: str) -> Iterator[str]:
    """Names that a value refers to as ``$(NAME)``; ``$$`` stands for one dollar sign and begins no reference."""
    position = value.find("$")
    while 0 <= position < len(value) - 1:
        following, past = value[position + 1], position + 1
        if following == "$":
            past = position + 2
        elif following == "(":
            end = value.find(")", position)
            if end < 0:
                return  # nothing behind it can be a reference either
            yield value[position + 2 : end]
            past = end + 1
        position = value.find("$", past)


def ordered_by_references(variables: Iterable[EnvVar]) -> tuple[EnvVar, ...]:
    """The variables, each after those that it refers to; names occur once (RC-170)."""
    by_name = {variable.name: variable for variable in variables}
    return tuple(by_name[name] for name in in_reference_order({key: one.value or "" for key, one in by_name.items()}))


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


DEFAULT_HEADROOM_PERCENT: Final = 10
"""Effective default of storage.pvcHeadroomPercent (RC-037)."""

_MERGED_BLOCKS: Final = ("storage", "routing", "model", "artifact", "labelPropagation", "gpus")
_OF_PODS: Final = ("jobs", "predictors")
"""Blocks that are merged in depth: a namespace adds a node label or a limit to those of the cluster (CC-351)."""
_DEPRECATED: Final = ("defaultStorageClassName", "pvcHeadroomPercent")


def merge_specs(*levels: RuntimeConfigSpec | None) -> RuntimeConfigSpec:
    """The effective config of a consumer, from the least specific level on; ``None`` stands for one without a say."""
    specs = [spec for spec in levels if spec is not None]
    present: JsonObject = {}
    for spec in specs:
        present = _merged(present, _migrated(spec))
    env = merge_env(*(spec.env for spec in specs))
    if env:
        present["env"] = [to_json(variable) for variable in env]
    return RuntimeConfigSpec.model_validate(present)


def _merged(base: JsonObject, override: JsonObject) -> JsonObject:
    merged: JsonObject = {
        block: {**base.get(block, {}), **override.get(block, {})}
        for block in _MERGED_BLOCKS
        if block in base or block in override
    }
    merged |= {
        block: deep_merge(base.get(block, {}), override.get(block, {}))
        for block in _OF_PODS
        if block in base or block in override
    }
    annotations = _annotations(base) | _annotations(override)
    if annotations:
        merged["routing"]["annotations"] = annotations
    return merged


def _is_negative(old: object) -> bool:
    """A headroom that the schema of the new field refuses; it counts as absent (CC-310)."""
    return isinstance(old, int) and old < 0


def _annotations(spec: JsonObject) -> JsonObject:
    return dict((spec.get("routing") or {}).get("annotations") or {})


def _migrated(spec: RuntimeConfigSpec) -> JsonObject:
    # A null, as older API servers store it, is no say.
    content = {name: value for name, value in to_json(spec).items() if value is not None}
    storage = dict(content.get("storage") or {})
    for name in _DEPRECATED:
        old = content.pop(name, None)
        if old not in (None, "") and storage.get(name) is None and not _is_negative(old):
            storage[name] = old
    return {**content, "storage": storage} if storage else content
