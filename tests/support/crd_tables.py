"""The tables of docs/spec/crd-constraints.md as data, and look-ups in a CRD schema by the paths they use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from aim_domain.bounds import MAX_VALUE, bounded
from aim_domain.crd import definition
from controller_runtime import Kind

SPECIFICATION = Path(__file__).parents[2] / "docs/spec/crd-constraints.md"
_ABBREVIATIONS = {
    "…metrics": "autoScaling.metrics",
    "…podmetric": "autoScaling.metrics[].podmetric",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One documented field; the path has no leading `spec.`, lists of objects end in `[]` before a dot only."""

    path: str
    required: bool
    type: str
    default: str
    constraint: str
    on: str


@cache
def rows(requirement: str) -> tuple[Row, ...]:
    """All fields of the table below that requirement."""
    lines = SPECIFICATION.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"- **{requirement}**"))
    first = next(i for i in range(start, len(lines)) if lines[i].startswith("|"))
    header = _cells(lines[first])
    found: list[Row] = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        found.extend(_rows(dict(zip(header, _cells(line), strict=True))))
    return tuple(found)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _rows(cells: dict[str, str]) -> Iterator[Row]:
    path_cell = cells["Path"] if "Path" in cells else cells["Field"]
    previous = ""
    for name in re.findall(r"`([^`]+)`", path_cell):
        path = _full_path(name, previous)
        previous = path
        yield Row(
            path,
            cells.get("R", "") == "R",
            cells.get("Type", "").strip("`"),
            cells.get("Default", ""),
            cells.get("Constraint", "").replace("\\|", "|"),
            cells.get("On", ""),
        )


def _full_path(name: str, previous: str) -> str:
    for short, full in _ABBREVIATIONS.items():
        name = name.replace(short, full)
    if name.startswith("."):
        name = previous.rpartition(".")[0] + name
    return name.removesuffix("[]")


@cache
def published(kind: Kind[Any]) -> dict[str, Any]:
    """The OpenAPI schema of the only version of a kind."""
    version: dict[str, Any] = definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return version


@cache
def schema(kind: Kind[Any]) -> dict[str, Any]:
    """That schema without the bounds that every node has which states none of its own (CC-340)."""
    stated = deepcopy(published(kind))
    for _, node in nodes(stated):
        general = bounded({name: value for name, value in node.items() if name not in _BOUNDS})
        for name in _BOUNDS:
            if node.get(name) in (general.get(name), MAX_VALUE):
                node.pop(name, None)
    return stated


_BOUNDS: Final = ("maxLength", "maxItems", "maxProperties")


def node_at(root: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema node of a path such as `spec.filters[].image`.

    Raises:
        KeyError: there is no such field.
    """
    node = root
    for part in path.split("."):
        node = node["properties"][part.removesuffix("[]")]
        if part.endswith("[]"):
            node = node["items"]
    return node


def parent_at(root: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema node of the object that holds the last member of a path."""
    parent, _, _ = path.rpartition(".")
    return node_at(root, parent) if parent else root


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every node of a schema with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}".lstrip("."))
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from nodes(node["additionalProperties"], f"{path}{{}}")
