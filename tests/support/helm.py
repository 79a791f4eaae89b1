"""The real helm and kubectl, and the chart."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from aim_local.assets import Program, find_toolset
from controller_runtime import JsonObject

CHARTS: Final = Path(__file__).parents[2] / "deploy" / "charts"
ENGINE: Final = str(CHARTS / "aim-engine")
NAMESPACE: Final = "aim-system"
POD_NAME: Final = "$POD_NAME"
KUBERNETES: Final = ("--kube-version", "1.34")
DEFINED: Final = ("--set", "crd.enabled=false", "--api-versions", "aim.eai.amd.com/v1alpha1/AIMService")
OFFLINE: Final = (*KUBERNETES, *DEFINED)
"""What a rendering without a cluster is told, so that it looks as in one that has the definitions."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command ended with."""

    status: int
    output: str
    errors: str

    @property
    def objects(self) -> list[JsonObject]:
        """The objects that it printed."""
        return [one for one in yaml.safe_load_all(self.output) if one]


async def run(program: Program, *arguments: str, stdin: str = "") -> Finished:
    """Run it to its end."""
    path = find_toolset().program(program)
    process = await asyncio.create_subprocess_exec(
        str(path),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate(stdin.encode())
    return Finished(process.returncode or 0, output.decode(), errors.decode())


async def helm(*arguments: str) -> Finished:
    """Run helm."""
    return await run(Program.HELM, *arguments)


async def rendered(
    folder: Path,
    values: JsonObject | None = None,
    arguments: Sequence[str] = OFFLINE,
    *,
    namespace: str = NAMESPACE,
) -> Finished:
    """The chart with these values."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values or {}), encoding="utf-8")
    return await helm("template", "aim-engine", ENGINE, "-n", namespace, "-f", str(file), *arguments)


def of_kind(done: Finished, kind: str) -> dict[str, JsonObject]:
    """The rendered objects of a kind by name."""
    assert done.status == 0, done.errors
    return {one["metadata"]["name"]: one for one in done.objects if one["kind"] == kind}


def broker_config(done: Finished) -> JsonObject:
    """The configuration of the bundled broker, whose one variable stands without quotes."""
    text = of_kind(done, "ConfigMap")["aim-engine-nats"]["data"]["nats.conf"]
    config: JsonObject = json.loads(text.replace(POD_NAME, f'"{POD_NAME}"'))
    return config
