"""What helm runs by itself, after an installation and with `helm test` (`make test-e2e CLUSTER=real CONTAINERS=1`)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from support.helm import ENGINE, NAMESPACE, Finished
from support.installed_chart import Installation
from support.relays import relay
from support.stack import Platform, started_platform

from aim_domain.services import SERVICES
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="module")

_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_ROLE_BINDING: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/aim-engine-routing"
_UPGRADE: Final = ("upgrade", "aim-engine", ENGINE, "--reuse-values", "--timeout", "2m")
_PROBES: Final = 8081


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Platform]:
    """One installation, in which the simulated kubelet leaves the pods of hooks to the tests."""
    async with started_platform(tmp_path_factory.mktemp("platform")) as found:
        await chart_of(found).broker_ready(found.api)
        fail = {"metadata": {"annotations": {"local.aim/fail": "other=hang"}}}
        reply = await found.api.merge(f"/api/v1/namespaces/{NAMESPACE}", fail)
        assert reply.status == 200, reply.body
        yield found


def chart_of(platform: Platform) -> Installation:
    assert platform.chart is not None, "this runs where the chart is installed"
    return platform.chart


async def hooked(
    platform: Platform, component: str, command: Awaitable[Finished], log: Path, hosts: Mapping[str, str] | None = None
) -> Finished:
    """What helm ends with, while the container of the pod that it makes is run and its end reported."""
    waiting = asyncio.ensure_future(command)
    selector = f"app.kubernetes.io/component={component}"
    found = await platform.api.repeated(
        lambda: platform.api.get(_PODS, labelSelector=selector), lambda reply: waiting.done() or bool(begun(reply.body))
    )
    assert not waiting.done(), waiting.result()
    [pod] = begun(found.body)
    process = await chart_of(platform).start(component, log, hosts)
    phase = "Succeeded" if await process.wait() == 0 else "Failed"
    status = f"{_PODS}/{pod['metadata']['name']}/status"
    reply = await platform.api.merge(status, {"status": ended(pod, phase)})
    assert reply.status == 200, reply.body
    return await waiting


def begun(pods: JsonObject) -> list[JsonObject]:
    """Pods that nobody has ended; one of the hook before may still be going."""
    return [
        one
        for one in pods["items"]
        if one["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in one["metadata"]
    ]


def ended(pod: JsonObject, phase: str) -> JsonObject:
    [container] = pod["spec"]["containers"]
    state = {"terminated": {"exitCode": 0 if phase == "Succeeded" else 1, "reason": "Completed"}}
    reported = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
    }
    return {"phase": phase, "containerStatuses": [{**reported, "state": state}]}


@pytest.mark.spec("FW-546")
async def test_a_release_ends_well_when_its_check_does(platform: Platform, tmp_path: Path) -> None:
    done = await hooked(platform, "check", chart_of(platform).helm(*_UPGRADE), tmp_path / "check.log")
    assert done.status == 0, done.errors


@pytest.mark.spec("FW-546")
async def test_a_release_fails_with_its_check_whose_job_stays_to_be_read(platform: Platform, tmp_path: Path) -> None:
    upgraded = chart_of(platform).helm(*_UPGRADE, "--set", "check.seconds=2")
    binding = (await platform.api.get(_ROLE_BINDING)).body
    await platform.api.delete(_ROLE_BINDING)

    async def upgraded_without_the_binding() -> Finished:
        # Helm brings back what it finds missing, so it goes again once helm has.
        waiting = asyncio.ensure_future(upgraded)
        await platform.api.until(_ROLE_BINDING, lambda reply: reply.status == 200)
        await platform.api.delete(_ROLE_BINDING)
        return await waiting

    done = await hooked(platform, "check", upgraded_without_the_binding(), tmp_path / "check.log")
    assert done.status != 0
    assert "aim-engine-check" in done.errors
    jobs = await platform.api.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/aim-engine-check")
    assert jobs.status == 200, "who reads the error wants to read the log as well"
    own = {name: value for name, value in binding["metadata"].items() if name in ("name", "labels", "annotations")}
    await platform.api.created(_ROLE_BINDING.rpartition("/")[0], {**binding, "metadata": own})


@pytest.mark.spec("FW-546")
async def test_helm_test_asks_every_service_whether_it_is_ready(platform: Platform, tmp_path: Path) -> None:
    addresses = {name: f"127.63.{number}.1" for number, name in enumerate(SERVICES, 1)}
    hosts = {f"aim-engine-{name}-probes": address for name, address in addresses.items()}
    async with AsyncExitStack() as exits:
        for name, address in addresses.items():
            port = urlsplit(platform.stack[name].url).port
            assert port is not None
            await exits.enter_async_context(relay(address, _PROBES, [port]))
        log = tmp_path / "test.log"
        done = await hooked(platform, "test", chart_of(platform).helm("test", "aim-engine"), log, hosts)
    assert done.status == 0, done.errors
    assert set((await asyncio.to_thread(log.read_text, encoding="utf-8")).splitlines()) == {
        f"{one} 200" for one in SERVICES
    }
