"""Each service reaches the broker with its own NKey, may do what it does, and nothing of what another does."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from support.bus_source import Source
from support.nats import PATIENT_SECONDS, TEST_LIMITS, eventually

from aim_cli.cluster.refs import Ref
from aim_cli.log.targets import target_of
from aim_console.access import Rights
from aim_console.mirror import mirror
from aim_console.past import story
from aim_domain.kind_names import HTTP_ROUTE
from aim_local.nats import NatsServer
from aim_packaging.broker import authorization, reader, user_of
from aim_packaging.keys import new_key
from aim_packaging.services import definitions
from controller_runtime import JsonObject, Key, ServiceDefinition
from controller_runtime.log.broker.address import BusUnavailableError
from controller_runtime.log.broker.connection import BusConnection, BusSettings, PubAck, connect
from controller_runtime.log.broker.consumer import deliver
from controller_runtime.log.broker.reading import (
    count_messages,
    delete_message,
    last_message,
    last_messages,
    stream_state,
)
from controller_runtime.log.broker.streams import ensure_streams
from controller_runtime.log.wire.subjects import Layout

LAYOUT: Final = Layout()
DEFINITIONS: Final = {one.name: one for one in definitions()}
OBJECT: Final = Key("a-namespace", "an.object")
STREAMS: Final = (LAYOUT.state_stream, LAYOUT.history_stream, LAYOUT.decisions_stream)
GOVERNOR: Final = next(one.field_manager for one in DEFINITIONS.values() if one.governs_streams)
OTHERS: Final = (*(one.field_manager for one in DEFINITIONS.values() if not one.governs_streams), "aim")
CHANGES: Final[dict[str, JsonObject]] = {
    "republish": {"republish": {"src": "aim.log.>", "dest": "aim.state.aimservices.demo.>"}},
    "sources": {"sources": [{"name": "OTHER"}]},
    "max_age": {"max_age": 10**9, "duplicate_window": 10**9},
    "max_msgs": {"max_msgs": 1},
    "sealed": {"sealed": True},
}
"""What changes a stream in a way that forges, deletes or ends its messages."""


class Broker(NamedTuple):
    """A broker that knows six users, and a file with the seed of each."""

    url: str
    seeds: dict[str, Path]

    def settings(self, user: str) -> BusSettings:
        settings = BusSettings.of_urls(self.url, user, self.seeds.get(user))
        return replace(settings, request_timeout=PATIENT_SECONDS, publish_timeout=PATIENT_SECONDS)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    users = [*(user_of(one, LAYOUT) for one in DEFINITIONS.values()), reader(LAYOUT)]
    keys = {user.name: new_key() for user in users}
    seeds = {}
    for name, key in keys.items():
        seeds[name] = tmp_path / f"{name}.nk"
        seeds[name].write_text(key.seed)
    block = json.dumps(authorization((user, keys[user.name].public) for user in users))
    async with NatsServer(extra_config=f"authorization: {block}") as server:
        yield Broker(server.url, seeds)


async def stored(bus: BusConnection, subject: str, body: bytes = b"{}") -> bool:
    """Whether the broker took a message; a denial is known as soon as the broker has told it."""
    publishing = asyncio.create_task(bus.publish(subject, body, {}))
    await eventually(lambda: publishing.done() or bus.statistics.denied is not None, f"an answer about {subject}")
    if publishing.done():
        assert isinstance(publishing.result(), PubAck), publishing.result()
        return True
    publishing.cancel()
    denied = bus.statistics.denied or ""
    assert subject.lower() in denied.lower(), denied
    return False


async def create_streams(broker: Broker) -> None:
    """As the governing service does when it starts."""
    async with connect(broker.settings(GOVERNOR)) as bus:
        async with asyncio.timeout(PATIENT_SECONDS):
            await bus.wait_connected()
        await ensure_streams(bus, LAYOUT, TEST_LIMITS)


@pytest.mark.spec("FW-766")
@pytest.mark.parametrize("user", OTHERS)
async def test_only_the_governing_service_creates_and_changes_streams(broker: Broker, user: str) -> None:
    await create_streams(broker)
    async with connect(broker.settings(user)) as bus:
        async with asyncio.timeout(PATIENT_SECONDS):
            await bus.wait_connected()
        for stream in STREAMS:
            before = (await bus.api(f"STREAM.INFO.{stream}"))["config"]
            for changed in CHANGES.values():
                call, body = f"$JS.API.STREAM.UPDATE.{stream}", json.dumps({**before, **changed}).encode()
                assert not await stored(bus, call, body), changed
                bus._denied = None
            assert (await bus.api(f"STREAM.INFO.{stream}"))["config"] == before
        for call in (f"STREAM.CREATE.{STREAMS[0]}", "STREAM.CREATE.MINE", "STREAM.UPDATE.MINE", "STREAM.RESTORE.MINE"):
            assert not await stored(bus, f"$JS.API.{call}"), call
            bus._denied = None


def written(definition: ServiceDefinition) -> list[str]:
    """A subject of every sort that a service writes, as the bus code spells it."""
    parts = [one.name for one in definition.publishes]
    fact = Key(definition.name, "kind.key")
    return [
        *(LAYOUT.state(part, OBJECT) for part in parts),
        *(LAYOUT.log(part, OBJECT) for part in parts),
        *(LAYOUT.sync(part) for part in parts),
        LAYOUT.state("facts", fact),
        LAYOUT.log("facts", fact),
        LAYOUT.sync("facts", definition.name),
        LAYOUT.decision(definition.name, parts[0], OBJECT),
        LAYOUT.settings(definition.name, "0123456789abcdef"),
    ]


@pytest.mark.spec("FW-535", "FW-536")
async def test_every_service_writes_reads_and_sweeps_with_its_own_user(broker: Broker) -> None:
    await create_streams(broker)
    for definition in DEFINITIONS.values():
        async with connect(broker.settings(definition.field_manager)) as bus:
            async with asyncio.timeout(PATIENT_SECONDS):
                await bus.wait_connected()
            await ensure_streams(bus, LAYOUT, TEST_LIMITS, governs=definition.governs_streams)
            for subject in written(definition):
                assert await stored(bus, subject), subject
            part = definition.publishes[0].name
            state = LAYOUT.state_stream
            latest = await last_message(bus, state, LAYOUT.state(part, OBJECT))
            assert latest is not None
            assert await count_messages(bus, state, f"{LAYOUT.root}.state.>") > 0
            assert (await stream_state(bus, LAYOUT.history_stream)).messages > 0
            assert await last_message(bus, LAYOUT.history_stream, LAYOUT.log(part, OBJECT)) is not None
            assert await count_messages(bus, LAYOUT.history_stream, LAYOUT.log_filter(part)) > 0
            for stream in STREAMS:
                info = await bus.api(f"STREAM.INFO.{stream}")
                if definition.governs_streams:
                    await bus.api(f"STREAM.UPDATE.{stream}", info["config"])
            policy = {"deliver_policy": "last_per_subject"}
            async with deliver(bus, state, (f"{LAYOUT.root}.state.>",), policy) as delivery:
                assert delivery.pending > 0
            assert await delete_message(bus, state, latest.sequence)
            assert bus.statistics.denied is None


@pytest.mark.spec("FW-535")
@pytest.mark.parametrize("name", DEFINITIONS)
async def test_no_service_writes_what_is_another_s(broker: Broker, name: str) -> None:
    other = next(one for one in DEFINITIONS.values() if one.name != name)
    await create_streams(broker)
    async with connect(broker.settings(f"aim-{name}")) as bus:
        async with asyncio.timeout(PATIENT_SECONDS):
            await bus.wait_connected()
        for subject in written(other):
            assert not await stored(bus, subject), subject
            bus._denied = None


@pytest.mark.spec("FW-535")
async def test_nobody_purges_or_deletes_a_stream_or_hears_the_answers_of_others(broker: Broker) -> None:
    async with connect(broker.settings("aim-serving")) as bus:
        async with asyncio.timeout(PATIENT_SECONDS):
            await bus.wait_connected()
        await ensure_streams(bus, LAYOUT, TEST_LIMITS)
        for call in (
            "STREAM.PURGE.AIM_STATE",
            "STREAM.DELETE.AIM_HISTORY",
            "STREAM.MSG.DELETE.AIM_HISTORY",
            "DIRECT.GET.AIM_STATE",
            "CONSUMER.MSG.NEXT.AIM_DECISIONS.other",
        ):
            assert not await stored(bus, f"$JS.API.{call}")
            bus._denied = None

        async def ignore(_: object) -> None: ...

        await bus.subscribe("_INBOX.aim-routing.>", ignore)
        await eventually(lambda: bus.statistics.denied is not None, "the broker to refuse the subscription")


@pytest.mark.spec("FW-535")
async def test_the_command_line_reads_and_writes_nothing(broker: Broker) -> None:
    await create_streams(broker)
    async with connect(broker.settings("aim")) as bus:
        async with asyncio.timeout(PATIENT_SECONDS):
            await bus.wait_connected()
        assert (await stream_state(bus, LAYOUT.history_stream)).messages == 0
        subjects = [LAYOUT.log("httproutes", OBJECT)]
        assert await last_messages(bus, LAYOUT.history_stream, subjects, datetime.now(UTC)) == []
        assert not await stored(bus, LAYOUT.state("httproutes", OBJECT))


@pytest.mark.spec("FW-535", "FW-683")
async def test_the_console_follows_the_present_and_reads_the_past_as_the_reading_user(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIM_NATS_CREDENTIALS_FILE", str(broker.seeds["aim"]))
    part, key = "httproutes", Key("a-namespace", "an.object")
    route = {"metadata": {"name": key.name, "namespace": key.namespace, "uid": "u", "resourceVersion": "1"}}
    ref = Ref(HTTP_ROUTE, key.namespace, key.name)
    await create_streams(broker)
    async with mirror(broker.url) as present, connect(broker.settings("aim-routing")) as bus:
        async with asyncio.timeout(PATIENT_SECONDS):
            await bus.wait_connected()
        source = Source(bus, LAYOUT, part)
        source.truth[key] = route
        await source.publish(key, route)
        await source.mark()
        await eventually(lambda: present.object(ref) is not None, "the object")
        target = target_of(ref)
        assert target is not None
        reported = await story(present.history, target, Rights(frozenset({HTTP_ROUTE.resource})))
        assert reported["bars"]
        assert present.connection.statistics.denied is None


@pytest.mark.spec("FW-535")
async def test_who_has_no_key_is_not_let_in(broker: Broker) -> None:
    async with connect(broker.settings("a-stranger")) as bus:
        # What the broker says may be lost when it hangs up, now and then.
        await eventually(lambda: "authorization" in str(bus.statistics.last_error).lower(), "a refusal")
        with pytest.raises(BusUnavailableError):
            await stream_state(bus, LAYOUT.state_stream)
