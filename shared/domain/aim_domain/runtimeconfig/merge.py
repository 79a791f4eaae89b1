"""Merging of config levels (RC-030…RC-037, RC-125), deprecated fields of each first (RC-050…RC-055).

Works on JSON, because presence decides and a typed default cannot be told from an absent field.
"""

from typing import Final

from aim_domain.api.runtime_config import RuntimeConfigSpec
from aim_domain.runtimeconfig.env import deep_merge, merge_env
from controller_runtime import JsonObject, to_json

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
