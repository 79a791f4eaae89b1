"""Services as real processes: started, asked over HTTP, stopped, killed, suspended."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
import orjson
from support.forks import Fork, Spawned
from support.nats import eventually

from aim_local.nats import NatsServer
from aim_local.ports import free_port
from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane

_TESTS = Path(__file__).parents[1]
_NO_LIBRARY: Mapping[str, str] = MappingProxyType({})
_LONG = 60.0
"""Seconds after which what should have happened has failed to, on the busiest machine."""


class ServiceUnderTest:
    """One process of a service. Its log is kept in a file, a JSON object per line."""

    def __init__(
        self, module: str, folder: Path, pod: str, address: str, environment: dict[str, str], *, forked: bool = True
    ) -> None:
        self._module = module
        self._log = folder / f"{pod}-{time.monotonic_ns()}.log"
        self._environment = environment
        self._session: aiohttp.ClientSession | None = None
        self.url = f"http://{address}"
        self.process: Fork | Spawned | None = None
        self._forked = forked

    async def start(self) -> None:
        """Start the process; it may take a moment to be reachable."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_LONG))
        kind = Fork if self._forked else Spawned
        self.process = kind(self._module, self._environment, self._log)
        await self.process.start()

    async def close(self) -> None:
        """Make sure that nothing is left."""
        if self._session is not None:
            await self._session.close()
        if self.process is not None and self.process.returncode is None:
            await self.kill()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        """Everything that it wrote."""
        return self._log.read_text(encoding="utf-8")

    @property
    def lines(self) -> list[JsonObject]:
        """Its log lines, but for one that is half written."""
        whole = self.log.rpartition("\n")[0]
        return [orjson.loads(line) for line in whole.splitlines() if line.startswith("{")]

    @property
    def tracebacks(self) -> list[str]:
        """What it wrote about errors that nobody expects."""
        return [line for line in self.log.splitlines() if "Traceback" in line]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it."""
        assert self.process is not None
        self.process.send_signal(number)

    async def stop(self, within: float = _LONG) -> int:
        """SIGTERM; its exit code.

        Raises:
            TimeoutError: it did not end in time.
        """
        self.signal(signal.SIGTERM)
        return await self.ended(within)

    async def kill(self) -> None:
        """SIGKILL."""
        self.signal(signal.SIGKILL)
        await self.ended()

    async def ended(self, within: float = _LONG) -> int:
        """Wait until it ends by itself; its exit code."""
        assert self.process is not None
        async with asyncio.timeout(within):
            return await self.process.wait()

    async def ask(self, path: str) -> tuple[int, str]:
        """GET; status 0 while nobody listens."""
        assert self._session is not None
        try:
            async with self._session.get(self.url + path) as response:
                return response.status, await response.text()
        except aiohttp.ClientError:
            return 0, ""

    async def page(self, path: str) -> JsonObject:
        """GET of a JSON page."""
        result: JsonObject = orjson.loads((await self.ask(path))[1])
        return result

    async def metric(self, sample: str) -> float | None:
        """One sample of the metrics page, named as it stands there, labels included."""
        _, text = await self.ask("/metrics")
        found = [line for line in text.splitlines() if line.startswith(f"{sample} ")]
        return float(found[0].rpartition(" ")[2]) if found else None

    async def until(self, path: str, accept: Callable[[int, Any], bool], within: float = _LONG) -> Any:
        """Ask for a JSON page until it is as wished.

        Raises:
            AssertionError: it was not in time, with the last answer and the log.
        """
        status, text = 0, ""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            status, text = await self.ask(path)
            body = orjson.loads(text) if text.startswith("{") else text
            if status and accept(status, body):
                return body
            assert self.process is not None
            assert self.process.returncode is None, f"ended with {self.process.returncode}:\n{self.log}"
            await asyncio.sleep(0.05)
        raise AssertionError(f"{path} not as wished within {within:g} s: {status} {text[:2000]}\n{self.log}")

    async def ready(self, within: float = _LONG) -> JsonObject:
        """Wait until it is ready."""
        page: JsonObject = await self.until("/readyz", lambda status, _: status == 200, within)
        return page

    async def leads(self, within: float = _LONG) -> None:
        """Wait until it is ready and leads."""
        await self.until("/readyz", lambda status, page: status == 200 and page["leads"], within)


class Platform:
    """A control plane, a broker, and services between them."""

    def __init__(self, plane: ControlPlane, nats: NatsServer, folder: Path) -> None:
        self.plane = plane
        self.nats = nats
        self.folder = folder
        self.looks = folder / "looks"
        self.looks.touch()
        self._services: list[ServiceUnderTest] = []

    def service(
        self,
        pod: str = "pod-0",
        module: str = "support.tiny_service",
        prefix: str = "AIM_",
        preloaded: Mapping[str, str] = _NO_LIBRARY,
        **variables: str,
    ) -> ServiceUnderTest:
        """A service that is not started yet; ``variables`` without their prefix.

        Args:
            preloaded: variables by which the dynamic linker loads a library; a fork would have none.
        """
        kubeconfig = self.folder / "kubeconfig"
        kubeconfig.write_text(self.plane.kubeconfig(), encoding="utf-8")
        address = f"127.0.0.1:{free_port()}"
        settings = {
            "POD_NAME": pod,
            "POD_UID": f"uid-of-{pod}",
            "SYSTEM_NAMESPACE": "default",
            "NATS_URL": self.nats.url,
            "HEALTH_PROBE_BIND_ADDRESS": address,
            "METRICS_BIND_ADDRESS": address,
            "METRICS_SECURE": "false",
            "WATCHDOG_FOLDER": str(self.folder),
            **variables,
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIM_", "OTEL_"))}
        environment = {
            **inherited,
            "PYTHONPATH": os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "KUBECONFIG": str(kubeconfig),
            "TINY_LOOKS": str(self.looks),
            **preloaded,
            **{name if name.startswith("OTEL_") else f"{prefix}{name}": value for name, value in settings.items()},
        }
        address = settings["HEALTH_PROBE_BIND_ADDRESS"]
        service = ServiceUnderTest(module, self.folder, pod, address, environment, forked=not preloaded)
        self._services.append(service)
        return service

    async def started(self, pod: str = "pod-0", **variables: str) -> ServiceUnderTest:
        """A service whose process runs."""
        service = self.service(pod, preloaded=_NO_LIBRARY, **variables)
        await service.start()
        return service

    async def close(self) -> None:
        """End all services."""
        for service in self._services:
            await service.close()

    def looked(self, image: str) -> int:
        """How often an effect looked at an image, in all processes together."""
        return [line.split()[1] for line in self.looks.read_text(encoding="utf-8").splitlines()].count(image)

    async def until_looked(self, image: str, times: int = 1) -> None:
        """Wait until effects looked at an image that often."""
        await eventually(lambda: self.looked(image) >= times, f"{times} looks at {image}")

    def writes(self, manager: str = "aim-tiny") -> int:
        """Writes of the service to the API server so far; Leases left out, and Events, which tell of faults."""
        requests = self.plane.requests.report()["requests"]
        return sum(
            entry["count"]
            for entry in requests
            if entry["verb"] not in {"get", "list", "watch"}
            and entry["resource"] not in {"leases", "events"}
            and entry["fieldManager"] == manager
        )


@asynccontextmanager
async def platform(folder: Path, plane: ControlPlane) -> AsyncIterator[Platform]:
    """A platform around a control plane, with a broker of its own that is started already."""
    async with NatsServer() as nats:
        running = Platform(plane, nats, folder)
        try:
            yield running
        finally:
            await running.close()
