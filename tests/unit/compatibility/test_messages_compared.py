"""What two releases write on the broker: each planted break is found, and a release agrees with itself."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from compatibility.messages import compared
from compatibility.reported import reported

Change = Callable[[dict[str, Any]], object]
RECORD = "DecisionRecord"


def record(said: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = said["models"][RECORD]
    return found


BREAKS: dict[str, Change] = {
    "stream AIM_STATE max_msgs_per_subject": lambda said: said["streams"]["AIM_STATE"].update(max_msgs_per_subject=2),
    "stream AIM_HISTORY compression": lambda said: said["streams"]["AIM_HISTORY"].update(compression="s2"),
    "stream AIM_DECISIONS ": lambda said: said["streams"].pop("AIM_DECISIONS"),
    "subjects sync": lambda said: said["subjects"].update(sync="aim.marker.part"),
    "headers Aim-Epoch": lambda said: said["headers"].pop("Aim-Epoch"),
    "headers ce-source": lambda said: said["headers"].update({"ce-source": "source"}),
    "types delete": lambda said: said["types"].update(delete="com.amd.eai.aim.object.gone"),
    "checkpoint fold": lambda said: said["checkpoint"]["fold"].update(type="int"),
    "checkpoint term": lambda said: said["checkpoint"].update(term={"type": "str", "required": True}),
    "checkpoint epoch": lambda said: said["checkpoint"].pop("epoch"),
    f"{RECORD} service": lambda said: record(said)["properties"].update(service={"type": "integer"}),
    f"{RECORD} term": lambda said: record(said)["required"].append("term"),
    f"{RECORD} id": lambda said: record(said)["required"].remove("id"),
    f"{RECORD} at": lambda said: record(said)["properties"].pop("at"),
    f"{RECORD} outcome": lambda said: record(said)["properties"]["outcome"].update(default="done"),
    "ObjectKey ": lambda said: record(said)["$defs"]["ObjectKey"].update(maxItems=3),
    "Fact attempts": lambda said: said["models"]["Fact"]["properties"]["attempts"].update(type="string"),
    "RecordedWrite verb": lambda said: record(said)["$defs"]["RecordedWrite"]["properties"].update(verb={}),
}


@pytest.mark.spec("FW-714")
@pytest.mark.parametrize("name", BREAKS)
def test_a_planted_break_is_found_and_named(name: str) -> None:
    former = reported()
    present = copy.deepcopy(former)
    BREAKS[name](present)
    assert [f"{one.where} {one.path}" for one in compared(former, present)] == [name]


@pytest.mark.spec("FW-714")
def test_what_may_be_left_out_and_words_break_nobody() -> None:
    former = reported()
    present = copy.deepcopy(former)
    present["headers"]["TERM"] = "Aim-Term"
    present["checkpoint"]["term"] = {"type": "str", "required": False}
    del present["checkpoint"]["fold"]
    record(present)["properties"]["service"]["description"] = "who decided"
    record(present)["properties"]["term"] = {"type": "string", "default": ""}
    record(present)["properties"]["reads"]["default"]["term"] = ""
    del record(present)["properties"]["outcome"]
    assert list(compared(former, former)) == []
    assert list(compared(former, present)) == []


@pytest.mark.spec("FW-714")
def test_who_takes_no_other_members_is_broken_by_one_more_or_one_less() -> None:
    closed = reported()
    record(closed)["additionalProperties"] = False
    one_more = copy.deepcopy(closed)
    record(one_more)["properties"]["term"] = {"type": "string", "default": ""}
    assert [one.path for one in compared(closed, one_more)] == ["term"]
    assert [one.path for one in compared(one_more, closed)] == ["term"]


@pytest.mark.spec("FW-714")
def test_a_value_more_is_found_as_the_former_release_cannot_read_it() -> None:
    present = reported()
    record(present)["$defs"]["Category"]["enum"].append("Weather")
    assert [one.where for one in compared(reported(), present)] == ["Category"]
