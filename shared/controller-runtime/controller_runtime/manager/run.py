"""Entry point of every service: settings, connections, signals, and what runs between opening them and the end."""

import asyncio
import faulthandler
import gc
import random
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

import structlog
import uvloop

from controller_runtime import __version__
from controller_runtime.backoff import Backoff
from controller_runtime.kinds import NAMESPACE
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_connection
from controller_runtime.kube.errors import KubeError
from controller_runtime.log.broker.connection import BusSettings, connect
from controller_runtime.log.wire.version import keep_decoded
from controller_runtime.manager.certificates import CertificateFiles, self_signed_tls, tls_from_files
from controller_runtime.manager.context import ProcessContext
from controller_runtime.manager.http import HttpServer, metrics_only, probes
from controller_runtime.manager.leadership import Balance, Leadership
from controller_runtime.manager.leading import Term
from controller_runtime.manager.scrapers import Scrapers
from controller_runtime.manager.settings import (
    Settings,
    UnusableSettingsError,
    listen_address,
    load_settings,
    prefix_of,
    unknown_variables,
)
from controller_runtime.manager.state import ServiceState
from controller_runtime.manager.trouble_events import TroubleReporter, own_pod, report_end, report_unusable
from controller_runtime.manager.troubles import StartError, of_end, report
from controller_runtime.reconcile.events import EventWriter
from controller_runtime.reconcile.reconciler import ServiceDefinition
from controller_runtime.telemetry import logs, tracing
from controller_runtime.telemetry.metrics import Measured, Metrics

_log = structlog.get_logger(__name__)
_RETRY: Final = Backoff(base=0.2, cap=5.0)
"""Pauses while the API server does not answer at start."""


class ServiceProcess:
    """Runs one service; `run` ends only by cancellation or an error that a restart may cure."""

    def __init__(self, context: ProcessContext) -> None:
        definition, metrics = context.definition, context.metrics
        keep_decoded(definition.kept_decoded)
        self._context = context
        self._random = random.Random()
        self.state = ServiceState(context)
        metrics.watch(self.state.readings, [one.controller for one in definition.reconcilers])
        for runner in context.runners.values():
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
            group.create_task(self._reporter().run())
            # A process that does not know its own cluster cannot tell another one's objects from its own.
            uid = await self._cluster()
            group.create_task(context.feed.run(uid))
            if len(electors := context.leaderships.electors) > 1:
                group.create_task(Balance(electors, lambda: context.feed.synced).run())
            for one in context.leaderships.each:
                group.create_task(one.run(partial(self._lead, uid, one)))

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

    def _reporter(self) -> TroubleReporter:
        kube, manager = self._context.kube, self._context.definition.field_manager
        return TroubleReporter(
            self.state.troubles, EventWriter(kube, manager), manager, own_pod(self._context.settings)
        )

    async def _lead(self, cluster: str, leadership: Leadership) -> None:
        terms, index = self.state.terms, leadership.shard.index
        terms[index] = Term(self._context, cluster, leadership)
        try:
            await terms[index].run()
        finally:
            del terms[index]

    def _servers(self) -> list[HttpServer]:
        settings, metrics = self._context.settings, self._context.metrics
        probe = listen_address(settings.health_probe_bind_address)
        separate = listen_address(settings.metrics_bind_address)
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
        return self_signed_tls()
    return tls_from_files(CertificateFiles(folder / settings.metrics_cert_name, folder / settings.metrics_cert_key))


S = TypeVar("S", bound=Settings)
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_GARBAGE: Final = (50_000, 20, 20)
"""New objects, and collections of younger ones, after which each generation is looked through."""
_STOP_SECONDS: Final = 9.0
"""A process that has not ended this long after a signal or a failure ends itself, showing where it hangs (FW-287)."""


def run_service(
    settings: type[S],
    definition: ServiceDefinition | Callable[[S], ServiceDefinition],
) -> None:
    """Read the settings, run the service, and end the process: 0 after a signal, 1 after a failure.

    Args:
        definition: the service, or what declares it once the settings are known.
    """
    try:
        chosen = load_settings(settings)
    except UnusableSettingsError as error:
        asyncio.run(report_unusable(prefix_of(settings), error.line))
        raise
    declared = definition if isinstance(definition, ServiceDefinition) else definition(chosen)
    logs.configure_logs(chosen.log_level, chosen.log_format, declared.name, chosen.log_stacktrace_level)
    for name in unknown_variables(settings):
        _log.warning("ignoring an unknown environment variable", variable=name)
    _collect_rarely()
    with tracing.exporting(declared.name):
        code = _run(_serve(declared, chosen))
    faulthandler.cancel_dump_traceback_later()
    sys.exit(code)


def _collect_rarely() -> None:
    """Look for garbage in circles less often: a cache is a million objects without any, and is looked through in vain.

    By its defaults the collector takes a fifth of a start with ten thousand objects. During the imports it was away
    (`controller_runtime.uncollected`); the half megabyte that they leave is not worth a look either.
    """
    gc.freeze()
    gc.set_threshold(*_GARBAGE)
    gc.enable()


def _run(service: Coroutine[Any, Any, None]) -> int:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_until_signal(service))
    except Exception as error:
        # Whatever it was, a restart is the cure; what matters here is that the log says why.
        report(error, "service stops because of an error")
        return 1
    return 0


async def _serve(definition: ServiceDefinition, settings: Settings) -> None:
    connection = await load_connection()
    metrics = Metrics(connection.server)
    bus_settings = BusSettings.of_urls(
        settings.nats_url,
        definition.field_manager,
        settings.nats_credentials_file,
        settings.nats_ca_file,
        settings.nats_jetstream_domain,
    )
    async with (
        KubeClient(connection, service=definition.name, version=__version__, observer=metrics) as kube,
        _reporting_the_end(kube, settings, definition),
        connect(bus_settings) as bus,
        definition.clients(kube) as clients,
    ):
        try:
            await ServiceProcess(ProcessContext.of(definition, settings, clients, bus, metrics=metrics)).run()
        finally:
            _arm_shutdown_watchdog()


@asynccontextmanager
async def _reporting_the_end(
    kube: KubeClient, settings: Settings, definition: ServiceDefinition
) -> AsyncIterator[None]:
    """The reason of a service's end is also visible in Kubernetes (FW-584)."""
    try:
        yield
    except Exception as error:
        await report_end(kube, settings, definition.field_manager, of_end(error))
        raise


def _arm_shutdown_watchdog() -> None:
    """From now on the process ends in time, whatever its clean-up does."""
    faulthandler.dump_traceback_later(_STOP_SECONDS, exit=True)


async def _until_signal(service: Coroutine[Any, Any, None]) -> None:
    """Run until the service fails, or a signal cancels it."""
    running = asyncio.ensure_future(service)
    stopping = False

    def stop(number: signal.Signals) -> None:
        nonlocal stopping
        # A second signal must not interrupt the clean-up that the first one began.
        if stopping:
            return
        stopping = True
        _log.info("stopping", signal=number.name)
        _arm_shutdown_watchdog()
        running.cancel()

    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop, number)
    await asyncio.wait((running,))
    error = RuntimeError("cancelled unexpectedly") if running.cancelled() else running.exception()
    if not stopping and error is not None:
        raise error
    if not running.cancelled() and error is not None:
        report(error, "failed while stopping")
