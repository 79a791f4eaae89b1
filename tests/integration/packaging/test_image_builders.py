"""Builders of images that are on the PATH and do not work, or work only to a degree."""

import os
import sys
from pathlib import Path

import pytest

from aim_packaging.images.builders import Build, Builder, ImagesError, find_builder

NO_DAEMON = "Cannot connect to the Docker daemon"


def program(folder: Path, name: str, code: str) -> None:
    """A program that does what the Python code says."""
    file = folder / name
    file.write_text(f"#!{sys.executable} -I\nimport sys\n{code}\n", encoding="utf-8")
    file.chmod(0o755)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is all of the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_docker_without_its_daemon_is_passed_over_for_another_builder(path: Path) -> None:
    program(path, "docker", f"sys.exit({NO_DAEMON!r})")
    with pytest.raises(ImagesError, match=f"docker does not work here: {NO_DAEMON}; start the Docker daemon, or"):
        find_builder()
    program(path, "buildah", "print('65536 0 65536' if 'unshare' in sys.argv else 'buildah 1')")
    assert find_builder().kind == "buildah"
    with pytest.raises(ImagesError, match=NO_DAEMON):
        find_builder(str(path / "docker"))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print('0 1000 1')", "not root, and its user namespace has one user only"),
        ("sys.exit('unshare: operation not permitted')", "unshare: operation not permitted"),
    ],
)
def test_buildah_of_another_user_than_root_needs_a_user_namespace(
    monkeypatch: pytest.MonkeyPatch, path: Path, code: str, reason: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    program(path, "buildah", code)
    with pytest.raises(ImagesError, match=f"buildah does not work here: {reason}; run as root, or permit"):
        find_builder()
    program(path, "buildah", "print('0 1000 1\\n1 100000 65536')")
    assert find_builder().kind == "buildah"


def test_a_build_that_fails_is_one_line_below_what_the_builder_printed(path: Path) -> None:
    program(path, "buildah", "sys.exit(3)")
    build = Build(path / "Containerfile", path, "a/b:1", "service")
    with pytest.raises(ImagesError, match="image a/b:1 not built: buildah ended with code 3; its output is above"):
        Builder("buildah", str(path / "buildah")).build(build)


def test_buildah_has_a_storage_of_its_own_unless_one_is_set(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("CONTAINERS_STORAGE_CONF", raising=False)
    program(path, "buildah", "")
    found = find_builder()
    assert found.env["BUILDAH_ISOLATION"] == "chroot"
    settings = Path(found.env["CONTAINERS_STORAGE_CONF"]).read_text(encoding="utf-8")
    assert f'graphroot = "{path}/cache/aim-engine/images/storage"' in settings
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", "/etc/mine.conf")
    assert "CONTAINERS_STORAGE_CONF" not in find_builder().env
