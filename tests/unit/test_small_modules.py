"""A file is a subject: a small module of a service with one importer belongs into that, or has a reason."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

SERVICES: Final = Path(__file__).parents[2] / "services"
SMALL: Final = 100
"""Lines below which a module needs more than one importer."""
_EFFECT: Final = "effects do I/O, which decision modules may not import"
REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "aim_artifacts.downloader.check_size": "the command of a Job names it",
        "aim_artifacts.downloader.names": "names of files are judged without a client of any source",
        "aim_artifacts.downloader.protocols": "the order of protocols is decided and tested without a client",
        "aim_artifacts.effects.account": _EFFECT,
        "aim_artifacts.effects.mounts": _EFFECT,
        "aim_artifacts.metrics": "collects by listing the cache, which the declaration of the service does not",
        "aim_discovery.effects.job_log": _EFFECT,
        "aim_discovery.effects.node_taint": _EFFECT,
        "aim_model_sync.service": "every service has one, which its process starts",
        "aim_serving.cleanup": "what a deleted service leaves is decided apart from its reconcile",
    }
)


def modules() -> dict[str, Path]:
    found = {}
    for file in SERVICES.glob("*/aim_*/**/*.py"):
        if file.name in {"__init__.py", "__main__.py"}:
            continue
        package = next(one for one in file.parents if one.name.startswith("aim_"))
        found[".".join(file.relative_to(package.parent).with_suffix("").parts)] = file
    return found


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def test_a_small_module_with_one_importer_has_a_reason() -> None:
    found = modules()
    importers: dict[str, set[Path]] = {name: set() for name in found}
    for file in SERVICES.glob("*/aim_*/**/*.py"):
        for name in importers.keys() & set(imported(file)):
            importers[name].add(file)
    small = {
        name
        for name, file in found.items()
        if len(importers[name]) == 1 and len(file.read_text("utf-8").splitlines()) < SMALL
    }
    assert small == REASONS.keys()
