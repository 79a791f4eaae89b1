"""The place where things are measured: a running stack, and what all benchmarks do with it."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import aiohttp
from bench.fakes import fakes
from bench.ledger import write_count
from bench.surroundings import ACTOR_DELAY, Surroundings, stack_settings
from bench.watcher import Arrivals, ProgressReports, arrivals, is_running, progress_reports

from aim_domain import kinds
from aim_domain.services import SERVICES
from aim_local.demo.run import apply_all, demo_files, read_manifests
from aim_local.stack import Stack, StackError, StackSettings
from controller_runtime import JsonObject, Key, KubeClient, TransportSettings, loads
from controller_runtime.kind_names import KindName
from controller_runtime.kube.config import ConfigError, from_kubeconfig

WARM: Final = "bench-warm"
"""Namespace in which model, template and cache are ready before anything is measured."""
IMAGE: Final = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
MANAGER: Final = "bench"
IN_FLIGHT: Final = 64
"""Requests that the bench has open at a time."""

_NONE: Final[Mapping[str, Mapping[str, str]]] = {}
_PLATFORM_FILES: Final = 2
"""Manifests of the demo that are no workload: gateway and runtime config."""
_STARTS: Final = 5
_QUIET_SECONDS: Final = 1.0
_LOOK: Final = 0.1


@dataclass(frozen=True, slots=True)
class Site:
    """A stack with clients of its own.

    Attributes:
        client: many requests at a time, as many users at once.
        services: watches AIMServices for `Running`.
        progress: counts what AIMServices report until then.
    """

    stack: Stack
    client: KubeClient
    http: aiohttp.ClientSession
    services: Arrivals
    progress: ProgressReports

    async def namespace(self, name: str) -> None:
        """Make a namespace."""
        await self.client.apply(
            kinds.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, MANAGER
        )

    async def create(self, kind: KindName, bodies: Iterable[JsonObject]) -> None:
        """Create objects, all at once."""
        async with asyncio.TaskGroup() as group:
            for body in bodies:
                group.create_task(self.client.create(kind, body, MANAGER))

    async def delete_services(self, keys: Sequence[Key], seconds: float) -> None:
        """Delete AIMServices and wait until they are gone."""
        async with asyncio.TaskGroup() as group:
            for key in keys:
                uid = str(self.services.present[key]["metadata"]["uid"])
                group.create_task(self.client.delete(kinds.AIM_SERVICE, key.name, key.namespace, uid=uid))
        await self.services.until_gone(keys, seconds)

    async def page(self, service: str, path: str) -> tuple[int, JsonObject]:
        """A JSON page of a service; status 0 while nobody listens."""
        try:
            async with self.http.get(f"{self.stack[service].url}{path}") as answer:
                return answer.status, loads(await answer.read())
        except aiohttp.ClientError:
            return 0, {}

    async def settled(self, seconds: float = 30.0) -> None:
        """Wait until nobody has written for a second.

        Raises:
            TimeoutError: somebody keeps writing.
        """
        count, quiet = -1, 0.0
        async with asyncio.timeout(seconds):
            while quiet < _QUIET_SECONDS:
                await asyncio.sleep(_LOOK)
                now = write_count(await self.stack.cluster.requests())
                quiet = quiet + _LOOK if now == count else 0.0
                count = now


def service_body(key: Key) -> JsonObject:
    """An AIMService of the usual image, with routing as the cluster's runtime config says."""
    return {
        "apiVersion": kinds.AIM_SERVICE.api_version,
        "kind": kinds.AIM_SERVICE.kind,
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"model": {"image": IMAGE}},
    }


@asynccontextmanager
async def site(
    folder: Path,
    services: tuple[str, ...] = SERVICES,
    surroundings: Surroundings = Surroundings.EMBEDDED,
    *,
    answered: bool = True,
    service_env: Mapping[str, Mapping[str, str]] = _NONE,
) -> AsyncIterator[Site]:
    """Start a stack with a gateway and a default runtime config; every process is new, every store is empty.

    ``answered``: whether fakes, if there are any, answer; ``service_env``: variables of single services, by name.
    """
    async with (
        _started(replace(stack_settings(folder, services, surroundings), service_env=service_env)) as stack,
        KubeClient(
            await from_kubeconfig(str(stack.kubeconfig)),
            service=MANAGER,
            settings=TransportSettings(concurrency=IN_FLIGHT),
        ) as client,
        aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=5)) as http,
        arrivals(client, kinds.AIM_SERVICE, is_running) as found,
        progress_reports(client) as progress,
        fakes(client, ACTOR_DELAY) if answered and surroundings is Surroundings.FAKES else nullcontext(),
    ):
        await apply_all(client, read_manifests(demo_files()[:_PLATFORM_FILES]))
        yield Site(stack, client, http, found, progress)


@asynccontextmanager
async def _started(settings: StackSettings) -> AsyncIterator[Stack]:
    """The stack. The control plane can answer a moment before its kubeconfig is written; then it is started anew."""
    async with AsyncExitStack() as open_stacks:
        stack: Stack | None = None
        for _ in range(_STARTS):
            with suppress(ConfigError):
                stack = await open_stacks.enter_async_context(Stack(settings))
                break
        if stack is None:
            raise StackError(f"the control plane wrote no kubeconfig in {_STARTS} starts; see {settings.folder}/logs")
        yield stack
