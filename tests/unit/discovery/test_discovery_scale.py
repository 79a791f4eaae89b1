"""With thousands of templates and hundreds of nodes a decision reads as little as with ten of each."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from support.builders import make, owner
from support.discovery_cache import (
    MI300X,
    SYSTEM,
    DiscoveryCache,
    cluster_template,
    discovery_cache,
    gpu_node,
    model,
    template,
)

from aim_discovery.profiles.hardware import ACCELERATORS
from aim_discovery.templates.slots import next_waiting, readings
from aim_domain.parts import DISCOVERY_JOBS, NODES, TEMPLATES
from controller_runtime import JsonObject, dumps, timestamp
from controller_runtime.kinds import JOB
from controller_runtime.log.history.decisions import recorded_reads
from controller_runtime.testing import NOW

TEMPLATE_COUNT, NODE_COUNT, LIMIT = 5000, 500, 10
DEVICES = ("74a1", "74a5", "740c", "75a0", "75a3")
RECORD_BYTES = 64 * 1024


def numbered(number: int) -> JsonObject:
    made = template(f"t{number:04}", profileId=str(number), hardware=MI300X)
    created = timestamp(NOW + timedelta(seconds=number))
    return {**made, "metadata": {**made["metadata"], "creationTimestamp": created}}


OWNERS = [owner(cluster_template("busy"))]


def job(number: int, *, ended: bool = False) -> JsonObject:
    labels = {
        "app.kubernetes.io/name": "aim-discovery",
        "app.kubernetes.io/component": "discovery",
        "app.kubernetes.io/managed-by": "aim-controller",
    }
    status = {"conditions": [{"type": "Complete", "status": "True"}] if ended else []}
    return make(JOB, f"busy-{number}", namespace=SYSTEM, labels=labels, status=status, owners=OWNERS)


@pytest.fixture(scope="module")
def crowd() -> DiscoveryCache:
    """Everybody waits for a discovery Job, and all Jobs are taken."""
    nodes = [gpu_node(f"n{number}", DEVICES[number % len(DEVICES)]) for number in range(NODE_COUNT)]
    templates = [numbered(number) for number in range(TEMPLATE_COUNT)]
    jobs = [job(number) for number in range(LIMIT)]
    cluster = discovery_cache(model(), *templates, *jobs, nodes=nodes, max_discovery_jobs=LIMIT)
    cluster.later(TEMPLATE_COUNT)
    return cluster


@contextmanager
def free(crowd: DiscoveryCache, slots: int) -> Iterator[None]:
    """So many of the Jobs have ended."""
    crowd.put(DISCOVERY_JOBS, *(job(number, ended=True) for number in range(slots)))
    yield
    crowd.put(DISCOVERY_JOBS, *(job(number) for number in range(slots)))


def read(crowd: DiscoveryCache, name: str) -> tuple[int, int]:
    """How many objects a pass reads, and how many bytes its record has even if everything is listed."""
    reads = crowd.reads(TEMPLATES, name)
    recorded = recorded_reads(reads, listed=1_000_000)
    return len(reads.objects), len(dumps(recorded.model_dump(mode="json", by_alias=True)))


@pytest.mark.spec("DI-317", "FW-453", "FW-456", "FW-P14")
def test_a_record_is_small_however_many_wait_and_whoever_looks(crowd: DiscoveryCache) -> None:
    for slots in (0, 1, 3, LIMIT):
        with free(crowd, slots):
            for name in ("t0000", f"t{slots:04}", "t2500", f"t{TEMPLATE_COUNT - 1}"):
                objects, size = read(crowd, name)
                assert objects <= 10 + 2 * LIMIT
                assert size < RECORD_BYTES / 4


@pytest.mark.spec("FW-286")
def test_metrics_count_the_jobs_that_occupy_a_slot(crowd: DiscoveryCache) -> None:
    with free(crowd, 2):
        assert readings(crowd.cache) == {"aim_discovery_jobs_active": [({}, LIMIT - 2)]}


@pytest.mark.spec("DI-317", "DI-318")
def test_as_many_as_slots_are_free_have_their_turn(crowd: DiscoveryCache) -> None:
    with free(crowd, 2):
        assert [one.name for one in next_waiting(crowd.view(), LIMIT)] == ["t0000", "t0001"]
        turns = {name: len(crowd.plan(TEMPLATES, name).children) for name in ("t0000", "t0001", "t0002", "t4999")}
    assert turns == {"t0000": 1, "t0001": 1, "t0002": 0, "t4999": 0}


@pytest.mark.spec("DI-363", "FW-453", "FW-454")
def test_one_node_of_many_changes_for_nobody(crowd: DiscoveryCache) -> None:
    groups = crowd.reads(TEMPLATES, "t2500").summaries
    changes = crowd.put(NODES, gpu_node("n0", DEVICES[1]))
    # Profiles have a group of their own, with every node in it; no template reads that.
    of_templates = [{one for one in change.groups if one[1] != ACCELERATORS.name} for change in changes]
    assert of_templates == [set()]
    assert crowd.reads(TEMPLATES, "t2500").summaries == groups
    assert sum(len(items) for items in groups.values()) == 1, "its own model, of five"
