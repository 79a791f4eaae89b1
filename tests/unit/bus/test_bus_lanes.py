"""Waiting versions: order per object, nothing lost, bounded, compared with a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime import Key
from controller_runtime.log.publish.intake import Lanes
from controller_runtime.log.publish.source import SourceVersion


def version(name: str, number: int) -> SourceVersion:
    return SourceVersion.of(Key("ns", name), name, str(number), b"{}", "")


def drain(lanes: Lanes) -> list[str]:
    order = []
    while (taken := lanes.take()) is not None:
        order.append(f"{taken.key.name}{taken.resource_version}")
        lanes.finish(taken.key)
    return order


def test_an_objects_versions_go_one_after_the_other() -> None:
    lanes = Lanes()
    lanes.add(version("a", 1))
    lanes.add(version("a", 2))
    lanes.add(version("b", 3))
    first, second = lanes.take(), lanes.take()
    assert first is not None
    assert second is not None
    assert (first.key.name, second.key.name) == ("a", "b")
    assert lanes.take() is None, "a's second version waits for its first"
    lanes.finish(first.key)
    third = lanes.take()
    assert third is not None
    assert third.resource_version == "2"


def test_a_ticket_is_done_with_all_before_it() -> None:
    lanes = Lanes()
    lanes.add(version("a", 1))
    ticket = lanes.last_ticket
    lanes.add(version("b", 2))
    a, b = lanes.take(), lanes.take()
    assert a is not None
    assert b is not None
    lanes.finish(b.key)
    assert not lanes.is_done(ticket)
    lanes.finish(a.key)
    assert lanes.is_done(ticket)


def test_what_was_begun_is_begun_again() -> None:
    lanes = Lanes()
    lanes.add(version("a", 1))
    lanes.add(version("a", 2))
    lanes.take()
    lanes.put_back()
    assert drain(lanes) == ["a1", "a2"]


def test_collapsing_keeps_the_newest_and_counts_the_others() -> None:
    lanes = Lanes()
    for number in range(1, 4):
        lanes.add(version("a", number))
    lanes.add(version("b", 9))
    lanes.collapse()
    assert lanes.dropped == 2
    assert sorted(drain(lanes)) == ["a3", "b9"]
    assert len(lanes) == 0


def test_beyond_the_limit_only_the_newest_waits_and_the_one_under_way_stays() -> None:
    lanes = Lanes(limit=3)
    for number in range(1, 4):
        lanes.add(version("a", number))
    lanes.take()
    for number in range(4, 10):
        lanes.add(version("a", number))
    assert len(lanes) == 3
    lanes.finish(Key("ns", "a"))
    assert drain(lanes)[-1] == "a9"
    assert lanes.dropped > 0


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "finish", "put_back", "latest"]), st.sampled_from("abc"))))
def test_order_and_completeness_hold_whatever_happens(steps: list[tuple[str, str]]) -> None:
    lanes, number = Lanes(), 0
    taken: dict[Key, SourceVersion] = {}
    added: dict[str, list[int]] = {}
    done: dict[str, list[int]] = {}
    for step, name in steps:
        if step in {"add", "latest"}:
            number += 1
            added.setdefault(name, []).append(number)
            lanes.add(version(name, number), latest_only=step == "latest")
        elif step == "take":
            found = lanes.take()
            if found is not None:
                assert found.key not in taken
                taken[found.key] = found
        elif step == "finish" and (key := Key("ns", name)) in taken:
            done.setdefault(name, []).append(int(taken.pop(key).resource_version))
            lanes.finish(key)
        elif step == "put_back":
            taken.clear()
            lanes.put_back()
    for key in list(taken):
        done.setdefault(key.name, []).append(int(taken.pop(key).resource_version))
        lanes.finish(key)
    for entry in drain(lanes):
        done.setdefault(entry[0], []).append(int(entry[1:]))
    for name, numbers in added.items():
        assert done[name] == sorted(done[name])
        assert done[name][-1] == numbers[-1], "the newest always comes through"
    assert sum(map(len, done.values())) + lanes.dropped == sum(map(len, added.values()))


def test_held_lanes_give_out_nothing() -> None:
    lanes = Lanes()
    lanes.hold()
    lanes.add(version("a", 1))
    assert lanes.take() is None
    assert lanes.newest_of(Key("ns", "a")) == version("a", 1)
    lanes.release()
    assert lanes.take() == version("a", 1)
    assert lanes.newest_of(Key("ns", "b")) is None


def test_an_object_that_changes_for_ever_while_nothing_is_given_out_stands_in_line_once() -> None:
    lanes = Lanes()
    for number in range(100):
        lanes.add(version("a", number), latest_only=True)
    assert len(lanes) == len(lanes._ready) == 1
    assert drain(lanes) == ["a99"]


def test_what_is_forgotten_leaves_nothing_behind_and_counts_as_dropped() -> None:
    lanes = Lanes()
    for number in range(100):
        lanes.add(version(f"n{number}", 1))
        lanes.add(version(f"n{number}", 2), latest_only=True)
        assert lanes.forget(Key("ns", f"n{number}"))
    assert not any((lanes._lanes, lanes._ready, lanes._open, lanes._gaps))
    assert lanes.dropped == 300
    lanes.add(version("a", 1))
    assert drain(lanes) == ["a1"]


def test_what_is_being_worked_on_is_not_forgotten() -> None:
    lanes = Lanes()
    lanes.add(version("a", 1))
    lanes.take()
    assert not lanes.forget(Key("ns", "a"))
    lanes.put_back()
    assert drain(lanes) == ["a1"]


@pytest.mark.spec("FW-560")
def test_the_lag_is_that_of_the_oldest_and_what_is_done_has_taken_its_time() -> None:
    now = 100.0
    lanes = Lanes(clock=lambda: now)
    assert (lanes.lag, lanes.finished) == (0.0, (0, 0.0))
    lanes.add(version("a", 1))
    now += 3
    lanes.add(version("b", 2))
    now += 1
    assert lanes.lag == 4.0
    assert drain(lanes) == ["a1", "b2"]
    assert (lanes.lag, lanes.finished) == (0.0, (2, 5.0))
