"""Objects as they were, and what is otherwise since. No broker."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aim_cli.errors import Exit, TargetError
from aim_cli.log.past import Scope, diff_answer, members, of_versions, state_answer
from aim_cli.log.targets import LOGGED, Target
from aim_cli.units import moment
from aim_domain.parts import SERVICES
from controller_runtime import JsonObject, Key, Part, dumps
from controller_runtime.log.history.versions import Knowledge, LoggedVersion, StateAt
from controller_runtime.log.wire.messages import StateMessage, Verb
from controller_runtime.testing import NOW

CHAT = Key("team", "chat")
WHERE = (SERVICES.name, CHAT)
ALL = Scope(None, None)


def version(minute: int, previous: int, body: JsonObject | None, key: Key = CHAT) -> LoggedVersion:
    state = StateMessage(
        part=SERVICES.name,
        key=key,
        verb=Verb.DELETE if body is None else Verb.UPSERT,
        epoch="e1",
        store_id="e1",
        uid="u",
        resource_version=str(minute),
        previous=previous,
        body=b"" if body is None else dumps(body),
        traceparent="",
        time=NOW + timedelta(minutes=minute),
        source="test",
        id=str(minute),
    )
    return LoggedVersion(state, minute)


def service(status: str, key: Key = CHAT, **spec: object) -> JsonObject:
    metadata = {"name": key.name, "namespace": key.namespace, "resourceVersion": status, "uid": "u"}
    return {"kind": "AIMService", "metadata": metadata, "spec": spec, "status": {"status": status}}


def at(minute: int, *versions: LoggedVersion) -> dict[tuple[str, Key], StateAt]:
    found = of_versions(versions, NOW + timedelta(minutes=minute))
    return {} if found is None else {(found.part, found.key): found}


STORY = (version(1, 0, service("Starting")), version(3, 1, service("Running", replicas=2)), version(5, 3, None))


@pytest.mark.spec("FW-615")
@pytest.mark.parametrize(
    ("minute", "knowledge", "lines"),
    [
        (0, Knowledge.ABSENT, ("there was nothing",)),
        (1, Knowledge.PRESENT, ("KIND         NAME        STATE", "AIMService   team/chat   Starting")),
        (4, Knowledge.PRESENT, ("KIND         NAME        STATE", "AIMService   team/chat   Running")),
        (6, Knowledge.ABSENT, ("there was nothing",)),
    ],
)
def test_an_object_as_it_was(minute: int, knowledge: Knowledge, lines: tuple[str, ...]) -> None:
    past = at(minute, *STORY)
    assert past[WHERE].knowledge is knowledge
    assert state_answer(past, ALL).lines == lines


@pytest.mark.spec("FW-615")
def test_what_was_dropped_is_not_reported_as_absent() -> None:
    past = at(2, version(3, 2, service("Running")))
    reported = state_answer(past, Scope(Target(LOGGED[0], CHAT), None))
    assert reported.code is Exit.ABSENT
    assert reported.lines == ("whether AIMService team/chat was there is not known",)
    assert reported.remarks[0].startswith("AIMService team/chat: not known")
    assert state_answer(past, ALL).lines == ("what there was is not known",)
    dropped = state_answer({}, Scope(Target(LOGGED[0], CHAT), None), ("the log is complete since today",))
    assert dropped.lines == ("whether AIMService team/chat was there is not known",)
    absent = state_answer({}, Scope(Target(LOGGED[0], CHAT), None))
    assert absent.lines == ("AIMService team/chat was not there",)
    assert of_versions((), NOW) is None


@pytest.mark.spec("FW-615")
def test_what_is_otherwise_member_by_member() -> None:
    reported = diff_answer(at(1, *STORY), at(4, *STORY), ALL)
    assert reported.code is Exit.FOUND
    assert reported.lines == (
        "changed AIMService team/chat",
        "        spec.replicas: nothing -> 2",
        "        status.status: Starting -> Running",
    )
    assert diff_answer(at(0, *STORY), at(1, *STORY), ALL).lines == ("created AIMService team/chat",)
    assert diff_answer(at(4, *STORY), at(6, *STORY), ALL).lines == ("deleted AIMService team/chat",)
    same = diff_answer(at(1, *STORY), at(2, *STORY), ALL)
    assert (same.code, same.lines) == (Exit.WELL, ("no differences",))


@pytest.mark.spec("FW-615")
def test_nobody_can_say_that_something_came_of_which_the_past_was_dropped() -> None:
    later = version(3, 2, service("Running"))
    reported = diff_answer(at(2, later), at(4, later), ALL)
    assert (reported.code, reported.lines) == (Exit.WELL, ("no differences",))
    assert reported.remarks == ("AIMService team/chat: not known",)


@pytest.mark.spec("FW-615")
def test_what_may_have_been_replaced_meanwhile_is_shown_and_reported() -> None:
    past = at(3, version(1, 0, service("Starting")), version(5, 4, service("Running")))
    reported = state_answer(past, ALL)
    assert reported.lines[1].split() == ["AIMService", "team/chat", "Starting"]
    assert reported.remarks == ("AIMService team/chat: not known: versions before this one are missing",)
    assert diff_answer(past, past, Scope(None, "team")).remarks == ("AIMService team/chat: not known",)
    assert diff_answer(past, past, Scope(None, "other")).remarks == ()


@pytest.mark.spec("FW-615")
def test_of_many_members_a_table_names_the_first_and_a_program_gets_all() -> None:
    wide = {f"m{number:02}": number for number in range(20)}
    reported = diff_answer(at(1, version(1, 0, service("A"))), at(1, version(1, 0, service("A", CHAT, **wide))), ALL)
    assert reported.lines[1:] == (*(f"        spec.m{n:02}: nothing -> {n}" for n in range(12)),
                              "        and 8 more; -o json has all")  # fmt: skip
    assert isinstance(reported.data, list)
    assert len(reported.data[0]["members"]) == 20
    owned = service("A")
    owned["metadata"]["managedFields"] = [{"manager": "m"}]
    assert diff_answer(at(1, version(1, 0, service("A"))), at(1, version(1, 0, owned)), ALL).lines == (
        "no differences",
    )


@pytest.mark.spec("FW-615")
def test_of_one_namespace_alone() -> None:
    other = Key("other", "chat")
    past = {**at(1, *STORY), **at(1, version(1, 0, service("Failed", other), other))}
    reported = state_answer(past, Scope(None, "other")).data
    assert isinstance(reported, list)
    assert [one["metadata"]["namespace"] for one in reported] == ["other"]
    assert diff_answer({}, past, Scope(None, "team")).lines == ("created AIMService team/chat",)


@pytest.mark.spec("FW-615")
def test_conditions_are_compared_by_type() -> None:
    old = {"c": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}
    new = {"c": [{"type": "B", "status": "False"}, {"type": "A", "status": "True"}]}
    assert list(members(old, new)) == [("c[B].status", "True", "False")]
    twice = {"f": [{"type": "A", "x": 1}, {"type": "A", "x": 2}]}
    other = {"f": [{"type": "A", "x": 3}, {"type": "A", "x": 2}]}
    assert [path for path, _, _ in members(twice, other)] == ["f"]
    assert list(members({"x": [1]}, {"x": [2]})) == [("x", [1], [2])]


@pytest.mark.spec("FW-615")
def test_moments() -> None:
    assert moment("10m", NOW) == NOW - timedelta(minutes=10)
    assert moment("0s", NOW) == NOW
    assert moment("2026-11-23T14:05:00Z", NOW) == datetime(2026, 11, 23, 14, 5, tzinfo=UTC)
    assert moment("2026-11-23T14:05:00", NOW) == datetime(2026, 11, 23, 14, 5, tzinfo=UTC)
    assert moment("2026-11-23T16:05:00+02:00", NOW) == datetime(2026, 11, 23, 14, 5, tzinfo=UTC)
    assert moment("2026-11-23T16:05:00+02:00", NOW).tzinfo is UTC
    # What no clock can tell, what is too large for any, and what is too long to be read as a number.
    for none in ("yesterday", "9999999999d", "9" * 5000 + "d", "9" * 40 + "d", "0001-01-01T00:00:00+02:00"):
        with pytest.raises(TargetError, match="is no time") as raised:
            moment(none, NOW)
        assert len(str(raised.value)) < 200


@pytest.mark.spec("FW-615")
@pytest.mark.parametrize("part", LOGGED, ids=lambda part: part.name)
def test_every_kind_that_is_logged_is_shown(part: Part[Any]) -> None:
    logged = version(1, 0, service("Starting"))
    state = replace(logged, state=replace(logged.state, part=part.name))
    found = of_versions((state,), NOW + timedelta(minutes=2))
    assert found is not None
    reported = state_answer({(part.name, CHAT): found}, ALL)
    assert reported.lines[1].split()[:2] == [part.kind.kind, "team/chat"]
