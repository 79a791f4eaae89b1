"""What the gate of `make costs` counts: reports of progress are no cost, unless a state comes twice."""

from collections.abc import Sequence

import pytest
from bench.latency import costs_per_service
from bench.ledger import Cost, Ledger
from bench.object_memory import SUBJECTS, consumed
from bench.watcher import ProgressReports

from controller_runtime import FACTS, JsonObject, Key

CHAT = Key("team", "chat")
WRITES = Ledger({("serving", Cost.WRITE, "apply aimservices/status"): 7})


def version(reason: str, message: str = "") -> JsonObject:
    """A version of a service with this reason of Ready; without one, routing alone has reported."""
    ready = [{"type": "Ready", "status": str(reason == "AllComponentsReady"), "reason": reason, "message": message}]
    return {"status": {"conditions": [{"type": "HTTPRouteReady", "status": "True"}, *(ready if reason else ())]}}


def seen(*versions: JsonObject) -> ProgressReports:
    found = ProgressReports()
    for one in versions:
        found.on_change(CHAT, one, gone=False)
    return found


def over(found: ProgressReports, keys: Sequence[Key] = (CHAT,)) -> set[str]:
    """The figures that fail the gate."""
    return {
        one.name
        for one in costs_per_service("burst", found, keys, WRITES)
        if one.gate and one.goal is not None and one.value > one.goal
    }


@pytest.mark.spec("FW-510")
def test_a_report_of_progress_is_counted_once_and_by_itself() -> None:
    pending, starting = version("Progressing", "pods are pending"), version("Progressing", "pods are starting")
    quick = seen(version(""), version("AllComponentsReady"))
    slow = seen(version(""), pending, pending, starting, version("AllComponentsReady"))
    assert (quick.total([CHAT]), slow.total([CHAT]), slow.most([CHAT])) == (0, 2, 2)
    assert over(quick) == {"writes per service, reports of progress apart"}, "seven writes, none of them progress"
    assert over(slow) == set(), "five beside two reports of progress"


@pytest.mark.spec("FW-510")
def test_a_service_that_wavers_fails() -> None:
    states = [version("Progressing", message) for message in ("pods are pending", "pods are starting")]
    assert over(seen(*states * 3)) == {"reports of progress, the most of one"}
    found = seen(*states)
    found.on_change(CHAT, states[1], gone=True)
    found.on_change(CHAT, states[1], gone=False)
    assert found.total([CHAT]) == 3, "one that is created again begins again"


@pytest.mark.parametrize("service", SUBJECTS)
def test_the_measure_of_memory_fills_what_each_service_reads_but_its_facts(service: str) -> None:
    found = consumed(service)
    assert found
    assert FACTS not in found
