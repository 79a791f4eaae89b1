"""What storage limits cost: to admit many artifacts at once, and a pass of one among many that are blocked.

PYTHONPATH=tests .venv/bin/python -m bench.storage [ARTIFACTS]          # about a minute

Passes, executor and API server run in this process; the API server listens nowhere. Processor time, without the start.
"""

import logging
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import structlog
from support.artifacts import ARTIFACT, SERVICE, TEAM, Cluster, namespace, seen
from support.builders import make, owner
from support.deciding import decide
from support.eviction import limited, sized

from aim_domain import labels
from aim_domain.naming import claim_name
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACTS
from controller_runtime import JsonObject, timestamp
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM
from controller_runtime.log.wire.version import keep_decoded
from controller_runtime.testing import NOW

_SIZE: Final = 10
"""GiB of each artifact."""


def waiting(number: int) -> JsonObject:
    """An artifact without a volume, a second younger than the one before."""
    found = sized(f"new-{number:05}", size=f"{_SIZE}Gi")
    found["metadata"]["creationTimestamp"] = timestamp(NOW + timedelta(seconds=number))
    return found


def idle(number: int) -> Iterator[JsonObject]:
    """An evictable artifact that nobody uses, and its claim."""
    name = f"old-{number:05}"
    found = sized(name, age=number, size=f"{_SIZE}Gi", retentionPriority=0)
    claim = claim_name(name, found["metadata"]["uid"])
    yield {**found, "status": {"status": "Ready", "persistentVolumeClaim": claim}}
    spec = {"resources": {"requests": {"storage": f"{_SIZE}Gi"}}}
    yield make(
        PERSISTENT_VOLUME_CLAIM,
        claim,
        namespace=TEAM,
        labels={labels.CACHE_NAME: name},
        owners=[owner(found)],
        spec=spec,
        status={"phase": "Bound"},
    )


def admitted(count: int, *, limit: bool) -> float:
    """Seconds until that many artifacts have made their volumes."""
    quota = [limited(f"{_SIZE * count}Gi")] if limit else []
    known = Cluster(namespace(), *quota, *(waiting(number) for number in range(count)))
    started = time.process_time()
    for number in range(count):
        known.run(ARTIFACTS, f"new-{number:05}")
    seconds = time.process_time() - started
    assert len(known.names(ARTIFACT_CLAIMS)) == count
    return seconds


def blocked(count: int) -> list[float]:
    """Seconds of a pass of the first, the middle and the last that waits, where as many could be evicted."""
    old = (obj for number in range(count) for obj in idle(number))
    known = seen(namespace(), limited(f"{_SIZE * count}Gi"), *old, *(waiting(number) for number in range(count)))
    found = []
    for number in (0, count // 2, count - 1):
        artifact, view = known.object(ARTIFACTS, TEAM, f"new-{number:05}"), known.view()
        decide(ARTIFACT, artifact, view, known.now)
        started = time.process_time()
        decide(ARTIFACT, artifact, known.view(), known.now)
        found.append(time.process_time() - started)
    return found


def main() -> None:
    """Print the figures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    keep_decoded(SERVICE.kept_decoded)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    for limit in (False, True):
        seconds = admitted(count, limit=limit)
        kind = "under a limit" if limit else "without a limit"
        print(f"{count} artifacts make their volumes {kind}: {seconds:.1f} s, {1000 * seconds / count:.1f} ms each")
    reported = ", ".join(f"{1000 * seconds:.0f}" for seconds in blocked(count))
    print(f"a pass of the first, middle and last of {count} blocked, {count} evictable: {reported} ms")


if __name__ == "__main__":
    main()
