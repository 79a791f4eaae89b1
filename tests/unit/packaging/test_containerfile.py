"""The Containerfile, as far as it can be judged without a builder."""

from pathlib import Path

import pytest
from support.containerfile import ROOT, assemble, commands, copy_context, is_ignored, layers_of, stage

from aim_packaging.tree import SHARED, packages_of


@pytest.mark.spec("FW-721")
def test_what_builds_an_image_is_copied_and_nothing_of_a_working_copy(tmp_path: Path) -> None:
    copy_context(tmp_path)
    needed = {*SHARED, *(folder for folders in packages_of(ROOT).values() for folder in folders), "deploy/images/bin"}
    assert [folder for folder in needed if not any((tmp_path / folder).glob("*"))] == []
    assert all((tmp_path / name).is_file() for name in ("requirements.lock", "tree.py", "deploy/images/packages.json"))
    assert not [one for one in tmp_path.rglob("*") if one.name == "__pycache__" or one.suffix == ".egg-info"]


@pytest.mark.spec("FW-721")
def test_of_a_checkout_a_builder_is_sent_what_is_copied_and_no_more() -> None:
    copied = tuple(rest.split()[0] for word, rest in stage("build") if word == "COPY")
    assert is_ignored(Path("deploy/images/Containerfile")), "a change of it would build everything again"
    for one in (
        ".git/config",
        ".venv/bin/python",
        ".run/x",
        "tests/conftest.py",
        "deploy/local/a.py",
        "keys/secrets.yaml",
    ):
        assert is_ignored(Path(one)), one
    for path in ROOT.iterdir():
        assert is_ignored(Path(path.name)) or any(name.split("/")[0] == path.name for name in copied), path.name


@pytest.mark.spec("FW-721")
@pytest.mark.parametrize("name", ["service", "downloader"])
def test_the_base_of_an_image_has_to_have_no_shell(name: str) -> None:
    words = [word for word, _ in stage(name)]
    assert "RUN" not in words
    assert dict(stage(name))["ENTRYPOINT"].startswith("["), "in exec form"
    assert "sh" not in {word for command in commands() for word in command}
    text = (ROOT / "deploy/images/Containerfile").read_text()
    assert f"FROM ${{BASE}} AS {name}" in text
    assert "FROM ${BUILD_BASE} AS build" in text


@pytest.mark.spec("FW-543", "FW-721")
def test_what_builds_the_layers_knows_of_no_image_so_that_all_images_have_the_same_ones() -> None:
    assert not [rest for word, rest in stage("build") if word == "ARG" or "IMAGE" in rest]
    for image in packages_of(ROOT):
        layers = layers_of(image)
        assert layers == ["common", f"several/{image}", "shared", f"own/{image}"], "what changes least comes first"


@pytest.mark.spec("FW-543")
def test_a_tree_is_the_layers_of_its_image_over_each_other(tmp_path: Path) -> None:
    for place in ("common/lib/a", "several/serving/lib/b", "shared/lib/c", "own/serving/lib/d", "own/routing/lib/e"):
        (tmp_path / "layers" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "layers" / place).touch()
    assemble("serving", tmp_path / "layers", tmp_path / "tree")
    assert {one.name for one in (tmp_path / "tree/lib").iterdir()} == {"a", "b", "c", "d"}
