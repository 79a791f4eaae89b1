"""Upstream's definitions as the embedded control plane carries them: without what is not read there.

Those of the neighbours are custom resource definitions; those of Kubernetes' own kinds come from its OpenAPI. Left out
are descriptions, versions that are not stored, kinds that the platform does not touch, and the schemas of a few large
members that it never writes, which stay open. All else is upstream's, word for word: defaults, limits, list types,
rules, printer columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from aim_local.assets.recipes import DEFINITIONS, Definitions
from aim_local.assets.toolset import Toolset
from controller_runtime import JsonObject, dumps

FILES: Final[Mapping[Definitions, str]] = {
    Definitions.KSERVE: "kserve.yaml",
    Definitions.GATEWAY: "gateway.yaml",
    Definitions.KEDA: "keda.yaml",
    Definitions.KUBERNETES: "kubernetes.json",
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

_BUILTIN_KINDS: Final = frozenset(
    {
        ("", "v1", "ConfigMap"),
        ("", "v1", "Endpoints"),
        ("", "v1", "Event"),
        ("", "v1", "Namespace"),
        ("", "v1", "Node"),
        ("", "v1", "PersistentVolume"),
        ("", "v1", "PersistentVolumeClaim"),
        ("", "v1", "Pod"),
        ("", "v1", "ResourceQuota"),
        ("", "v1", "Secret"),
        ("", "v1", "Service"),
        ("", "v1", "ServiceAccount"),
        ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding"),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        ("apps", "v1", "Deployment"),
        ("apps", "v1", "ReplicaSet"),
        ("apps", "v1", "StatefulSet"),
        ("autoscaling", "v1", "Scale"),
        ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        ("batch", "v1", "Job"),
        ("coordination.k8s.io", "v1", "Lease"),
        ("discovery.k8s.io", "v1", "EndpointSlice"),
        ("events.k8s.io", "v1", "Event"),
        ("networking.k8s.io", "v1", "NetworkPolicy"),
        ("policy", "v1", "PodDisruptionBudget"),
        ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
        ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "v1", "Role"),
        ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
        ("scheduling.k8s.io", "v1", "PriorityClass"),
        ("storage.k8s.io", "v1", "StorageClass"),
    }
)
"""Group, version and kind of what is taken from Kubernetes' OpenAPI, with everything that it refers to."""
_RECURSIVE: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
"""The schema inside a definition refers to itself; compiling the definition checks it."""
_KIND: Final = "x-kubernetes-group-version-kind"


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
    makers = dict.fromkeys(FILES, _file) | {Definitions.KUBERNETES: _builtin_file}
    return {name: makers[source](source, toolset.definitions(source)) for source, name in FILES.items()}


def reduced_schemas(documents: Iterable[JsonObject]) -> JsonObject:
    """Of OpenAPI v3 documents the schemas of the built-in kinds and all that these refer to, by name."""
    everything: JsonObject = {}
    for document in documents:
        # Those that list groups and versions have none.
        everything |= document["components"].get("schemas", {})
    everything[_RECURSIVE] = _OPEN
    pending = [name for name, schema in everything.items() if any(map(_is_wanted, schema.get(_KIND, ())))]
    kept: JsonObject = {}
    while pending:
        name = pending.pop()
        if name not in kept:
            kept[name] = _without_descriptions(everything[name])
            pending.extend(_references(kept[name]))
    return dict(sorted(kept.items()))


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


def _builtin_file(source: Definitions, documents: Iterable[JsonObject]) -> str:
    wrapper = DEFINITIONS[source].wrapper
    made = f"From {wrapper.module} {wrapper.version} (Apache-2.0) by `make external-crds`; not to be edited."
    # A schema on each line, so that a changed one shows as one changed line.
    lines = [f"{dumps(name).decode()}: {dumps(one).decode()}" for name, one in reduced_schemas(documents).items()]
    return f'{{"comment": {dumps(made).decode()}, "schemas": {{\n' + ",\n".join(lines) + "\n}}\n"


def _is_wanted(named: Mapping[str, str]) -> bool:
    return (named["group"], named["version"], named["kind"]) in _BUILTIN_KINDS


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(reference := schema.get("$ref"), str):
            yield reference.rpartition("/")[2]
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _references(part)


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
