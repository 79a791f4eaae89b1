"""Which portion of a shared status a service compares with what it wants."""

import pytest

from aim_shared.json import JsonObject
from aim_shared.reconcile.reconciler import StatusOwnership

STORED: JsonObject = {
    "status": "Running",
    "routing": {"path": "/x"},
    "progress": {"percentage": 100},
    "conditions": [{"type": "Ready"}, {"type": "HTTPRouteReady"}],
}


@pytest.mark.spec("FW-370", "FW-371")
def test_two_services_split_one_status() -> None:
    routing = StatusOwnership(only_fields=frozenset({"routing"}), only_conditions=frozenset({"HTTPRouteReady"}))
    serving = StatusOwnership(
        foreign_fields=frozenset({"routing", "progress"}), foreign_conditions=frozenset({"HTTPRouteReady"})
    )
    assert routing.own(STORED) == {"routing": {"path": "/x"}, "conditions": [{"type": "HTTPRouteReady"}]}
    assert serving.own(STORED) == {"status": "Running", "conditions": [{"type": "Ready"}]}


@pytest.mark.spec("FW-379", "FW-013")
def test_a_foreign_field_that_the_plan_takes_over_is_compared() -> None:
    artifacts = StatusOwnership(foreign_fields=frozenset({"progress", "routing"}))
    wanted = {"status": "Running", "progress": {"percentage": 100}, "conditions": STORED["conditions"]}
    assert artifacts.compared(STORED, wanted) == wanted
    assert "progress" not in artifacts.compared(STORED, {"status": "Running"})
