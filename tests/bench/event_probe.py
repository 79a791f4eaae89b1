"""A service that only notes when its reconcile is entered: ``python -m bench.event_probe``.

It uses the whole runtime (ordered consumer, cache, queue, worker) and consumes a part that discovery publishes. Each
pass adds a line ``<resource version> <nanoseconds of the wall clock>`` to the file ``BENCH_PASSES``.
"""

import os
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from aim_domain import AimSettings
from aim_domain.parts import CUSTOM_PROFILES
from controller_runtime import FACTS, Plan, Reconciler, ServiceDefinition, View, run_service
from controller_runtime.core import ConfigMap
from controller_runtime.reconcile.plan import NOTHING

NAME: Final = "bench-probe"
PASSES: Final = "BENCH_PASSES"


def _note(passes: TextIO, obj: ConfigMap, _view: View, _now: datetime) -> Plan:
    passes.write(f"{obj.metadata.resource_version} {time.time_ns()}\n")
    return NOTHING


def _definition(passes: TextIO, _: AimSettings) -> ServiceDefinition:
    reconciler = Reconciler(controller=NAME, part=CUSTOM_PROFILES, reconcile=partial(_note, passes))
    return ServiceDefinition(name=NAME, publishes=(), consumes=(CUSTOM_PROFILES, FACTS), reconcilers=(reconciler,))


if __name__ == "__main__":
    with Path(os.environ[PASSES]).open("w", encoding="ascii", buffering=1) as file:
        run_service(AimSettings, partial(_definition, file))
