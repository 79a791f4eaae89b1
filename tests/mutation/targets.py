"""What `make mutants` changes, package by package, and the tests that have to notice."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_SHARED: Final = ROOT / "shared"
_ENGINE: Final = ("state_engine", "components", "conditions", "hold", "decide", "difference", "plan")
_NO_DECISION: Final = {
    "effects", "downloader", "cloning", "__init__.py", "__main__.py", "settings.py", "service.py", "metrics.py",
    "readers.py",
}  # fmt: skip
UNIT_TESTS: Final = (
    "artifacts", "discovery", "gpu", "model_sync", "reconcile", "routing", "runtimeconfig", "serving",
)  # fmt: skip


def packages() -> Mapping[str, list[Path]]:
    """The modules that decide. I/O, settings and the wiring of a service have integration tests instead."""
    engine = _SHARED / "controller-runtime" / "controller_runtime" / "reconcile"
    domain = _SHARED / "domain" / "aim_domain"
    services = sorted((ROOT / "services").glob("*/aim_*"))
    return {
        "controller_runtime": [engine / f"{name}.py" for name in _ENGINE],
        "aim_domain": _modules(domain / "gpu", domain / "pods", domain / "runtimeconfig"),
        **{folder.name: _modules(folder) for folder in services},
    }


def _modules(*folders: Path) -> list[Path]:
    return [
        file
        for folder in folders
        for file in sorted(folder.rglob("*.py"))
        if not _NO_DECISION.intersection(file.relative_to(folder).parts)
    ]
