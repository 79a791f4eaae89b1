"""The folder with images: what is put in is found again, once, and the same files give the same digest."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from aim_packaging.images import table
from aim_packaging.images.builders import import_archive
from aim_packaging.images.commands import difference, path_of
from aim_packaging.images.layout import INDEX, MANIFEST, File, Layout, MissingImageError

BASE = [File("usr/bin/python", b"python", 0o755), File("etc/passwd", b"root")]
NAME = "docker.io/some/image:1"


def filled(folder: Path, *, content: bytes = b"own", name: str = NAME, as_index: bool = False) -> Layout:
    layout = Layout(folder)
    layers = [layout.put_layer(BASE), layout.put_layer([File("opt/own", content)])]
    layout.put_image(name, layers, {"Entrypoint": ["python"], "User": "1:1"}, as_index=as_index)
    return layout


def test_an_image_is_found_with_its_settings_and_its_files(tmp_path: Path) -> None:
    layout = filled(tmp_path)
    image = layout.image(NAME)
    document = layout.document(image.config.digest)
    assert document["config"] == {"Entrypoint": ["python"], "User": "1:1"}
    assert document["rootfs"]["diff_ids"] == [one.diff_id for one in layout.layers_of(image)]
    with tarfile.open(layout.blob(image.layers[0].digest)) as archive:
        assert archive.getnames() == ["etc", "etc/passwd", "usr", "usr/bin", "usr/bin/python"]
        assert archive.getmember("usr/bin/python").mode == 0o755
    assert image.top == image.manifest
    assert image.top.media_type == MANIFEST


def test_an_image_behind_an_index_is_found_as_well(tmp_path: Path) -> None:
    layout = filled(tmp_path, as_index=True)
    image = layout.image(NAME)
    assert image.top.media_type == INDEX
    assert image.manifest == filled(tmp_path / "plain").image(NAME).manifest


def test_the_same_files_give_the_same_digest_and_others_another(tmp_path: Path) -> None:
    first, second, other = filled(tmp_path / "a"), filled(tmp_path / "b"), filled(tmp_path / "c", content=b"other")
    assert difference((first, first.image(NAME)), (second, second.image(NAME))) == []
    found = difference((first, first.image(NAME)), (other, other.image(NAME)))
    assert [one.partition(":")[0] for one in found] == ["manifest", "settings", "layer 1"]


def test_what_images_share_is_there_once_and_what_none_has_any_longer_goes(tmp_path: Path) -> None:
    layout = filled(tmp_path)
    filled(tmp_path, name="docker.io/some/other:1", content=b"other")
    first, second = layout.images()
    assert first.layers[0] == second.layers[0]
    before = len(list((tmp_path / "blobs/sha256").iterdir()))
    assert layout.prune() == 0
    filled(tmp_path, content=b"changed")
    assert layout.prune() > 0
    assert len(list((tmp_path / "blobs/sha256").iterdir())) == before
    assert layout.image(NAME).size > 0


def test_an_image_that_is_not_there_is_missing_with_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(MissingImageError, match=r"image a:1 missing in .*; run `make images`"):
        Layout(tmp_path).image("a:1")


def saved(folder: Path, content: bytes) -> Path:
    """An archive of `docker save` with one layer."""
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"diff_ids": ["sha256:" + "1" * 64]}}
    parts = {
        "manifest.json": json.dumps([{"Config": "c.json", "Layers": ["l/layer.tar"]}]).encode(),
        "c.json": json.dumps(config).encode(),
        "l/layer.tar": content,
    }
    file = folder / "saved.tar"
    with tarfile.open(file, "w") as archive:
        for name, data in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return file


def test_an_archive_of_docker_becomes_an_image_with_compressed_layers(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    layout.folder.mkdir()
    import_archive(saved(tmp_path, b"layer" * 1000), NAME, layout)
    image = layout.image(NAME)
    assert gzip.decompress(layout.blob(image.layers[0].digest).read_bytes()) == b"layer" * 1000
    assert image.layers[0].size == layout.blob(image.layers[0].digest).stat().st_size
    import_archive(saved(tmp_path, b"never read, as the digest is known"), "docker.io/a/b:1", layout)
    assert layout.image("docker.io/a/b:1").layers == image.layers


def test_the_table_counts_what_is_shared_once(tmp_path: Path) -> None:
    layout = filled(tmp_path)
    filled(tmp_path, name="docker.io/some/other:1", content=b"other")
    images = layout.images()
    base = images[0].layers[0].size
    rows = table.rows(images)
    assert [one.shared for one in rows] == [base, base]
    assert [one.own + one.shared for one in rows] == [one.size for one in images]
    assert {one.layers for one in rows} == {2}
    assert table.pulled(images) == sum(one.own for one in rows) + base
    text = list(table.lines(images))
    assert text[0].split() == ["image", "size", "own", "shared", "layers"]
    assert len(text) == 4


@pytest.mark.parametrize(
    ("size", "text"), [(12, "0.0 kB"), (99_949, "99.9 kB"), (100_000, "0.1 MB"), (126_440_000, "126.4 MB")]
)
def test_sizes_are_in_the_unit_that_shows_them(size: int, text: str) -> None:
    assert table.megabytes(size) == text


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("docker.io/library/nats:2.12.2-alpine", ("library/nats", "2.12.2-alpine")),
        ("localhost/some:1", ("some", "1")),
        ("registry.example:5000/a/b:latest", ("a/b", "latest")),
        ("amdenterpriseai/aim-dummy:0.1.0", ("amdenterpriseai/aim-dummy", "0.1.0")),
    ],
)
def test_the_host_of_a_name_is_no_part_of_its_path(name: str, path: tuple[str, str]) -> None:
    assert path_of(name) == path
