"""How model-sync gets on with registries: ``PYTHONPATH=tests .venv/bin/python -m bench.registry_sync``.

One model-sync as a process of its own; the API server, the broker and the registries are in this one. Requests are
counted by the registry, memory is what the kernel says of the process.
"""

import asyncio
import os
import sys
import tempfile
import time
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
import uvloop
from bench.figures import Figure, machine, write_results
from bench.table import show
from rich.console import Console
from support.controlplane import CRDS, RawApi, raw_api
from support.model_sync_service import OTHERS, SOURCES, is_settled, source
from support.nats import settings_for

from aim_domain import AimSettings
from aim_local.nats import NatsServer
from aim_local.registry import BearerAuth, ImageStore, LocalRegistry
from controller_runtime import Clients, JsonObject, KubeClient, dumps, load_connection
from controller_runtime.log.broker.connection import connect
from controller_runtime.manager.context import ProcessContext
from controller_runtime.manager.run import ServiceProcess
from controller_runtime.telemetry.metrics import Metrics
from embedded_apiserver import ControlPlane
from embedded_apiserver.controlplane import load_crds

_PATIENCE: Final = 300.0
_KIB_PER_MIB: Final = 1024
_REPOSITORIES: Final = 200
_MANY: Final = (1000, 50)
"""Repositories and tags of each."""
_MODELS: Final = 5000
_MORE: Final = 10
_PAUSE: Final = 5.0
"""Seconds until the changes have come back over the broker."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What the measurements share.

    Attributes:
        pid: of the model-sync process.
    """

    api: RawApi
    pid: int

    def resident(self, field: str = "VmRSS") -> float:
        """MiB of the process: ``VmRSS`` now, ``VmHWM`` at most since the last `forget_peak`."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1]) / _KIB_PER_MIB

    def forget_peak(self) -> None:
        """Begin to look for the peak anew."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    async def synced(self, name: str, generation: int) -> JsonObject:
        """The status once a generation has been synced."""
        reply = await self.api.until(f"{SOURCES}/{name}", is_settled("Ready", generation), _PATIENCE)
        status: JsonObject = reply.body["status"]
        return status


@asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    """An API server, a broker, model-sync as a process, and somebody who publishes what it consumes."""
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(ControlPlane())
        plane.install_crds(load_crds(CRDS))
        broker = await stack.enter_async_context(NatsServer())
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(plane.kubeconfig(), encoding="utf-8")
        connection = await load_connection(str(kubeconfig))
        kube = await stack.enter_async_context(KubeClient(connection, service=OTHERS.name))
        bus = await stack.enter_async_context(connect(settings_for(broker.url, OTHERS.name)))
        settings = AimSettings(health_probe_bind_address="0", direct_watch=False)
        others = ServiceProcess(ProcessContext.of(OTHERS, settings, Clients(kube), bus, metrics=Metrics()))
        api = await stack.enter_async_context(raw_api(plane.url))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        running = group.create_task(others.run())
        process = await _model_sync(kubeconfig, broker.url)
        try:
            yield Bench(api, process.pid)
        finally:
            process.terminate()
            await process.wait()
            running.cancel()


async def _model_sync(kubeconfig: Path, nats: str) -> asyncio.subprocess.Process:
    env = {
        **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
        "KUBECONFIG": str(kubeconfig),
        "AIM_NATS_URL": nats,
        "AIM_HEALTH_PROBE_BIND_ADDRESS": "0",
        "AIM_LOG_LEVEL": "error",
    }
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "aim_model_sync", env=env)


def content(repositories: int, tags: int) -> ImageStore:
    """Repositories with versions; all images are the same one."""
    store = ImageStore()
    for number in range(repositories):
        name = f"bench/aim-{number:04}"
        digest = store.put(name, "1.0.0").digest
        for tag in range(1, tags):
            store.tag(name, f"1.{tag}.0", digest)
    return store


async def measure_requests(place: Bench, name: str, registry: LocalRegistry, secret: JsonObject | None) -> list[Figure]:
    """A first sync and another after an edit, by the requests that reach the registry."""
    subject = f"{_REPOSITORIES} repositories, {name}"
    spec: JsonObject = {"registry": registry.host, "filters": [{"image": "bench/aim-*"}], "maxModels": 5}
    if secret is not None:
        await place.api.created("/api/v1/namespaces/aim-system/secrets", secret)
        spec["imagePullSecrets"] = [{"name": secret["metadata"]["name"]}]
    own = name.lower().replace(" ", "-")
    figures = []
    for generation, when in enumerate(("cold", "warm"), start=1):
        requests, answers = registry.requests.copy(), registry.answers.copy()
        begun = time.monotonic()
        if generation == 1:
            await place.api.created(SOURCES, source(own, **spec))
        else:
            await place.api.merge(f"{SOURCES}/{own}", {"spec": {"syncInterval": "2h"}})
        await place.synced(own, generation)
        spent = time.monotonic() - begun
        sent, got = registry.requests - requests, registry.answers - answers
        figures.append(Figure(subject, f"requests, {when}", sent.total(), detail=dict(sent)))
        figures.append(Figure(subject, f"… of them confirmed with 304, {when}", _confirmed(got)))
        figures.append(Figure(subject, f"edit → Ready, {when}", spent, "s"))
    return figures


def _confirmed(answers: Counter[tuple[str, int]]) -> int:
    return sum(number for (_, status), number in answers.items() if status == 304)


def pull_secret(host: str, auth: BearerAuth) -> JsonObject:
    """The account of a registry."""
    auths: JsonObject = {"auths": {host: {"username": auth.username, "password": auth.password}}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": b64encode(dumps(auths)).decode()},
    }


async def measure_catalogue_memory(place: Bench) -> list[Figure]:
    """A thousand repositories of fifty tags: the limit keeps 100 models, then 5,000."""
    repositories, tags = _MANY
    subject = f"{repositories} repositories × {tags} tags"
    before = place.resident()
    figures = [Figure(subject, "memory before", before, "MiB")]
    async with LocalRegistry(store=content(repositories, tags), auth=None) as registry:
        for generation, models in enumerate((100, 100, _MODELS), start=1):
            place.forget_peak()
            begun = time.monotonic()
            spec: JsonObject = {"registry": registry.host, "filters": [{"image": "bench/aim-*"}], "maxModels": models}
            if generation == 1:
                await place.api.created(SOURCES, source("many", **spec))
            else:
                again = {"maxModels": models, "syncInterval": f"{generation}h"}
                await place.api.merge(f"{SOURCES}/many", {"spec": again})
            status = await place.synced("many", generation)
            spent = time.monotonic() - begun
            assert (status["discoveredModels"], status["availableModels"]) == (models, repositories * tags)
            what = f"{models} models{', again' if generation == 2 else ''}"
            figures.append(Figure(subject, f"edit → Ready, {what}", spent, "s"))
            figures.append(Figure(subject, f"memory at most, {what}", place.resident("VmHWM"), "MiB"))
            await asyncio.sleep(_PAUSE)
            figures.append(Figure(subject, f"memory afterwards, {what}", place.resident(), "MiB"))
        for generation in range(4, 4 + _MORE):
            await place.api.merge(f"{SOURCES}/many", {"spec": {"syncInterval": f"{generation}h"}})
            await place.synced("many", generation)
        figures.append(Figure(subject, f"memory after {_MORE} more syncs", place.resident(), "MiB"))
    return figures


async def _ready(place: Bench) -> None:
    await place.api.created(SOURCES, source("first", images=["org/aim-a:1"]))
    await place.synced("first", 1)


async def measure(figures: list[Figure]) -> None:
    """Everything, one after the other."""
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        async with bench(Path(folder)) as place:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "aim-system"}}
            await place.api.post("/api/v1/namespaces", namespace)
            await _ready(place)
            figures.append(Figure("model-sync", "memory with one pinned image", place.resident(), "MiB"))
            store, auth = content(_REPOSITORIES, 10), BearerAuth("me", "pass")
            async with (
                LocalRegistry(store=store, auth=None) as public,
                LocalRegistry(store=store, auth=None, lists_have_etags=True) as validating,
                LocalRegistry(store=store, auth=auth) as private,
            ):
                figures += await measure_requests(place, "open", public, None)
                figures += await measure_requests(place, "with ETags", validating, None)
                figures += await measure_requests(
                    place, "token per repository", private, pull_secret(private.host, auth)
                )
            figures += await measure_catalogue_memory(place)


def main() -> None:
    """Measure, print, keep."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    console = Console(width=None if sys.stdout.isatty() else 120)
    on, begun = machine(), time.monotonic()
    figures: list[Figure] = []
    try:
        uvloop.run(measure(figures))
    finally:
        show(figures, console)
    path = write_results(figures, on, time.monotonic() - begun)
    console.print(f"\nkept in {path}", soft_wrap=True)


if __name__ == "__main__":
    main()
