"""What a service remembers by object goes with the object, whatever part of it remembers (FW-462)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.cluster import NAMESPACE, path
from support.controlplane import RawApi
from support.held import grown, held
from support.nats import eventually, settings_for
from support.tiny_service import BUG, UNREADABLE, definition

from aim_domain import DivisibleSettings
from aim_local.nats import NatsServer
from controller_runtime import JsonObject, KubeClient, load_connection
from controller_runtime.log.broker.connection import connect
from controller_runtime.manager.context import ProcessContext
from controller_runtime.manager.run import ServiceProcess
from controller_runtime.telemetry.metrics import Metrics
from embedded_apiserver import ControlPlane

MODELS, MAPS = "aim.eai.amd.com/v1alpha1/aimmodels", "v1/configmaps"
ALIVE = 5
"""Objects of each sort in a round."""
ROUNDS = 4
LOOKS = 30
BOUNDED = {
    "DeletedMemory._deletions", "DeletedMemory._latest", "Holdings.data", "Writer.stored", "FactPublisher._removing",
    "Texts._texts",
}  # fmt: skip
"""What remembers on purpose what is gone, with bounds and tests of its own."""


@pytest.fixture
async def tiny(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ServiceProcess]:
    """The tiny service, in this process."""
    monkeypatch.setenv("TINY_LOOKS", str(tmp_path / "looks"))
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    settings = DivisibleSettings(system_namespace=NAMESPACE, health_probe_bind_address="0", direct_watch=False)
    async with AsyncExitStack() as stack:
        # Tracebacks for people, of every bug of every object, would take most of the time.
        stack.enter_context(capture_logs())
        broker = await stack.enter_async_context(NatsServer())
        connection = await load_connection(str(kubeconfig))
        metrics = Metrics(connection.server)
        kube = await stack.enter_async_context(KubeClient(connection, service="tiny", observer=metrics))
        bus = await stack.enter_async_context(connect(settings_for(broker.url, "tiny")))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        # What is kept decoded is bounded in bytes, and would hide everything else here.
        declared = replace(definition(settings), kept_decoded=1)
        clients = await stack.enter_async_context(declared.clients(kube))
        process = ServiceProcess(ProcessContext.of(declared, settings, clients, bus, metrics=metrics))
        running = group.create_task(process.run())
        yield process
        running.cancel()


def model(name: str, image: str) -> JsonObject:
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMModel",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"image": image},
    }


async def names(api: RawApi, collection: str) -> set[str]:
    return {str(one["metadata"]["name"]) for one in (await api.get(path(collection))).body["items"]}


async def a_round(api: RawApi, number: int) -> None:
    """Models come, succeed, fail by a bug, cannot be read, change, and go."""
    own = {f"r{number}-{one}": (BUG, UNREADABLE, f"org/image:{one}")[one % 3] for one in range(3 * ALIVE)}
    good = {name for name, image in own.items() if image not in (BUG, UNREADABLE)}
    for name, image in own.items():
        await api.created(path(MODELS), model(name, image))

    async def is_seen() -> bool:
        return good <= await names(api, MAPS)

    await eventually(is_seen, "the maps")
    for name in good:
        await api.merge(path(MODELS, name), {"metadata": {"labels": {"changed": "yes"}}})
    for name in own:
        await api.delete(path(MODELS, name))

    async def is_over() -> bool:
        return not own.keys() & (await names(api, MODELS) | await names(api, MAPS))

    await eventually(is_over, "all gone")


@pytest.mark.spec("FW-462")
async def test_what_comes_and_goes_leaves_nothing_behind(tiny: ServiceProcess, api: RawApi) -> None:
    await api.created(path(MODELS), model("stays", "org/image:1"))
    await a_round(api, 0)
    await eventually(lambda: not of_rounds(tiny), "the world is empty")
    before = held("controller_runtime", "support")
    for number in range(1, 1 + ROUNDS):
        await a_round(api, number)

    def what_grew() -> dict[str, int]:
        more = grown(before, held("controller_runtime", "support"), 2 * ALIVE)
        return {name: number for name, number in more.items() if name not in BOUNDED}

    for _ in range(LOOKS):
        if not what_grew():
            break
        # What ends by itself is about to.
        await asyncio.sleep(1)
    assert what_grew() == {}


@pytest.mark.spec("FW-499")
async def test_a_comparison_takes_over_what_is_known(tiny: ServiceProcess, api: RawApi) -> None:
    for number in range(ALIVE):
        await api.created(path(MODELS), model(f"stays-{number}", "org/image:1"))
    part = "tinymodels"

    async def is_leading() -> bool:
        return bool(tiny.state.terms) and tiny.state.terms[0].publishers[part].objects == ALIVE

    await eventually(is_leading, "all models are known")
    term = tiny.state.terms[0]
    present, reflector = term._publishers[part]._context.intake.source.present, term._reflectors[part]

    async def was_repeated() -> bool:
        before, lists = dict(present), reflector.statistics().lists
        reflector.relist()
        await eventually(lambda: reflector.statistics().lists > lists, "listed")
        # Until their passes have settled, models change meanwhile.
        same = [key for key, one in before.items() if present[key].resource_version == one.resource_version]
        assert all(present[key] is before[key] for key in same)
        return len(same) == ALIVE

    await eventually(was_repeated, "a list of nothing but what is known")


def of_rounds(process: ServiceProcess) -> list[str]:
    cache = process.state.process.cache
    return [str(entry) for part in cache.parts for entry in cache.all(part) if "r0-" in str(entry)]
