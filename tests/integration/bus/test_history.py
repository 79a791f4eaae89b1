"""What the history can tell of objects and decisions, and what it says where it cannot."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from support.bus_source import TRACE, Source
from support.epochs import E1, E2

from controller_runtime import Key
from controller_runtime.log.broker import reading as last_before
from controller_runtime.log.broker.connection import BusConnection, PubAck
from controller_runtime.log.broker.reading import DeliveryLostError, delete_message, last_message, stream_state
from controller_runtime.log.history.decisions import DecisionRecord, RecordedReads
from controller_runtime.log.history.reader import DecisionFilter, History, Span
from controller_runtime.log.history.versions import Hole, Knowledge
from controller_runtime.log.wire.messages import LogMessage, Verb, decode_state
from controller_runtime.log.wire.subjects import Layout
from controller_runtime.log.wire.version import Version

A = Key("ns", "a")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def source(bus: BusConnection, layout: Layout) -> Source:
    return Source(bus, layout)


@pytest.fixture
def history(bus: BusConnection, layout: Layout) -> History:
    return History(bus, layout)


async def record(
    bus: BusConnection,
    layout: Layout,
    identity: str,
    *,
    service: str = "s1",
    name: str = "a",
    minute: int = 0,
    reads: RecordedReads | None = None,
) -> DecisionRecord:
    decision = DecisionRecord(
        id=identity,
        service=service,
        controller="c",
        part="widgets",
        namespace="ns",
        name=name,
        at=NOON + timedelta(minutes=minute),
        reads=reads or RecordedReads(),
    )
    subject = layout.decision(service, "widgets", Key("ns", name))
    outcome = await bus.publish(subject, decision.to_json(), {"Nats-Msg-Id": identity})
    assert isinstance(outcome, PubAck)
    return decision


async def test_versions_of_an_object(history: History, source: Source) -> None:
    first = await source.upsert("a", spec=1)
    await source.upsert("other")
    second = await source.upsert("a", spec=2)
    third = await source.delete("a")
    versions = await history.versions("widgets", A)
    assert [(v.sequence, v.state.previous, v.state.verb, v.hole) for v in versions] == [
        (first, 0, Verb.UPSERT, None),
        (second, first, Verb.UPSERT, None),
        (third, second, Verb.DELETE, None),
    ]
    body = versions[1].state.json()
    assert body is not None
    assert body["spec"] == 2
    assert (versions[0].state.uid, versions[0].state.epoch, versions[0].state.traceparent) == ("widgets-1", E1, TRACE)
    assert (await history.versions("widgets", Key("ns", "never"))) == ()


async def test_the_version_that_only_the_state_holds_is_included(history: History, source: Source) -> None:
    await source.upsert("a", spec=1)
    source.history = False
    await source.upsert("a", spec=2)
    versions = await history.versions("widgets", A)
    assert [(v.pending, v.hole) for v in versions] == [(False, None), (True, None)]


async def test_a_broken_chain_is_a_hole(history: History, source: Source) -> None:
    await source.upsert("a", spec=1)
    source.history = False
    await source.upsert("a", spec=2)
    source.history = True
    await source.upsert("a", spec=3)
    versions = await history.versions("widgets", A)
    assert [v.hole for v in versions] == [None, Hole.GAP]


async def test_exactly_the_version_that_was_read(
    bus: BusConnection, layout: Layout, history: History, source: Source
) -> None:
    first = await source.upsert("a", spec=1)
    rv = source.truth[A]["metadata"]["resourceVersion"]
    second = await source.upsert("a", spec=2)
    for wanted, spec in [
        (Version("widgets-1", rv, first, E1), 1),
        (Version("widgets-1", rv, None, E1), 1),
        (Version("widgets-1", source.resource_version, second, E1), 2),
    ]:
        found = await history.fetch("widgets", A, wanted)
        assert found is not None
        assert (found.state.json() or {})["spec"] == spec
    assert await history.fetch("widgets", A, Version("widgets-1", rv, first, E2)) is None
    assert await history.fetch("widgets", A, Version("widgets-1", "1", None, E1)) is None


@pytest.mark.spec("FW-442")
async def test_all_that_is_kept_of_some_objects(
    bus: BusConnection, layout: Layout, history: History, source: Source
) -> None:
    first = await source.upsert("a", spec=1)
    second = await source.upsert("a", spec=2)
    lost = await source.upsert("b", spec=1)
    kept = await source.upsert("b", spec=2)
    # The history's first message of b: positions there count messages of both streams' publishes.
    await delete_message(bus, layout.history_stream, 3)
    b, never = Key("ns", "b"), Key("ns", "never")
    found = await history.chains([("widgets", A), ("widgets", b), ("widgets", never)])
    assert {
        where.name: [(one.sequence, one.hole) for one in chain.versions] for (_, where), chain in found.items()
    } == {"a": [(first, None), (second, None)], "b": [(kept, Hole.BEGINNING)], "never": []}
    present = found["widgets", b].present
    assert present is not None
    assert (present.sequence, present.state.previous) == (kept, lost)
    assert await history.present([("widgets", "")]) == {("widgets", ""): {A: found["widgets", A].present, b: present}}


async def broker_now(bus: BusConnection, layout: Layout) -> datetime:
    """A moment between what was stored and what will be."""
    begun = (await stream_state(bus, layout.history_stream)).now
    while (now := (await stream_state(bus, layout.history_stream)).now) <= begun + timedelta(milliseconds=2):
        pass
    return now - timedelta(milliseconds=1)


@pytest.mark.spec("FW-494")
async def test_a_section_of_the_history(bus: BusConnection, layout: Layout, history: History, source: Source) -> None:
    names = [f"w{number}" for number in range(300)]
    first = [await source.upsert(name, spec=1) for name in names]
    since = await broker_now(bus, layout)
    within = await source.upsert("w0", spec=2)
    new = await source.upsert("new")
    until = await broker_now(bus, layout)
    behind = [await source.upsert(name, spec=3) for name in names[:3]]

    keys = [Key("ns", name) for name in names]
    before = await history.last_before("widgets", [*keys, Key("ns", "new")], since)
    assert {key: one and one.sequence for key, one in before.items()} == dict(zip(keys, first, strict=True))
    for number, expected in enumerate([behind[:0], behind[:1], behind[:2], behind, behind]):
        logged = await history.during(("widgets", ""), Span(since, until), number)
        assert [one.sequence for one in logged.within] == [within, new]
        assert [one.sequence for one in logged.behind] == expected
        left = set(behind) - set(expected)
        assert (logged.next is None) == (not left)
        nexts = await history.next_after("widgets", keys, logged.next or 2 * 300)
        assert {one.sequence for one in nexts} == left
    assert await history.keys(("widgets", "")) == {*keys, Key("ns", "new")}
    assert await history.keys(("others", "")) == set()
    places = [await history.sequence_at(moment) for moment in (NOON, since, until, await broker_now(bus, layout))]
    assert places == [1, 301, 303, 306]


@pytest.mark.spec("FW-494")
async def test_what_cannot_be_read_is_no_end_of_a_section(
    bus: BusConnection, layout: Layout, history: History, source: Source
) -> None:
    begun = await history.sequence_at(datetime.now(UTC))
    assert isinstance(await bus.publish(layout.log("widgets", A), b"garbage", {}), PubAck)
    assert await history.last_before("widgets", [A], await broker_now(bus, layout)) == {A: None}
    following = await source.upsert("a")
    assert [one.sequence for one in await history.next_after("widgets", [A], begun)] == [following]


@pytest.mark.spec("FW-494")
async def test_the_last_messages_before_a_time_come_in_as_many_answers_as_it_takes(
    bus: BusConnection, layout: Layout, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    subjects = {layout.log("widgets", Key("ns", f"w{number}")) for number in range(20)}
    for number in range(20):
        await source.upsert(f"w{number}", spec="x" * 1000)
    monkeypatch.setattr(last_before, "_BYTES_AT_ONCE", 4000)
    asked, send = [], bus.send

    async def counting(subject: str, payload: bytes, *, reply: str) -> None:
        asked.append(subject)
        await send(subject, payload, reply=reply)

    monkeypatch.setattr(bus, "send", counting)
    now = await broker_now(bus, layout)
    found = await last_before.last_messages(bus, layout.history_stream, subjects, now)
    assert sorted(message.subject for message in found) == sorted(subjects)
    assert len(asked) > 3
    assert await last_before.last_messages(bus, layout.history_stream, subjects, NOON) == []
    with pytest.raises(DeliveryLostError, match="incomplete: 503"):
        await last_before.last_messages(bus, "NO_SUCH_STREAM", subjects, now)


async def test_decisions_by_object_service_and_time(bus: BusConnection, layout: Layout, history: History) -> None:
    for identity, service, name, minute in [
        ("d3", "s1", "a", 3),
        ("d1", "s2", "a", 1),
        ("d2", "s1", "b.dot", 2),
        ("d4", "s1", "a", 4),
    ]:
        await record(bus, layout, identity, service=service, name=name, minute=minute)
    await bus.publish(layout.decision("s1", "widgets", A), b"garbage", {"Nats-Msg-Id": "g"})

    async def ids(wanted: DecisionFilter) -> list[str]:
        return [d.record.id for d in await history.decisions(wanted)]

    assert await ids(DecisionFilter()) == ["d1", "d2", "d3", "d4"]
    assert await ids(DecisionFilter(service="s2")) == ["d1"]
    assert await ids(DecisionFilter(name="b.dot")) == ["d2"]
    assert await ids(DecisionFilter(namespace="ns", since=NOON + timedelta(minutes=3))) == ["d3", "d4"]
    assert await ids(DecisionFilter(until=NOON + timedelta(minutes=1))) == ["d1"]
    assert await ids(DecisionFilter(part="other")) == []
    assert [d.record.id for d in await history.decisions_of("widgets", A)] == ["d1", "d3", "d4"]
    assert history.dropped > 0


async def test_state_at(bus: BusConnection, layout: Layout, history: History, source: Source) -> None:
    await source.upsert("old")
    await source.upsert("changed", spec=1)
    await source.upsert("deleted")
    await source.delete("deleted")
    await source.upsert("expired", spec=1)
    source.history = False
    await source.upsert("unlogged")
    source.history = True
    at = datetime.now(UTC) + timedelta(milliseconds=2)
    while datetime.now(UTC) <= at + timedelta(milliseconds=2):
        await bus.api(f"STREAM.INFO.{layout.state_stream}")
    await source.upsert("changed", spec=2)
    await source.upsert("new")
    await source.upsert("expired", spec=2)
    await delete_message(bus, layout.history_stream, 5)
    states = await history.state_at(at, ["widgets"])
    known = {key.name: (state.knowledge, state.hole) for (_, key), state in states.items()}
    assert known == {
        "old": (Knowledge.PRESENT, None),
        "changed": (Knowledge.PRESENT, None),
        "deleted": (Knowledge.ABSENT, None),
        "unlogged": (Knowledge.PRESENT, None),
        "new": (Knowledge.ABSENT, None),
        "expired": (Knowledge.UNKNOWN, Hole.BEGINNING),
    }
    changed = states["widgets", Key("ns", "changed")].version
    assert changed is not None
    assert (changed.state.json() or {})["spec"] == 1


@pytest.mark.spec("FW-438")
async def test_a_version_that_is_logged_late_stands_where_it_belongs(
    bus: BusConnection, layout: Layout, history: History, source: Source
) -> None:
    first = await source.upsert("a", spec=1)
    source.history = False
    second = await source.upsert("a", spec=2)
    late = await last_message(bus, layout.state_stream, layout.state("widgets", A))
    assert late is not None
    source.history = True
    third = await source.upsert("a", spec=3)
    logged = LogMessage(decode_state("widgets", A, late.headers, late.data), second)
    assert isinstance(await bus.publish(layout.log("widgets", A), late.data, logged.headers()), PubAck)
    at = datetime.now(UTC) + timedelta(milliseconds=2)
    while datetime.now(UTC) <= at + timedelta(milliseconds=2):
        await bus.api(f"STREAM.INFO.{layout.state_stream}")
    fourth = await source.upsert("a", spec=4)
    versions = await history.versions("widgets", A)
    assert [(one.sequence, one.hole) for one in versions] == [(one, None) for one in (first, second, third, fourth)]
    then = (await history.state_at(at, ["widgets"]))["widgets", A]
    assert then.version is not None
    assert (then.version.sequence, then.hole) == (third, None)


@pytest.mark.spec("FW-438")
async def test_what_is_published_while_it_is_read_is_no_hole(history: History, source: Source) -> None:
    await source.upsert("a", spec=0)

    async def publish() -> None:
        for number in itertools.count(1):
            await source.upsert("a", spec=number)

    publishing = asyncio.ensure_future(publish())
    try:
        for _ in range(30):
            chain = (await history.chains([("widgets", A)]))["widgets", A]
            assert {one.hole for one in (*chain.versions, *await history.versions("widgets", A))} == {None}
            assert chain.present is not None
            assert chain.present.place == chain.versions[-1].place
            found = await history.state_at(datetime.now(UTC) - timedelta(milliseconds=20), ["widgets"])
            assert found["widgets", A].hole is None
    finally:
        publishing.cancel()
        await asyncio.wait((publishing,))


async def test_an_empty_history(history: History) -> None:
    assert await history.decisions() == []
    assert await history.state_at(NOON, ["widgets"]) == {}


async def test_one_object_among_many_events_is_found_without_reading_them_all(
    bus: BusConnection, layout: Layout, history: History, source: Source
) -> None:
    for number in range(1500):
        await source.upsert(f"w{number % 50}", spec=number)
    versions = await history.versions("widgets", Key("ns", "w7"))
    assert len(versions) == 30

    async def one() -> None:
        await history.versions("widgets", Key("ns", "w7"))

    async def every() -> None:
        await history.state_at(datetime.now(UTC), ["widgets"])

    assert await received(bus, every) > 1500
    assert await received(bus, one) < 100


async def received(bus: BusConnection, work: Callable[[], Awaitable[None]]) -> int:
    """Messages that the broker sent for some work."""
    before = bus._client.stats["in_msgs"]
    await work()
    return bus._client.stats["in_msgs"] - before
