"""How builders are called, and the line where there is none."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from aim_domain.services import SERVICES
from aim_packaging.images import bases
from aim_packaging.images.bases import Bases, bases_for, local_bases
from aim_packaging.images.builders import Build, Builder, ImagesError, find_builder
from aim_packaging.images.commands import NAMES, broker_name, build_of, name_of, snapshot
from aim_packaging.tree import TIME

ROOT = Path(__file__).parents[3]
BASES = Bases("base:1", "build:1", "base:1")


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("buildah", f"--timestamp={TIME}"),
        ("podman", f"--timestamp={TIME}"),
        ("docker", f"--build-arg=SOURCE_DATE_EPOCH={TIME}"),
    ],
)
def test_each_builder_is_called_with_a_fixed_time(kind: str, option: str) -> None:
    build = build_of("serving", ROOT, BASES, "a/b-serving:1.2")
    command = Builder(kind, kind).command(build)
    assert command[:2] == [kind, "build"]
    assert command[-1] == str(ROOT)
    expected = {option, "--build-arg=IMAGE=serving", "--build-arg=BASE=base:1", "--build-arg=BUILD_BASE=build:1"}
    assert expected <= set(command)
    assert "--build-arg=VERSION=1.2" in command
    assert command[command.index("--target") + 1] == "service"
    assert "--no-cache" not in command


def test_a_build_from_nothing_uses_no_cache_and_the_downloader_has_its_own_stage() -> None:
    build = build_of("downloader", ROOT, BASES, name_of("downloader", "a/b", "1"), fresh=True)
    assert build.tag == "a/b-downloader:1"
    assert build.target == "downloader"
    assert "--no-cache" in Builder("buildah", "buildah").command(build)


def test_without_a_builder_one_line_says_which_would_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ImagesError, match=r"none of buildah, podman, docker is on the PATH; install one, e\.g\. the Debian"
    ):
        find_builder()
    with pytest.raises(ImagesError, match="builder kaniko unknown; set BUILDER to buildah, podman, docker or a path"):
        find_builder("kaniko")


def test_without_mmdebstrap_the_local_base_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ImagesError, match="mmdebstrap is not on the PATH; install the Debian package mmdebstrap, or set"
    ):
        local_bases(Builder("buildah", "buildah"), tmp_path)


class Having(Builder):
    """A builder whose storage has some images."""

    def has(self, name: str) -> bool:
        return name in {"base:1", "build:1", bases.DEFAULT}

    def pull(self, name: str) -> None:
        raise ImagesError(f"registry of {name} away")


@pytest.mark.parametrize(
    ("base", "build_base", "expected"),
    [
        ("", "", Bases(bases.DEFAULT, bases.DEFAULT, bases.DEFAULT)),
        ("base:1", "", Bases("base:1", "base:1", "base:1")),
        ("base:1", "build:1", Bases("base:1", "build:1", "base:1")),
        ("local", "", Bases("made:1", "made-build:1", "made-engine:1")),
        ("local", "build:1", Bases("made:1", "build:1", "made-engine:1")),
    ],
)
def test_the_build_stage_has_the_base_of_the_image_unless_it_has_its_own(
    monkeypatch: pytest.MonkeyPatch, base: str, build_base: str, expected: Bases
) -> None:
    monkeypatch.setattr(bases, "local_bases", lambda *_: Bases("made:1", "made-build:1", "made-engine:1"))
    assert bases_for(Having("buildah", "buildah"), base, build_base) == expected


def test_a_base_that_cannot_be_pulled_is_named_with_what_helps() -> None:
    with pytest.raises(ImagesError, match=r"base image other:1 not available: registry of other:1 away; .* BASE=local"):
        bases_for(Having("buildah", "buildah"), "other:1")


@pytest.mark.parametrize(
    ("env", "text"),
    [({}, "[global]\n"), ({"PIP_INDEX_URL": "https://a.example/"}, "[global]\nindex-url = https://a.example/\n")],
)
def test_pip_of_the_build_stage_finds_packages_where_this_machine_does(env: Mapping[str, str], text: str) -> None:
    assert bases._pip_configuration(env) == text


def test_the_broker_has_the_name_that_the_chart_gives_it() -> None:
    name = broker_name(ROOT / "deploy/charts/aim-engine/values.yaml")
    assert name.startswith("docker.io/library/nats:")
    assert Build(Path("f"), Path(), name, "t").tag == name
    assert set(NAMES) == {*SERVICES, "downloader", "cli"}


def test_a_snapshot_has_what_a_build_is_sent_with_other_modes_and_nothing_of_a_working_copy(tmp_path: Path) -> None:
    snapshot(ROOT, tmp_path / "a", 0o022)
    snapshot(tmp_path / "a", tmp_path / "b", 0o077)
    first, second = (
        {one.relative_to(place): one for one in place.rglob("*")} for place in (tmp_path / "a", tmp_path / "b")
    )
    assert first.keys() == second.keys()
    assert Path("deploy/images/Containerfile") in first
    assert Path("shared/domain/aim_domain/__init__.py") in first
    assert not [one for one in first if one.name in {"__pycache__", ".venv", "tests"}]
    lock = Path("requirements.lock")
    assert first[lock].read_bytes() == second[lock].read_bytes()
    assert [one[lock].stat().st_mode & 0o777 for one in (first, second)] == [0o644, 0o600]
