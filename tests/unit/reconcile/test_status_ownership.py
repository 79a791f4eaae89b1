"""Which portion of a shared status a service compares with what it wants."""

import pytest

from controller_runtime import JsonObject, StatusOwnership

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
def test_members_of_a_foreign_field_can_be_taken_over() -> None:
    artifacts = StatusOwnership(foreign_fields=frozenset({"progress", "routing"}))
    own = {"status": "Running", "conditions": STORED["conditions"]}
    stored = {**STORED, "progress": {"percentage": 40, "displayPercentage": "40 %"}}
    assert artifacts.is_stored(own, stored)
    assert artifacts.is_stored({**own, "progress": {"displayPercentage": "40 %"}}, stored)
    assert not artifacts.is_stored({**own, "progress": {"displayPercentage": "N/A"}}, stored)
    assert not artifacts.is_stored({**own, "status": "Failed"}, stored)
