"""CRD manifests as text, and their comparison with a folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from aim_domain.api.own import Column, OwnResource, Scale
from aim_domain.crd.structure import resource_schema
from aim_domain.kind_names import NEWER_VERSION, SHARED
from aim_domain.kinds import OLDER_KINDS, OWN_KINDS
from controller_runtime import JsonObject, Kind

CATEGORIES: Final = ("aim", "all")

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
            "versions": [_version(kind), *([_newer(kind)] if kind.name in SHARED else [])],
        },
    }


def _version(kind: Kind[Any]) -> JsonObject:
    version: JsonObject = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": resource_schema(kind.model)},
    }
    model = kind.model
    if not issubclass(model, OwnResource):
        return version
    version["subresources"] = {"status": {}} | ({} if model.scale is None else {"scale": _scale(model.scale)})
    if model.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in model.columns]
    return version


def _newer(kind: Kind[Any]) -> JsonObject:
    return {**_version(kind), "name": NEWER_VERSION, "storage": False}


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
