"""The neighbours' definitions as the embedded control plane carries them: upstream's, without what nobody reads there.

Left out are descriptions, versions that are not stored, kinds that the platform does not touch, and the schemas of a
few large members that it never writes, which stay open. All else is upstream's, word for word: defaults, limits, list
types, rules, printer columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from aim_local.assets.recipes import DEFINITIONS, Definitions
from aim_local.assets.toolset import Toolset
from aim_shared.json import JsonObject

FILES: Final[Mapping[Definitions, str]] = {
    Definitions.KSERVE: "kserve.yaml",
    Definitions.GATEWAY: "gateway.yaml",
    Definitions.KEDA: "keda.yaml",
}
"""Names of the files, by what they are made from."""

_KINDS: Final = frozenset(
    {
        "InferenceService",
        "ServingRuntime",
        "ClusterServingRuntime",
        "Gateway",
        "GatewayClass",
        "HTTPRoute",
        "ScaledObject",
        "TriggerAuthentication",
    }
)

FRAMEWORKS: Final = (
    "huggingface", "lightgbm", "onnx", "paddle", "pmml", "pytorch", "sklearn", "tensorflow", "triton", "xgboost",
)  # fmt: skip
"""Members of a predictor for models that KServe serves with runtimes of its own; the platform brings a container."""
_OPEN_PATHS: Final[Mapping[str, Sequence[tuple[str, ...]]]] = {
    "InferenceService": (
        ("spec", "explainer"),
        ("spec", "transformer"),
        ("spec", "predictor", "workerSpec"),
        *(("spec", "predictor", framework) for framework in FRAMEWORKS),
    ),
    "ServingRuntime": (("spec",),),
    "ClusterServingRuntime": (("spec",),),
}
"""Members by kind whose schemas are left out."""
_OPEN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def reduced(definition: JsonObject) -> JsonObject:
    """A definition without what is left out."""
    spec = definition["spec"]
    [stored] = [version for version in spec["versions"] if version["storage"]]
    schema = _without_descriptions(stored["schema"]["openAPIV3Schema"])
    for path in _OPEN_PATHS.get(spec["names"]["kind"], ()):
        _open(schema, path)
    metadata = {"name": definition["metadata"]["name"], "annotations": definition["metadata"]["annotations"]}
    version = {**stored, "schema": {"openAPIV3Schema": schema}}
    return {**_head(definition), "metadata": metadata, "spec": {**spec, "versions": [version]}}


def files(toolset: Toolset) -> dict[str, str]:
    """Content by name of the file.

    Raises:
        AssetError: upstream's definitions were not copied.
    """
    return {name: _file(source, toolset.definitions(source)) for source, name in FILES.items()}


def differing(folder: Path, wanted: Mapping[str, str]) -> list[str]:
    """Names of files that are missing in ``folder`` or not as wanted."""
    return [name for name, text in wanted.items() if not _holds(folder / name, text)]


def _holds(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8") == text


def _file(source: Definitions, definitions: Iterable[JsonObject]) -> str:
    wrapper = DEFINITIONS[source].wrapper
    kept = [reduced(one) for one in definitions if one["spec"]["names"]["kind"] in _KINDS]
    # Leaves on one line each, so that a changed limit shows as one changed line.
    text = yaml.dump_all(kept, Dumper=yaml.CSafeDumper, default_flow_style=None, sort_keys=False, width=120)
    return f"# From {wrapper.module} {wrapper.version} by `make external-crds`; not to be edited.\n{text}"


def _head(definition: JsonObject) -> JsonObject:
    return {name: definition[name] for name in ("apiVersion", "kind")}


def _without_descriptions(schema: JsonObject) -> JsonObject:
    """The schema without the texts; a property of that name holds an object and stays."""
    return {
        name: _without(value) for name, value in schema.items() if name != "description" or not isinstance(value, str)
    }


def _without(value: object) -> object:
    if isinstance(value, dict):
        return _without_descriptions(value)
    return [_without(item) for item in value] if isinstance(value, list) else value


def _open(schema: JsonObject, path: Sequence[str]) -> None:
    *above, last = path
    for name in above:
        schema = schema["properties"][name]
    assert last in schema["properties"], f"{'.'.join(path)} is no member any more; correct the table"
    schema["properties"][last] = dict(_OPEN)
