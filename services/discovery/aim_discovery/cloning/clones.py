"""The clone of a template for another GPU: what is cloned, under which name, with which content (DI-371…DI-373)."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from aim_domain import claims_ownership
from controller_runtime import JsonObject

MODEL_VARIABLE: Final = "AIM_GPU_MODEL"
"""By this variable the runtime is asked for the profile of the source GPU (DI-374)."""

_OF_ENGINE: Final = "app.kubernetes.io/managed-by"
"""Says aim-engine on templates that discovery made."""
_KEPT: Final = ("labels", "annotations", "ownerReferences")
_LONGEST_NAME: Final = 63


def clones_of(templates: Iterable[JsonObject], source: str, target: str) -> Iterator[JsonObject]:
    """Manifests for the target GPU of all cluster templates of the source GPU; of clones none (pitfall 49)."""
    for template in templates:
        if gpu_of(template) == source and not _is_clone(template, source):
            yield clone(template, source, target)


def name_clashes(clones: Iterable[JsonObject]) -> list[str]:
    """Names that several clones have: of these, `kubectl apply` would keep nothing but the last (DI-373)."""
    uses = Counter(str(one["metadata"]["name"]) for one in clones)
    return sorted(name for name, number in uses.items() if number > 1)


def taken_names(clones: Iterable[JsonObject], templates: Iterable[JsonObject]) -> list[str]:
    """Names of clones that other templates have, which `kubectl apply` would replace; an earlier clone may be."""
    known = {str(one["metadata"]["name"]): one for one in templates}
    named = ((str(one["metadata"]["name"]), one) for one in clones)
    return sorted(name for name, one in named if name in known and _origin(known[name]) != _origin(one))


def gpu_of(template: JsonObject) -> str:
    """The resolved GPU model, else the specified one; empty without either."""
    status, spec = template.get("status") or {}, template.get("spec") or {}
    return _model(status.get("resolvedHardware")) or _model(spec.get("hardware"))


def clone(template: JsonObject, source: str, target: str) -> JsonObject:
    """A manifest like the template, for the target GPU, with the profile of the source GPU (DI-372)."""
    metadata, spec = template["metadata"], template["spec"]
    kept = {name: metadata[name] for name in _KEPT if metadata.get(name)}
    for name in ("labels", "annotations"):
        # The clone is another object: no tool has applied it.
        if name in kept:
            kept[name] = {key: text for key, text in kept[name].items() if not _is_of_a_tool(key)}
    hardware = spec.get("hardware") or {}
    gpu = {**(hardware.get("gpu") or {}), "model": target}
    return {
        "apiVersion": template["apiVersion"],
        "kind": template["kind"],
        "metadata": {"name": clone_name(metadata["name"], source, target), **kept},
        "spec": {**spec, "hardware": {**hardware, "gpu": gpu}, "env": _env(spec.get("env") or [], source)},
    }


def _is_of_a_tool(key: str) -> bool:
    return claims_ownership(key) and key != _OF_ENGINE


def clone_name(name: str, source: str, target: str) -> str:
    """Name of the clone (DI-373).

    >>> clone_name("aim-qwen-1x-mi300x-lat-59b1", "MI300X", "MI308X")
    'aim-qwen-1x-mi308x-lat-59b1'
    >>> clone_name("aim-qwen", "MI300X", "MI308X")
    'a-mi308x'
    """
    suffix = target.lower()
    if source.lower() in name.lower():
        return re.sub(re.escape(source), suffix, name, flags=re.IGNORECASE)[:_LONGEST_NAME].rstrip("-.")
    kept = name[: max(1, min(len(name), _LONGEST_NAME) - len(suffix) - 1)]
    return f"{kept}-{suffix}"


def _model(hardware: JsonObject | None) -> str:
    return str(((hardware or {}).get("gpu") or {}).get("model") or "")


def _is_clone(template: JsonObject, source: str) -> bool:
    """A clone resolves to the GPU that it was cloned from, but asks for another one."""
    spec = template["spec"]
    asks = any(variable["name"] == MODEL_VARIABLE for variable in spec.get("env") or [])
    return asks and _model(spec.get("hardware")) not in ("", source)


def _origin(template: JsonObject) -> tuple[str, str, str]:
    """Model, GPU and GPU of the profile."""
    spec = template["spec"]
    asked = (str(one.get("value") or "") for one in spec.get("env") or [] if one["name"] == MODEL_VARIABLE)
    return str(spec.get("modelName") or ""), _model(spec.get("hardware")), next(asked, "")


def _env(variables: list[JsonObject], source: str) -> list[JsonObject]:
    own = {"name": MODEL_VARIABLE, "value": source}
    return [*(variable for variable in variables if variable["name"] != MODEL_VARIABLE), own]
