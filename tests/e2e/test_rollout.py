"""A new version of a service beside the one that runs, until it replaces it, or ends (serving.md section 18b)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from support.stack import OWN, PATIENCE, Platform, status_of

from aim_local.actors.gateways import is_served
from aim_local.ports import HOST
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b"
OLD, NEW, BROKEN = f"{IMAGE}:0.8.4", f"{IMAGE}:0.8.5", f"{IMAGE}:0.0.0"
ASKED = {"metadata": {"annotations": {"aim.eai.amd.com/rollout": "continue"}}}


def phase(service: JsonObject) -> tuple[str, int | None]:
    found = service["status"].get("rollout") or {}
    return found.get("phase", ""), found.get("weight")


def route_ready_since(service: JsonObject) -> tuple[str, str]:
    [found] = [one for one in service["status"]["conditions"] if one["type"] == "HTTPRouteReady"]
    return found["status"], found["lastTransitionTime"]


def rolled_out(service: JsonObject) -> str:
    return next((one["reason"] for one in service["status"]["conditions"] if one["type"] == "RolledOut"), "")


async def served(platform: Platform, team: str, steps: list[JsonObject]) -> str:
    """A service with a rollout that runs the old version; its path."""
    await platform.namespace(team)
    path = await platform.service(team, "chat", model={"image": OLD}, rollout={"steps": steps})
    await platform.running(path)
    await platform.until(path, lambda one: phase(one) == ("Complete", None))
    return path


async def beside(platform: Platform, team: str) -> list[JsonObject]:
    found = (await platform.api.get(f"{OWN}/namespaces/{team}/aimservices")).body["items"]
    return [one for one in found if one["metadata"]["name"] != "chat"]


async def answers(platform: Platform, team: str, count: int = 40) -> Counter[str]:
    """Which of the two versions answered how often."""
    found: Counter[str] = Counter()
    url = f"{platform.stack.gateway_url}/{team}/chat/v1/chat/completions"
    async with aiohttp.ClientSession() as session:
        for _ in range(count):
            async with session.post(url, json={"messages": [{"role": "user", "content": "x"}]}) as reply:
                assert reply.status == 200, await reply.text()
                text = (await reply.json())["choices"][0]["message"]["content"]
                found["new" if "chat-next-" in text else "own"] += 1
    return found


@pytest.mark.spec("SV-340", "SV-342", "SV-343", "SV-344", "SV-345", "SV-348", "RT-240", "RT-241")
async def test_a_new_version_takes_over_step_by_step_without_a_lost_request(platform: Platform) -> None:
    team = "rolled-out"
    path = await served(platform, team, [{"weight": 30, "pause": "1s"}, {"weight": 60}])
    assert await answers(platform, team, 5) == {"own": 5}
    since = route_ready_since((await platform.api.get(path)).body)
    await platform.api.merge(path, {"spec": {"model": {"image": NEW}}})
    paused = await platform.until(path, lambda one: phase(one) == ("Paused", 60))
    assert (status_of(paused), rolled_out(paused)) == ("Running", "RolloutPaused")
    [candidate] = await beside(platform, team)
    assert candidate["spec"]["model"]["image"] == NEW
    await routed(platform, team, [40, 60])
    divided = await answers(platform, team)
    assert set(divided) == {"own", "new"}
    lost: list[str] = []
    asking = asyncio.create_task(ask_on(platform, team, lost))
    await platform.api.merge(path, ASKED)
    done = await platform.until(path, lambda one: phase(one) == ("Complete", None), 90)
    assert rolled_out(done) == "RolloutComplete"
    assert route_ready_since(done) == since, "no step of the weights is reported"
    assert "aim.eai.amd.com/rollout" not in (done["metadata"].get("annotations") or {})
    await platform.api.until(f"{OWN}/namespaces/{team}/aimservices", lambda reply: len(reply.body["items"]) == 1)
    asking.cancel()
    assert lost == []
    assert await answers(platform, team, 5) == {"own": 5}
    # That of the new version goes by garbage collection, a moment after its AIMService.
    workloads = f"/apis/serving.kserve.io/v1beta1/namespaces/{team}/inferenceservices"
    left = await platform.api.until(workloads, lambda reply: len(reply.body["items"]) == 1)
    [workload] = left.body["items"]
    assert workload["spec"]["predictor"]["containers"][0]["image"].endswith("0.8.5")
    await platform.api.delete(path)


async def routed(platform: Platform, team: str, weights: list[int]) -> None:
    """Wait until the gateway has accepted a route with these weights."""

    def holds(routes: JsonObject) -> bool:
        [route] = routes["items"]
        found = [one["weight"] for one in route["spec"]["rules"][0]["backendRefs"]]
        return found == weights and is_served(route)

    path = f"/apis/gateway.networking.k8s.io/v1/namespaces/{team}/httproutes"
    await platform.api.until(path, lambda reply: holds(reply.body))


async def ask_on(platform: Platform, team: str, lost: list[str]) -> None:
    """Ask until it is cancelled; what was not answered."""
    while True:
        try:
            await answers(platform, team, 1)
        except (AssertionError, aiohttp.ClientError) as error:
            lost.append(str(error))
        await asyncio.sleep(0.02)


@pytest.mark.spec("SV-346", "SV-347")
async def test_a_version_that_does_not_run_gets_no_request_and_the_former_one_is_kept(platform: Platform) -> None:
    team = "rolled-back"
    path = await served(platform, team, [{"weight": 50}])
    await platform.api.merge(path, {"spec": {"model": {"image": NEW}}})
    await platform.until(path, lambda one: phase(one) == ("Paused", 50))
    await platform.api.merge(path, {"metadata": {"annotations": {"aim.eai.amd.com/rollout": "abort"}}})
    aborted = await platform.until(path, lambda one: phase(one) == ("Aborted", None))
    assert (status_of(aborted), rolled_out(aborted)) == ("Running", "RolloutAborted")
    await routed(platform, team, [1])
    # A gateway accepts a route before all of it routes so.
    async with asyncio.timeout(20 * PATIENCE):
        while await answers(platform, team, 10) != {"own": 10}:
            pass
    await platform.api.merge(path, {"spec": {"model": {"image": OLD}}})
    await platform.until(path, lambda one: phase(one) == ("Complete", None))
    await platform.api.until(f"{OWN}/namespaces/{team}/aimservices", lambda reply: len(reply.body["items"]) == 1)
    # Without a rollout the model stays what it is.
    refused = await platform.api.merge(path, {"spec": {"rollout": None, "model": {"image": BROKEN}}})
    assert (refused.status, "model is immutable without a rollout" in refused.message) == (422, True)
    await platform.api.delete(path)


@asynccontextmanager
async def prometheus(answer: list[str]) -> AsyncIterator[str]:
    """What plays Prometheus, whose answers are checked against a real one in tests/alerts; its URL."""

    async def query(request: web.Request) -> web.Response:
        assert request.query["query"].startswith("errors{")
        samples = [{"metric": {}, "value": [0, one]} for one in answer]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": samples}})

    application = web.Application()
    application.router.add_get("/api/v1/query", query)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        yield f"http://{HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.spec("SV-349")
async def test_a_check_of_prometheus_ends_a_rollout(platform: Platform) -> None:
    team, answer = "rolled-by-checks", ["0.01"]
    default = f"{OWN}/aimclusterruntimeconfigs/default"
    async with prometheus(answer) as url:
        check = {"name": "errors", "query": 'errors{namespace="$namespace"}', "max": "0.05"}
        stated = {"spec": {"rollouts": {"prometheusUrl": url, "checks": [check]}}}
        assert (await platform.api.merge(default, stated)).status == 200
        try:
            path = await served(platform, team, [{"weight": 20, "pause": "1s"}, {"weight": 50}])
            answer[:] = ["0.5"]
            await platform.api.merge(path, {"spec": {"model": {"image": NEW}}})
            aborted = await platform.until(path, lambda one: phase(one) == ("Aborted", None))
            said = aborted["status"]["rollout"]["message"]
            assert said == "check errors is 0.5, above 0.05 while the new version answered 20 %"
            answer[:] = ["0.01"]
            await platform.api.merge(path, {"metadata": {"annotations": {"aim.eai.amd.com/rollout": "retry"}}})
            await platform.until(path, lambda one: phase(one) == ("Paused", 50))
        finally:
            await platform.api.merge(default, {"spec": {"rollouts": None}})
        await platform.api.delete(path)
