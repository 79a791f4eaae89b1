"""How far and how fast downloads are, in a story."""

from datetime import UTC, datetime, timedelta

import pytest

from aim_cli.log.timeline import of_records
from controller_runtime import JsonObject
from controller_runtime.log.history.decisions import DecisionRecord

NOW = datetime(2026, 11, 24, tzinfo=UTC)
GIB = 1 << 30


def decided(second: int, name: str = "weights", **progress: int) -> DecisionRecord:
    plan: JsonObject = {"status": {"progress": progress}} if progress else {}
    at, named = NOW + timedelta(seconds=second), {"namespace": "team", "name": name}
    about = {"service": "artifacts", "controller": "artifact", "part": "aimartifacts", **named}
    return DecisionRecord.model_validate({"id": f"{name}-{second}", "at": at, "plan": plan, **about})


@pytest.mark.spec("FW-686")
def test_speed_is_what_was_added_since_the_decision_before() -> None:
    records = [
        decided(0, downloadedBytes=0, totalBytes=40 * GIB),
        decided(5, "other", downloadedBytes=30 * GIB),
        decided(20, downloadedBytes=20 * GIB, totalBytes=40 * GIB),
        decided(25, downloadedBytes=20 * GIB, totalBytes=40 * GIB),
        decided(30),
        decided(40, downloadedBytes=10 * GIB, totalBytes=40 * GIB),
    ]
    assert [one.what.partition("; ")[2] for one in of_records(reversed(records))] == [
        "0B of 40GiB",
        "30GiB",
        "20GiB of 40GiB at 1GiB/s",
        "",
        "",
        "10GiB of 40GiB",
    ]
