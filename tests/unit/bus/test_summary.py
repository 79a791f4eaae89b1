"""What many objects say together: kept by each change, told to who read it, recorded by value."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel, ConfigDict
from support.replayed import logged, past_of
from support.world_objects import entry_of, widget, widgets

from aim_shared.api import Resource
from aim_shared.bus.decision import DecisionRecord
from aim_shared.bus.entry import Change
from aim_shared.bus.part import GroupId, Key, Part
from aim_shared.bus.recorded import recorded_reads, recorded_standing
from aim_shared.bus.summary import Summary
from aim_shared.bus.view import View, WorldView
from aim_shared.bus.world import World
from aim_shared.json import JsonObject
from aim_shared.replay.past import Past
from aim_shared.replay.view import ReplayView


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
def world(part: Part[Resource], paints: Summary[Resource, Paint]) -> World:
    world = World([part], [paints])
    world.mark(part, synced=True, fresh=True)
    return world


def painted(name: str, version: int, colour: str, **more: str) -> JsonObject:
    return widget(name, f"u-{name}", version, labels={"colour": colour, **more})


def groups(changes: list[Change[Resource]]) -> set[str]:
    """Names of the groups that the changes touch."""
    found: set[GroupId] = {group for change in changes for group in change.groups}
    assert all(group[:2] == ("widgets", "paints") for group in found)
    return {name for _, _, name in found}


@pytest.mark.spec("FW-453")
def test_a_group_changes_with_the_first_and_the_last_who_say_something(
    world: World, part: Part[Resource], paints: Summary[Resource, Paint]
) -> None:
    assert groups(world.put(entry_of(part, painted("a", 1, "red"), 1), 0)) == {"all", "only/red"}
    assert groups(world.put(entry_of(part, painted("b", 2, "red"), 2), 0)) == set(), "it was said before"
    assert groups(world.put(entry_of(part, painted("b", 3, "blue"), 3), 0)) == {"all", "only/blue"}
    assert groups(world.put(entry_of(part, painted("a", 4, "red", matt=""), 4), 0)) == {"all"}
    assert world.summary(paints, "all") == (Paint(colour="blue"), Paint(colour="red", matt=True))
    assert world.summary(paints, "only/red") == (Paint(colour="red"),)
    assert groups(world.absorb_deleted(part, Key("ns", "a"), "u-a", 0)) == {"all", "only/red"}
    assert world.summary(paints, "only/red") == ()


@pytest.mark.spec("FW-453")
def test_a_snapshot_that_brings_several_of_a_new_kind_tells_of_it(world: World, part: Part[Resource]) -> None:
    entries = [entry_of(part, painted(name, 5, "red"), number) for number, name in enumerate("abc", 1)]
    assert groups(world.replace(part, {entry.key: entry for entry in entries}, 0)) == {"all", "only/red"}
    assert groups(world.replace(part, {}, 0)) == {"all", "only/red"}


@pytest.mark.spec("FW-453")
def test_one_that_can_not_be_decoded_says_nothing(
    world: World, part: Part[Resource], paints: Summary[Resource, Paint]
) -> None:
    world.put(entry_of(part, painted("a", 1, "red"), 1), 0)
    broken = painted("a", 2, "red")
    broken["metadata"]["labels"] = "red"
    assert groups(world.put(entry_of(part, broken, 2), 0)) == {"all", "only/red"}
    assert world.summary(paints, "all") == ()


@pytest.mark.spec("FW-453", "FW-019")
def test_what_a_stale_summary_lacks_is_not_known(
    world: World, part: Part[Resource], paints: Summary[Resource, Paint]
) -> None:
    world.put(entry_of(part, painted("a", 1, "red"), 1), 0)
    assert WorldView(world).summary(paints, "only/blue").error is None
    world.mark(part, fresh=False)
    view = WorldView(world)
    assert view.summary(paints, "only/red").items == (Paint(colour="red"),)
    assert view.summary(paints, "only/red").error is None
    unknown = view.summary(paints, "only/blue")
    assert unknown.error is not None
    assert unknown.error.reason == "ViewStale"
    assert view.reads.stale_parts == view.reads.parts == {"widgets"}


def record_of(view: WorldView) -> DecisionRecord:
    record = DecisionRecord(
        id="d1",
        service="tester",
        controller="widget",
        part="widgets",
        name="a",
        at=datetime(2026, 1, 1, tzinfo=UTC),
        reads=recorded_reads(view.reads),
    )
    return DecisionRecord.from_json(record.to_json())


def look(view: View, paints: Summary[Resource, Paint]) -> list[object]:
    return [view.summary(paints, group) for group in ("all", "only/red", "only/blue")]


@pytest.mark.spec("FW-455")
@pytest.mark.parametrize("fresh", [True, False])
def test_the_record_alone_answers_again(
    world: World, part: Part[Resource], paints: Summary[Resource, Paint], *, fresh: bool
) -> None:
    for number in range(200):
        world.put(entry_of(part, painted(f"w{number}", 1, "red", **({"matt": ""} if number % 2 else {})), number), 0)
    world.mark(part, fresh=fresh)
    live = WorldView(world)
    answers = look(live, paints)
    record = record_of(live)
    assert [(read.group, len(read.items)) for read in record.reads.summaries] == [
        ("all", 2),
        ("only/red", 1),
        ("only/blue", 0),
    ]
    assert record.reads.objects == ()
    assert len(record.to_json()) < 1000, "however many objects say it"
    replay = ReplayView(record, Past())
    assert look(replay, paints) == answers
    assert (replay.beyond, replay.holes) == ([], [])


@pytest.mark.spec("FW-455")
def test_a_group_that_was_not_read_then_is_summed_up_as_of_that_moment(
    world: World, part: Part[Resource], paints: Summary[Resource, Paint]
) -> None:
    world.put(entry_of(part, painted("a", 1, "red", matt=""), 1), 0)
    world.reached(part, 1)
    live = WorldView(world)
    record = record_of(live).model_copy(update={"world": recorded_standing(world.standing())})
    later = logged(entry_of(part, painted("b", 1, "blue"), 2))
    replay = ReplayView(record, past_of(world, part, later))
    assert replay.summary(paints, "all") == live.summary(paints, "all")
    assert (replay.beyond, replay.holes) == (["widgets<paints>=all"], [])
