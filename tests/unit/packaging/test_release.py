"""What a release is made of, without making it."""

import hashlib
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from aim_packaging.__main__ import app
from aim_packaging.command import PLATFORMS, Platform
from aim_packaging.image_packages import IMAGES
from aim_packaging.images.layout import Descriptor, Image
from aim_packaging.release import CHART, Release, ReleaseError, notes, values_of
from controller_runtime import __version__

ROOT = Path(__file__).parents[3]
LOG = """# Changelog

## Unreleased

- new

## [0.1.0] - 2026-11-28

- old
"""


def image(name: str) -> Image:
    blob = Descriptor("", f"sha256:{hashlib.sha256(name.encode()).hexdigest()}", 1)
    return Image(f"registry.example.com/aim-{name}:1", blob, blob, blob, ())


@pytest.mark.spec("FW-887")
def test_notes_are_those_of_the_version_or_of_what_is_not_released_yet() -> None:
    assert notes(LOG, "0.1.0") == "# AIM Engine 0.1.0\n\n- old\n"
    assert notes(LOG, "0.2.0") == "# AIM Engine 0.2.0\n\n- new\n"
    with pytest.raises(ReleaseError, match="has no section"):
        notes("# Changelog\n", "0.2.0")


@pytest.mark.spec("FW-887")
def test_values_name_each_image_by_its_digest() -> None:
    images = {name: image(name) for name in IMAGES}
    values = values_of(images, "registry.example.com/aim")
    assert values["services"].keys() == IMAGES.keys() - {"cli", "downloader"} | {"console"}
    for name, one in {**values["services"], "downloader": values["downloader"], "cli": values["check"]}.items():
        built = "cli" if name == "console" else name
        assert one["image"] == {
            "repository": f"registry.example.com/aim-{built}", "digest": images[built].top.digest
        }  # fmt: skip


@pytest.mark.spec("FW-887")
def test_the_package_of_a_chart_is_the_same_whenever_it_is_made(tmp_path: Path) -> None:
    packages = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        packages.append(folder / Release(__version__, ROOT, folder).chart())
    assert packages[0].read_bytes() == packages[1].read_bytes()
    with tarfile.open(packages[0]) as archive:
        names = set(archive.getnames())
        definitions = {one.name for one in (ROOT / "deploy/crds").glob("*.yaml")}
        assert {f"aim-engine/files/crds/{name}" for name in definitions} <= names, "links are followed"
        assert all(name.startswith("aim-engine/") for name in names)
        about = archive.extractfile("aim-engine/Chart.yaml")
        assert about is not None
        facts = yaml.safe_load(about.read())
        assert (facts["version"], facts["appVersion"]) == (__version__, __version__)
    assert {path.name for path in (ROOT / CHART).iterdir() if path.is_file()} <= {Path(name).name for name in names}


def commit(folder: Path) -> None:
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=t", "-c", "user.email=t@e", "commit", "-qm", "x")):
        subprocess.run(("git", "-C", str(folder), *words), check=True, capture_output=True)


@pytest.mark.spec("FW-887")
def test_a_release_is_made_of_a_commit_under_its_own_version(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    (source / "file").write_text("1")
    commit(source)
    release = Release(__version__, source, out)
    release.check()
    (source / "file").write_text("2")
    with pytest.raises(ReleaseError, match="file is not committed"):
        release.check()
    (source / "file").write_text("1")
    out.mkdir()
    (out / "left").touch()
    with pytest.raises(ReleaseError, match="is not empty; delete it"):
        release.check()
    reported = CliRunner().invoke(app, ["release", "9.9.9"])
    assert (reported.exit_code, "release 9.9.9 not made: VERSION 9.9.9 is not" in reported.output) == (1, True)


@pytest.mark.spec("FW-887")
def test_there_is_one_version() -> None:
    for project in (*ROOT.glob("shared/*/pyproject.toml"), *ROOT.glob("services/*/pyproject.toml")):
        assert 'dynamic = ["version"]' in project.read_text("utf-8"), project
    assert f"Version {__version__}." in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.spec("FW-887")
@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda one: one.file)
def test_a_platform_takes_its_own_wheels_alone(platform: Platform) -> None:
    tags = set(platform.complete(12)["compatible_tags"])
    others = {f"cp312-cp312-{one}" for one in ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_13_0_arm64")}
    own = {one for one in others if one.endswith(platform.machine)}
    assert tags & others == own
    assert "py3-none-any" in tags
    assert not any(one.startswith("cp313") for one in tags)
