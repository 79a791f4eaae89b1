"""A service between opened connections and the signal to stop: world, leadership, HTTP face."""

import asyncio
import random
import ssl
from itertools import count
from typing import Final

import structlog

from controller_runtime.backoff import Backoff
from controller_runtime.bus.entry import keep_decoded
from controller_runtime.kinds import NAMESPACE
from controller_runtime.kube.errors import KubeError
from controller_runtime.manager.certificates import CertificateFiles, from_files, self_signed
from controller_runtime.manager.context import ProcessContext
from controller_runtime.manager.failure import StartError
from controller_runtime.manager.http import HttpServer, metrics_only, probes
from controller_runtime.manager.leading import Term
from controller_runtime.manager.scrapers import Scrapers
from controller_runtime.manager.settings import Settings, address_of
from controller_runtime.manager.state import ServiceState
from controller_runtime.manager.telling import Teller, own_pod
from controller_runtime.reconcile.events import EventWriter
from controller_runtime.telemetry.metrics import Measured

_log = structlog.get_logger(__name__)
_RETRY: Final = Backoff(base=0.2, cap=5.0)
"""Pauses while the API server does not answer at start."""


class ServiceProcess:
    """Runs one service; `run` ends only by cancellation or an error that a restart may cure."""

    def __init__(self, context: ProcessContext) -> None:
        definition, runners, metrics = context.definition, context.runners, context.metrics
        if missing := sorted(definition.effect_kinds.keys() - runners.keys()):
            raise StartError(f"no runner for the effects {', '.join(missing)}; add it to effect_runners")
        keep_decoded(definition.kept_decoded)
        self._context = context
        self._random = random.Random()
        self.state = ServiceState(context)
        metrics.watch(self.state.readings, [one.controller for one in definition.reconcilers])
        for runner in runners.values():
            if isinstance(runner, Measured):
                metrics.watch(runner.readings)

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            with self._context.watchdog.running():
                await self._serve()
        finally:
            # In a task of its own, because requests of a task that was cancelled end at once.
            await asyncio.wait((asyncio.create_task(self._context.decisions.close()),))

    async def _serve(self) -> None:
        context = self._context
        async with asyncio.TaskGroup() as group:
            for http in self._servers():
                group.create_task(http.run())
            group.create_task(context.decisions.run())
            group.create_task(self._teller().run())
            # Whoever does not know its own cluster cannot tell another one's objects from its own.
            uid = await self._cluster()
            group.create_task(context.feed.run(uid))
            await context.leadership.run(lambda: self._lead(uid))

    async def _cluster(self) -> str:
        """UID of the namespace kube-system; waits for an API server that tells."""
        for attempt in count(1):
            try:
                found = await self._context.kube.get(NAMESPACE, "kube-system")
            except (KubeError, ValueError) as error:
                self.state.unreached = error
                if self.state.api_server != str(error):
                    self.state.api_server = str(error)
                    _log.warning("waiting for the API server", error=str(error))
                await asyncio.sleep(_RETRY.delay(attempt, self._random))
            else:
                break
        self.state.api_server = self.state.unreached = None
        return str(found["metadata"]["uid"])

    def _teller(self) -> Teller:
        kube, manager = self._context.kube, self._context.definition.field_manager
        return Teller(self.state.troubles, EventWriter(kube, manager), manager, own_pod(self._context.settings))

    async def _lead(self, cluster: str) -> None:
        state = self.state
        state.term = Term(self._context, cluster)
        try:
            await state.term.run()
        finally:
            state.term = None

    def _servers(self) -> list[HttpServer]:
        settings, metrics = self._context.settings, self._context.metrics
        probe = address_of(settings.health_probe_bind_address)
        separate = address_of(settings.metrics_bind_address)
        shared = separate == probe
        if shared and separate is not None and settings.metrics_secure:
            raise StartError(
                f"metrics and probes are both at {settings.metrics_bind_address}, but probes are plain HTTP: "
                "set another --metrics-bind-address, or --no-metrics-secure"
            )
        servers = [] if probe is None else [HttpServer(probes(self.state, metrics if shared else None), probe)]
        if separate is None or shared:
            return servers
        if not settings.metrics_secure:
            return [*servers, HttpServer(metrics_only(metrics, None), separate)]
        scrapers = Scrapers(self._context.kube, self._context.definition.field_manager)
        return [*servers, HttpServer(metrics_only(metrics, scrapers), separate, _tls(settings))]


def _tls(settings: Settings) -> ssl.SSLContext:
    folder = settings.metrics_cert_path
    if folder is None:
        return self_signed()
    return from_files(CertificateFiles(folder / settings.metrics_cert_name, folder / settings.metrics_cert_key))
