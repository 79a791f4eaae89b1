"""Each distribution alone: its metadata name everything that it imports, and nothing else has to be there (FW-521)."""

import ast
import asyncio
import json
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.metadata import Distribution, packages_distributions
from importlib.metadata import distribution as read_distribution
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.nats import eventually

from aim_local.ports import free_port
from aim_local.processes import dying_with_parent

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = {
    "aim-controller-runtime": "shared/controller-runtime/controller_runtime",
    "aim-oci-registry": "shared/oci-registry/oci_registry",
    "aim-domain": "shared/domain/aim_domain",
    "aim-model-sync": "services/model-sync/aim_model_sync",
    "aim-discovery": "services/discovery/aim_discovery",
    "aim-artifacts": "services/artifacts/aim_artifacts",
    "aim-serving": "services/serving/aim_serving",
    "aim-routing": "services/routing/aim_routing",
    "aim-cli": "deploy/cli/aim_cli",
    "aim-console": "deploy/console/aim_console",
    "aim-embedded-apiserver": "deploy/apiserver/embedded_apiserver",
    "aim-local": "deploy/local/aim_local",
    "aim-packaging": "deploy/packaging/aim_packaging",
}
SERVICES: Final = ("aim-model-sync", "aim-discovery", "aim-artifacts", "aim-serving", "aim-routing")
IMPORT_ALL: Final = """
import importlib, pkgutil, sys
sys.path.append(sys.argv[1])
package = importlib.import_module(sys.argv[2])
for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(found.name)
for name in package.__dir__():
    getattr(package, name)
"""
NAMES: Final = """
import json, re, sys
sys.path.append(sys.argv[1])
import controller_runtime as cr
from controller_runtime import annotation_keys
from controller_runtime.log.wire.messages import EVENT_TYPES, Header, Verb
from controller_runtime.log.wire.subjects import DEFAULT_ROOT
from controller_runtime.telemetry.catalogue import FRAMEWORK_METRICS
usual = ("workqueue", "rest_client", "leader", "process", "python", "controller_runtime", "Nats")
def begun(names, end):
    return sorted({one.partition(end)[0] + end for one in names if end in one and not one.startswith(usual)})
def texts(of):
    return [one for name, one in vars(of).items() if name.isupper() and isinstance(one, str)]
print(json.dumps({
    "annotations": begun(texts(annotation_keys), "/"),
    "event": EVENT_TYPES[Verb.UPSERT],
    "headers": begun([one for one in texts(Header) if one[0].isupper()], "-"),
    "manager": cr.ServiceDefinition("greeter", (), ()).field_manager,
    "metrics": begun([one.name for one in FRAMEWORK_METRICS], "_"),
    "root": DEFAULT_ROOT,
}))
"""
RUN: Final = f"""{IMPORT_ALL}
module = importlib.import_module(package.__name__ + ".__main__")
del sys.argv[1:]
module.main()
"""


distribution = cache(read_distribution)
providers_of_modules = cache(packages_distributions)


def needed(name: str, extras: frozenset[str] = frozenset()) -> Iterator[tuple[str, frozenset[str]]]:
    """What the metadata of a distribution ask for on this machine, with the extras that they name."""
    for line in distribution(name).requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield canonicalize_name(wanted.name), frozenset(wanted.extras)


def closure(name: str) -> set[str]:
    """A distribution and everything that it needs, by the names in the metadata."""
    seen: dict[str, frozenset[str]] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(name, frozenset())]
    while waiting:
        one, extras = waiting.pop()
        known = seen.get(one)
        if known is None or extras - known:
            seen[one] = extras | (known or frozenset())
            waiting += needed(one, seen[one])
    return set(seen)


def folders(name: str) -> list[Path]:
    """The packages that a distribution of this repository puts into site-packages."""
    place = (ROOT / PACKAGES[name]).parent
    settings = tomllib.loads((place / "pyproject.toml").read_text(encoding="utf-8"))
    return [place / one for one in settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]


def install(name: str, folder: Path) -> None:
    """Lay out a distribution and what it needs, as links, in an empty folder."""
    members = sorted(closure(name))
    foreign = [distribution(one) for one in members if one not in PACKAGES]
    for own in set(members) & set(PACKAGES):
        for source in folders(own):
            (folder / source.name).symlink_to(source)
    owners = Counter(top for one in foreign for top in tops(one))
    for one in foreign:
        for top in tops(one):
            if owners[top] == 1:
                (folder / top).symlink_to(str(one.locate_file(top)))
        # Several distributions can share a package, such as opentelemetry.
        for file in one.files or ():
            if file.parts[0] in owners and owners[file.parts[0]] > 1:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).symlink_to(file.locate())


@cache
def tops(one: Distribution) -> set[str]:
    """Folders and modules that a distribution puts into site-packages."""
    return {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}


async def run(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    """Python without site-packages and without the environment of this process."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", "-c"),
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=dying_with_parent(signal.SIGKILL),
    )


class _AtRunTime(ast.NodeTransformer):
    """Takes away what only a type checker imports."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" else node


def _at_run_time(source: str) -> ast.Module:
    tree = ast.parse(source)
    _AtRunTime().visit(tree)
    return tree


@pytest.mark.spec("FW-521")
@pytest.mark.parametrize("name", PACKAGES)
def test_a_distribution_declares_what_it_imports(name: str) -> None:
    own = folders(name)
    files = [file for package in own for file in package.rglob("*.py")]
    nodes = [node for file in files for node in ast.walk(_at_run_time(file.read_text(encoding="utf-8")))]
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    modules |= {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
    imported = {module.split(".")[0] for module in modules} - sys.stdlib_module_names - {one.name for one in own}
    optional = distribution(name).metadata.get_all("Provides-Extra") or ()
    declared = {one for one, _ in needed(name, frozenset({"", *optional}))}
    providers = {**providers_of_modules(), **{folder.name: [one] for one in PACKAGES for folder in folders(one)}}
    missing = {one for one in imported if not declared & {canonicalize_name(by) for by in providers[one]}}
    assert not missing


@pytest.mark.spec("FW-521")
@pytest.mark.parametrize("name", [name for name in PACKAGES if name not in SERVICES])
async def test_a_distribution_imports_with_what_its_metadata_name(name: str, tmp_path: Path) -> None:
    install(name, tmp_path)
    process = await run(IMPORT_ALL, str(tmp_path), Path(PACKAGES[name]).name)
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


async def named(folder: Path) -> tuple[int, str]:
    """How a program ends that has the framework and what lies beside it, and the names that it prints."""
    process = await run(NAMES, str(folder))
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


@pytest.mark.spec("FW-524")
async def test_the_framework_alone_has_neutral_names_and_a_platform_chooses_its_own(tmp_path: Path) -> None:
    install("aim-controller-runtime", tmp_path)
    ended, text = await named(tmp_path)
    assert ended == 0, text
    alone = json.loads(text)
    assert alone == {
        "annotations": ["controller-runtime/"],
        "event": "controller-runtime.object.upserted",
        "headers": ["Controller-"],
        "manager": "controller-greeter",
        "metrics": ["controller_"],
        "root": "controller",
    }
    chosen = tmp_path / "controller_runtime_names.py"
    chosen.write_text("PREFIX, DOMAIN, DEFINE, CREDENTIALS = 'shop', 'shop.example.com', 'apply', 'put in'")
    ended, text = await named(tmp_path)
    assert ended == 0, text
    assert json.loads(text) == {
        "annotations": ["shop.example.com/"],
        "event": "com.example.shop.object.upserted",
        "headers": ["Shop-"],
        "manager": "shop-greeter",
        "metrics": ["shop_"],
        "root": "shop",
    }
    chosen.write_text("PREFIX = 'shop'")
    ended, text = await named(tmp_path)
    assert ended == 1
    assert "module 'controller_runtime_names' has no attribute 'DOMAIN'" in text


@pytest.mark.spec("FW-521")
@pytest.mark.parametrize("name", SERVICES)
async def test_a_service_imports_and_starts_with_what_its_metadata_name(name: str, tmp_path: Path) -> None:
    alone, home = tmp_path / "alone", tmp_path / "home"
    alone.mkdir()
    home.mkdir()
    install(name, alone)
    address, nobody = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    kubeconfig = home / "kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(nobody)), encoding="utf-8")
    environment = {
        "HOME": str(home),
        "KUBECONFIG": str(kubeconfig),
        "AIM_NATS_URL": f"nats://{nobody}",
        "AIM_HEALTH_PROBE_BIND_ADDRESS": address,
        "AIM_METRICS_BIND_ADDRESS": address,
        "AIM_METRICS_SECURE": "false",
    }
    process = await run(RUN, str(alone), Path(PACKAGES[name]).name, **environment)
    assert process.stdout is not None
    log = asyncio.create_task(process.stdout.read())
    try:
        async with aiohttp.ClientSession() as session:

            async def answered(path: str) -> int:
                assert process.returncode is None, (await log).decode()
                try:
                    async with session.get(f"http://{address}{path}") as response:
                        return response.status
                except aiohttp.ClientError:
                    return 0

            async def lives() -> bool:
                return await answered("/healthz") == 200

            await eventually(lives, "it lives")
            assert await answered("/metrics") == 200
            assert await answered("/readyz") == 503
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0, (await log).decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _kubeconfig(address: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://{address}"}}],
        "users": [{"name": "u", "user": {}}],
    }
