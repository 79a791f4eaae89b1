"""Archives of images that are made without a builder: what is in them, and that they are the same each time."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from aim_local.assets import Program
from aim_local.node.images import image_of, write_image
from controller_runtime import JsonObject

NAME = "localhost/tool:1"


@pytest.fixture
def contents(tmp_path: Path) -> dict[str, Path]:
    program, data = tmp_path / "tool", tmp_path / "data"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o700)
    data.write_text("words")
    data.chmod(0o600)
    return {"/bin/tool": program, "/etc/data": data}


def made(folder: Path, contents: dict[str, Path], name: str = NAME) -> dict[str, bytes]:
    """Content of each member of the archive."""
    file = folder / "image.tar"
    write_image(file, name, ("/bin/tool", "--serve"), contents)
    with tarfile.open(file) as archive:
        return {one.name: found.read() for one in archive if (found := archive.extractfile(one))}


def blob(members: dict[str, bytes], descriptor: JsonObject) -> bytes:
    """What a descriptor names, of the digest and the size that it states."""
    algorithm, _, digest = descriptor["digest"].partition(":")
    found = members[f"blobs/{algorithm}/{digest}"]
    assert hashlib.sha256(found).hexdigest() == digest
    assert len(found) == descriptor["size"]
    return found


def test_index_manifest_config_and_layer_name_each_other(tmp_path: Path, contents: dict[str, Path]) -> None:
    members = made(tmp_path, contents)
    assert json.loads(members["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    [listed] = json.loads(members["index.json"])["manifests"]
    manifest = json.loads(blob(members, listed))
    config = json.loads(blob(members, manifest["config"]))
    [layer] = manifest["layers"]
    blob(members, layer)
    assert config["rootfs"] == {"type": "layers", "diff_ids": [layer["digest"]]}
    assert manifest["mediaType"] == listed["mediaType"]
    assert len(members) == 5


def test_the_index_has_the_name_under_which_containerd_looks(tmp_path: Path, contents: dict[str, Path]) -> None:
    [listed] = json.loads(made(tmp_path, contents)["index.json"])["manifests"]
    assert listed["annotations"] == {
        "io.containerd.image.name": NAME,
        "org.opencontainers.image.ref.name": NAME,
    }


def test_a_container_runs_the_entry_point_without_root(tmp_path: Path, contents: dict[str, Path]) -> None:
    members = made(tmp_path, contents)
    [listed] = json.loads(members["index.json"])["manifests"]
    config = json.loads(blob(members, json.loads(blob(members, listed))["config"]))
    assert config["config"]["Entrypoint"] == ["/bin/tool", "--serve"]
    assert config["config"]["User"] == "65532:65532"


def test_the_layer_has_the_files_for_any_user_and_keeps_what_is_executable(
    tmp_path: Path, contents: dict[str, Path]
) -> None:
    members = made(tmp_path, contents)
    [listed] = json.loads(members["index.json"])["manifests"]
    [layer] = json.loads(blob(members, listed))["layers"]
    with tarfile.open(fileobj=io.BytesIO(blob(members, layer))) as files:
        assert {one.name: oct(one.mode) for one in files} == {"bin/tool": "0o755", "etc/data": "0o644"}
        assert {(one.uid, one.gid, one.mtime) for one in files} == {(0, 0, 0)}


def test_two_archives_of_the_same_files_are_the_same(tmp_path: Path, contents: dict[str, Path]) -> None:
    first = made(tmp_path, contents)
    for file in contents.values():
        file.touch()
    assert made(tmp_path, dict(reversed(contents.items()))) == first


def test_another_content_has_another_digest(tmp_path: Path, contents: dict[str, Path]) -> None:
    first = made(tmp_path, contents)
    contents["/etc/data"].write_text("other words")
    assert made(tmp_path, contents)["index.json"] != first["index.json"]


def test_nothing_partial_stays(tmp_path: Path, contents: dict[str, Path]) -> None:
    made(tmp_path, contents)
    assert not list(tmp_path.glob("*.partial"))


def test_images_of_programs_have_a_host_that_no_registry_has() -> None:
    assert image_of(Program.COREDNS) == "localhost/coredns:1"
