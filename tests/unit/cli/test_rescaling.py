"""Changes of replicas in a story, with the values behind them."""

import pytest

from aim_cli.log.timeline import rescaled
from controller_runtime import JsonObject

METRIC = {"name": "s0-vllm:num_requests_running"}


def autoscaler(desired: int | None = None, *, current: int = 1, metrics: tuple[JsonObject, ...] = ()) -> JsonObject:
    external = {"metric": METRIC, "target": {"type": "AverageValue", "averageValue": "4"}}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    spec = {"metrics": [{"type": "External", "external": external}, {"type": "Resource", "resource": cpu}]}
    replicas = {} if desired is None else {"currentReplicas": current, "desiredReplicas": desired}
    return {"spec": spec, "status": {**replicas, "currentMetrics": list(metrics)}}


EXTERNAL: JsonObject = {"type": "External", "external": {"metric": METRIC, "current": {"averageValue": "7200m"}}}
CPU: JsonObject = {
    "type": "Resource",
    "resource": {"name": "cpu", "current": {"averageUtilization": 93, "averageValue": "930m"}},
}


@pytest.mark.spec("FW-725")
def test_a_change_of_replicas_is_reported_with_each_value_and_target() -> None:
    after = autoscaler(3, metrics=(EXTERNAL, CPU))
    values = "s0-vllm:num_requests_running 7.2 of target 4; cpu 93% of target 80%"
    assert rescaled(autoscaler(1), after) == f"replicas 1 → 3: {values}"
    assert rescaled(autoscaler(), after) == f"replicas 1 → 3: {values}"


@pytest.mark.spec("FW-725")
def test_what_is_not_known_is_left_out() -> None:
    assert rescaled(autoscaler(1), autoscaler(3)) == "replicas 1 → 3"
    # What the autoscaler could not read has no type.
    assert rescaled(autoscaler(1), autoscaler(3, metrics=({"type": ""},))) == "replicas 1 → 3"


@pytest.mark.spec("FW-725")
@pytest.mark.parametrize("after", [autoscaler(2, metrics=(EXTERNAL,)), autoscaler()])
def test_nothing_is_reported_of_what_stays(after: JsonObject) -> None:
    assert not rescaled(autoscaler(2), after)
