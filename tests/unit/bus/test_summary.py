"""What many objects say together: kept by each change, told to who read it, recorded by value."""

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict
from support.cache_objects import entry_of, widget, widgets

from controller_runtime import Cache, Change, JsonObject, Key, Part, Resource, Summary
from controller_runtime.log.cache.view import CacheView
from controller_runtime.log.history.decisions import recorded_reads
from controller_runtime.log.wire.part import GroupId


class Paint(BaseModel):
    """What a widget looks like."""

    model_config = ConfigDict(frozen=True)

    colour: str
    matt: bool = False


def contributions(obj: Resource) -> Iterator[tuple[str, Paint]]:
    colour, matt = obj.metadata.labels.get("colour"), "matt" in obj.metadata.labels
    if colour:
        yield "all", Paint(colour=colour, matt=matt)
        yield f"only/{colour}", Paint(colour=colour)


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


@pytest.fixture
def paints(part: Part[Resource]) -> Summary[Resource, Paint]:
    return Summary(part, "paints", Paint, contributions)


@pytest.fixture
def cache(part: Part[Resource], paints: Summary[Resource, Paint]) -> Cache:
    cache = Cache([part], [paints])
    cache.mark(part, synced=True, fresh=True)
    return cache


def painted(name: str, version: int, colour: str, **more: str) -> JsonObject:
    return widget(name, f"u-{name}", version, labels={"colour": colour, **more})


def groups(changes: list[Change[Resource]]) -> set[str]:
    """Names of the groups that the changes touch."""
    found: set[GroupId] = {group for change in changes for group in change.groups}
    assert all(group[:2] == ("widgets", "paints") for group in found)
    return {name for _, _, name in found}


@pytest.mark.spec("FW-453")
def test_a_group_changes_with_the_first_and_the_last_who_say_something(
    cache: Cache, part: Part[Resource], paints: Summary[Resource, Paint]
) -> None:
    assert groups(cache.put(entry_of(part, painted("a", 1, "red"), 1), 0)) == {"all", "only/red"}
    assert groups(cache.put(entry_of(part, painted("b", 2, "red"), 2), 0)) == set(), "it was said before"
    assert groups(cache.put(entry_of(part, painted("b", 3, "blue"), 3), 0)) == {"all", "only/blue"}
    assert groups(cache.put(entry_of(part, painted("a", 4, "red", matt=""), 4), 0)) == {"all"}
    assert cache.summary(paints, "all") == (Paint(colour="blue"), Paint(colour="red", matt=True))
    assert cache.summary(paints, "only/red") == (Paint(colour="red"),)
    assert groups(cache.absorb_deleted(part, Key("ns", "a"), "u-a", 0)) == {"all", "only/red"}
    assert cache.summary(paints, "only/red") == ()


@pytest.mark.spec("FW-453")
def test_a_snapshot_that_brings_several_of_a_new_kind_tells_of_it(cache: Cache, part: Part[Resource]) -> None:
    entries = [entry_of(part, painted(name, 5, "red"), number) for number, name in enumerate("abc", 1)]
    assert groups(cache.replace(part, {entry.key: entry for entry in entries}, 0)) == {"all", "only/red"}
    assert groups(cache.replace(part, {}, 0)) == {"all", "only/red"}


@pytest.mark.spec("FW-453")
def test_one_that_can_not_be_decoded_says_nothing(
    cache: Cache, part: Part[Resource], paints: Summary[Resource, Paint]
) -> None:
    cache.put(entry_of(part, painted("a", 1, "red"), 1), 0)
    broken = painted("a", 2, "red")
    broken["metadata"]["labels"] = "red"
    assert groups(cache.put(entry_of(part, broken, 2), 0)) == {"all", "only/red"}
    assert cache.summary(paints, "all") == ()


@pytest.mark.spec("FW-453", "FW-019")
def test_what_a_stale_summary_lacks_is_not_known(
    cache: Cache, part: Part[Resource], paints: Summary[Resource, Paint]
) -> None:
    cache.put(entry_of(part, painted("a", 1, "red"), 1), 0)
    assert CacheView(cache).summary(paints, "only/blue").error is None
    cache.mark(part, fresh=False)
    view = CacheView(cache)
    assert view.summary(paints, "only/red").items == (Paint(colour="red"),)
    assert view.summary(paints, "only/red").error is None
    unknown = view.summary(paints, "only/blue")
    assert unknown.error is not None
    assert unknown.error.reason == "ViewStale"
    assert view.reads.stale_parts == view.reads.parts == {"widgets"}


@pytest.mark.spec("FW-455")
def test_the_record_holds_what_was_said_however_many_say_it(
    cache: Cache, part: Part[Resource], paints: Summary[Resource, Paint]
) -> None:
    for number in range(200):
        cache.put(entry_of(part, painted(f"w{number}", 1, "red", **({"matt": ""} if number % 2 else {})), number), 0)
    view = CacheView(cache)
    for group in ("all", "only/red", "only/blue"):
        view.summary(paints, group)
    reads = recorded_reads(view.reads)
    assert [(read.group, read.items) for read in reads.summaries] == [
        ("all", ({"colour": "red"}, {"colour": "red", "matt": True})),
        ("only/red", ({"colour": "red"},)),
        ("only/blue", ()),
    ]
    assert reads.objects == ()


def last_colour(paints: Iterable[Paint]) -> list[Paint]:
    """The colour that comes last in the alphabet, and whatever is matt."""
    some = list(paints)
    last = max(some, key=lambda one: (one.colour, one.matt), default=None)
    return [one for one in some if one.matt or one == last]


@pytest.mark.spec("FW-453")
def test_what_a_summary_does_not_show_wakes_nobody_and_is_not_recorded(part: Part[Resource]) -> None:
    latest = Summary(part, "paints", Paint, contributions, last_colour)
    cache = Cache([part], [latest])
    cache.mark(part, synced=True, fresh=True)
    for number in range(100):
        cache.put(entry_of(part, painted(f"w{number}", 1, f"c{number:03}"), number), 0)
    assert cache.summary(latest, "all") == (Paint(colour="c099"),)
    assert groups(cache.put(entry_of(part, painted("old", 1, "a"), 101), 0)) == {"only/a"}
    assert groups(cache.absorb_deleted(part, Key("ns", "old"), "u-old", 0)) == {"only/a"}
    assert "all" in groups(cache.put(entry_of(part, painted("new", 1, "d"), 102), 0))
    view = CacheView(cache)
    assert view.summary(latest, "all").items == (Paint(colour="d"),)
    assert [read.items for read in recorded_reads(view.reads).summaries] == [({"colour": "d"},)]
    assert "all" in groups(cache.absorb_deleted(part, Key("ns", "new"), "u-new", 0))
    assert cache.summary(latest, "all") == (Paint(colour="c099"),)


@pytest.mark.spec("FW-453")
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["", "a", "b", "c", "d"]), st.booleans(), st.booleans()),
        max_size=40,
    )
)
def test_whatever_happens_a_summary_shows_the_same_as_one_made_anew_and_tells_of_each_change(
    steps: list[tuple[int, str, bool, bool]],
) -> None:
    part = widgets()
    latest = Summary(part, "paints", Paint, contributions, last_colour)
    cache = Cache([part], [latest])
    present: dict[str, Paint] = {}
    names = dict[int, str]()
    read: tuple[Paint, ...] = ()
    reported = False
    for version, (number, colour, matt, reads) in enumerate(steps, 1):
        if colour:
            name = names.setdefault(number, f"w{number}-{version}")
            body = painted(name, version, colour, **({"matt": ""} if matt else {}))
            reported |= "all" in groups(cache.put(entry_of(part, body, version), 0))
            present[name] = Paint(colour=colour, matt=matt)
        elif number in names:
            name = names.pop(number)
            reported |= "all" in groups(cache.absorb_deleted(part, Key("ns", name), f"u-{name}", 0))
            del present[name]
        if reads:
            shown = cache.summary(latest, "all")
            assert set(shown) == set(last_colour(set(present.values())))
            assert reported or shown == read, "a reader of the former value is enqueued"
            read, reported = shown, False
