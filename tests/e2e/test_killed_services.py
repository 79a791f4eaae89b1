"""Every service may be killed at any moment: what it was doing is finished by its next start."""

import asyncio
from typing import Final

import pytest
from support.stack import OWN, Platform, at_rest

from aim_domain.services import SERVICES
from aim_local.demo.run import ask

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
CHECKPOINTS_LAST: Final = 31.0
"""Seconds after which no checkpoint of a process that is gone confirms anything (FW-019)."""
LOOKED_AT: Final = ("aimartifacts", "aimtemplatecaches")
"""Kinds of artifacts, the service that stays."""
WRITTEN: Final = (
    *(f"{OWN}/{plural}"[1:] for plural in ("aimservices", *LOOKED_AT)),
    "apis/serving.kserve.io/v1beta1/inferenceservices",
    "apis/gateway.networking.k8s.io/v1/httproutes",
    "api/v1/persistentvolumeclaims",
    "api/v1/events",
)
START_APART: Final = 3.0
"""Seconds in which an object has its pass before the other services start."""


@pytest.mark.parametrize("name", SERVICES)
async def test_a_service_killed_on_the_way_finishes_after_its_restart(platform: Platform, name: str) -> None:
    namespace = f"killed-{name}"
    await platform.namespace(namespace)
    path = await platform.service(namespace, "chat", model={"image": IMAGE})
    await platform.until(path, lambda obj: "status" in obj)

    await platform.stack[name].kill()
    await platform.stack[name].start()

    service = await platform.running(path, 60)
    await platform.chat(service["status"]["routing"]["path"], "still there?")


async def test_all_services_killed_at_once_finish_after_their_restart(platform: Platform) -> None:
    await platform.namespace("killed-all")
    path = await platform.service("killed-all", "chat", model={"image": IMAGE})
    await platform.until(path, lambda obj: "status" in obj)
    services = [platform.stack[name] for name in SERVICES]

    async with asyncio.TaskGroup() as group:
        for process in services:
            group.create_task(process.kill())
    async with asyncio.TaskGroup() as group:
        for process in services:
            group.create_task(process.start())

    service = await platform.running(path, 60)
    await platform.chat(service["status"]["routing"]["path"], "still there?")


@pytest.mark.spec("FW-861")
async def test_services_that_were_away_for_half_a_minute_cost_no_write(platform: Platform) -> None:
    """As after a node's reboot or a new installation, where one of the five is the first to run."""
    await platform.namespace("away")
    await platform.running(await platform.service("away", "chat", model={"image": IMAGE}))
    await at_rest(platform)
    expected = await versions(platform, "away")
    others = [platform.stack[name] for name in SERVICES if name != "artifacts"]
    async with asyncio.TaskGroup() as group:
        for process in others:
            group.create_task(process.kill())
    await asyncio.sleep(CHECKPOINTS_LAST)

    for path in [one for one in expected if one.partition("/")[0] in LOOKED_AT]:
        answer = await platform.api.merge(
            f"{OWN}/namespaces/away/{path}", {"metadata": {"labels": {"looked-at": "once"}}}
        )
        expected[path] = answer.body["metadata"]["resourceVersion"]
    await asyncio.sleep(START_APART)
    async with asyncio.TaskGroup() as group:
        for process in others:
            group.create_task(process.start())

    await at_rest(platform)
    assert await versions(platform, "away") == expected


async def versions(platform: Platform, namespace: str) -> dict[str, str]:
    """The objects that services write in a namespace, each with its resourceVersion. Those of other tests change."""
    found: dict[str, str] = {}
    for path in WRITTEN:
        group, _, plural = path.rpartition("/")
        objects = (await platform.api.get(f"/{group}/namespaces/{namespace}/{plural}")).body["items"]
        found |= {f"{plural}/{one['metadata']['name']}": one["metadata"]["resourceVersion"] for one in objects}
    return found


@pytest.mark.parametrize("name", ["actors", "gateway"])
async def test_a_simulated_part_takes_up_its_work_again(platform: Platform, name: str) -> None:
    namespace = f"again-{name}"
    await platform.namespace(namespace)
    path = await platform.service(namespace, "chat", model={"image": IMAGE})
    service = await platform.running(path)

    await platform.stack[name].kill()
    await platform.stack[name].start()

    answer = await ask(platform.stack.gateway_url + service["status"]["routing"]["path"], "still there?")
    assert answer.endswith("still there?")
    await platform.running(path)


async def test_a_broker_killed_on_the_way_costs_time_only(platform: Platform) -> None:
    await platform.namespace("killed-nats")
    path = await platform.service("killed-nats", "chat", model={"image": IMAGE})
    await platform.until(path, lambda obj: "status" in obj)

    await platform.broker_killed_and_started()

    service = await platform.running(path, 60)
    await platform.chat(service["status"]["routing"]["path"], "still there?")
