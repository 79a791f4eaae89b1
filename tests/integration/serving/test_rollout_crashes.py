"""Serving dies after each of its writes in each phase of a rollout, and the rollout comes to the same end (SV-341)."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from support.builders import condition
from support.live import Live
from support.serving import (
    WORKLOAD,
    aim_service,
    living,
    model,
    node,
    predictor_pod,
    run,
    template,
    template_cache,
)

from aim_domain.parts import INFERENCE_SERVICES, PREDICTOR_PODS, SERVICES
from controller_runtime import JsonObject

STEPS = {"steps": [{"weight": 10, "pause": "1m"}]}
NAME = "qwen-chat"


def asking(*env: str) -> JsonObject:
    return aim_service(rollout=STEPS, env=[{"name": name, "value": "1"} for name in env])


@dataclass
class Killed:
    """A process that ends after so many writes, before each pass that goes through.

    Attributes:
        writes: ``None`` = it never ends.
    """

    live: Live
    writes: int | None

    def passes(self) -> str:
        """A pass, or two after a crash; the phase of the rollout."""
        if self.writes is not None:
            self.live.crash(SERVICES, NAME, writes=self.writes)
        for _ in range(3):
            run(self.live)
        return str((self.live.status(SERVICES, NAME).get("rollout") or {}).get("phase"))


def pod(revision: str) -> JsonObject:
    found = predictor_pod("Running", ready=True, name=f"pod-{revision}")
    found["metadata"]["labels"]["pod-template-hash"] = revision
    return found


def runs(live: Live) -> None:
    """Every InferenceService is ready, as KServe reports it."""
    live.change(INFERENCE_SERVICES, WORKLOAD, status={"conditions": [condition("Ready", True)]})


@pytest.mark.spec("SV-340", "SV-341", "SV-342", "SV-345")
@pytest.mark.parametrize("writes", [None, 0, 1, 2, 3])
def test_a_rollout_ends_the_same_whenever_serving_dies(writes: int | None) -> None:
    live = living(asking(), template(), model(), node(), template_cache("qwen3-lat-a04542d9"))
    killed = Killed(live, writes)
    killed.passes()
    runs(live)
    live.put(PREDICTOR_PODS, pod("one"))
    assert killed.passes() == "Complete"
    before = live.raw(INFERENCE_SERVICES, WORKLOAD)["spec"]
    live.change(SERVICES, NAME, spec=asking("A")["spec"])
    assert killed.passes() == "Preparing"
    [candidate] = [name for name in live.names(SERVICES) if name != NAME]
    assert live.raw(INFERENCE_SERVICES, WORKLOAD)["spec"] == before
    live.change(SERVICES, candidate, status={"status": "Running"})
    assert killed.passes() == "Progressing"
    assert live.status(SERVICES, NAME)["rollout"]["weight"] == 10
    live.later(timedelta(minutes=2).total_seconds())
    assert killed.passes() == "Promoting"
    container = live.raw(INFERENCE_SERVICES, WORKLOAD)["spec"]["predictor"]["containers"][0]
    assert {"name": "A", "value": "1"} in container["env"]
    live.remove(PREDICTOR_PODS, "pod-one")
    live.put(PREDICTOR_PODS, pod("two"))
    assert killed.passes() == "Draining"
    live.later(30)
    assert killed.passes() == "Complete"
    assert live.names(SERVICES) == [NAME], "what was beside it is gone"
    counted = live.written()
    assert counted["aimservices"] <= 2 + (writes or 0), "made and deleted once"
