"""Decisions of a live cache are taken again from the log of a real broker."""

from datetime import datetime
from typing import Any

import pytest
from support.replay_log import (
    COLOUR,
    PART,
    Log,
    by_name,
    change_everything,
    first_of,
    first_red,
    last_red,
    raises,
    verdicts,
)

from controller_runtime import Index, JsonObject, Plan, Resource, View, scoped
from controller_runtime.log.history.reader import DecisionFilter, History
from controller_runtime.replay import Verdict


@pytest.mark.spec("FW-437", "FW-438")
async def test_the_same_code_decides_the_same_whatever_came_later(log: Log) -> None:
    await log.decide("a", by_name)
    await log.decide("c", first_red)
    await change_everything(log)
    assert verdicts(await log.replay(by_name)) == [Verdict.SAME, Verdict.DIFFERENT]
    assert verdicts(await log.replay(first_red)) == [Verdict.DIFFERENT, Verdict.SAME]


@pytest.mark.spec("FW-438")
async def test_another_choice_is_different_although_it_asks_beyond_the_record(log: Log) -> None:
    await log.decide("c", first_red)
    await change_everything(log)
    (one,) = await log.replay(last_red)
    assert (one.verdict, one.missing) == (Verdict.DIFFERENT, ())
    assert one.differences == ('status.colour: then null, now "red"', 'status.first: then "a", now "b"')


@pytest.mark.spec("FW-437", "FW-481")
async def test_another_index_is_a_difference_when_it_leads_to_another_plan(log: Log) -> None:
    await log.decide("c", first_red)
    await change_everything(log)

    def but_a(obj: Resource) -> list[str]:
        return [] if obj.name == "a" else list(COLOUR.values(obj))

    (one,) = await log.replay(first_of(Index(PART, COLOUR.name, but_a)))
    assert (one.verdict, one.differences) == (Verdict.DIFFERENT, ('status.first: then "a", now "b"',))
    assert one.otherwise == ("widgets[label:colour]=ns/red: then ns/a, ns/b, now ns/b",)

    def and_c(obj: Resource) -> list[str]:
        return [scoped("ns", "red")]

    (one,) = await log.replay(first_of(Index(PART, COLOUR.name, and_c)))
    assert (one.verdict, len(one.otherwise)) == (Verdict.SAME, 1)


@pytest.mark.spec("FW-441", "FW-481")
async def test_an_index_that_raises_is_a_difference_with_its_traceback(log: Log) -> None:
    await log.decide("c", first_red)
    await log.decide("c", by_name)

    def raising(obj: Resource) -> list[str]:
        if obj.name == "b":
            raise LookupError("planted")
        return list(COLOUR.values(obj))

    one, other = await log.replay(first_of(Index(PART, COLOUR.name, raising)))
    assert (one.verdict, one.differences[-1]) == (Verdict.DIFFERENT, "LookupError: planted")
    assert one.differences[0] == "widgets[label:colour] raises for ns/b:"
    assert other.verdict is Verdict.DIFFERENT, "and the replay went on"


@pytest.mark.spec("FW-438")
async def test_questions_that_nobody_asked_then_change_nothing_by_themselves(log: Log) -> None:
    await log.decide("c", first_red)
    await change_everything(log)

    def curious(obj: Resource, view: View, now: datetime) -> Plan:
        assert [one.name for one in view.all(PART).items] == ["a", "b", "c"]
        assert view.get(PART, "ns", "d").value is None
        return first_red(obj, view, now)

    (one,) = await log.replay(curious)
    assert (one.verdict, one.beyond) == (Verdict.SAME, ("widgets/*", "widgets/ns/d"))


@pytest.mark.spec("FW-437")
async def test_a_log_that_has_grown_is_read_again(log: Log) -> None:
    await log.decide("c", first_red)
    replayer = log.replayer(first_red)
    assert verdicts([one async for one in replayer.decisions()]) == [Verdict.SAME]
    await change_everything(log)
    await log.source.upsert("e", labels={"colour": "red"})
    await log.caught_up()
    await log.decide("c", first_red)
    assert [(one.verdict, one.missing) async for one in replayer.decisions()] == [(Verdict.SAME, ())] * 2


@pytest.mark.spec("FW-441", "FW-481")
async def test_a_fold_of_many_that_raises_is_neither_the_same_nor_hides_a_difference(log: Log) -> None:
    for number in range(150):
        await log.source.upsert(f"w{number}", labels={"colour": "red"})
    await log.caught_up()
    await log.decide("c", first_red)

    def raising_for(name: str) -> Index[Resource]:
        def values(obj: Resource) -> list[str]:
            if obj.name == name:
                raise LookupError("planted")
            return list(COLOUR.values(obj))

        return Index(PART, COLOUR.name, values)

    (one,) = await log.replay(first_of(raising_for("w7")))
    assert (one.verdict, len(one.missing)) == (Verdict.UNKNOWN, 1)
    assert one.missing[0].endswith("LookupError: planted")
    (one,) = await log.replay(first_of(raising_for("a")))
    assert (one.verdict, one.missing) == (Verdict.DIFFERENT, ())
    assert one.otherwise[-1].endswith("LookupError: planted")


@pytest.mark.spec("FW-441")
async def test_an_exception_is_a_difference_with_its_traceback(log: Log) -> None:
    await log.decide("a", by_name)
    await log.decide("c", raises)
    first, second = await log.replay(raises)
    assert (first.verdict, second.verdict) == (Verdict.DIFFERENT, Verdict.SAME)
    assert first.differences[0] == "then done, now an exception:"
    assert "in raises" in "\n".join(first.differences)
    assert first.differences[-1] == "RuntimeError: no such thing as a"
    healed = (await log.replay(by_name))[1]
    assert healed.differences == ("then exception: RuntimeError: no such thing as c, now a plan",)


@pytest.mark.spec("FW-440", "FW-442")
async def test_a_pass_over_hundreds_is_short_in_the_log_and_read_at_once(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(500):
        await log.source.upsert(f"w{number}", labels={"colour": "red"})
    await log.caught_up()
    for _ in range(20):
        await log.decide("c", first_red)
    await change_everything(log)
    (first, *_) = await History(log.bus, log.layout).decisions()
    assert len(first.record.to_json()) < 4_000

    made, ask = 0, log.bus.api

    async def counting(subject: str, *arguments: Any) -> JsonObject:
        nonlocal made
        made += subject.startswith("CONSUMER.CREATE.")
        return await ask(subject, *arguments)

    monkeypatch.setattr(log.bus, "api", counting)
    assert verdicts(await log.replay(first_red)) == [Verdict.SAME] * 20
    # The decisions, the objects they name, and the part: each in two streams.
    assert made <= 6
    assert verdicts(await log.replay(last_red)) == [Verdict.DIFFERENT] * 20


@pytest.mark.parametrize("wanted", [DecisionFilter(name="a"), DecisionFilter(name="c")])
async def test_only_what_is_wanted_is_replayed(log: Log, wanted: DecisionFilter) -> None:
    await log.decide("a", by_name)
    await log.decide("c", by_name)
    (one,) = await log.replay(by_name, wanted)
    assert one.stored.record.name == wanted.name
