"""The wall clock of all five services is set by an hour while they work; API server, broker and pods keep theirs."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from support.said import why
from support.stack import Platform, at_rest, started_platform
from support.stepped_clock import SteppedClock

from aim_domain.services import SERVICES
from aim_local.supervision.process import spawn
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="module")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
HOUR = 3600


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> SteppedClock:
    return SteppedClock(tmp_path_factory.mktemp("clock"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory, clock: SteppedClock) -> AsyncIterator[Platform]:
    """Its services look at the stepped clock."""
    env = dict.fromkeys(SERVICES, clock.variables())
    async with started_platform(tmp_path_factory.mktemp("platform"), service_env=env, spawn=spawn) as found:
        yield found


def written_at(service: JsonObject) -> datetime:
    """When the service became ready by the clock of serving."""
    ready = next(one for one in service["status"]["conditions"] if one["type"] == "Ready")
    return datetime.fromisoformat(ready["lastTransitionTime"])


@pytest.mark.spec("FW-407")
@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["forward", "back"])
async def test_a_step_costs_no_write_and_a_service_comes_up_after_it(
    platform: Platform, clock: SteppedClock, step: int
) -> None:
    namespace = "clock-forward" if step > 0 else "clock-back"
    await platform.namespace(namespace)
    former = await platform.service(namespace, "before", model={"image": IMAGE})
    await platform.running(former)
    before = await at_rest(platform)

    clock.set(step)
    await platform.kubectl("label", "aimservices,aimmodels,aimservicetemplates", "--all", "-n", namespace, "seen=once")
    assert await at_rest(platform) - before == Counter()
    said = await why(platform, "aimservice", f"{namespace}/before")
    assert (said.code, said.lines) == (0, [f"AIMService {namespace}/before is Running", "no problem found"])
    after = await platform.running(await platform.service(namespace, "after", model={"image": IMAGE}))
    assert abs((written_at(after) - datetime.now(UTC)).total_seconds() - step) < HOUR / 2
    await platform.chat(after["status"]["routing"]["path"], "what time is it?")

    clock.set(0)
    again = await platform.running(await platform.service(namespace, "again", model={"image": IMAGE}))
    await platform.chat(again["status"]["routing"]["path"], "what time is it?")
    await platform.running(former)


@pytest.mark.spec("FW-407", "FW-605")
@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["forward", "back"])
async def test_what_failed_at_another_time_is_explained_and_tried_again_when_it_is_mended(
    platform: Platform, clock: SteppedClock, step: int
) -> None:
    namespace = "failed-forward" if step > 0 else "failed-back"
    clock.set(step)
    await platform.namespace(namespace, **{"local.aim/fail": "download=auth"})
    path = await platform.service(namespace, "chat", model={"image": IMAGE})
    await platform.until(path, lambda obj: (obj.get("status") or {}).get("status") == "Degraded")

    clock.set(0)
    said = await why(platform, "aimservice", f"{namespace}/chat")
    assert (said.code, "AuthError" in said.lines[1]) == (1, True), said
    await platform.kubectl("annotate", "namespace", namespace, "local.aim/fail-")
    await platform.kubectl("delete", "jobs", "--all", "-n", namespace)
    await platform.running(path, 90)
