"""Which decision of a log a condition goes back to, and what is told of it. No broker."""

from datetime import timedelta

import pytest
from support.builders import condition

from aim_cli.cluster.refs import Ref
from aim_cli.why.decided import Decided, deciding
from aim_domain.kind_names import AIM_SERVICE
from controller_runtime import Key
from controller_runtime.log.history.decisions import DecisionRecord, RecordedObject, RecordedReads
from controller_runtime.log.history.reader import StoredDecision
from controller_runtime.testing import NOW


def decision(minute: int, reason: str | None, **more: object) -> StoredDecision:
    at = NOW + timedelta(minutes=minute)
    conditions = [] if reason is None else [condition("CacheReady", False, reason)]
    record = DecisionRecord(
        id=str(minute),
        service="serving",
        controller="service",
        part="aimservices",
        namespace="team",
        name="chat",
        at=at,
        plan={"status": {"conditions": conditions}},
        **more,
    )
    return StoredDecision(record, at, minute)


@pytest.mark.spec("FW-606")
@pytest.mark.parametrize(
    ("reasons", "found"),
    [
        (["Waiting", "Full", "Full"], "1"),
        (["Full", "Waiting", "Full"], "2"),
        (["Full", None, "Full"], "0"),
        (["Full", "Waiting"], None),
        ([], None),
    ],
)
def test_the_decision_since_which_a_condition_says_so(reasons: list[str | None], found: str | None) -> None:
    reported = deciding([decision(minute, reason) for minute, reason in enumerate(reasons)], "CacheReady", "Full")
    assert (reported and reported.id) == found


@pytest.mark.spec("FW-606")
def test_it_tells_from_what_it_was_decided_and_what_woke_it() -> None:
    reads = RecordedReads(
        objects=(
            RecordedObject(part="aimservices", namespace="team", name="chat", uid="u"),
            RecordedObject(part="aimartifacts", namespace="team", name="a"),
        )
    )
    record = decision(0, "Full", reads=reads, woken_by="AIMArtifact team/b changed").record
    reported = Decided(Ref(AIM_SERVICE, "team", "chat"), record)
    assert "from AIMService team/chat; 1 absent; woken by AIMArtifact team/b changed" in reported.line
    assert [one["exists"] for one in reported.data["read"]] == [True, False]
    assert Key("team", "a") == reads.objects[1].key
