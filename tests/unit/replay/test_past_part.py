"""A past part that moved from moment to moment holds what one holds that was made for that moment."""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.cache_objects import colour_index, entry_of, widget, widgets
from support.replayed import logged
from support.versions import NOON

from controller_runtime import Key, scoped
from controller_runtime.log.cache.indexes import IndexTable
from controller_runtime.log.history.decisions import RecordedObject
from controller_runtime.log.history.versions import Chain, LoggedVersion, VersionAnswer, as_of, chained
from controller_runtime.log.wire.messages import Verb
from controller_runtime.log.wire.version import KEPT_DECODED, Entry, Position, Version, keep_decoded
from controller_runtime.replay import past as past_part_module
from controller_runtime.replay.past import Answer, Moment, PastPart, Rebuilt

PART = widgets()
COLOUR = colour_index(PART)
NAMES = ("a", "b", "c")
COLOURS = ("red", "blue")

writes = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["red", "blue", "gone"]), st.booleans()), max_size=12
)
own = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["red", "blue", "gone"]), max_size=2)
RED_AND_BLUE = [("a", "red", False), ("b", "blue", False)]
positions = st.none() | st.builds(Position, st.sampled_from(["e1", "e2"]), st.integers(0, 14))
moments = st.lists(st.tuples(positions, own), min_size=1, max_size=8)
mishaps = st.lists(st.none() | st.integers(0, 4), min_size=8, max_size=8)
"""For each moment the look at the history that raises, if any; 0 = something is read that says nothing new."""


def chains_of(story: list[tuple[str, str, bool]]) -> dict[Key, Chain]:
    """Each write is a version of the next sequence; with ``True`` a new epoch begins after it."""
    versions: dict[Key, list[LoggedVersion]] = {}
    epoch = "e1"
    for sequence, (name, colour, ends) in enumerate(story, 1):
        before = versions.setdefault(Key("ns", name), [])
        obj = widget(name, f"u-{name}", sequence, labels={"colour": colour})
        verb = Verb.DELETE if colour == "gone" else Verb.UPSERT
        before.append(logged(entry_of(PART, obj, sequence, epoch), before[-1].sequence if before else 0, verb))
        epoch = "e2" if ends else epoch
    return {key: Chain(chained(some, None), some[-1]) for key, some in versions.items()}


def past_part(chains: dict[Key, Chain]) -> PastPart:
    answers: dict[tuple[str, int, Key], Answer] = {}

    def reported(found: LoggedVersion) -> Answer:
        state = found.state
        version = Version(state.uid, state.resource_version, found.sequence, state.epoch)
        answer = Answer(Entry(PART, found.key, state.body, version))
        return answers.setdefault((*found.place, found.key), answer)

    def read(known: RecordedObject, _: object) -> Answer:
        if known.version is None:
            return Answer()
        obj = widget(known.name, known.uid or "", int(known.resource_version), labels={"colour": known.epoch})
        return Answer(entry_of(PART, obj))

    return PastPart(PART, chains, reported, read)


def seen(part: PastPart) -> object:
    objects = [(key, entry.raw if (entry := part.get(key).entry) else None) for key in part.present]
    return objects, part.holes, [sorted(part.index(COLOUR).table.keys(scoped("ns", one))) for one in COLOURS]


class StumbledError(Exception):
    """What nobody expected."""


@pytest.mark.spec("FW-438", "FW-441", "FW-481")
@given(story=writes, path=moments, happening=mishaps)
@example(RED_AND_BLUE, [(Position("e1", 2), {}), (None, {})], [None, 0])
@example(RED_AND_BLUE, [(Position("e1", 0), {}), (Position("e1", 2), {}), (Position("e1", 0), {})], [None, 2, None])
@example(RED_AND_BLUE, [(Position("e1", 0), {}), (Position("e1", 2), {}), (None, {})], [None, 2, None])
def test_the_way_does_not_matter(
    story: list[tuple[str, str, bool]],
    path: list[tuple[Position | None, dict[str, str]]],
    happening: list[int | None],
) -> None:
    chains = chains_of(story)
    looks = count(-1000)

    def stumbling(*args: Any) -> VersionAnswer:
        if next(looks) == -1:
            raise StumbledError
        return as_of(*args)

    moving = past_part(chains)
    for number, ((position, changes), mishap) in enumerate(zip(path, happening, strict=False)):
        known = {
            Key("ns", name): RecordedObject(
                part=PART.name, namespace="ns", name=name, epoch=colour,
                uid=None if colour == "gone" else f"u-{name}", resource_version="99",
            )
            for name, colour in changes.items()
        }  # fmt: skip
        unknown = "" if position else "nobody knows"
        moment = Moment(str(number), NOON + timedelta(seconds=number), position, known, unknown)
        if mishap == 0:
            moving.learn(chains, complete=True)
        looks = count(-(mishap or 1000))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(past_part_module, "as_of", stumbling)
            try:
                moving.move(moment)
            except StumbledError:
                continue
        fresh = past_part(chains)
        fresh.move(moment)
        assert seen(moving) == seen(fresh)


def test_a_part_without_a_position_holds_what_the_decision_knew() -> None:
    part = past_part(chains_of([("a", "red", False), ("b", "red", False)]))
    part.move(Moment("1", NOON, Position("e1", 2, 2), {}))
    assert [key.name for key in part.present] == ["a", "b"]
    absent = RecordedObject(part=PART.name, namespace="ns", name="b")
    part.move(Moment("2", NOON, None, {absent.key: absent}, "nobody knows"))
    assert (part.present, part.holes) == ([], ["widgets: nobody knows"])
    assert part.get(Key("ns", "a")).hole == "widgets/ns/a: nobody knows"
    assert part.get(Key("ns", "b")) == Answer()
    part.move(Moment("3", NOON, Position("e1", 2, 2), {}))
    assert ([key.name for key in part.present], part.holes) == (["a", "b"], [])


@pytest.mark.spec("FW-438", "FW-481")
def test_an_object_that_a_later_epoch_tells_of_is_a_hole_as_soon_as_it_may_have_been_there() -> None:
    made = widget("a", "u-a", 5)
    made["metadata"]["creationTimestamp"] = (NOON + timedelta(seconds=5)).isoformat()
    first = logged(entry_of(PART, made, 5, "e2"))
    part, before = past_part({first.key: Chain((first,), first)}), Position("e1", 3)
    hole = ["widgets/ns/a: a new epoch began; versions before it may be missing"]
    for number, (seconds, expected) in enumerate([(0, []), (9, hole), (4, []), (6, hole), (7, hole), (1, [])]):
        # The stream told nothing in between: the clock alone makes the difference.
        part.move(Moment(str(number), NOON + timedelta(seconds=seconds), before, {}))
        assert part.holes == expected


@pytest.mark.spec("FW-438")
def test_an_object_in_the_place_in_memory_of_another_is_looked_at_itself() -> None:
    key, table = Key("ns", "a"), IndexTable(COLOUR)
    rebuilt = Rebuilt(table)
    # Nobody else holds an entry when few typed objects are kept.
    keep_decoded(0)
    try:
        for number in range(2000):
            colour = COLOURS[number % 3 % 2]
            rebuilt.put(key, entry_of(PART, widget("a", "u-a", number, labels={"colour": colour})))
            assert list(table.keys(scoped("ns", colour))) == [key]
    finally:
        keep_decoded(KEPT_DECODED)
