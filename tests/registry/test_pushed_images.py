"""Images of a layout in Debian's docker-registry: each is there as it was built, and nothing is sent twice."""

from pathlib import Path

import pytest
from support import docker_registry

from aim_local.ports import free_port
from aim_packaging.images.builders import ImagesError
from aim_packaging.images.commands import Registry
from aim_packaging.images.layout import File, Layout
from oci_registry import RegistryClient, parse_image

BASE = [File("usr/bin/python", b"python" * 10_000, 0o755)]
ONE, OTHER = "docker.io/library/one:1", "docker.io/some/other:2"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Two images with a layer in common, one of them behind an index."""
    made = Layout(tmp_path / "layout")
    for name, as_index in ((ONE, False), (OTHER, True)):
        layers = [made.put_layer(BASE), made.put_layer([File("own", name.encode())])]
        made.put_image(name, layers, {"Labels": {"name": name}}, as_index=as_index)
    return made


async def test_images_are_there_with_their_labels_and_a_common_layer_is_sent_once(
    layout: Layout, tmp_path: Path, program: Path, client: RegistryClient
) -> None:
    with docker_registry.running(program, tmp_path) as server:
        images = layout.images()
        first, second = (one.sent for one in Registry(server.host).push(layout, images))
        assert first is not None
        assert second is not None
        assert first == images[0].size + images[0].config.size
        assert second == images[1].layers[1].size + images[1].config.size, "the common layer was taken over"
        assert [one.sent for one in Registry(server.host).push(layout, images)] == [None, None]
        for path, name in (("library/one:1", ONE), ("some/other:2", OTHER)):
            found = await client.image_config(parse_image(f"{server.host}/{path}"))
            assert found.labels == {"name": name}


def test_an_image_that_changed_is_sent_with_what_is_new_of_it(layout: Layout, tmp_path: Path, program: Path) -> None:
    with docker_registry.running(program, tmp_path) as server:
        list(Registry(server.host).push(layout, layout.images()))
        layers = [*layout.layers_of(layout.image(ONE)), layout.put_layer([File("more", b"more")])]
        changed = layout.put_image(ONE, layers, {"Labels": {}})
        [pushed] = Registry(server.host).push(layout, [changed])
        assert pushed.sent == layers[-1].blob.size + changed.config.size


def test_a_registry_that_is_not_there_is_named_in_one_line(layout: Layout) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ImagesError, match=f"registry {address} not reachable by plain HTTP: .*; check the address, or"):
        list(Registry(address).push(layout, layout.images()))
