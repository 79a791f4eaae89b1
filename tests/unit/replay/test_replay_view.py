"""A replay sees exactly what a pass saw, answers other questions as of that moment, and says where it cannot."""

from datetime import UTC, datetime

import pytest
from support.cache_objects import colour_index, entry_of, widget, widgets
from support.replayed import logged, past_of, past_with, record_of
from support.versions import version_of

from controller_runtime import Cache, Category, Index, Key, Part, Resource, View, scoped
from controller_runtime.log.cache.view import CacheView
from controller_runtime.log.history.decisions import LISTED, DecisionRecord, RecordedFailure
from controller_runtime.log.history.versions import Chain
from controller_runtime.log.wire.messages import Verb
from controller_runtime.replay.past import NotLoadedError, Past, objects_read
from controller_runtime.replay.view import ReplayView

A, B = Key("ns", "a"), Key("ns", "b")
RED = {"colour": "red"}
NOBODYS = [b"garbage", b"[]", b"{}", b'{"metadata":[]}', b'{"metadata":{"name":"a","namespace":"ns"}}']
"""Bodies under the name ``ns/b`` that no consumer takes."""
LAST = 9
"""The sequence that the cache had reached."""


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


@pytest.fixture
def index(part: Part[Resource]) -> Index[Resource]:
    return colour_index(part)


@pytest.fixture
def cache(part: Part[Resource], index: Index[Resource]) -> Cache:
    cache = Cache([part], [index])
    cache.put(entry_of(part, widget("a", "u1", 3, labels=RED), 1), 0)
    cache.put(entry_of(part, widget("b", "u2", 4, labels=RED), 2), 0)
    cache.mark(part, synced=True, fresh=True)
    cache.reached(part, LAST)
    return cache


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


def test_the_same_questions_get_the_same_answers(cache: Cache, part: Part[Resource], index: Index[Resource]) -> None:
    live = CacheView(cache)
    answers = look(live, part, index)
    replay = ReplayView(record_of(live, cache), past_of(cache, part))
    assert look(replay, part, index) == answers
    replay.verify()
    assert (replay.beyond, replay.holes) == ([], [])


def test_what_was_stale_then_is_stale_again(cache: Cache, part: Part[Resource], index: Index[Resource]) -> None:
    cache.mark(part, fresh=False)
    live = CacheView(cache)
    answers = look(live, part, index)
    replay = ReplayView(record_of(live, cache), past_of(cache, part))
    assert look(replay, part, index) == answers
    for name in ("absent", "never asked for"):
        error = replay.get(part, "ns", name).error
        assert error is not None
        assert error.reason == "ViewStale"


def test_the_failure_of_the_previous_plan_is_given_again(cache: Cache) -> None:
    failure = RecordedFailure(category=Category.INVALID_SPEC, reason="Rejected", message="why")
    began = datetime(2025, 12, 31, tzinfo=UTC)
    replay = ReplayView(record_of(CacheView(cache, failure.error, began), cache, failure), Past())
    assert (replay.failure, replay.failing_since) == (failure.error, began)


@pytest.mark.spec("FW-438")
def test_other_questions_are_answered_as_of_that_moment(
    cache: Cache, part: Part[Resource], index: Index[Resource]
) -> None:
    record = record_of(CacheView(cache), cache)
    live = CacheView(cache)
    answers = look(live, part, index)
    # What came after the position does not count: a change, a deletion, another object.
    past = past_of(
        cache,
        part,
        logged(entry_of(part, widget("a", "u1", 10, labels={"colour": "blue"}), LAST + 1), previous=1),
        logged(entry_of(part, widget("b", "u2", 11), LAST + 2), previous=2, verb=Verb.DELETE),
        logged(entry_of(part, widget("c", "u3", 12, labels=RED), LAST + 3)),
    )
    replay = ReplayView(record, past)
    assert look(replay, part, index) == answers
    replay.verify()
    assert replay.holes == []
    assert replay.beyond == [
        "widgets/ns/a",
        "widgets/ns/absent",
        "widgets[label:colour]=ns/red",
        "widgets/ns/b",
        "widgets[label:colour]=ns/blue",
        "widgets/*",
    ]


@pytest.mark.spec("FW-438")
def test_own_writes_that_were_not_on_the_bus_yet_are_part_of_that_moment(
    cache: Cache, part: Part[Resource], index: Index[Resource]
) -> None:
    own = entry_of(part, widget("a", "u1", 8, labels={"colour": "green"}))
    cache.absorb(part, own.raw, 0)
    cache.absorb_deleted(part, B, "u2", 0)
    record = record_of(CacheView(cache), cache)
    live = CacheView(cache)
    answers = look(live, part, index)
    versions = (
        logged(entry_of(part, widget("a", "u1", 3, labels=RED), 1)),
        logged(entry_of(part, own.raw, LAST + 1), previous=1),
    )
    past = past_with(
        part, {A: Chain(versions), B: Chain((logged(entry_of(part, widget("b", "u2", 4, labels=RED), 2)),))}
    )
    assert list(objects_read(record)) == [(part.name, A)]
    replay = ReplayView(record, past)
    assert look(replay, part, index) == answers
    assert replay.holes == []


def test_what_was_not_read_from_the_history_yet_is_asked_for(
    cache: Cache, part: Part[Resource], index: Index[Resource]
) -> None:
    replay = ReplayView(record_of(CacheView(cache), cache), Past())
    with pytest.raises(NotLoadedError):
        replay.get(part, "ns", "a")
    with pytest.raises(NotLoadedError):
        replay.select(index, scoped("ns", "red"))


@pytest.mark.spec("FW-438")
def test_a_version_that_is_gone_is_a_hole(cache: Cache, part: Part[Resource]) -> None:
    live = CacheView(cache)
    live.get(part, "ns", "a")
    replay = ReplayView(record_of(live, cache), Past())
    assert replay.get(part, "ns", "a").value is None
    assert replay.holes == ["widgets/ns/a: version 3 is not kept"]


@pytest.mark.spec("FW-438")
def test_an_object_that_the_history_cannot_tell_is_a_hole_of_every_look_up(
    cache: Cache, part: Part[Resource], index: Index[Resource]
) -> None:
    record = record_of(CacheView(cache), cache)
    lost = logged(entry_of(part, widget("c", "u3", 12, labels=RED), LAST + 3), previous=4)
    replay = ReplayView(record, past_of(cache, part, lost))
    assert [item.name for item in replay.select(index, scoped("ns", "red")).items] == ["a", "b"]
    assert replay.holes == ["widgets/ns/c: older versions are no longer kept"]


@pytest.mark.spec("FW-438")
def test_a_part_without_a_position_is_a_hole(cache: Cache, part: Part[Resource]) -> None:
    cache.reached(part, None)
    past = past_of(cache, part)
    past.add_part(("others", ""), {})
    replay = ReplayView(record_of(CacheView(cache), cache), past)
    assert replay.get(part, "ns", "a").value is None
    assert replay.get(widgets("others"), "ns", "a").value is None
    assert replay.holes == [
        "widgets/ns/a: it came by another way than the bus, or over 100 own writes were under way",
        "others/ns/a: the record does not tell how far its cache was with it",
    ]


@pytest.fixture
def crowd(part: Part[Resource], index: Index[Resource]) -> Cache:
    cache = Cache([part], [index])
    for number in range(5 * LISTED):
        cache.put(entry_of(part, widget(f"w{number}", f"u{number}", number + 1, labels=RED), number + 1), 0)
    cache.mark(part, synced=True, fresh=True)
    cache.reached(part, 5 * LISTED)
    return cache


@pytest.mark.spec("FW-440")
def test_much_is_rebuilt_and_its_digest_agrees(crowd: Cache, part: Part[Resource], index: Index[Resource]) -> None:
    live = CacheView(crowd)
    answers = look(live, part, index)
    record = record_of(live, crowd)
    assert (record.reads.objects, record.reads.indexes[:1]) == ((), ())
    replay = ReplayView(record, past_of(crowd, part))
    assert look(replay, part, index) == answers
    replay.verify()
    assert (replay.beyond, replay.holes) == ([], [])


@pytest.mark.spec("FW-440", "FW-482")
@pytest.mark.parametrize(
    ("lost", "counted", "hole"),
    [
        ("w7", True, "widgets: the history tells of 499 objects, the cache held 500"),
        ("w7", False, "widgets[label:colour]: not what was read then"),
        ("w7 in another version", True, "widgets: not what was read then"),
    ],
)
def test_much_that_comes_out_otherwise_is_a_hole(
    crowd: Cache, part: Part[Resource], index: Index[Resource], lost: str, hole: str, *, counted: bool
) -> None:
    live = CacheView(crowd)
    live.select(index, scoped("ns", "red"))
    record = record_of(live, crowd)
    if not counted:
        # As an older release recorded it.
        record = record.model_copy(update={"world": record.world.model_copy(update={"objects": {}})})
    other = Cache([part], [index])
    for entry in crowd.all(part):
        if entry.key.name != "w7":
            other.put(entry, 0)
    if lost != "w7":
        other.put(entry_of(part, widget("w7", "u7", 8, labels=RED), 9), 0)
    replay = ReplayView(record, past_of(other, part))
    replay.select(index, scoped("ns", "red"))
    replay.verify()
    assert hole in replay.holes


@pytest.mark.spec("FW-440")
def test_a_digest_says_nothing_about_other_questions(
    crowd: Cache, part: Part[Resource], index: Index[Resource]
) -> None:
    live = CacheView(crowd)
    live.select(index, scoped("ns", "red"))
    replay = ReplayView(record_of(live, crowd), past_of(crowd, part))
    assert replay.select(index, scoped("ns", "blue")).items == ()
    assert replay.get(part, "ns", "w3").value is not None
    replay.verify()
    assert replay.holes == []


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


@pytest.mark.spec("FW-438", "FW-496")
@pytest.mark.parametrize("body", NOBODYS)
def test_a_version_that_nobody_can_read_is_a_hole(
    cache: Cache, part: Part[Resource], index: Index[Resource], body: bytes
) -> None:
    live = CacheView(cache)
    live.get(part, "ns", "a")
    broken = version_of(part.name, B, body, sequence=3, previous=2, uid="u2", resource_version="5")
    replay = ReplayView(record_of(live, cache), past_of(cache, part, broken))
    assert replay.get(part, "ns", "a") == live.get(part, "ns", "a")
    assert replay.holes == []
    assert replay.get(part, "ns", "b").value is None
    assert replay.holes == ["widgets/ns/b: the version that was there cannot be read (3)"]
    look(replay, part, index)
    assert replay.holes == ["widgets/ns/b: the version that was there cannot be read (3)"]


@pytest.mark.spec("FW-438", "FW-496")
@pytest.mark.parametrize("body", NOBODYS)
def test_a_version_that_was_read_and_that_nobody_can_read_any_more_is_a_hole(
    cache: Cache, part: Part[Resource], body: bytes
) -> None:
    live = CacheView(cache)
    live.get(part, "ns", "b")
    past = Past()
    past.add({("widgets", B): Chain((version_of("widgets", B, body, sequence=2, uid="u2", resource_version="4"),))})
    replay = ReplayView(record_of(live, cache), past)
    assert replay.get(part, "ns", "b").value is None
    assert replay.holes == ["widgets/ns/b: the version that was there cannot be read (2)"]


@pytest.mark.spec("FW-438", "FW-496")
@pytest.mark.parametrize(
    "body",
    [
        *NOBODYS,
        b'{"metadata":{"name":"b","namespace":"ns","creationTimestamp":"soon"}}',
        b'{"metadata":{"name":"b","namespace":"ns","creationTimestamp":"2030-01-01T00:00:00"}}',
    ],
)
def test_when_the_first_version_of_a_later_epoch_was_made_cannot_be_reported_of_nonsense(
    cache: Cache, part: Part[Resource], body: bytes
) -> None:
    record = record_of(CacheView(cache), cache)
    first = version_of("widgets", B, body, sequence=12, epoch="e2", uid="u2", resource_version="4")
    past = Past()
    past.add_part((part.name, ""), {B: Chain((first,), first)})
    replay = ReplayView(record, past)
    assert replay.get(part, "ns", "b").value is None
    assert replay.holes == ["widgets/ns/b: a new epoch began; versions before it may be missing"]
