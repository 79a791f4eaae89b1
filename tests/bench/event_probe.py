"""A service that only notes when its reconcile is entered: ``python -m bench.event_probe``.

It uses the whole runtime (ordered consumer, world, queue, worker) and consumes a part that discovery publishes. Each
pass adds a line ``<resource version> <nanoseconds of the wall clock>`` to the file ``BENCH_PASSES``.
"""

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from aim_shared.api import ConfigMap
from aim_shared.bus.parts import CUSTOM_PROFILES, FACTS
from aim_shared.bus.view import View
from aim_shared.kube.client import KubeClient
from aim_shared.reconcile.plan import NOTHING, Plan
from aim_shared.reconcile.reconciler import EffectRunner, Reconciler, ServiceDefinition
from aim_shared.runtime.run import run_service
from aim_shared.runtime.settings import Settings

NAME: Final = "bench-probe"
PASSES: Final = "BENCH_PASSES"


def _note(passes: TextIO, obj: ConfigMap, _view: View, _now: datetime) -> Plan:
    passes.write(f"{obj.metadata.resource_version} {time.time_ns()}\n")
    return NOTHING


def _definition(passes: TextIO, _: Settings) -> ServiceDefinition:
    reconciler = Reconciler(controller=NAME, part=CUSTOM_PROFILES, reconcile=partial(_note, passes))
    return ServiceDefinition(name=NAME, publishes=(), consumes=(CUSTOM_PROFILES, FACTS), reconcilers=(reconciler,))


@asynccontextmanager
async def _effect_runners(_settings: Settings, _kube: KubeClient) -> AsyncIterator[Mapping[str, EffectRunner]]:
    yield {}


if __name__ == "__main__":
    with Path(os.environ[PASSES]).open("w", encoding="ascii", buffering=1) as file:
        run_service(Settings, partial(_definition, file), _effect_runners)
