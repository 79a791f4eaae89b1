"""A machine that has every program of a node, though none of them does anything."""

from pathlib import Path

import pytest

from aim_local.node import requirements
from aim_local.node.requirements import PACKAGES

PLUGINS = ("bridge", "host-local", "portmap", "loopback")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the programs, the only one of PATH; network plugins in ``cni`` beside it."""
    folder = tmp_path / "usr-bin"
    folder.mkdir()
    for name in PACKAGES:
        (folder / name).touch(mode=0o755)
    plugins = tmp_path / "cni"
    plugins.mkdir()
    for name in PLUGINS:
        (plugins / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(requirements, "_ELSEWHERE", (tmp_path / "usr-sbin",))
    monkeypatch.setattr(requirements, "CNI", (tmp_path / "opt-cni", plugins))
    return folder
