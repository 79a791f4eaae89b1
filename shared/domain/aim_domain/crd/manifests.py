"""CRD manifests as text: printer columns, the scale subresource, and the comparison with a folder."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from aim_domain import kinds
from aim_domain.crd.structure import resource_schema
from aim_domain.kinds import OLDER_KINDS, OWN_KINDS
from controller_runtime import JsonObject, Kind


class ColumnType(StrEnum):
    """How the API server prints a column."""

    STRING = "string"
    INTEGER = "integer"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column; priority 1 shows in wide output only (CC-062)."""

    name: str
    path: str
    type: ColumnType = ColumnType.STRING
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """Paths of the scale subresource."""

    spec_replicas: str
    status_replicas: str
    label_selector: str


CATEGORIES: Final = ("aim", "all")
_AGE: Final = Column("Age", ".metadata.creationTimestamp", ColumnType.DATE)
_STATUS: Final = Column("Status", ".status.status")

_MODEL_COLUMNS: Final = (
    _STATUS,
    Column("Source", ".status.sourceType"),
    Column("Image", ".spec.image"),
    Column("Model", ".status.imageMetadata.model.canonicalName"),
    _AGE,
)
_TEMPLATE_COLUMNS: Final = (
    Column("Model", ".spec.modelName"),
    _STATUS,
    Column("Hardware", ".status.hardwareSummary"),
    Column("Metric", ".status.profile.metadata.metric"),
    Column("Precision", ".status.profile.metadata.precision"),
    _AGE,
)

COLUMNS: Final[dict[Kind[Any], tuple[Column, ...]]] = {
    kinds.AIM_SERVICE: (
        _STATUS,
        Column("Model", ".status.resolvedModel.name"),
        Column("Template", ".status.resolvedTemplate.name"),
        Column("Replicas", ".status.runtime.replicas"),
        _AGE,
    ),
    kinds.AIM_MODEL: _MODEL_COLUMNS,
    kinds.AIM_CLUSTER_MODEL: _MODEL_COLUMNS,
    kinds.AIM_SERVICE_TEMPLATE: _TEMPLATE_COLUMNS,
    kinds.AIM_CLUSTER_SERVICE_TEMPLATE: _TEMPLATE_COLUMNS,
    kinds.AIM_CLUSTER_MODEL_SOURCE: (
        _STATUS,
        Column("Models", ".status.discoveredModels", ColumnType.INTEGER),
        Column("LastSync", ".status.lastSyncTime", ColumnType.DATE),
        _AGE,
    ),
    kinds.AIM_ARTIFACT: (
        _STATUS,
        Column("Mode", ".status.mode"),
        Column("Model Size", ".status.displaySize"),
        Column("Progress", ".status.progress.displayPercentage"),
        Column("Protocol", ".status.download.protocol", priority=1),
        Column("Attempt", ".status.download.attempt", priority=1),
        _AGE,
    ),
    kinds.AIM_TEMPLATE_CACHE: (
        Column("Template", ".spec.templateName"),
        Column("Mode", ".spec.mode"),
        _STATUS,
        Column("Kind", ".status.resolvedTemplateKind"),
        _AGE,
    ),
}
"""Columns in their order; the runtime configs have none, so the API server shows name and age."""

SCALES: Final[dict[Kind[Any], Scale]] = {
    kinds.AIM_SERVICE: Scale(".spec.replicas", ".status.runtime.currentReplicas", ".status.runtime.selector"),
}


_HEADER: Final = "# Generated from the models in aim_domain.api by `make crds`; change those instead.\n"


class _PlainDumper(yaml.SafeDumper):
    """Writes repeated values out in full."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002 - the signature of PyYAML
        return True


def definition(kind: Kind[Any]) -> JsonObject:
    """The CustomResourceDefinition of a kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "conversion": {"strategy": "None"},
            "names": {
                "kind": kind.kind,
                "listKind": kind.list_kind,
                "plural": kind.plural,
                "singular": kind.singular,
                **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
                **({"categories": list(CATEGORIES)} if kind in OWN_KINDS else {}),
            },
            "versions": [_version(kind)],
        },
    }


def _version(kind: Kind[Any]) -> JsonObject:
    version: JsonObject = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": resource_schema(kind.model)},
    }
    if kind in OWN_KINDS:
        version["subresources"] = {"status": {}} | ({"scale": _scale(SCALES[kind])} if kind in SCALES else {})
    if kind in COLUMNS:
        version["additionalPrinterColumns"] = [_column(column) for column in COLUMNS[kind]]
    return version


def _column(column: Column) -> JsonObject:
    entry: JsonObject = {"name": column.name, "type": column.type.value, "jsonPath": column.path}
    return entry | ({"priority": column.priority} if column.priority else {})


def _scale(scale: Scale) -> JsonObject:
    return {
        "specReplicasPath": scale.spec_replicas,
        "statusReplicasPath": scale.status_replicas,
        "labelSelectorPath": scale.label_selector,
    }


@cache
def rendered() -> dict[str, str]:
    """File name and content of every CRD; the same models always give the same text."""
    return {f"{kind.plural}.yaml": _HEADER + _yaml(definition(kind)) for kind in OWN_KINDS + OLDER_KINDS}


def _yaml(value: JsonObject) -> str:
    return yaml.dump(value, Dumper=_PlainDumper, sort_keys=True, allow_unicode=True, width=110)


def write(folder: Path) -> list[str]:
    """Write all manifests, remove those of kinds that are gone, and name the files that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = differing(folder)
    expected = rendered()
    for name in changed:
        if name in expected:
            (folder / name).write_text(expected[name], encoding="utf-8")
        else:
            (folder / name).unlink()
    return changed


def differing(folder: Path) -> list[str]:
    """Names of the files in the folder that are missing, superfluous or other than the models give."""
    expected = rendered()
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}
    return sorted(name for name in expected.keys() | present.keys() if expected.get(name) != present.get(name))
