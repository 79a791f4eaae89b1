"""What a pass read, as its record keeps it: little item by item, much by digest."""

import pytest

from controller_runtime import Key
from controller_runtime.log.cache.view import IndexRead, ObjectRead, ReadLog
from controller_runtime.log.history.decisions import LISTED, RecordedPosition, recorded_position, recorded_reads
from controller_runtime.log.wire.version import CachePosition, OwnChange, Position, Version


def keys(count: int) -> tuple[Key, ...]:
    return tuple(Key("ns", f"w{number}") for number in range(count))


def log_of(count: int, *, value: str = "red", version: str = "1") -> ReadLog:
    log = ReadLog()
    for number, key in enumerate(keys(count)):
        log.objects["widgets", key] = ObjectRead("widgets", key, Version(f"u{number}", version, number, "e"))
    log.objects["gadgets", Key("ns", "one")] = ObjectRead("gadgets", Key("ns", "one"), None)
    log.indexes["widgets", "colour", value] = IndexRead("widgets", "colour", value, keys(count))
    return log


def test_little_is_listed() -> None:
    reads = recorded_reads(log_of(5))
    assert [one.name for one in reads.objects] == ["w0", "w1", "w2", "w3", "w4", "one"]
    assert [(one.value, one.keys) for one in reads.indexes] == [("red", keys(5))]
    assert reads.groups == ()


@pytest.mark.spec("FW-440")
def test_much_is_recorded_by_digest() -> None:
    reads = recorded_reads(log_of(LISTED + 1))
    assert [(one.part, one.name) for one in reads.objects] == [("gadgets", "one")]
    assert reads.indexes == ()
    assert [(one.part, one.index, one.count) for one in reads.groups] == [
        ("widgets", None, LISTED + 1),
        ("widgets", "colour", 1),
    ]


@pytest.mark.spec("FW-440")
def test_digests_tell_questions_and_answers() -> None:
    plain, again = recorded_reads(log_of(200)).groups, recorded_reads(log_of(200)).groups
    assert plain == again
    # Another question of the index; the same answer.
    other = recorded_reads(log_of(200, value="blue")).groups
    assert plain[1].asked != other[1].asked
    # The same objects by name, one of them absent now.
    log = log_of(200)
    log.objects["widgets", Key("ns", "w7")] = ObjectRead("widgets", Key("ns", "w7"), None)
    changed = recorded_reads(log).groups
    assert plain[0].asked == changed[0].asked
    assert plain[0].found != changed[0].found


@pytest.mark.spec("FW-435")
def test_a_position_names_the_parts_that_are_apart() -> None:
    where = CachePosition(
        {"a": Position("e1", 9), "b": Position("e2", 9), "c": Position("e3", 4), "d": Position("e4", None)}
    )
    recorded = RecordedPosition.model_validate_json(recorded_position(where).model_dump_json(by_alias=True))
    assert (recorded.sequence, recorded.apart) == (9, {"c": 4, "d": None})
    assert {name: recorded.position(name) for name in where.parts} == where.parts
    assert recorded.position("z") is None


@pytest.mark.spec("FW-435", "FW-482")
def test_only_parts_that_were_searched_are_counted() -> None:
    where = CachePosition({"a": Position("e1", 9, 5), "b": Position("e1", 9, 7)})
    recorded = RecordedPosition.model_validate_json(recorded_position(where, {"b", "z"}).model_dump_json(by_alias=True))
    assert recorded.objects == {"b": 7}
    assert [recorded.position(name) for name in "ab"] == [Position("e1", 9), Position("e1", 9, 7)]


@pytest.mark.spec("FW-435", "FW-440")
def test_a_part_with_very_many_own_writes_under_way_has_no_position() -> None:
    own = tuple(OwnChange("a", key, Version("u", "1")) for key in keys(LISTED + 1))
    few = (OwnChange("b", Key("ns", "x"), None),)
    recorded = recorded_position(CachePosition({"a": Position("e1", 9), "b": Position("e2", 9)}, own + few))
    assert recorded.apart == {"a": None}
    assert [(one.part, one.uid) for one in recorded.own] == [("b", None)]
