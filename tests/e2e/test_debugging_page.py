"""The chapter about a download that fails at night is what happens: its commands run, and say what it shows."""

import asyncio
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.stack import Platform, status_of
from typer.testing import CliRunner

from aim_cli.__main__ import app

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = Path(__file__).parents[2] / "docs" / "debugging.md"
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_STABLE = re.compile(
    r"\b[A-Z]+[a-z]+[A-Z]\w*\b(?!…)|\bDegraded\b|\bRunning\b|\bFailed\b|\b\d+ different, \d+ undetermined"
)
"""Of a line: kinds, conditions, reasons and verdicts; names, times and counts are of one run."""
_OF_ONE_MOMENT = {"JobFailed"}
"""Said while the Job has failed and what its pod said was not read yet."""


def steps() -> Iterator[tuple[str, str]]:
    """Each command of the page with what it is shown to say."""
    for block in _BLOCK.findall(PAGE.read_text("utf-8")):
        for step in block.split("$ ")[1:]:
            command, _, shown = step.partition("\n")
            yield command, shown


def stable(text: str) -> set[str]:
    """What is the same in each run, whether model and template are those of the catalogue or of the namespace."""
    return set(_STABLE.findall(text.replace("AIMCluster", "AIM"))) - _OF_ONE_MOMENT


def keep(transcript: Sequence[str]) -> None:
    """For whoever writes the page: ``AIM_TRANSCRIPT`` names a file for what the commands said."""
    if "AIM_TRANSCRIPT" in os.environ:
        Path(os.environ["AIM_TRANSCRIPT"]).write_text("\n".join(transcript), "utf-8")


async def corrected(platform: Platform, path: str) -> None:
    """What the page does with kubectl: the hub takes the new token."""
    await platform.api.merge("/api/v1/namespaces/night", {"metadata": {"annotations": {"local.aim/fail": None}}})
    await platform.api.merge(path, {"spec": {"env": [{"name": "HF_TOKEN", "value": "new-token"}]}})
    await platform.running(path)


@pytest.mark.spec("FW-623")
async def test_a_download_that_fails_at_night(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(platform.stack.kubeconfig))
    monkeypatch.setenv("AIM_NATS_URL", platform.stack.nats_url)
    monkeypatch.chdir(tmp_path)
    await platform.namespace("night", **{"local.aim/fail": "download=auth"})
    env = [{"name": "HF_TOKEN", "value": "old-token"}]
    path = await platform.service("night", "chat", model={"image": IMAGE}, env=env)
    await platform.until(path, lambda obj: status_of(obj) == "Degraded")

    transcript = []
    missing = {}
    for command, shown in steps():
        program, *words = shlex.split(command)
        if program == "kubectl":
            if words[0] == "patch":
                await corrected(platform, path)
            continue
        ended = await asyncio.to_thread(CliRunner().invoke, app, words)
        transcript.append(f"$ {command}\n{ended.output}")
        if lacking := stable(shown) - stable(ended.output):
            missing[command] = lacking
        assert ended.exit_code in (0, 1), (command, ended.output)
    keep(transcript)
    assert missing == {}
    assert transcript, "the page shows commands"
