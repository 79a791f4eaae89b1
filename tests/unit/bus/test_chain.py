"""Versions of one object in a row, the holes between them, and what is known of it at some time."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.versions import NOON, version_of

from controller_runtime import JsonObject, Key, dumps
from controller_runtime.log.history.versions import (
    Chain,
    Hole,
    Knowledge,
    LoggedVersion,
    StateAt,
    as_of,
    chained,
    fact_at,
    find_version,
    state_at,
)
from controller_runtime.log.wire.messages import Verb
from controller_runtime.log.wire.version import Position, Version


def version(
    sequence: int, previous: int, *, minute: int = 0, epoch: str = "e1", verb: Verb = Verb.UPSERT
) -> LoggedVersion:
    return version_of(
        "widgets",
        Key("ns", "a"),
        b"{}",
        sequence=sequence,
        previous=previous,
        verb=verb,
        epoch=epoch,
        resource_version=str(sequence * 10),
        time=NOON + timedelta(minutes=minute),
    )


def repeating(sequence: int, previous: int) -> LoggedVersion:
    """A version that says what the one before it says, which the history may lack (FW-448)."""
    found = version(sequence, previous)
    return replace(found, state=replace(found.state, repeats=True))


def saying(version: LoggedVersion, body: JsonObject) -> LoggedVersion:
    """The version with another body."""
    return replace(version, state=replace(version.state, body=dumps(body)))


def holes(versions: tuple[LoggedVersion, ...]) -> list[tuple[int, Hole | None]]:
    return [(v.sequence, v.hole) for v in versions]


@pytest.mark.parametrize(
    ("logged", "present", "expected"),
    [
        ([], None, []),
        ([version(1, 0), version(4, 1)], None, [(1, None), (4, None)]),
        ([version(1, 0), version(1, 0), version(4, 1)], None, [(1, None), (4, None)]),
        ([version(4, 1)], None, [(4, Hole.BEGINNING)]),
        ([version(1, 0), version(9, 4)], None, [(1, None), (9, Hole.GAP)]),
        ([version(1, 0), version(9, 4, epoch="e2")], None, [(1, None), (9, Hole.EPOCH)]),
        ([version(4, 0, verb=Verb.DELETE), version(9, 0)], None, [(4, None), (9, None)]),
        ([version(4, 0), version(9, 0)], None, [(4, None), (9, Hole.GAP)]),
        ([version(1, 0)], version(4, 1), [(1, None), (4, None)]),
        ([version(1, 0)], version(9, 4), [(1, None), (9, Hole.GAP)]),
        ([version(1, 0), version(4, 1)], version(4, 1), [(1, None), (4, None)]),
        ([], version(9, 4), [(9, Hole.BEGINNING)]),
        # What the history is spared, it may have all the same; the next one names the content before it.
        ([version(1, 0), version(7, 1)], repeating(4, 1), [(1, None), (4, None), (7, None)]),
        ([version(1, 0), repeating(4, 1), version(7, 4)], None, [(1, None), (4, None), (7, None)]),
        ([version(1, 0), version(4, 1), version(7, 1)], None, [(1, None), (4, None), (7, Hole.GAP)]),
        # One that the history lacked was logged when somebody noticed, or logged again.
        ([version(40, 0), version(60, 50), version(50, 40)], None, [(40, None), (50, None), (60, None)]),
        ([version(1, 0), version(4, 1), version(1, 0)], version(9, 4), [(1, None), (4, None), (9, None)]),
        ([version(1, 0, epoch="e2"), version(4, 0, epoch="e1")], None, [(4, None), (1, Hole.EPOCH)]),
    ],
)
def test_holes(
    logged: list[LoggedVersion], present: LoggedVersion | None, expected: list[tuple[int, Hole | None]]
) -> None:
    assert holes(chained(logged, present)) == expected


def test_a_version_is_found_by_sequence_and_epoch_or_by_uid_and_version() -> None:
    versions = [version(4, 0), version(4, 0, epoch="e2"), version(7, 4, epoch="e2")]
    assert find_version(versions, Version("u", "40", 4, "e1")) is versions[0]
    assert find_version(versions, Version("u", "40", 4, "e2")) is versions[1]
    assert find_version(versions, Version("u", "70", None, "e1")) is versions[2]
    assert find_version(versions, Version("", "", 7, "e2")) is versions[2]
    assert find_version(versions, Version("u", "70", 7, "e1")) is None
    assert find_version(versions, Version("", "", None, "e2")) is None


def known(state: StateAt) -> tuple[Knowledge, int | None, Hole | None]:
    return state.knowledge, state.version.sequence if state.version else None, state.hole


@pytest.mark.parametrize(
    ("before", "after", "present", "expected"),
    [
        (version(5, 1, minute=-1), None, None, (Knowledge.PRESENT, 5, None)),
        (version(5, 1, minute=-1), version(8, 5, minute=1), None, (Knowledge.PRESENT, 5, None)),
        (version(5, 1, minute=-1), version(9, 8, minute=1), None, (Knowledge.PRESENT, 5, Hole.GAP)),
        (version(5, 1, minute=-1, verb=Verb.DELETE), None, None, (Knowledge.ABSENT, 5, None)),
        (None, version(5, 0, minute=1), None, (Knowledge.ABSENT, None, None)),
        (None, version(5, 1, minute=1), None, (Knowledge.UNKNOWN, None, Hole.BEGINNING)),
        (None, None, version(5, 1, minute=-1), (Knowledge.PRESENT, 5, None)),
        (None, None, version(5, 1, minute=1), (Knowledge.UNKNOWN, None, Hole.BEGINNING)),
        (None, None, version(5, 0, minute=1), (Knowledge.ABSENT, None, None)),
        (version(5, 1, minute=-2), None, version(9, 5, minute=-1), (Knowledge.PRESENT, 9, None)),
        (version(5, 1, minute=-2), None, version(9, 5, minute=1), (Knowledge.PRESENT, 5, None)),
        (version(5, 1, minute=-2), None, version(9, 8, minute=1), (Knowledge.PRESENT, 5, Hole.GAP)),
        # The present was read before the history.
        (None, version(9, 5, minute=1), version(5, 1, minute=-1), (Knowledge.PRESENT, 5, None)),
        (version(9, 5, minute=-1), version(12, 9, minute=1), version(5, 1, minute=-2), (Knowledge.PRESENT, 9, None)),
    ],
)
def test_state_at_noon(
    before: LoggedVersion | None,
    after: LoggedVersion | None,
    present: LoggedVersion | None,
    expected: tuple[Knowledge, int | None, Hole | None],
) -> None:
    assert known(state_at(before, after, present, NOON)) == expected


def test_a_fact_that_was_read_before_it_was_published_is_reported_by_its_time() -> None:
    def fact(sequence: int, minute: int) -> LoggedVersion:
        observed = (NOON + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")
        return saying(version(sequence, 0), {"observedAt": observed})

    versions = [fact(1, 1), fact(2, 5), fact(3, 9), version(4, 3, verb=Verb.DELETE)]
    assert fact_at(versions, NOON) is None
    assert fact_at(versions, NOON + timedelta(minutes=5)) is versions[1]
    assert fact_at(versions, NOON + timedelta(minutes=8)) is versions[1]
    assert fact_at(versions, NOON + timedelta(hours=1)) is versions[2]


def made(sequence: int, *, epoch: str, minute: int) -> LoggedVersion:
    created = (NOON + timedelta(minutes=minute)).isoformat()
    return saying(version(sequence, 0, epoch=epoch), {"metadata": {"creationTimestamp": created}})


@pytest.mark.spec("FW-438")
@pytest.mark.parametrize(
    ("versions", "present", "expected"),
    [
        # Never seen, or not until later.
        ([], None, (None, None)),
        ([version(9, 0)], None, (None, None)),
        ([made(2, epoch="e2", minute=1)], None, (None, None)),
        ([made(2, epoch="e2", minute=-1)], None, (None, Hole.EPOCH)),
        ([version(9, 4)], None, (None, Hole.BEGINNING)),
        # Within the epoch of the position nothing is missing, unless the chain says so.
        ([version(3, 0)], None, (3, None)),
        ([version(3, 0), version(5, 3)], None, (5, None)),
        ([version(3, 0), version(9, 3)], None, (3, None)),
        ([version(3, 0), version(9, 4)], None, (3, Hole.GAP)),
        ([version(3, 0), version(4, 0, epoch="e2")], None, (3, None)),
        ([version(3, 0), version(9, 4, epoch="e2")], None, (3, None)),
        ([version(3, 0, verb=Verb.DELETE), version(9, 0)], None, (3, None)),
        # What is older than the epoch counts while something confirms it.
        ([version(30, 0, epoch="e0")], None, (None, Hole.EPOCH)),
        ([version(30, 0, epoch="e0")], version(30, 0, epoch="e0"), (30, None)),
        ([version(30, 0, epoch="e0"), version(9, 30)], None, (30, None)),
        ([version(30, 0, epoch="e0"), version(9, 0)], None, (None, Hole.EPOCH)),
        ([version(30, 0, epoch="e0"), version(9, 30, epoch="e2")], None, (30, None)),
        ([version(30, 0, epoch="e0"), version(9, 0, epoch="e2")], None, (None, Hole.EPOCH)),
        ([version(30, 0, epoch="e0", verb=Verb.DELETE)], None, (30, None)),
    ],
)
def test_what_the_stream_held_at_a_position(
    versions: list[LoggedVersion], present: LoggedVersion | None, expected: tuple[int | None, Hole | None]
) -> None:
    reported = as_of(Chain(tuple(versions), present), Position("e1", 7), NOON)
    sequence, hole = expected
    assert reported.hole == hole
    assert (None if reported.version is None else reported.version.sequence) == (sequence if hole is None else None)


@pytest.mark.spec("FW-438")
@pytest.mark.parametrize(("position", "expected"), [(39, None), (45, 40), (55, 50), (70, 60)])
def test_what_was_logged_late_is_reported_where_it_belongs(position: int, expected: int | None) -> None:
    versions = chained([version(40, 0), version(60, 50), version(50, 40)], None)
    reported = as_of(Chain(versions), Position("e1", position), NOON)
    assert (reported.version and reported.version.sequence, reported.hole) == (expected, None)


written = st.lists(st.tuples(st.sampled_from(["", "gone", "lost", "epoch"]), st.integers(1, 3)), max_size=10)


def reported_story(story: list[tuple[str, int]]) -> list[LoggedVersion]:
    """Versions with their distances; some are deletions, some were lost, some begin an epoch."""
    versions: list[LoggedVersion] = []
    sequence = previous = 0
    epoch = 1
    for what, distance in story:
        sequence += distance
        epoch += what == "epoch"
        if what != "lost":
            verb = Verb.DELETE if what == "gone" else Verb.UPSERT
            versions.append(version(sequence, previous, epoch=f"e{epoch}", verb=verb))
        previous = sequence
    return versions


@pytest.mark.spec("FW-438", "FW-494")
@given(
    story=written,
    cut=st.tuples(st.integers(0, 10), st.integers(0, 10)),
    moment=st.tuples(st.integers(1, 4), st.integers(0, 30)),
)
def test_a_section_of_a_chain_tells_what_the_whole_tells_or_nothing(
    story: list[tuple[str, int]], cut: tuple[int, int], moment: tuple[int, int]
) -> None:
    versions = reported_story(story)
    present = versions[-1] if versions else None
    position = Position(f"e{moment[0]}", moment[1])
    first, last = sorted(cut)
    whole = Chain(chained(versions, present), present)
    section = Chain(chained(versions[first:last], None), present, begins=first == 0, ends=last >= len(versions))
    reported, expected = as_of(section, position, NOON), as_of(whole, position, NOON)
    assert reported.unread or (reported.version and reported.version.place, reported.hole) == (
        expected.version and expected.version.place,
        expected.hole,
    )
    assert not expected.unread


@pytest.mark.spec("FW-494")
@pytest.mark.parametrize(
    ("position", "expected"),
    [(39, None), (40, 40), (49, 40), (50, 50), (59, 50), (60, None)],
)
def test_a_section_tells_what_lies_between_its_ends(position: int, expected: int | None) -> None:
    versions = chained([version(40, 30), version(50, 40), version(60, 50)], None)
    reported = as_of(Chain(versions, begins=False, ends=False), Position("e1", position), NOON)
    assert (reported.unread, reported.hole) == (expected is None, None)
    assert (reported.version and reported.version.sequence) == expected


@pytest.mark.spec("FW-446")
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Version("u", "55", 5, "e1"), (5, "55")),
        # What was read before it went over the bus has no sequence.
        (Version("u", "55"), (4, "55")),
        (Version("u", "40", 4, "e1"), (4, "40")),
        # Nobody knows what follows the last version, or what a hole hides.
        (Version("u", "105", 10, "e1"), None),
        (Version("u", "75", 7, "e1"), None),
        (Version("another", "55", 5, "e1"), None),
        (Version("u", "55", 5, "e0"), None),
    ],
)
def test_a_version_that_the_history_was_spared_is_the_one_before_under_its_own_name(
    wanted: Version, found: tuple[int, str] | None
) -> None:
    versions = chained([version(4, 0), version(6, 4), version(8, 7), version(9, 8)], None)
    reported = find_version(versions, wanted)
    assert (None if reported is None else (reported.sequence, reported.state.resource_version)) == found
    if reported is not None and reported.state.resource_version == "55":
        assert reported.state.json() == {"metadata": {"resourceVersion": "55"}}


@pytest.mark.spec("FW-446", "FW-816")
@pytest.mark.parametrize(
    ("wanted", "previous", "found"),
    [
        (Version("u", "60", 6, "e1"), 4, 6),
        # What was written and never came over the bus may not have been published before the publisher was killed.
        (Version("u", "60"), 4, None),
        # Something else lay between.
        (Version("u", "60", 6, "e1"), 5, None),
        (Version("u", "60", 6, "e2"), 4, None),
    ],
)
def test_what_the_history_was_spared_is_found_although_the_next_version_begins_an_epoch(
    wanted: Version, previous: int, found: int | None
) -> None:
    reported = find_version(chained([version(4, 0), version(9, previous, epoch="e2")], None), wanted)
    assert (None if reported is None else reported.sequence) == found


@pytest.mark.spec("FW-496")
def test_a_fact_that_cannot_be_read_may_have_been_observed_since_the_one_before() -> None:
    versions = [
        saying(version(1, 0), {"observedAt": "2026-01-01T12:01:00Z"}),
        replace(version(2, 1), state=replace(version(2, 1).state, body=b"garbage")),
        saying(version(3, 2), {"observedAt": "2026-01-01T12:09:00Z"}),
    ]
    assert fact_at(versions, NOON) is None
    assert fact_at(versions, NOON + timedelta(minutes=2)) is versions[1]
    assert fact_at(versions, NOON + timedelta(minutes=9)) is versions[2]
