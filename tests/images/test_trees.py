"""Services run from the file trees of their images, with nothing else of this machine."""

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from support import containerfile
from support.controlplane import definitions
from support.nats import eventually

from aim_local.nats import NatsServer
from aim_local.ports import free_port
from aim_local.processes import dying_with_parent
from aim_packaging import tree
from embedded_apiserver.controlplane import ControlPlane

IMAGE_USER: Final = 65532
# The libraries of all images are installed for them.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has pip, and, as Python 3.12 and newer, nothing else."""
    folder = tmp_path_factory.mktemp("base")
    venv.create(folder, with_pip=True, symlinks=True)
    for path in folder.glob("lib/python*/site-packages/*"):
        if not path.name.startswith("pip") and path.is_dir():
            shutil.rmtree(path)
    return str(folder / "bin/python")


@pytest.fixture(scope="module")
def built(bare: str) -> Iterator[Path]:
    """The trees of one service and of the downloader, where others may read and nobody may write."""
    with tempfile.TemporaryDirectory(prefix="aim-trees-") as name:
        folder = Path(name)
        asyncio.run(containerfile.build_layers(folder / "layers", bare))
        for image in ("routing", "downloader"):
            containerfile.assemble(image, folder / "layers", folder / image)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444)
        yield folder
        for path in (folder, *(one for one in folder.rglob("*") if one.is_dir())):
            path.chmod(0o755)


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that other users can read."""
    with tempfile.TemporaryDirectory(prefix="aim-home-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def python() -> Path:
    """An interpreter of this version without this environment's packages; better one that every user can run."""
    system = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    return system if system.exists() else Path(os.path.realpath(sys.executable))


def user() -> int | None:
    """That of the images, where this process may become it and it may run the interpreter."""
    reachable = all(one.stat().st_mode & 0o001 for one in python().resolve().parents)
    return IMAGE_USER if os.geteuid() == 0 and reachable else None


async def run(root: Path, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
    """Python with the tree's libraries and without the environment of this process."""
    return await asyncio.create_subprocess_exec(
        str(python()),
        *("-B", "-s", "-P"),
        *arguments,
        cwd="/",
        env={"PYTHONPATH": str(root / tree.LIBRARIES), "PATH": "/usr/bin:/bin", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        user=user(),
        preexec_fn=dying_with_parent(signal.SIGKILL),
    )


def kubeconfig(server: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
    )


@pytest.mark.spec("FW-287", "FW-340", "FW-543")
async def test_a_service_starts_from_its_tree_becomes_ready_and_ends(built: Path, home: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with ControlPlane() as plane, NatsServer() as broker:
        plane.install_crds(definitions())
        await asyncio.to_thread((home / "kubeconfig").write_text, kubeconfig(plane.url))
        process = await run(
            built / "routing",
            str(built / "routing/opt/aim/start"),
            KUBECONFIG=str(home / "kubeconfig"),
            AIM_NATS_URL=broker.url,
            AIM_HEALTH_PROBE_BIND_ADDRESS=address,
        )
        try:
            async with aiohttp.ClientSession() as session:

                async def ready() -> bool:
                    assert process.returncode is None, "it ended"
                    try:
                        async with session.get(f"http://{address}/readyz") as response:
                            return response.status == 200
                    except aiohttp.ClientError:
                        return False

                await eventually(ready, "it is ready")
            process.send_signal(signal.SIGTERM)
            output, _ = await process.communicate()
            assert process.returncode == 0, output.decode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


@pytest.mark.spec("AR-700", "AR-701", "AR-702")
@pytest.mark.parametrize(
    "entry", ["opt/aim/start", "check-size.sh", "storage-initializer/scripts/initializer-entrypoint"]
)
async def test_each_entry_point_of_the_downloader_starts_from_its_tree(built: Path, entry: str) -> None:
    script = built / "downloader" / entry
    assert entry == "opt/aim/start" or os.access(script, os.X_OK)
    process = await run(built / "downloader", str(script), "ftp://nobody/has/it")
    output, _ = await process.communicate()
    assert (process.returncode, b"ftp" in output) == (2, True), output.decode()


@pytest.mark.spec("FW-543")
def test_an_image_holds_what_its_service_needs_and_no_tools_of_development(built: Path) -> None:
    held = {one.name for one in (built / "routing" / tree.LIBRARIES).iterdir()}
    assert {"aim_routing", "aim_domain", "controller_runtime", "nats"} <= held
    assert not held & {"aim_serving", "aim_artifacts", "pytest", "mypy", "nats_server", "bin", "pip"}


@pytest.mark.spec("FW-721")
async def test_a_tree_is_the_same_wherever_and_whenever_it_is_built(built: Path, bare: str, tmp_path: Path) -> None:
    await containerfile.build_layers(tmp_path / "elsewhere", bare)
    first, second = content(built / "layers"), content(tmp_path / "elsewhere")
    assert first.keys() == second.keys()
    assert [name for name, data in first.items() if data != second[name]] == []
    compiled = next(
        data
        for name, data in first.items()
        if name.endswith(f"aim_routing/__pycache__/service.cpython-3{sys.version_info.minor}.pyc")
    )
    assert compiled[4:8] == b"\x01\0\0\0", "by a hash that is not checked"
    assert b"/opt/aim/lib/aim_routing/service.py" in compiled
    assert str(built).encode() not in compiled


def content(root: Path) -> dict[str, bytes]:
    return {str(one.relative_to(root)): one.read_bytes() for one in root.rglob("*") if one.is_file()}
