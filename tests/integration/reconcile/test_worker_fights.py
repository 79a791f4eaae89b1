"""Writes that fail and writes that fight: both come to an end, and neither is a hot loop."""

import itertools
from typing import Any

import pytest
from support.passes import CHAT, conditions, events
from support.reconcile_bench import CONFIG_MAPS, Bench, config_map

from aim_domain import AIMService
from aim_domain.kinds import AIM_SERVICE, CONFIG_MAP
from controller_runtime import Child, JsonObject, Plan, View, WriteMode

CODES: list[tuple[int, dict[str, Any]]] = [
    (404, {"reason": "NotFound", "message": "the server could not find the requested resource"}),
    (422, {"reason": "Invalid", "message": "unknown field", "details": {"name": "c"}}),
    (400, {"reason": "BadRequest", "message": "strict decoding error"}),
    (403, {"reason": "Forbidden", "message": 'admission webhook "w" denied the request'}),
    (403, {"reason": "Forbidden", "message": "exceeded quota"}),
    (413, {"reason": "RequestEntityTooLarge", "message": "too large"}),
    (500, {"reason": "InternalError", "message": "failed to create typed patch object"}),
]


def serving(*, mode: WriteMode = WriteMode.APPLY, **data: str) -> Any:
    """A decision that wants one ConfigMap, and reports a failed write."""

    def decision(_obj: AIMService, view: View) -> Plan:
        status: JsonObject = {
            "observedGeneration": 1,
            "status": "Failed" if view.failure else "Pending",
            "conditions": [],
        }
        return Plan(children=(Child(CONFIG_MAPS, config_map("c", labels=None, **data), mode=mode),), status=status)

    return decision


@pytest.mark.spec("FW-810", "FW-095")
@pytest.mark.parametrize("mode", list(WriteMode))
@pytest.mark.parametrize(("code", "answer"), CODES)
async def test_a_refused_write_is_tried_again_within_a_minute_whatever_its_code(
    bench: Bench, code: int, answer: dict[str, Any], mode: WriteMode
) -> None:
    bench.on_virtual_time()
    bench.decision = serving(mode=mode, a="1")
    bench.faults.fail(
        "POST" if mode is WriteMode.CREATE else "PATCH", "s/c" if mode is WriteMode.APPLY else "s", code, **answer
    )
    bench.queue.add(CHAT)
    assert 5 <= len(await bench.work_for(60)) <= 12, "often enough, and no hot loop"
    later = await bench.work_for(1200)
    assert max(after - before for before, after in itertools.pairwise(later)) <= 67
    bench.faults.rules.clear()
    await bench.work_for(67)
    assert (await bench.get(CONFIG_MAP, "c"))["data"] == {"a": "1"}
    assert await bench.work_for(300) == []


@pytest.mark.spec("FW-810", "FW-018")
async def test_a_refused_status_is_sent_again_after_a_minute_as_the_definition_may_have_changed(bench: Bench) -> None:
    bench.on_virtual_time()
    bench.decision = lambda _obj, _view: Plan(status={"observedGeneration": 1, "status": "Pending"})
    bench.faults.fail("PATCH", "/status", 422, reason="Invalid", message="unknown field", details={"name": "chat"})
    bench.queue.add(CHAT)
    assert 1 <= len(await bench.work_for(59)) <= 3
    assert len(await bench.work_for(300)) <= 12
    assert await events(bench) == [("StatusRejected", 1)]
    bench.faults.rules.clear()
    await bench.work_for(61)
    assert (await bench.get(AIM_SERVICE, "chat"))["status"]["status"] == "Pending"
    assert await bench.work_for(300) == []


class Reverter:
    """A client that sets a field of the ConfigMap back as soon as it sees it."""

    def __init__(self, bench: Bench, **data: str) -> None:
        self.bench = bench
        self.data = data
        self.applied: list[float] = []

    async def for_(self, seconds: int) -> None:
        """Let time pass; what is reverted enqueues the service, as its watch would."""
        assert self.bench.timers is not None
        for _ in range(seconds):
            live = await self.bench.get(CONFIG_MAP, "c")
            if any(live["data"].get(name) != value for name, value in self.data.items()):
                self.applied.append(self.bench.timers.now)
                await self.bench.kube.merge_patch(
                    CONFIG_MAP, "c", "default", {"data": self.data},
                    resource_version=live["metadata"]["resourceVersion"], field_manager="argocd-controller",
                )  # fmt: skip
                await self.bench.see(CONFIG_MAPS, "c")
                self.bench.queue.add(CHAT)
            await self.bench.work_for(1)
            await self.bench.see(CONFIG_MAPS, "c")


@pytest.mark.spec("FW-812", "FW-813", "FW-814", "FW-815")
async def test_a_client_that_reverts_a_field_is_answered_ever_later_and_named_once(bench: Bench) -> None:
    bench.on_virtual_time()
    bench.decision = serving(a="ours", b="1")
    bench.queue.add(CHAT)
    await bench.work_for(1)
    await bench.see(CONFIG_MAPS, "c")
    reverter = Reverter(bench, a="theirs")
    await reverter.for_(60)
    assert 4 <= len(reverter.applied) <= 8, reverter.applied
    reported = conditions(await bench.get(AIM_SERVICE, "chat"))["Reconciled"]
    assert reported[:2] == ("False", "FieldConflict")
    assert (
        "ConfigMap default/c contested: field manager 'argocd-controller' overwrites data.a, which aim-serving"
        in reported[2]
    )
    assert "kubectl annotate -n default aimservices.aim.eai.amd.com chat " in reported[2]
    assert await events(bench) == [("FieldConflict", 1)]

    bench.decision = serving(a="ours", b="2")
    bench.queue.add(CHAT)
    await bench.work_for(1)
    assert (await bench.get(CONFIG_MAP, "c"))["data"] == {"a": "theirs", "b": "2"}, "only the contested field waits"

    before = len(reverter.applied)
    await reverter.for_(300)
    assert len(reverter.applied) - before <= 4
    assert await events(bench) == [("FieldConflict", 1)]

    await bench.work_for(400)
    assert (await bench.get(CONFIG_MAP, "c"))["data"] == {"a": "ours", "b": "2"}
    assert not (await bench.get(AIM_SERVICE, "chat"))["status"].get("conditions")
    assert await bench.work_for(600) == []


@pytest.mark.spec("FW-812", "FW-814")
async def test_a_client_that_deletes_a_child_each_time_is_answered_ever_later(bench: Bench) -> None:
    bench.on_virtual_time()
    bench.decision = serving(a="ours")
    bench.queue.add(CHAT)
    created = 0
    for _ in range(60):
        await bench.work_for(1)
        found: JsonObject = {
            one["metadata"]["name"]: one for one in (await bench.kube.list(CONFIG_MAP, "default")).items
        }
        if "c" in found:
            created += 1
            await bench.kube.delete(CONFIG_MAP, "c", "default", uid=found["c"]["metadata"]["uid"])
            bench.access.absorb(CONFIG_MAPS, found["c"], gone=True)
            bench.queue.add(CHAT)
    assert 4 <= created <= 8
    reported = conditions(await bench.get(AIM_SERVICE, "chat"))["Reconciled"]
    assert "another client deletes it each time aim-serving creates it" in reported[2]
