"""Rules and metrics as Prometheus's own tool judges them."""

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from support.controlplane import RawApi
from support.prometheus import promtool
from support.runtime_fixtures import MODELS, model, seen
from support.services import Platform

RULES: Final = Path(__file__).parents[2] / "deploy/charts/aim-engine/files/rules.yaml"


async def judged(*arguments: str, page: bytes = b"") -> tuple[int, str]:
    """How the tool ends, and what it says."""
    done = await asyncio.to_thread(
        subprocess.run, [str(promtool()), *arguments], input=page, capture_output=True, check=False
    )
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.spec("FW-712")
async def test_the_rules_of_the_chart() -> None:
    code, said = await judged("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert code == 0, said


@pytest.mark.spec("FW-712", "FW-715")
async def test_the_metrics_of_a_service_that_leads(stage: Platform, api: RawApi) -> None:
    service = await stage.started("pod-0")
    await service.leads()
    await api.created(MODELS, model("qwen", "qwen:1"))
    await seen(api, "qwen", "qwen:1")
    async with aiohttp.ClientSession() as session, session.get(f"{service.url}/metrics") as answer:
        page = await answer.read()
    text = page.decode()
    assert "# TYPE aim_publisher_published_total counter" in text
    for name in ("queue", "work"):
        bounds = re.findall(rf'workqueue_{name}_duration_seconds_bucket{{le="([^"]*)",name="tiny"}}', text)
        assert bounds == [*(f"1e-0{power}" for power in (8, 7, 6, 5)), "0.0001", "0.001", "0.01", "0.1", "1.0", "10.0",
                          "100.0", "1000.0", "+Inf"]  # fmt: skip
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"} <= {
        line.partition(" ")[0] for line in text.splitlines()
    }
    assert await judged("check", "metrics", page=page) == (0, "")
