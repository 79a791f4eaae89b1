"""The story of an object goes on where a version of it cannot be read, and the command says why it ends."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from support.bus_source import Source
from support.nats import eventually
from typer.testing import CliRunner

from aim_cli.__main__ import app
from aim_cli.log import connecting
from aim_cli.log.targets import located, target
from aim_cli.log.timeline import Everywhere, is_paused_now, timeline
from aim_console.access import Rights
from aim_console.past import story
from aim_domain.labels import ANNOTATION_PAUSED
from aim_domain.parts import ARTIFACTS, CLUSTER_MODELS, SERVICES
from aim_local.ports import free_port
from controller_runtime import Key
from controller_runtime.log.broker.connection import BusConnection, PubAck
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.history.reader import History
from controller_runtime.log.wire.messages import Verb
from controller_runtime.log.wire.subjects import Layout

CHAT = Key("ns", "chat")
ANOTHER = b'{"metadata":{"name":"another","namespace":"ns"}}'


@pytest.fixture
def source(bus: BusConnection, layout: Layout) -> Source:
    return Source(bus, layout, SERVICES.name)


async def reported(bus: BusConnection, layout: Layout) -> Sequence[str]:
    moments = await timeline(History(bus, layout), target("aimservice", "ns/chat"))
    return [moment.what for moment in moments]


@pytest.mark.spec("FW-496")
@pytest.mark.parametrize("body", [b"garbage", b"[]", b"{}", ANOTHER])
async def test_a_version_that_cannot_be_read_is_reported_as_that(
    bus: BusConnection, layout: Layout, source: Source, body: bytes
) -> None:
    await source.upsert("chat", status={"status": "Starting"})
    await source._store(CHAT, Verb.UPSERT, source.change("chat")["metadata"], body)
    # As the last one, of which the relatives are looked for, and between two, which are compared.
    assert await reported(bus, layout) == ["created", "a version that cannot be read"]
    await source.upsert("chat", status={"status": "Running"})
    assert await reported(bus, layout) == ["created", "a version that cannot be read", "status Starting → Running"]


@pytest.mark.spec("FW-496")
async def test_a_story_that_begins_with_nonsense_is_reported(
    bus: BusConnection, layout: Layout, source: Source
) -> None:
    await source._store(CHAT, Verb.UPSERT, source.change("chat")["metadata"], b"garbage")
    await source.upsert("chat", status={"status": "Running"})
    await source.delete("chat")
    assert await reported(bus, layout) == ["a version that cannot be read", "created", "deleted"]


@pytest.mark.spec("SV-270")
@pytest.mark.parametrize("value", ["true", "false", None])
async def test_a_pause_is_reported_before_anything_else(
    bus: BusConnection, layout: Layout, source: Source, value: str | None
) -> None:
    history, wanted = History(bus, layout), target("aimservice", "ns/chat")
    assert not await is_paused_now(history, wanted)
    change = source.change("chat")
    if value is not None:
        change["metadata"]["annotations"] = {ANNOTATION_PAUSED: value}
    await source._store(CHAT, Verb.UPSERT, change["metadata"], orjson.dumps(change))
    assert await is_paused_now(history, wanted) is (value == "true")
    await source.delete("chat")
    assert not await is_paused_now(history, wanted)


TRACE = f"00-{'a' * 32}-{'b' * 16}-01"
OTHER = f"00-{'c' * 32}-{'b' * 16}-01"


async def decided(bus: BusConnection, layout: Layout, part: str, key: Key, trace: str = TRACE) -> None:
    record = DecisionRecord(
        id=f"{part} {key} {trace}",
        service="serving",
        controller="service",
        part=part,
        namespace=key.namespace,
        name=key.name,
        at=datetime.now(UTC),
        traceparent=trace,
    )
    subject = layout.decision("serving", part, key)
    assert isinstance(await bus.publish(subject, record.to_json(), {}), PubAck)


@pytest.mark.spec("FW-627")
async def test_only_what_is_near_is_read_unless_the_whole_trace_is_asked_for(
    bus: BusConnection, layout: Layout, source: Source
) -> None:
    chosen, history = Key("", "chosen"), History(bus, layout)
    resolved = {"kind": "AIMClusterModel", "name": "chosen"}
    await source.upsert("chat", status={"status": "Starting", "resolvedModel": resolved})
    near = [(SERVICES.name, CHAT, TRACE), (CLUSTER_MODELS.name, chosen, OTHER), (SERVICES.name, Key("ns", "b"), TRACE)]
    far = [(SERVICES.name, Key("elsewhere", "d"), TRACE), (CLUSTER_MODELS.name, Key("", "another"), TRACE)]
    others = [(SERVICES.name, Key("ns", "c"), OTHER), (SERVICES.name, Key("elsewhere", "e"), OTHER)]
    for part, key, trace in (*near, *far, *others):
        await decided(bus, layout, part, key, trace)

    read = await history.decisions_near("ns", [(CLUSTER_MODELS.name, chosen), (SERVICES.name, CHAT)], ["a" * 32])
    assert [(one.record.part, one.record.key) for one in read] == [(part, key) for part, key, _ in near]
    wanted = target("aimservice", "ns/chat")
    reported = [moment.about for moment in await timeline(history, wanted)]
    assert reported == ["AIMService ns/chat", "AIMService ns/chat", "AIMClusterModel chosen", "AIMService ns/b"]
    everything = [moment.about for moment in await timeline(history, wanted, everywhere=Everywhere())]
    assert everything == [*reported, "AIMService elsewhere/d", "AIMClusterModel another"]


@pytest.mark.spec("FW-727")
async def test_of_a_whole_trace_nothing_is_read_from_long_before_what_is_wanted(
    bus: BusConnection, layout: Layout, source: Source
) -> None:
    history, far = History(bus, layout), Key("elsewhere", "d")
    await source.upsert("chat")
    await decided(bus, layout, SERVICES.name, CHAT)
    await decided(bus, layout, SERVICES.name, far)
    now, places = datetime.now(UTC), [(SERVICES.name, CHAT)]
    read = await history.decisions_near(None, places, ["a" * 32], now)
    assert [one.record.key for one in read] == [CHAT, far]
    # What clocks differ by is read, too.
    assert not await history.decisions_near(None, places, ["a" * 32], now + timedelta(minutes=2))
    since = Everywhere(now + timedelta(minutes=2))
    reported = await timeline(history, target("aimservice", "ns/chat"), everywhere=since)
    assert [moment.what for moment in reported] == ["created"]


@pytest.mark.spec("FW-726")
@pytest.mark.parametrize("what", ["discovery", "artifacts", "predictor"])
async def test_a_pod_is_found_whatever_it_is_for(bus: BusConnection, layout: Layout, what: str) -> None:
    pods, history = Source(bus, layout, f"pods-{what}"), History(bus, layout)
    await pods.upsert("chat")
    found = await located(history, target("pod", "ns/chat"))
    assert found.part.name == pods.part
    assert [moment.what for moment in await timeline(history, found)] == ["created"]
    await pods.delete("chat")
    assert await located(history, target("pod", "ns/chat")) == found, "one that is gone has a past, too"
    nobody = target("pod", "ns/nobody")
    assert await located(history, nobody) == nobody


@pytest.mark.spec("FW-633")
async def test_a_page_tells_nothing_about_kinds_that_its_viewer_may_not_see(
    bus: BusConnection, layout: Layout, source: Source
) -> None:
    await source.upsert("chat", status={"status": "Starting"})
    for part in (SERVICES, ARTIFACTS):
        await decided(bus, layout, part.name, Key("ns", "chat"))
    history, wanted = History(bus, layout), target("aimservice", "ns/chat")
    made = {"ns": datetime(2026, 1, 1, tzinfo=UTC)}
    services, artifacts = SERVICES.kind.resource, ARTIFACTS.kind.resource
    some = await story(history, wanted, Rights(within=frozenset({(services, "ns")}), made=made))
    assert {moment["about"] for moment in some["moments"]} == {"AIMService ns/chat"}
    more = await story(history, wanted, Rights(within=frozenset({(services, "ns"), (artifacts, "ns")}), made=made))
    assert {moment["about"] for moment in more["moments"]} == {"AIMService ns/chat", "AIMArtifact ns/chat"}


@pytest.mark.spec("FW-626")
async def test_each_decision_and_each_version_nearby_wakes_who_follows(
    bus: BusConnection, layout: Layout, source: Source
) -> None:
    heard: Sequence[str] = ()

    async def follow() -> None:
        nonlocal heard
        async with aclosing(History(bus, layout).stirred("ns")) as mappings:
            async for _ in mappings:
                heard = await reported(bus, layout)

    await source.upsert("chat")
    following = asyncio.ensure_future(follow())
    try:
        await eventually(lambda: heard == ["created"], "what was there is told")
        await decided(bus, layout, SERVICES.name, CHAT)
        await eventually(lambda: heard == ["created", "nothing"], "the decision is told")
        # As what a decision led to, of which nothing is decided any more.
        await source.upsert("chat", status={"status": "Running"})
        await eventually(lambda: heard == ["created", "nothing", "status none → Running"], "the version is told")
    finally:
        following.cancel()
        await asyncio.wait((following,))


@pytest.mark.spec("FW-437")
@pytest.mark.parametrize("command", ["replay", "timeline"])
def test_a_log_that_cannot_be_read_is_no_verdict(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(connecting, "_PATIENCE", 0.1)
    nobody = f"nats://127.0.0.1:{free_port()}"
    ended = CliRunner().invoke(app, [command, "aimservice", "ns/chat", "--nats-url", nobody])
    assert ended.exit_code == 4


@pytest.mark.spec("FW-689")
@pytest.mark.parametrize(
    "words", [[], ["--all", "aimservice", "ns/chat"], ["--all", "-n", "ns"], ["--all", "x.aimlog"]]
)
def test_either_something_or_everything_is_replayed(words: list[str]) -> None:
    reported = CliRunner().invoke(app, ["replay", *words, "--nats-url", "nats://127.0.0.1:1"])
    assert (reported.exit_code, reported.stderr.count("--all decisions")) == (2, 1)


@pytest.mark.spec("FW-437")
@pytest.mark.parametrize("command", ["replay", "timeline"])
def test_words_that_name_nothing_are_wrong_usage(command: str) -> None:
    assert CliRunner().invoke(app, [command, "nonsense", "ns/chat"]).exit_code == 2
