"""From the former release to this one and back, by the commands of docs/operations/upgrade.md, on a node (FW-662).

The former release is that of `tests/upgrade/PREVIOUS`: its charts and definitions as they were, its code in images with
the libraries of today. Everything of the platform is removed before and installed again afterwards.
"""

import asyncio
import compileall
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

import aiohttp
import yaml
from support.node_pods import PYTHON, pods_of
from support.node_release import helm, install, leader, remove_platform, revision
from support.on_node import OnNode
from upgrade.release import PREVIOUS, unpacked

from aim_domain.services import SERVICES
from aim_local.demo.run import demo_files
from aim_local.node.platform import EXAMPLES, RELEASE
from aim_packaging.images.commands import LAYOUT, REPOSITORY, Registry, name_of
from aim_packaging.images.layout import File, Image, Layout
from aim_packaging.tree import SHARED, packages_of
from controller_runtime import JsonObject, loads

FORMER: Final = "0.0.9"
"""The tag of the former release's images."""
_CURRENT: Final = PYTHON.rpartition(":")[2]
_PLACE: Final = "opt/aim/former"
_START_SECONDS: Final = 180
UNRESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "privileged"}
"""The former release's predictor pods state nothing that the standard `restricted` demands."""


@dataclass(frozen=True, slots=True)
class Former:
    """The former release in a folder.

    Attributes:
        folder: with its packages and charts.
        values: of its chart, on a node.
    """

    folder: Path
    values: Path

    def chart(self, name: str) -> str:
        """The folder of one of its charts."""
        return str(self.folder / "deploy/charts" / name)


@asynccontextmanager
async def former_release(node: OnNode) -> AsyncIterator[Former]:
    """The former release alone on the node; afterwards this one, as every test finds it."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        await unpacked(PREVIOUS, folder)
        await asyncio.to_thread(push_images, folder, node.platform.node.settings.registry)
        former = Former(folder, folder / "values.yaml")
        former.values.write_text(yaml.safe_dump(former_values(node)), encoding="utf-8")
        try:
            await remove_platform(node)
            await helm(node, "upgrade", "--install", "aim-engine-crds", former.chart("aim-engine-crds"), "--wait")
            await upgrade(node, former.chart("aim-engine"), "-f", str(former.values))
            await node.apply(demo_files(EXAMPLES)[:-1])
            yield former
        finally:
            await remove_platform(node)
            await install(node)
            await node.apply(demo_files(EXAMPLES)[:-1])


def former_values(node: OnNode) -> JsonObject:
    """As `node_values` has them for this release."""
    mirror = {"mirrors": [{"url": f"http://{node.platform.node.settings.registry}"}], "upstream": {"enabled": False}}
    tag = {"image": {"tag": FORMER}}
    return {
        "registries": {"registries": {"docker.io": mirror}},
        "nats": {"storage": {"size": "1Gi"}, "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}},
        "manager": {**tag, "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}}},
        "downloader": tag,
        # They shut out the API server and the name server where policies are enforced, as here.
        "networkPolicy": {"enable": False},
    }


async def upgrade(node: OnNode, chart: str, *arguments: str) -> None:
    """`helm upgrade --install`, until all of it is ready."""
    await helm(node, "upgrade", "--install", RELEASE, chart, "--wait", f"--timeout={_START_SECONDS}s", *arguments)


def push_images(folder: Path, registry: str) -> None:
    """Put the former code into a layer above today's images, and push them with a tag of their own."""
    with tempfile.TemporaryDirectory(dir=LAYOUT.parent) as place:
        # Links, so that the images of this release stay as they are and cost no second copy.
        layout = Layout(Path(place, "oci"))
        layout.folder.mkdir()
        (layout.folder / "blobs").symlink_to((LAYOUT / "blobs").resolve())
        images = [former_image(layout, folder, name) for name in packages_of(folder) if name != "cli"]
        for _ in Registry(registry).push(layout, images):
            pass


def former_image(layout: Layout, folder: Path, name: str) -> Image:
    """Today's image with the former packages before its own."""
    image = Layout(LAYOUT).image(name_of(name, REPOSITORY, _CURRENT))
    settings = layout.document(image.config.digest)["config"]
    settings["Env"] = [
        f"PYTHONPATH=/{_PLACE}:/opt/aim/lib" if one.startswith("PYTHONPATH=") else one for one in settings["Env"]
    ]
    layers = (*layout.layers_of(image), layout.put_layer(files_of(folder, name)))
    return layout.put_image(name_of(name, REPOSITORY, FORMER), layers, settings)


def files_of(folder: Path, name: str) -> Iterator[File]:
    """The former packages of an image, compiled, as its root cannot be written."""
    for package in (*SHARED, *packages_of(folder)[name]):
        root = folder / package
        compileall.compile_dir(root, quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
        for path in sorted(root.rglob("*")):
            if path.is_file():
                yield File(f"{_PLACE}/{path.relative_to(root.parent)}", path.read_bytes())


async def test_models_answer_throughout_an_upgrade_and_a_rollback(node: OnNode) -> None:
    async with former_release(node) as former, node.namespace("upgraded", **UNRESTRICTED) as namespace:
        service = await node.running(await node.service(namespace, "chat"))
        assert await tags(node) == {FORMER}
        made, number = await of_service(node, namespace), await revision(node)
        async with asked_throughout(node, service["status"]["routing"]["path"]):
            keep = ("--reset-then-reuse-values", "--set", "crd.keep=true")
            await helm(node, "upgrade", "aim-engine-crds", former.chart("aim-engine-crds"), *keep)
            await upgrade_to_this(node)
            await helm(node, "uninstall", "aim-engine-crds")
            assert await tags(node) == {_CURRENT}
            await node.running(await node.service(namespace, "next"))
            assert made.items() <= (await of_service(node, namespace)).items()

            await helm(node, "rollback", RELEASE, str(number), "--wait", f"--timeout={_START_SECONDS}s")
            assert await tags(node) == {FORMER}
            await node.running(await node.service(namespace, "back"))
            await upgrade_to_this(node)
            for name in SERVICES:
                assert await leader(node, name) in {one["metadata"]["name"] for one in await pods_of(node, name)}
            assert made.items() <= (await of_service(node, namespace)).items()


async def upgrade_to_this(node: OnNode) -> None:
    """With all values in files: a `null` beside those that are reused changes the stored former revision too."""
    await install(node, None, "--take-ownership")


async def tags(node: OnNode) -> set[str]:
    """Of the images of the services' pods."""
    pods = [pod for name in SERVICES for pod in await pods_of(node, name)]
    return {one["spec"]["containers"][0]["image"].rpartition(":")[2] for one in pods}


async def of_service(node: OnNode, namespace: str) -> dict[str, str]:
    """What an upgrade may not touch: predictor pods by UID, and the generations of what was made for services."""
    pods = await node.objects("pods", "-n", namespace, "-l", "serving.kserve.io/inferenceservice")
    found = {one["metadata"]["name"]: str(one["metadata"]["uid"]) for one in pods}
    for kind in ("inferenceservices", "httproutes", "aimartifacts", "aimtemplatecaches"):
        for one in await node.objects(kind, "-n", namespace):
            found[f"{kind}/{one['metadata']['name']}"] = str(one["metadata"]["generation"])
    return found


@asynccontextmanager
async def asked_throughout(node: OnNode, route: str) -> AsyncIterator[None]:
    """A model that is asked all the time, and answers each time."""
    await node.ask(route)
    errors: list[str] = []

    async def asking() -> None:
        body: JsonObject = {"max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}
        async with aiohttp.ClientSession(node.gateway) as session:
            while True:
                async with session.post(f"{route}/v1/chat/completions", json=body) as answer:
                    said = await answer.read()
                    if answer.status != 200 or "choices" not in loads(said):
                        errors.append(f"{answer.status}: {said!r}")
                await asyncio.sleep(0.5)

    task = asyncio.create_task(asking())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert not errors
