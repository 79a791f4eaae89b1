"""Decisions of a live world are taken again from the log of a real broker."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.bus_source import Source
from support.nats import eventually
from support.versions import version_of
from support.world_feed import Fed, feeding
from support.world_objects import colour_index, widgets

from aim_domain import AimSettings
from controller_runtime import (
    Index,
    JsonObject,
    Key,
    Plan,
    Reconciler,
    Resource,
    ServiceDefinition,
    View,
    dumps,
    loads,
    scoped,
)
from controller_runtime.bus.chain import LoggedVersion, Told, as_of
from controller_runtime.bus.connection import BusConnection
from controller_runtime.bus.decision import DecisionRecord
from controller_runtime.bus.envelope import LogMessage
from controller_runtime.bus.history import DecisionFilter, History
from controller_runtime.bus.outcome import PubAck
from controller_runtime.bus.stored import delete_message, last_message, next_message
from controller_runtime.bus.subjects import Layout
from controller_runtime.bus.view import WorldView
from controller_runtime.manager.settings import effective, load
from controller_runtime.reconcile.decide import Decision, decide
from controller_runtime.reconcile.execution import Execution
from controller_runtime.reconcile.pass_record import Records
from controller_runtime.replay import Replayed, Replayer, ServiceCode, Verdict, past_part, reading

PART = widgets()
COLOUR = colour_index(PART)
EVERY = DecisionFilter()
Reconcile = Callable[[Resource, View, datetime], Plan]


def by_name(obj: Resource, view: View, now: datetime) -> Plan:
    """Reads one other object."""
    other = view.get(PART, "ns", "b").value
    return Plan(status={"other": None if other is None else other.metadata.labels.get("colour")})


def first_red(obj: Resource, view: View, now: datetime) -> Plan:
    """Chooses among many."""
    return Plan(status={"first": min((one.name for one in view.select(COLOUR, scoped("ns", "red")).items), default="")})


def last_red(obj: Resource, view: View, now: datetime) -> Plan:
    """Chooses otherwise, and asks for what it chose."""
    chosen = max((one.name for one in view.select(COLOUR, scoped("ns", "red")).items), default="")
    found = view.get(PART, "ns", chosen).value
    return Plan(status={"first": chosen, "colour": found and found.metadata.labels.get("colour")})


def raises(obj: Resource, view: View, now: datetime) -> Plan:
    raise RuntimeError(f"no such thing as {obj.name}")


@dataclass
class Log:
    """The log of a service that decides by hand."""

    bus: BusConnection
    layout: Layout
    source: Source
    fed: Fed
    settings: JsonObject = field(default_factory=lambda: effective(load(AimSettings, [])))

    async def caught_up(self) -> None:
        await self.source.mark()
        await eventually(lambda: self.fed.equals(self.source, PART), "the world follows")

    async def decide(self, name: str, reconcile: Reconcile, *, digest: str = "d1") -> None:
        """One pass, recorded as the runtime does it."""
        entry = self.fed.world.get(PART, Key("ns", name))
        assert entry is not None
        assert entry.object is not None
        reconciler = Reconciler("widget", PART, reconcile)
        view = WorldView(self.fed.world)
        view.get(PART, "ns", name)
        standing = self.fed.world.standing()
        decision = Decision(reconciler, entry.object, view, datetime.now(UTC), view.reads, standing)
        made: list[DecisionRecord] = []
        records = Records("tester", made.append)
        with suppress(RuntimeError):
            plan = decide(decision, (records,))
            records.carried_out(decision, plan, Execution(started=True))
        await self._publish(self.layout.settings("tester", "d1"), dumps(self.settings))
        told = made[0].model_copy(update={"settings": digest})
        await self._publish(self.layout.decision("tester", PART.name, entry.key), told.to_json())

    async def replay(self, reconcile: Reconcile, wanted: DecisionFilter = EVERY) -> list[Replayed]:
        """Today's code decides again."""
        return [one async for one in self.replayer(reconcile).decisions(wanted)]

    def replayer(self, reconcile: Reconcile) -> Replayer:
        """What takes them again with this code."""
        reconcilers = (Reconciler("widget", PART, reconcile),)
        code = ServiceCode(
            AimSettings, lambda _: ServiceDefinition("tester", (), (PART,), (COLOUR,), reconcilers=reconcilers)
        )
        return Replayer(History(self.bus, self.layout), {"tester": code})

    async def _publish(self, subject: str, body: bytes) -> None:
        assert isinstance(await self.bus.publish(subject, body, {}), PubAck)


@pytest.fixture
async def log(bus: BusConnection, layout: Layout) -> Any:
    source = Source(bus, layout)
    async with feeding(bus, layout, [PART], indexes=[COLOUR]) as fed:
        log = Log(bus, layout, source, fed)
        for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
            await source.upsert(name, labels={"colour": colour})
        await log.caught_up()
        yield log


def verdicts(replayed: Sequence[Replayed]) -> list[Verdict]:
    return [one.verdict for one in replayed]


async def change_everything(log: Log) -> None:
    """What comes later must not matter."""
    for name in "abc":
        await log.source.upsert(name, labels={"colour": "green"})
    await log.source.upsert("d", labels={"colour": "red"})
    await log.source.delete("a")
    await log.caught_up()


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


def first_of(index: Index[Resource]) -> Reconcile:
    """The same choice, among what another index finds."""

    def choose(obj: Resource, view: View, now: datetime) -> Plan:
        found = view.select(index, scoped("ns", "red")).items
        return Plan(status={"first": min((one.name for one in found), default="")})

    return choose


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


@pytest.mark.spec("FW-437", "FW-438")
async def test_what_the_history_lost_is_named(log: Log) -> None:
    await log.decide("c", first_red)
    await change_everything(log)
    await log.bus.api(
        f"STREAM.PURGE.{log.layout.history_stream}", {"filter": log.layout.log(PART.name, Key("ns", "b"))}
    )
    (one,) = await log.replay(first_red)
    assert one.verdict is Verdict.UNKNOWN
    assert one.missing == ("widgets/ns/b: version 102 is not kept",)


@pytest.mark.spec("FW-438")
async def test_a_history_that_begins_after_the_decision_tells_no_absence(log: Log) -> None:
    await log.decide("a", by_name)
    await log.source.delete("c")
    await log.caught_up()
    await log.source.upsert("b", labels={"colour": "blue"})
    await log.bus.api(f"STREAM.PURGE.{log.layout.history_stream}", {"keep": 1})
    (one,) = await log.replay(last_red)
    assert one.verdict is Verdict.UNKNOWN
    # Of what was there and is gone since, as c, no trace may be left.
    assert one.missing[0].startswith("widgets: the history goes back to ")


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


@pytest.mark.spec("FW-439")
async def test_settings_are_those_of_then(log: Log) -> None:
    log.settings = {**log.settings, "resync_interval": 77.0, "no_longer_known": 1}
    await log.decide("a", by_name)

    def definition(settings: AimSettings) -> ServiceDefinition:
        # By default they are another.
        assert settings.resync_interval == 77.0
        return ServiceDefinition("tester", (), (PART,), reconcilers=(Reconciler("widget", PART, by_name),))

    replayer = Replayer(History(log.bus, log.layout), {"tester": ServiceCode(AimSettings, definition)})
    assert [one.verdict async for one in replayer.decisions()] == [Verdict.SAME]


@pytest.mark.spec("FW-439")
@pytest.mark.parametrize(
    ("settings", "digest", "named"),
    [
        ({}, "lost", "the settings lost of tester are not kept"),
        ({"resync_interval": "never"}, "d1", "the settings are not valid today: resync_interval"),
    ],
)
async def test_without_its_settings_a_decision_cannot_be_told(
    log: Log, settings: JsonObject, digest: str, named: str
) -> None:
    log.settings = settings
    await log.decide("a", by_name, digest=digest)
    (one,) = await log.replay(by_name)
    assert one.verdict is Verdict.UNKNOWN
    assert one.missing[0].startswith(named)


async def test_what_has_no_code_today_cannot_be_told(log: Log) -> None:
    await log.decide("a", by_name)
    replayer = Replayer(History(log.bus, log.layout), {})
    (one,) = [one async for one in replayer.decisions()]
    assert (one.verdict, one.missing) == (Verdict.UNKNOWN, ("a service 'tester' today",))


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


@pytest.mark.spec("FW-440")
async def test_a_digest_that_does_not_agree_is_named(log: Log) -> None:
    for number in range(200):
        await log.source.upsert(f"w{number}", labels={"colour": "red"})
    await log.caught_up()
    await log.decide("c", first_red)
    # Nobody of ours takes away every trace of an object.
    key = Key("ns", "w7")
    for stream, subject in (
        (log.layout.history_stream, log.layout.log(PART.name, key)),
        (log.layout.state_stream, log.layout.state(PART.name, key)),
    ):
        await log.bus.api(f"STREAM.PURGE.{stream}", {"filter": subject})
    (one,) = await log.replay(first_red)
    assert (one.verdict, one.missing) == (
        Verdict.UNKNOWN,
        ("widgets: the history tells of 202 objects, the world held 203",),
    )


@pytest.mark.parametrize("wanted", [DecisionFilter(name="a"), DecisionFilter(name="c")])
async def test_only_what_is_wanted_is_replayed(log: Log, wanted: DecisionFilter) -> None:
    await log.decide("a", by_name)
    await log.decide("c", by_name)
    (one,) = await log.replay(by_name, wanted)
    assert one.stored.record.name == wanted.name


@pytest.mark.spec("FW-438", "FW-496")
async def test_a_version_that_nobody_can_read_is_not_blamed_on_the_code_of_today(log: Log) -> None:
    await log.decide("c", by_name)
    for stream in (log.layout.history_stream, log.layout.state_stream):
        await log.bus.api(f"STREAM.PURGE.{stream}", {"filter": f"*.*.{PART.name}.ns.b"})
    key = Key("ns", "b")
    version = version_of(
        PART.name, key, b"garbage", sequence=2, epoch=log.source.epoch, uid="u2", resource_version="102"
    )
    headers = LogMessage(version.state, version.sequence).headers()
    assert isinstance(await log.bus.publish(log.layout.log(PART.name, key), b"garbage", headers), PubAck)
    (one,) = await log.replay(by_name)
    assert one.verdict is Verdict.UNKNOWN
    assert one.missing == ("widgets/ns/b: the version that was there cannot be read (2)",)


@pytest.mark.spec("FW-438", "FW-441")
async def test_a_replay_that_stumbles_itself_neither_blames_the_code_nor_goes_on_from_halfway(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.decide("c", first_red)
    await log.decide("c", first_red)
    looks = [0]

    def stumbling(*args: Any) -> Told:
        looks[0] += 1
        if looks[0] == 2:
            raise RuntimeError("no such place")
        return as_of(*args)

    monkeypatch.setattr(past_part, "as_of", stumbling)
    first, second = await log.replay(first_red)
    assert (first.verdict, first.differences) == (Verdict.UNKNOWN, ())
    assert first.missing == ("looking for widgets in the history raised RuntimeError: no such place",)
    assert (second.verdict, second.missing) == (Verdict.SAME, ())


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
async def test_where_all_objects_are_told_the_history_of_others_is_not_read(
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


@pytest.mark.spec("FW-437", "FW-441")
@pytest.mark.parametrize("change", ["nonsense", "a moment without a time zone"])
async def test_a_record_that_nobody_can_read_is_not_passed_over(log: Log, change: str) -> None:
    await log.decide("a", by_name)
    await log.decide("b", by_name)
    subject = log.layout.decision("tester", PART.name, Key("ns", "b"))
    stored = await last_message(log.bus, log.layout.decisions_stream, subject)
    assert stored is not None
    written = {**loads(stored.data), "at": "2026-11-21T12:00:00"}
    await log._publish(subject, b"{" if change == "nonsense" else dumps(written))
    replayer = log.replayer(by_name)
    assert [one.verdict async for one in replayer.decisions()] == [Verdict.SAME, Verdict.SAME]
    assert replayer.unreadable == 1


@pytest.mark.spec("FW-437", "FW-441")
async def test_with_settings_that_are_nonsense_nothing_can_be_told(log: Log) -> None:
    await log.decide("a", by_name)
    await log._publish(log.layout.settings("tester", "d1"), b"{")
    (told,) = await log.replay(by_name)
    assert told.verdict is Verdict.UNKNOWN
    assert "are no JSON" in told.missing[0]
