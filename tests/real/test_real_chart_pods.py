"""The pods of the chart: what they are made of, and what starts them anew."""

import asyncio
import shutil
from pathlib import Path
from typing import Final

import pytest
import yaml
from support.helm import ENGINE, NAMESPACE, OFFLINE, Finished, helm, of_kind, rendered

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

WORKLOADS: Final = ("Deployment", "StatefulSet")
IMAGES: Final = ("--set-string", "manager.image.tag=1,downloader.image.tag=1")
"""Given, so that the versions of images do not follow that of the chart."""


def templates(done: Finished) -> dict[str, JsonObject]:
    """The template of each workload's pods, by name."""
    found = {name: one for kind in WORKLOADS for name, one in of_kind(done, kind).items()}
    return {name: one["spec"]["template"] for name, one in found.items()}


async def later_version(folder: Path) -> str:
    """The chart as a later release has it, of which nothing else changed."""
    chart = folder / "aim-engine"
    await asyncio.to_thread(shutil.copytree, ENGINE, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    text = yaml.safe_dump(about | {"version": "9.9.9", "appVersion": "9.9.9"})
    (chart / "Chart.yaml").write_text(text, encoding="utf-8")
    return str(chart)


@pytest.mark.spec("FW-700")
async def test_another_version_of_the_chart_starts_no_pod_anew(tmp_path: Path) -> None:
    first, second = [
        templates(await helm("template", "aim-engine", chart, "-n", NAMESPACE, *OFFLINE, *IMAGES))
        for chart in (ENGINE, await later_version(tmp_path))
    ]
    assert len(first) == 6
    assert first == second


@pytest.mark.spec("FW-546")
async def test_a_check_that_hangs_is_ended_and_one_that_failed_goes_after_a_day(tmp_path: Path) -> None:
    done = await rendered(tmp_path, {"check": {"seconds": 30}})
    job = of_kind(done, "Job")["aim-engine-check"]
    assert job["spec"]["activeDeadlineSeconds"] == 210
    assert job["spec"]["ttlSecondsAfterFinished"] == 86400
    assert "hook-failed" not in job["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
