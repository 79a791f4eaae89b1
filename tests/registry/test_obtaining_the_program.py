"""How the tests come by docker-registry, with scripts that play apt-get and dpkg."""

from pathlib import Path

import pytest
from support.debian import UnavailableError, cache_folder
from support.docker_registry import PACKAGE, obtain

UNPACK = '/bin/mkdir -p "$3/usr/bin"; echo "$2" > "$3/usr/bin/docker-registry"'


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH; its apt-get brings an empty package."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    script(tmp_path / "apt-get", ": > docker-registry_1.deb")
    return tmp_path


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_program_that_was_unpacked_in_part_is_not_taken(programs: Path) -> None:
    script(programs / "dpkg", f"{UNPACK}; echo 'no space left' >&2; exit 1")
    with pytest.raises(UnavailableError, match="no space left"):
        obtain()
    assert list(cache_folder(PACKAGE).iterdir()) == []

    script(programs / "dpkg", UNPACK)
    program = obtain()
    assert program.read_text().endswith(f"{PACKAGE}_1.deb\n")
    assert list(cache_folder(PACKAGE).iterdir()) == [program]
