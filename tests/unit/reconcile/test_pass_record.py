"""A decision record stays short, whatever the pass read and decided."""

import json
from datetime import UTC, datetime

import pytest
from support.cache_objects import colour_index, entry_of, widget, widgets

from controller_runtime import Cache, Child, Effect, JsonObject, Part, Plan, Reconciler, Resource, Verb, scoped
from controller_runtime.kube.errors import api_error
from controller_runtime.log.cache.view import CacheView
from controller_runtime.reconcile.decide import Decision
from controller_runtime.reconcile.plan import Execution, Write, WriteResult
from controller_runtime.reconcile.record import MOST_BYTES, abridged, plan_to_json, record_of
from controller_runtime.reconcile.status_writer import classify

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def child(part: Part[Resource], number: int, size: int) -> Child:
    body: JsonObject = {"metadata": {"namespace": "ns", "name": f"c{number}"}, "data": "x" * size}
    return Child(part, body)


def decision(
    part: Part[Resource], obj: Resource | None, cache: Cache, view: CacheView | None = None
) -> Decision[Resource]:
    assert obj is not None
    seen = view or CacheView(cache)
    reconciler = Reconciler("c", part, lambda *_: Plan())
    return Decision(reconciler, obj, seen, NOW, seen.reads, cache.position())


def test_a_record_says_which_settings_and_how_far_the_cache_was() -> None:
    part = widgets()
    cache = Cache([part])
    cache.put(entry_of(part, widget("a"), 1), 0)
    cache.reached(part, 3)
    (entry,) = cache.all(part)
    record = record_of("s", decision(part, entry.object, cache), "done")
    assert (record.world.sequence, record.world.epochs) == (3, {"widgets": "e1"})
    assert record.world.stale == ("widgets",)


@pytest.mark.spec("FW-440")
@pytest.mark.parametrize(
    ("objects", "children", "size"), [(5000, 0, 0), (0, 600, 2000), (5000, 30, 20_000), (90, 5000, 100)]
)
def test_a_record_of_any_decision_stays_under_64_kb(objects: int, children: int, size: int) -> None:
    parts = [widgets(f"widgets-{number}") for number in range(10)]
    indexes = [colour_index(part) for part in parts]
    cache = Cache(parts, indexes)
    for part in parts:
        for number in range(objects // 10):
            cache.put(entry_of(part, widget(f"w{number}", f"u{number}", labels={"colour": "red"}), number + 1), 0)
    entry = entry_of(parts[0], widget("a"))
    view = CacheView(cache)
    for index in indexes:
        view.select(index, scoped("ns", "red"))
    plan = Plan(
        children=tuple(child(parts[0], number, size) for number in range(children)),
        effects=tuple(Effect("e", f"k{number}") for number in range(children)),
        status={"note": "y" * 10 * size},
    )
    writes = tuple(Write(Verb.APPLY, "Widget", "ns", f"c{n}", WriteResult.DONE) for n in range(children))

    record = record_of("s", decision(parts[0], entry.object, cache, view), "done", plan, Execution(writes))

    assert len(record.to_json()) <= MOST_BYTES
    # What is left of the plan still tells it from every other.
    assert record.plan == abridged(plan_to_json(plan), record.abridged)


@pytest.mark.spec("FW-440")
@pytest.mark.parametrize("count", [1, 300])
def test_a_record_stays_under_64_kb_whatever_an_api_server_says(count: int) -> None:
    part, cache = widgets(), Cache([widgets()])
    words = json.dumps({"reason": "Invalid", "message": 'Invalid value: "' + "\x01ä" * 100_000}).encode()
    error = api_error("PATCH /apis/x", 422, words)
    failure = classify(error)
    entry = entry_of(part, widget("a"))
    view = CacheView(cache, failure=failure)
    writes = tuple(Write(Verb.APPLY, "W", "n", f"c{n}", WriteResult.FAILED, "", str(error)) for n in range(count))

    execution = Execution(writes, failure=failure)
    record = record_of("s", decision(part, entry.object, cache, view), f"failed: {error}", Plan(), execution)

    assert len(record.to_json()) <= MOST_BYTES
    assert record.failure is not None
    # What the decision was given stays whole, for its replay.
    assert record.failure.message == failure.message
    assert "more characters" in record.outcome
    assert record.writes[0].error.startswith("PATCH /apis/x: 422 Invalid: Invalid value")
    bug = record_of("s", decision(part, entry.object, cache, view), f"exception: ValueError: {'x' * MOST_BYTES}")
    assert len(bug.to_json()) <= MOST_BYTES


@pytest.mark.spec("FW-440")
def test_digests_of_a_plan_name_what_they_stand_for() -> None:
    part = widgets()
    plan = plan_to_json(Plan(children=(child(part, 1, 10), child(part, 2, 10)), status={"a": 1}))
    other = plan_to_json(Plan(children=(child(part, 1, 10), child(part, 2, 11)), status={"a": 1}))
    short, changed = abridged(plan, ("children",)), abridged(other, ("children",))
    assert [one["name"] for one in short["children"]] == ["c1", "c2"]
    assert short["children"][0] == changed["children"][0]
    assert short["children"][1] != changed["children"][1]
    assert short["status"] == {"a": 1}
