"""What the matrix makes of a fight over fields."""

import pytest
from matrix.r13_fights import MANAGER, MOST, judged

from controller_runtime import JsonObject

REPORTED: JsonObject = {
    "type": "Reconciled",
    "status": "False",
    "reason": "FieldConflict",
    "message": f"contested: field manager '{MANAGER}' overwrites spec",
}
EVENT: JsonObject = {"reason": "FieldConflict", "involvedObject": {"name": "chat"}, "count": 1}


def obj(*conditions: JsonObject) -> JsonObject:
    return {"status": {"conditions": list(conditions)}}


@pytest.mark.spec("FW-812", "FW-814")
def test_a_fight_without_pauses_without_name_or_with_many_events_is_reported() -> None:
    assert judged(MOST, obj(REPORTED), [EVENT], MANAGER) == []
    assert judged(MOST + 1, obj(REPORTED), [EVENT], MANAGER) == ["reverted 10 times in 30 s"]
    [unnamed] = judged(1, obj({**REPORTED, "message": "contested"}), [EVENT], MANAGER)
    assert unnamed.startswith("not one condition")
    [absent] = judged(1, obj(), [EVENT], MANAGER)
    assert absent.startswith("not one condition")
    assert judged(1, obj(REPORTED), [EVENT, EVENT], MANAGER) == ["2 Events of one fight"]
    assert judged(1, obj(REPORTED), [], MANAGER) == ["0 Events of one fight"]
