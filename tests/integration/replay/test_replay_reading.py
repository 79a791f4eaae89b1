"""How much of a long log a replay reads."""

from collections.abc import AsyncIterator, Iterable
from datetime import timedelta

import pytest
from support.replay_log import COLOUR, PART, Log, by_name, first_of, first_red, verdicts

from controller_runtime import Index, Key, Resource, scoped
from controller_runtime.log.broker.reading import delete_message, next_message
from controller_runtime.log.history.reader import History
from controller_runtime.log.history.versions import LoggedVersion
from controller_runtime.replay import Verdict
from controller_runtime.replay import replayer as reading


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read no more around decisions than their clocks tell, so that a test's history goes beyond it."""
    monkeypatch.setattr(reading, "_LOOK_BACK", timedelta())
    monkeypatch.setattr(reading, "_LOG_LAG", timedelta())


async def many_versions(log: Log, rounds: int) -> None:
    for _ in range(rounds):
        for number in range(40):
            await log.source.upsert(f"w{number}", labels={"colour": "blue"})
    await log.caught_up()


def but(name: str) -> Index[Resource]:
    """An index that leaves one out."""
    return Index(PART, COLOUR.name, lambda obj: [] if obj.name == name else list(COLOUR.values(obj)))


def with_blue(name: str) -> Index[Resource]:
    """An index that finds one more among the red, though nobody names it."""
    return Index(PART, COLOUR.name, lambda obj: [scoped("ns", "red")] if obj.name == name else list(COLOUR.values(obj)))


@pytest.mark.spec("FW-481", "FW-494")
@pytest.mark.usefixtures("narrow")
async def test_of_a_long_history_as_much_is_read_as_there_were_objects(log: Log) -> None:
    await log.source.upsert("0", labels={"colour": "blue"})
    await many_versions(log, 30)
    await log.decide("c", first_red)
    await many_versions(log, 50)
    # Gone without a trace in the present.
    await log.source.delete("0")
    await log.caught_up()
    await log.bus.api(
        f"STREAM.PURGE.{log.layout.state_stream}", {"filter": log.layout.state(PART.name, Key("ns", "0"))}
    )

    before = log.bus._client.stats["in_msgs"]
    assert verdicts(await log.replay(first_red)) == [Verdict.SAME]
    # Of 3,200 versions; some come unasked, because a reader asks for a window of messages at a time.
    assert log.bus._client.stats["in_msgs"] - before < 1_000
    (one,) = await log.replay(first_of(but("a")))
    assert (one.verdict, one.differences) == (Verdict.DIFFERENT, ('status.first: then "a", now "b"',))
    (one,) = await log.replay(first_of(with_blue("0")))
    assert (one.verdict, one.differences) == (Verdict.DIFFERENT, ('status.first: then "a", now "0"',))


@pytest.mark.spec("FW-494")
@pytest.mark.usefixtures("narrow")
async def test_where_all_objects_are_reported_the_history_of_others_is_not_read(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.decide("c", first_red)
    await many_versions(log, 2)
    looked: list[Key] = []

    async def none(_: History, part: str, keys: Iterable[Key], sequence: int) -> list[LoggedVersion]:
        looked.extend(keys)
        return []

    monkeypatch.setattr(History, "next_after", none)
    assert verdicts(await log.replay(first_red)) == [Verdict.SAME]
    assert looked == []


@pytest.mark.spec("FW-438", "FW-494")
@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("lost", [0, 1])
async def test_a_version_that_the_history_lost_is_a_hole_however_little_is_read(log: Log, lost: int) -> None:
    for spec in range(2):
        await log.source.upsert("d", labels={"colour": "blue"}, spec=spec)
    await log.caught_up()
    await log.decide("c", first_red)
    await log.source.upsert("d", labels={"colour": "blue"}, spec=2)
    versions = await History(log.bus, log.layout).versions(PART.name, Key("ns", "d"))
    places = [place async for place in _places_of(log, "d")]
    assert len(places) == len(versions) == 3
    await delete_message(log.bus, log.layout.history_stream, places[lost])
    (one,) = await log.replay(first_red)
    # What came before the version of then, nobody asks for.
    assert one.missing == (() if lost == 0 else ("widgets/ns/d: versions before this one are missing",))
    assert one.verdict is (Verdict.SAME if lost == 0 else Verdict.UNKNOWN)


async def _places_of(log: Log, name: str) -> AsyncIterator[int]:
    """Sequences, in the history, of the versions of an object."""
    place, subject = 1, log.layout.log(PART.name, Key("ns", name))
    while (found := await next_message(log.bus, log.layout.history_stream, subject, place)) is not None:
        yield found.sequence
        place = found.sequence + 1


@pytest.mark.spec("FW-494")
async def test_what_lies_between_decisions_far_apart_is_not_read(log: Log) -> None:
    for _ in range(3):
        await log.decide("c", first_red)
    await many_versions(log, 1)
    await log.decide("c", by_name)
    history = History(log.bus, log.layout)
    decisions = await history.decisions()
    for near, expected in [(39, [3, 1]), (100, [4])]:
        found = await reading.stretches(history, decisions, near)
        assert [len(one) for one in found] == expected
        assert [one for stretch in found for one in stretch] == decisions
    assert await reading.stretches(history, []) == []
