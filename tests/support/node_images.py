"""Images that a node cannot pull: missing ones, and such as need credentials."""

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import aiohttp
from support.on_node import OnNode

from aim_local.node.requirements import program
from aim_local.processes import dying_with_parent
from aim_packaging.images.commands import Registry
from aim_packaging.images.layout import Layout
from controller_runtime import JsonObject, dumps

PASSWORD: Final = "correct-password"
USER: Final = "me"
_HTPASSWD: Final = "me:$2y$05$abcdefghijklmnopqrstuuQ1r5cG1iNx7gU/7PdnUErse9Ii7K/WW"
"""The user and the password, as `htpasswd -B` writes it."""
_PORT: Final = 80
"""One that the chart's NetworkPolicies allow for registries."""
_BUILT: Final = Path(".run/oci")
_MANIFESTS: Final = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json"
_START_SECONDS: Final = 30


async def forget_image(node: OnNode, repository: str) -> None:
    """Have the container runtime pull images of a repository, named with its host, when they are needed next."""

    def forget() -> None:
        ctr = (program("ctr"), "-a", str(node.platform.node.settings.socket), "-n", "k8s.io", "images")
        listed = subprocess.run((*ctr, "ls", "-q"), check=True, capture_output=True, text=True).stdout.split()
        for name in listed:
            if name.startswith((f"{repository}:", f"{repository}@", f"{repository}/")):
                subprocess.run((*ctr, "rm", name), check=True, capture_output=True)

    await asyncio.to_thread(forget)


@dataclass(frozen=True, slots=True)
class Copy:
    """A second name of an image that `make images engine-images` made, which the node's registry has or has not.

    Attributes:
        original: with its tag.
        repository: of the second name, without a host.
    """

    node: OnNode
    original: str
    repository: str

    @property
    def image(self) -> str:
        """What a service names."""
        return f"{self.repository}:1"

    async def push(self) -> None:
        """Have the registry know it."""

        def push() -> None:
            layout = Layout(_BUILT.absolute())
            image = layout.image(f"docker.io/{self.original}")
            # After the original, so that the registry takes the layers from there.
            pushed = Registry(self._address).push(layout, [image, replace(image, name=f"docker.io/{self.image}")])
            assert len(list(pushed)) == 2

        await asyncio.to_thread(push)

    async def delete(self) -> None:
        """Take it from the registry and from the node."""
        manifests = f"http://{self._address}/v2/{self.repository}/manifests"
        async with (
            aiohttp.ClientSession() as session,
            session.head(f"{manifests}/1", headers={"accept": _MANIFESTS}) as found,
        ):
            if found.status == 200:
                async with session.delete(f"{manifests}/{found.headers['docker-content-digest']}") as reply:
                    assert reply.status == 202, await reply.text()
        await forget_image(self.node, f"docker.io/{self.repository}")

    @property
    def _address(self) -> str:
        return self.node.platform.node.settings.registry


@asynccontextmanager
async def copy_of(node: OnNode, image: str) -> AsyncIterator[Copy]:
    """A second name, which the registry does not know yet; nothing of it is left at the end."""
    copy = Copy(node, image, f"failures/{uuid.uuid4().hex[:6]}")
    try:
        yield copy
    finally:
        await copy.delete()
        repositories = node.platform.node.settings.registry_storage / "docker" / "registry" / "v2" / "repositories"
        shutil.rmtree(repositories / copy.repository, ignore_errors=True)
        with contextlib.suppress(OSError):
            (repositories / copy.repository).parent.rmdir()


@asynccontextmanager
async def private_registry(node: OnNode, folder: Path) -> AsyncIterator[str]:
    """A registry with the images of the node's that wants credentials; yields `host:port`."""
    settings = node.platform.node.settings
    address = f"{settings.address}:{_PORT}"
    (folder / "htpasswd").write_text(f"{_HTPASSWD}\n", encoding="ascii")
    configuration: JsonObject = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(settings.registry_storage)},
            "maintenance": {"readonly": {"enabled": True}},
        },
        "http": {"addr": address, "secret": "of-a-test"},
        "auth": {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}},
    }
    file, log = folder / "registry.yml", folder / "registry.log"
    # JSON is YAML.
    file.write_bytes(dumps(configuration))
    # The container runtime reads it at each pull.
    hosts = settings.run / "conf" / "hosts" / address
    hosts.mkdir(exist_ok=True)
    text = f'server = "http://{address}"\n[host."http://{address}"]\n  capabilities = ["pull", "resolve"]\n'
    (hosts / "hosts.toml").write_text(text, encoding="utf-8")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            program("docker-registry"),
            "serve",
            file,
            stdout=output,
            stderr=output,
            preexec_fn=dying_with_parent(signal.SIGTERM),
        )
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not _listens(str(settings.address)):
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        yield address
    finally:
        process.terminate()
        await process.wait()
        shutil.rmtree(hosts)
        await forget_image(node, address)


def _listens(host: str) -> bool:
    try:
        socket.create_connection((host, _PORT), timeout=1).close()
    except OSError:
        return False
    return True
