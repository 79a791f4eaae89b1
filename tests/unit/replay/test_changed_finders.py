"""What finds objects is code as well: another index, summary or line finds other objects today, as of then."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import BaseModel, ConfigDict
from support.cache_objects import colour_index, entry_of, widget, widgets
from support.replayed import logged, past_of, record_of

from controller_runtime import Cache, Index, Part, Resource, Summary, View, WaitQueue, scoped
from controller_runtime.log.cache.view import CacheView
from controller_runtime.log.history.decisions import LISTED, DecisionRecord
from controller_runtime.replay.view import ReplayView

RED = scoped("ns", "red")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Paint(BaseModel):
    model_config = ConfigDict(frozen=True)

    colour: str


def paints(obj: Resource) -> Iterator[tuple[str, Paint]]:
    yield "all", Paint(colour=obj.metadata.labels["colour"])


def dark_paints(obj: Resource) -> Iterator[tuple[str, Paint]]:
    yield "all", Paint(colour=f"dark {obj.metadata.labels['colour']}")


def joined(obj: Resource) -> datetime:
    return BEGIN + timedelta(minutes=int(obj.metadata.labels["minutes"]))


def joined_last(obj: Resource) -> datetime:
    return BEGIN - timedelta(minutes=int(obj.metadata.labels["minutes"]))


def raising(obj: Resource) -> list[str]:
    if obj.name == "b":
        raise LookupError("planted")
    return [RED]


def bare(_: Resource) -> datetime:
    # Without a time zone it compares with no other.
    return BEGIN.replace(tzinfo=None)


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


@pytest.fixture
def index(part: Part[Resource]) -> Index[Resource]:
    return colour_index(part)


@pytest.fixture
def summary(part: Part[Resource]) -> Summary[Resource, Paint]:
    return Summary(part, "paints", Paint, paints)


@pytest.fixture
def line(part: Part[Resource]) -> WaitQueue[Resource]:
    return WaitQueue(part, "waiting", joined)


@pytest.fixture
def cache(
    part: Part[Resource], index: Index[Resource], summary: Summary[Resource, Paint], line: WaitQueue[Resource]
) -> Cache:
    cache = Cache([part], [index, summary, line])
    for number, (name, colour) in enumerate({"a": "red", "b": "red", "c": "blue"}.items(), 1):
        labels = {"colour": colour, "minutes": str(number)}
        cache.put(entry_of(part, widget(name, f"u{number}", number, labels=labels), number), 0)
    cache.mark(part, synced=True, fresh=True)
    cache.reached(part, 9)
    return cache


def names(found: Iterable[Resource]) -> list[str]:
    return [one.name for one in found]


def first(view: View, line: WaitQueue[Resource], *without: str) -> list[str]:
    return names(view.first(line, 2, lambda key: key.name not in without))


@pytest.mark.spec("FW-481")
def test_an_index_that_finds_more_is_asked_again(cache: Cache, part: Part[Resource], index: Index[Resource]) -> None:
    live = CacheView(cache)
    live.select(index, RED)
    later = logged(entry_of(part, widget("d", "u4", 12, labels={"colour": "red"}), 12))
    replay = ReplayView(record_of(live, cache), past_of(cache, part, later))
    any_colour = Index(part, index.name, lambda _: [RED])
    assert names(replay.select(any_colour, RED).items) == ["a", "b", "c"], "d came later"
    assert replay.otherwise == ["widgets[label:colour]=ns/red: then ns/a, ns/b, now ns/a, ns/b, ns/c"]
    assert (replay.holes, replay.beyond) == ([], ["widgets/ns/c"])


@pytest.mark.spec("FW-481")
def test_an_index_that_finds_less_is_asked_again(cache: Cache, part: Part[Resource], index: Index[Resource]) -> None:
    live = CacheView(cache)
    live.select(index, RED)
    replay = ReplayView(record_of(live, cache), past_of(cache, part))
    assert names(replay.select(Index(part, index.name, lambda _: []), RED).items) == []
    assert replay.otherwise == ["widgets[label:colour]=ns/red: then ns/a, ns/b, now nothing"]


@pytest.mark.spec("FW-441", "FW-481")
def test_an_index_that_raises_leaves_out_and_is_reported(
    cache: Cache, part: Part[Resource], index: Index[Resource]
) -> None:
    live = CacheView(cache)
    live.select(index, RED)
    replay = ReplayView(record_of(live, cache), past_of(cache, part))
    assert names(replay.select(Index(part, index.name, raising), RED).items) == ["a", "c"]
    (reported,) = replay.raised
    assert reported.startswith("widgets[label:colour] raises for ns/b:\nTraceback")
    assert reported.rstrip().endswith("LookupError: planted")


@pytest.mark.spec("FW-481", "FW-494")
@pytest.mark.parametrize("held", [4, None])
def test_an_object_that_cannot_be_reported_may_be_what_another_index_finds(
    cache: Cache, part: Part[Resource], index: Index[Resource], held: int | None
) -> None:
    live = CacheView(cache)
    live.select(index, RED)
    lost = logged(entry_of(part, widget("d", "u4", 12), 12), previous=4)
    replay = ReplayView(holding(record_of(live, cache), held), past_of(cache, part, lost))
    assert names(replay.select(index, RED).items) == ["a", "b"]
    assert replay.holes == ["widgets/ns/d: older versions are no longer kept"]


@pytest.mark.spec("FW-482", "FW-494")
def test_where_all_others_are_reported_an_object_that_cannot_be_reported_was_not_there(
    cache: Cache, part: Part[Resource], index: Index[Resource]
) -> None:
    live = CacheView(cache)
    live.select(index, RED)
    lost = logged(entry_of(part, widget("d", "u4", 12), 12), previous=4)
    replay = ReplayView(record_of(live, cache), past_of(cache, part, lost))
    assert names(replay.select(index, RED).items) == ["a", "b"]
    assert replay.get(part, "ns", "d").value is None
    assert replay.holes == []


def holding(record: DecisionRecord, objects: int | None) -> DecisionRecord:
    """The record of a cache that held as many widgets; ``None`` = it does not tell."""
    held = {} if objects is None else {"widgets": objects}
    return record.model_copy(update={"world": record.world.model_copy(update={"objects": held})})


@pytest.mark.spec("FW-481")
def test_what_was_read_needs_no_history_of_its_moment(cache: Cache, part: Part[Resource]) -> None:
    # All objects were read, so that nothing else can be found: a new epoch before the position hides none of them.
    live = CacheView(cache)
    live.all(part)
    record = record_of(live, cache)
    past = past_of(cache, part)
    epochs = {**record.world.epochs, "widgets": "e2"}
    record = record.model_copy(update={"world": record.world.model_copy(update={"epochs": epochs})})
    replay = ReplayView(record, past)
    assert names(replay.select(colour_index(part), RED).items) == ["a", "b"]
    assert replay.holes == []


def crowd(part: Part[Resource], index: Index[Resource]) -> Cache:
    """So many objects that a look-up is recorded by digest."""
    cache = Cache([part], [index])
    for number in range(5 * LISTED):
        colour = "red" if number % 2 else "blue"
        cache.put(entry_of(part, widget(f"w{number}", f"u{number}", number + 1, labels={"colour": colour}), number), 0)
    cache.mark(part, synced=True, fresh=True)
    cache.reached(part, 5 * LISTED)
    return cache


@pytest.mark.spec("FW-441", "FW-481", "FW-482")
def test_an_index_that_raises_among_many_leaves_a_doubt(part: Part[Resource], index: Index[Resource]) -> None:
    def raising(obj: Resource) -> Iterable[str]:
        if obj.name == "w7":
            raise LookupError("planted")
        return index.values(obj)

    cache = crowd(part, index)
    live = CacheView(cache)
    live.select(index, RED)
    replay = ReplayView(record_of(live, cache), past_of(cache, part))
    replay.select(Index(part, index.name, raising), RED)
    replay.verify()
    assert (replay.holes, replay.raised) == ([], [])
    assert replay.otherwise == ["widgets[label:colour]: not what was found then"]
    assert replay.uncertain == ["widgets[label:colour] raises for ns/w7, then perhaps as well: LookupError: planted"]


@pytest.mark.spec("FW-440", "FW-481")
def test_an_index_that_raised_then_as_well_finds_the_same(part: Part[Resource], index: Index[Resource]) -> None:
    def raising(obj: Resource) -> Iterable[str]:
        if obj.name == "w7":
            raise LookupError("planted")
        return index.values(obj)

    same = Index(part, index.name, raising)
    cache = crowd(part, same)
    live = CacheView(cache)
    live.select(same, RED)
    replay = ReplayView(record_of(live, cache), past_of(cache, part))
    replay.select(same, RED)
    replay.verify()
    assert (replay.holes, replay.otherwise, replay.raised, replay.uncertain) == ([], [], [], [])


@pytest.mark.spec("FW-440", "FW-481", "FW-482")
def test_much_that_another_index_finds_is_no_hole(part: Part[Resource], index: Index[Resource]) -> None:
    cache = crowd(part, index)
    live = CacheView(cache)
    live.select(index, RED)
    record = record_of(live, cache)
    assert record.reads.indexes == ()
    replay = ReplayView(record, past_of(cache, part))
    assert len(replay.select(Index(part, index.name, lambda _: [RED]), RED).items) == 5 * LISTED
    replay.verify()
    assert (replay.holes, replay.otherwise) == ([], ["widgets[label:colour]: not what was found then"])


@pytest.mark.spec("FW-455", "FW-481")
def test_a_summary_is_folded_again(cache: Cache, part: Part[Resource], summary: Summary[Resource, Paint]) -> None:
    live = CacheView(cache)
    answer = live.summary(summary, "all")
    record, past = record_of(live, cache), past_of(cache, part)
    replay = ReplayView(record, past)
    assert replay.summary(summary, "all") == answer
    assert replay.otherwise == []
    replay = ReplayView(record, past)
    changed = Summary(part, summary.name, Paint, dark_paints)
    assert [one.colour for one in replay.summary(changed, "all").items] == ["dark blue", "dark red"]
    assert len(replay.otherwise) == 1


@pytest.mark.spec("FW-455", "FW-481")
def test_a_fold_that_raises_is_reported(cache: Cache, part: Part[Resource], summary: Summary[Resource, Paint]) -> None:
    live = CacheView(cache)
    live.summary(summary, "all")
    replay = ReplayView(record_of(live, cache), past_of(cache, part))
    raising = Summary(part, summary.name, Paint, lambda obj: [("all", Paint(colour=obj.metadata.labels["none"]))])
    assert replay.summary(raising, "all").items == ()
    # A fold that raised for one of them then as well left the same record.
    assert (len(replay.otherwise), replay.raised) == (1, [])
    assert replay.uncertain == ["widgets<paints> raises for ns/a and 2 more, then perhaps as well: KeyError: 'none'"]


@pytest.mark.spec("FW-441", "FW-481")
def test_a_fold_that_raised_then_as_well_makes_no_difference(part: Part[Resource]) -> None:
    def fold(what: Callable[[Resource], Iterator[tuple[str, Paint]]]) -> Summary[Resource, Paint]:
        def but_b(obj: Resource) -> Iterator[tuple[str, Paint]]:
            if obj.name == "b":
                raise LookupError("planted")
            yield from what(obj)

        return Summary(part, "paints", Paint, but_b)

    same = fold(paints)
    cache = Cache([part], [same])
    for number, name in enumerate("abc", 1):
        cache.put(entry_of(part, widget(name, f"u{number}", number, labels={"colour": name}), number), 0)
    cache.mark(part, synced=True, fresh=True)
    cache.reached(part, 9)
    live = CacheView(cache)
    answer = live.summary(same, "all")
    assert len(answer.items) == 2
    record, past = record_of(live, cache), past_of(cache, part)
    replay = ReplayView(record, past)
    assert replay.summary(same, "all") == answer
    assert (replay.otherwise, replay.raised, replay.uncertain) == ([], [], [])
    replay = ReplayView(record, past)
    replay.summary(fold(dark_paints), "all")
    assert (len(replay.otherwise), replay.raised, len(replay.uncertain)) == (1, [], 1)


@pytest.mark.spec("FW-456", "FW-481")
def test_a_line_is_lined_up_again(cache: Cache, part: Part[Resource], line: WaitQueue[Resource]) -> None:
    live = CacheView(cache)
    assert first(live, line) == ["a", "b"]
    record, past = record_of(live, cache), past_of(cache, part)
    assert first(ReplayView(record, past), line) == ["a", "b"]
    assert first(ReplayView(record, past), WaitQueue(part, line.name, joined_last)) == ["c", "b"]
    assert first(ReplayView(record, past), line, "a") == ["b", "c"], "who counts is asked again as well"


@pytest.mark.spec("FW-441", "FW-456", "FW-481")
def test_a_line_that_raises_is_reported(cache: Cache, part: Part[Resource], line: WaitQueue[Resource]) -> None:
    live = CacheView(cache)
    live.first(line, 2, lambda _: True)
    replay = ReplayView(record_of(live, cache), past_of(cache, part))
    assert first(replay, WaitQueue(part, line.name, bare)) == []
    assert ["has no time zone" in reported for reported in replay.raised] == [True, True]
