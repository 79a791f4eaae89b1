"""A file is a subject: a small module with one importer belongs into that, or has a reason."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from aim_domain.services import SERVICES, package_of

ROOT: Final = Path(__file__).parents[2]
SMALL: Final = 100
"""Lines below which a module needs more than one importer."""
LONG: Final = 800
"""Lines that no module has."""
_PAGE: Final = "a page each, of which the others know nothing"
REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "aim_artifacts.downloader.check_size": "the command of a Job names it",
        "aim_artifacts.downloader.protocols": "the order of protocols is decided and tested without a client",
        "aim_artifacts.metrics": "what a scrape reads, apart from what decides",
        "aim_console.bus_page": _PAGE,
        "aim_console.decision": _PAGE,
        "aim_console.newest": _PAGE,
        "aim_domain.metric_catalogue": "tables, read when the reference page is made and when a service counts",
        "aim_domain.settings": "read by every service, through the face of the package",
        "embedded_apiserver.objects.builtin": "pure object machinery, which the table of what is served uses",
        "aim_local.demo.view": "what a terminal shows, beside what the demo does",
        "aim_local.realcluster.definitions": "writes files of foreign operators, which the cluster only applies",
        "aim_local.up": "a command",
        "aim_packaging.images.table": _PAGE,
        "aim_packaging.pod_values": "values that every pod has, apart from those of one",
        "aim_packaging.reference.cli_page": _PAGE,
        "aim_packaging.reference.labels_page": _PAGE,
        "aim_packaging.reference.metrics_page": _PAGE,
        "aim_packaging.reference.reasons_page": _PAGE,
        "aim_packaging.reference.settings_page": _PAGE,
        "aim_packaging.rules": "roles from what services say that they need; the chart only prints them",
        "aim_serving.cleanup": "what a deleted service leaves is decided apart from its reconcile",
        "oci_registry.inspection": "what an image says, apart from the order in which endpoints are asked",
    }
)


def sources() -> dict[str, Path]:
    """All modules of the product by their dotted names; a package goes by its own."""
    found: dict[str, Path] = {}
    for top in sorted(ROOT.glob("shared/*/*/__init__.py")) + sorted(ROOT.glob("services/*/*/__init__.py")):
        found |= modules(top.parent)
    for top in sorted(ROOT.glob("deploy/*/*/__init__.py")):
        found |= modules(top.parent)
    return found


def modules(package: Path) -> dict[str, Path]:
    files = (one.relative_to(package.parent) for one in package.rglob("*.py"))
    return {".".join(one.with_suffix("").parts).removesuffix(".__init__"): package.parent / one for one in files}


def imported(file: Path) -> Iterator[tuple[str, bool]]:
    """What a module imports, and whether at once: what a function imports is a program of its own."""
    tree = ast.parse(file.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names)):
                yield name, node in tree.body


def test_a_small_module_with_one_importer_has_a_reason() -> None:
    found = sources()
    importers: dict[str, dict[Path, bool]] = {name: {} for name in found}
    for file in found.values():
        for name, first in imported(file):
            if name in importers:
                importers[name][file] = first
    # Each service has a declaration, which its process, replay and the chart read, and each kind a module.
    own = {f"{package_of(one)}.service" for one in SERVICES} | {
        one for one in found if one.startswith("aim_domain.api.")
    }
    small = {
        name
        for name, file in found.items()
        if list(importers[name].values()) == [True]
        and file.name not in {"__init__.py", "__main__.py"}
        and name not in own
        and len(file.read_text("utf-8").splitlines()) < SMALL
    }
    assert small == REASONS.keys()


def test_no_module_is_long() -> None:
    lines = {name: len(file.read_text("utf-8").splitlines()) for name, file in sources().items()}
    assert not {name: number for name, number in lines.items() if number > LONG}
