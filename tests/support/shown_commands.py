"""Runs the commands that a page shows against a platform: the real kubectl and helm, `aim`, curl."""

import asyncio
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
import typer
from support.shown import ROOT, program
from support.stack import Platform
from typer.testing import CliRunner

from aim_cli.__main__ import app as aim
from aim_local.assets import AssetError, Program, find_toolset
from aim_packaging.__main__ import app as packaging

_UPGRADE: Final = "helm upgrade aim-engine deploy/charts/aim-engine -n aim-system --reset-then-reuse-values"
ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "install -m 755 dist/": "takes a release: tests/release",
        "make ": "tests/unit/docs: the target exists; .ci/run runs it, tests/e2e/test_demo_command.py the demo",
        "aim console": "serves until it is interrupted: tests/e2e/test_console.py",
        "helm uninstall ": "takes a release: tests/real/test_real_chart.py removes it",
        "helm upgrade aim-engine-crds ": "takes the former chart: tests/real/test_real_chart_definitions.py",
        "kubectl apply --server-side -k deploy": "tests/real/test_real_chart_definitions.py, on an empty cluster",
        "kubectl delete aimclustermodelsource amd-aim-model-source": "takes the one of a release: likewise",
        "kubectl wait configmap/chat-plan ": "takes a plan; the annotation that asks for one is a dry run here",
        "kubectl get configmap chat-plan ": "likewise: tests/e2e/test_profiles.py reads that plan",
        "kubectl top ": "takes metrics-server: tests/node/test_node_autoscaling.py",
        "kubectl patch aimservice -n demo ": "moves addresses of two services: tests/e2e/test_shared_gateway.py",
        "kubectl get aimservice -n demo new ": "looks at one of them",
        "kubectl delete httproute ": "takes a route that another client made",
        "helm rollback ": "takes two revisions: tests/real/test_real_chart_definitions.py",
        "helm test ": "takes pods of images: tests/containers asks the same of the services",
        "kubectl -n aim-system port-forward ": "takes a kubelet; what is then asked is asked of the service itself",
        "kubectl -n aim-system logs ": "takes the Job of an installation: tests/containers/test_installed_check.py",
        "kubectl -n aim-system rollout ": "restarts the pods of an installation, which has no dry run",
        "kubectl -n aim-system patch pvc ": "takes the volume of a bundled broker, which only a cluster has",
        "kubectl -n aim-system delete statefulset ": "takes a bundled broker: tests/node/test_node_brokers.py",
        "kubectl -n aim-system delete pvc ": "takes the volumes of three brokers: tests/node/test_node_brokers.py",
        f"{_UPGRADE} --set nats.replicas=1": "waits for the volumes of three brokers: tests/node/test_node_brokers.py",
        "kubectl create token NAME ": "names an account of yours: tests/real/test_real_console.py logs in so",
        "kubectl -n aim-system get lease ": "nobody elects a leader here: tests/chaos/test_service_leaders.py",
        "kubectl create namespace guide-": "made by the test, as the objects of the page need it",
        "kubectl label namespace monitoring ": "names a namespace of yours",
    }
)
"""Beginnings of commands that are not run here, with the reason and what holds them."""
_WRITING: Final = re.compile(r"^kubectl (-n \S+ )?(create|apply|delete|annotate|label|patch|scale)\b")
_CREATING: Final = re.compile(r"^kubectl create .* -n guide-")
_ENDLESS: Final = re.compile(r" (-w|--watch)\b")
_CODES: Final[Mapping[str, Sequence[int]]] = MappingProxyType({"aim": (0, 1)})
"""What a command may end with; of ``aim`` 1 says that something needs attention, maybe what another test left."""


@dataclass(frozen=True, slots=True)
class Shell:
    """Where commands run.

    Attributes:
        folder: for the files that they write and for those that a page takes for granted.
    """

    platform: Platform
    folder: Path

    async def prepared(self, commands: Sequence[str]) -> None:
        """What the commands create in the namespaces of guides, for their objects."""
        for command in commands:
            if _CREATING.match(command):
                code, said = await _process(command)
                assert code == 0, (command, said)

    async def failures(self, commands: Sequence[str]) -> dict[str, str]:
        """What went wrong, by command; those of `ELSEWHERE` are left out."""
        found = {}
        for command in commands:
            if not is_elsewhere(command) and not _CREATING.match(command):
                code, said = await self._run(command)
                if code not in _CODES.get(program(command).rpartition("/")[2], (0,)):
                    found[command] = f"{code}: {said[-600:]}"
        return found

    async def typed(self, command: str) -> tuple[int, str]:
        """Run a command of kubectl as it stands: its code, and what it prints."""
        return await _process(self._here(command))

    async def _run(self, command: str) -> tuple[int, str]:
        line = self._here(command)
        match program(command).rpartition("/")[2]:
            case "aim":
                # The gateway of these tests listens on a port of its own, not on that of its listener.
                reached = ("--url", self.platform.stack.gateway_url) if " chat " in line else ()
                return await _invoked(aim, [*_words(line), *reached])
            case "python":
                return await _invoked(packaging, line.split()[3:])
            case "kubectl":
                line = _ENDLESS.sub("", line)
                before, pipe, after = line.partition(" | ")
                dry = " --dry-run=server" if _WRITING.match(line) else ""
                return await _process(before + dry + (f" {pipe} {after} || true" if pipe else ""))
            case "helm":
                return await _helm(line)
            case "curl":
                return await _process(f"{line} --fail --silent --show-error")
        return 0, ""

    def _here(self, command: str) -> str:
        """With the names of this platform and this folder in place of those that a reader has."""
        stack = self.platform.stack
        places: Mapping[str, str] = {
            "http://<address of the gateway>": stack.gateway_url,
            "localhost:8081": stack["serving"].url.removeprefix("http://"),
            "night.aimlog": f"{self.folder}/night.aimlog",
            "-f manifests/": f"-f {self.folder}/manifests/",
            "-f config.yaml": f"-f {self.folder}/config.yaml",
            "-f service.yaml": f"-f {self.folder}/service.yaml",
            "nats-keys keys": f"nats-keys {self.folder}/keys",
            # tests/node/test_node_chart.py installs what a release has.
            "dist/0.1.0/aim-engine-0.1.0.tgz": "deploy/charts/aim-engine",
            " -f dist/0.1.0/values-images.yaml": "",
            "-f keys/": f"-f {self.folder}/keys/",
        }
        for shown, here in places.items():
            command = command.replace(shown, here)
        return command


def is_elsewhere(command: str, beginnings: Iterable[str] = ELSEWHERE) -> bool:
    """Whether it is not run here, for it begins with one of these."""
    bare = re.sub(r"^([A-Z_]+=\S+ )+", "", command).replace(".venv/bin/", "")
    return bare.startswith(tuple(beginnings))


def _words(line: str) -> list[str]:
    """Of a command, up to where its output goes."""
    return shlex.split(line.partition(" > ")[0])[1:]


async def _invoked(app: typer.Typer, words: Sequence[str]) -> tuple[int, str]:
    ended = await asyncio.to_thread(CliRunner().invoke, app, list(words))
    return ended.exit_code, f"{ended.output}{ended.exception or ''}"


async def _helm(line: str) -> tuple[int, str]:
    """Against the API server, but nothing is installed; its definitions are there without helm."""
    try:
        path = find_toolset().program(Program.HELM)
    except AssetError:
        return 0, ""
    words = line.replace("helm upgrade ", "helm upgrade --install ").replace(" --reuse-values", "").split()[1:]
    return await _process(f"{path} {' '.join(dict.fromkeys(words))} --dry-run=server --take-ownership")


async def _process(line: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_shell(
        line, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=dict(os.environ)
    )
    async with asyncio.timeout(120):
        said, _ = await process.communicate()
    return process.returncode or 0, said.decode(errors="replace")


def reported_where(platform: Platform, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Shell:
    """A shell with the variables that the pages export, and in the folder that they start from."""
    monkeypatch.setenv("KUBECONFIG", str(platform.stack.kubeconfig))
    monkeypatch.setenv("AIM_NATS_URL", platform.stack.nats_url)
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"HELM_{name}_HOME", str(folder / "helm"))
    monkeypatch.chdir(ROOT)
    return Shell(platform, folder)
