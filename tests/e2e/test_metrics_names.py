"""The metrics that rules, dashboards and pages name are those of the started services, and the other way round."""

import re

import aiohttp
import pytest
from support.stack import Platform

from aim_domain.metric_catalogue import BY_SERVICE
from aim_domain.services import SERVICES
from controller_runtime.telemetry.catalogue import FRAMEWORK_METRICS

OF_OBJECTS = {"aim_decisions_total", "aim_objects"}
"""Shown once an object had a pass that told a status and its Ready, which those of routing never do."""

pytestmark = pytest.mark.asyncio(loop_scope="session")


def families(page: str) -> dict[str, tuple[str, str]]:
    """Kind and meaning of each metric on a page; Python's ``_created`` left out."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    meanings = dict(re.findall(r"^# HELP (\S+) (.+)$", page, re.MULTILINE))
    return {name: (kind, meanings[name]) for name, kind in kinds.items() if not name.endswith("_created")}


@pytest.mark.spec("FW-560", "FW-284", "FW-286")
async def test_every_metric_of_the_catalogue_is_shown_and_every_one_shown_is_in_it(platform: Platform) -> None:
    await platform.api.until("/api/v1/namespaces/default", lambda reply: reply.status == 200)
    async with aiohttp.ClientSession() as session:
        for service in SERVICES:
            async with session.get(f"{platform.stack[service].url}/metrics") as answer:
                shown = families(await answer.text())
            wanted = {one.name: one for one in (*FRAMEWORK_METRICS, *BY_SERVICE[service])}
            assert not shown.keys() - wanted.keys(), service
            missing = {one for one in wanted.keys() - shown.keys() if not one.startswith("aim_stream")}
            assert not missing - OF_OBJECTS, service
            for name, (kind, meaning) in shown.items():
                assert kind == wanted[name].kind, name
                if wanted[name] in FRAMEWORK_METRICS:
                    assert meaning == wanted[name].meaning, name
