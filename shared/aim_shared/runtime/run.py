"""Entry point of every service: settings, connections, signals."""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

import structlog
import uvloop

from aim_shared import __version__
from aim_shared.bus.connection import BusSettings, connect
from aim_shared.kube.client import KubeClient
from aim_shared.kube.config import load_connection
from aim_shared.kube.errors import KubeError
from aim_shared.reconcile.reconciler import EffectRunner, ServiceDefinition
from aim_shared.runtime.process import Connections, ServiceProcess
from aim_shared.runtime.settings import Settings, load, unknown_variables
from aim_shared.telemetry import logs, tracing
from aim_shared.telemetry.metrics import Metrics

S = TypeVar("S", bound=Settings)
EffectRunners = AbstractAsyncContextManager[Mapping[str, EffectRunner]]
"""Opens whatever the effects of a service need, and closes it at the end."""

_log = structlog.get_logger(__name__)
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run_service(
    settings: type[S],
    definition: Callable[[S], ServiceDefinition],
    effects: Callable[[S, KubeClient], EffectRunners],
) -> None:
    """Read the settings, run the service, and end the process: 0 after a signal, 1 after a failure."""
    chosen = load(settings)
    declared = definition(chosen)
    logs.configure(chosen.log_level, chosen.log_format, declared.name)
    for name in unknown_variables(settings):
        _log.warning("unknown variable is ignored", variable=name)
    provider = tracing.configure(declared.name)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_until_signal(_serve(declared, chosen, lambda kube: effects(chosen, kube))))
    except* KubeError as group:
        _log.error("can not go on", error=str(group.exceptions[0]))
        sys.exit(1)
    finally:
        provider.shutdown()


async def _serve(
    definition: ServiceDefinition, settings: Settings, effects: Callable[[KubeClient], EffectRunners]
) -> None:
    metrics = Metrics()
    bus_settings = BusSettings.of_urls(
        settings.nats_url, definition.field_manager, settings.nats_credentials_file, settings.nats_ca_file
    )
    connection = await load_connection()
    async with (
        KubeClient(connection, service=definition.name, version=__version__, observer=metrics) as kube,
        connect(bus_settings) as bus,
        effects(kube) as runners,
    ):
        await ServiceProcess(definition, settings, Connections(kube, bus, runners, metrics)).run()


async def _until_signal(service: Coroutine[Any, Any, None]) -> None:
    """Run until the service fails, or a signal cancels it."""
    running = asyncio.ensure_future(service)
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, running.cancel)
    await asyncio.wait((running,))
    if not running.cancelled():
        running.result()
