"""A replay sees exactly what a pass saw, and says where it does not."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from support.world_objects import colour_index, entry_of, widget, widgets

from aim_shared.api import Resource
from aim_shared.bus.decision import DecisionRecord, RecordedFailure
from aim_shared.bus.part import Index, Key, Part, scoped
from aim_shared.bus.recorded import recorded_reads
from aim_shared.bus.replay_view import ReplayView
from aim_shared.bus.view import View, WorldView
from aim_shared.bus.world import World
from aim_shared.errors import Category
from aim_shared.json import JsonObject

A, B = Key("ns", "a"), Key("ns", "b")
RED = {"colour": "red"}


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


@pytest.fixture
def index(part: Part[Resource]) -> Index[Resource]:
    return colour_index(part)


@pytest.fixture
def world(part: Part[Resource], index: Index[Resource]) -> World:
    world = World([part], [index])
    world.put(entry_of(part, widget("a", "u1", 3, labels=RED), 1), 0)
    world.put(entry_of(part, widget("b", "u2", 4, labels=RED), 2), 0)
    world.mark(part, synced=True, fresh=True)
    return world


def recorded(view: WorldView, failure: RecordedFailure | None = None) -> DecisionRecord:
    record = DecisionRecord(
        id="d1",
        service="tester",
        controller="widget",
        part="widgets",
        namespace="ns",
        name="a",
        at=datetime(2026, 1, 1, tzinfo=UTC),
        reads=recorded_reads(view.reads),
        failure=failure,
        failing_since=view.failing_since,
    )
    # Through JSON and back, as a real one comes.
    return DecisionRecord.from_json(record.to_json())


def objects(world: World, part: Part[Resource]) -> dict[tuple[str, Key], JsonObject]:
    return {(part.name, entry.key): entry.raw for entry in world.all(part)}


def look(view: View, part: Part[Resource], index: Index[Resource]) -> list[object]:
    """A reconcile that reads in all ways."""
    return [
        view.get(part, "ns", "a"),
        view.get(part, "ns", "absent"),
        view.select(index, scoped("ns", "red")),
        view.select(index, scoped("ns", "blue")),
        view.all(part),
        view.failure,
    ]


def test_the_same_questions_get_the_same_answers(world: World, part: Part[Resource], index: Index[Resource]) -> None:
    live = WorldView(world)
    answers = look(live, part, index)
    replay = ReplayView(recorded(live), objects(world, part))
    assert look(replay, part, index) == answers
    assert replay.exact


def test_what_was_stale_then_is_stale_again(world: World, part: Part[Resource], index: Index[Resource]) -> None:
    world.mark(part, fresh=False)
    live = WorldView(world)
    answers = look(live, part, index)
    replay = ReplayView(recorded(live), objects(world, part))
    assert look(replay, part, index) == answers
    error = replay.get(part, "ns", "absent").error
    assert error is not None
    assert error.reason == "ViewStale"


def test_the_failure_of_the_previous_plan_is_given_again(world: World) -> None:
    failure = RecordedFailure(category=Category.INVALID_SPEC, reason="Rejected", message="why")
    began = datetime(2025, 12, 31, tzinfo=UTC)
    replay = ReplayView(recorded(WorldView(world, failure.error, began), failure), {})
    assert (replay.failure, replay.failing_since) == (failure.error, began)


def test_a_question_that_was_not_asked_then_is_noted_and_answered_from_the_fallback(
    world: World, part: Part[Resource], index: Index[Resource]
) -> None:
    def then(part_name: str) -> Mapping[Key, JsonObject]:
        return {A: widget("a", "u1", 2, labels=RED)} if part_name == "widgets" else {}

    replay = ReplayView(recorded(WorldView(world)), objects(world, part), then)
    found = replay.get(part, "ns", "a").value
    assert found is not None
    assert found.metadata.resource_version == "2"
    assert [item.name for item in replay.select(index, scoped("ns", "red")).items] == ["a"]
    assert [item.name for item in replay.all(part).items] == ["a"]
    assert replay.get(part, "ns", "b").value is None
    assert replay.missing == ["widgets/ns/a", "widgets[label:colour]=ns/red", "widgets/*", "widgets/ns/b"]
    assert not replay.exact


def test_a_version_that_is_gone_is_a_hole(world: World, part: Part[Resource]) -> None:
    live = WorldView(world)
    live.get(part, "ns", "a")
    replay = ReplayView(recorded(live), {})
    assert replay.get(part, "ns", "a").value is None
    assert replay.holes == ["widgets/ns/a"]
    assert not replay.exact


def test_the_record_has_the_agreed_json() -> None:
    text = b"""{
      "id": "1", "service": "serving", "controller": "aimservice", "part": "aimservices", "namespace": "n",
      "name": "chat", "uid": "u", "at": "2026-01-01T00:00:00Z", "generation": 2, "traceparent": "t",
      "reads": {"objects": [{"part": "p", "namespace": "n", "name": "x", "uid": null, "resourceVersion": "",
                             "sequence": null, "epoch": ""}],
                "indexes": [{"part": "p", "index": "i", "value": "v", "keys": [["n", "y"]]}]},
      "failure": {"category": "Auth", "reason": "r", "message": "m"},
      "plan": {"children": []},
      "writes": [{"verb": "apply", "kind": "K", "namespace": "n", "name": "y", "resourceVersion": "5", "result": "ok"}],
      "outcome": "done", "later": 1}"""
    record = DecisionRecord.from_json(text)
    assert record.key == Key("n", "chat")
    assert record.reads.objects[0].version is None
    assert record.reads.indexes[0].keys == (Key("n", "y"),)
    assert record.failure is not None
    assert record.failure.category is Category.AUTH
    assert record.writes[0].resource_version == "5"
    assert b'"later":1' in record.to_json()
    assert b'"resourceVersion":"5"' in record.to_json()
