"""Three brokers with TLS and users, as the chart brings them, and one of them killed while services rely on it."""

import asyncio
import os
import ssl
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from support.nats import eventually
from support.rendered_broker import RenderedBroker, rendered_broker
from support.stack import started_platform
from support.whole_run import SHORT, story

from aim_cli.services import services
from aim_domain.services import SERVICES
from aim_local.ports import HOST
from controller_runtime import JsonObject
from controller_runtime.log.broker.address import BusError
from controller_runtime.log.broker.connection import BusConnection, BusSettings, connect
from controller_runtime.log.broker.reading import count_messages, stream_state
from controller_runtime.log.history.reader import History
from controller_runtime.log.wire.subjects import Layout
from controller_runtime.replay import Replayed, Replayer, Verdict

STREAMS: Final = ("AIM_STATE", "AIM_HISTORY", "AIM_DECISIONS")
SELDOM: Final = {
    "$JS.API.STREAM.UPDATE.": "settings of a stream that somebody changed by hand are mended",
    "$JS.API.STREAM.CREATE.": "whoever comes first makes a stream",
    "$JS.API.STREAM.MSG.DELETE.": "tombstones are swept after five minutes at the earliest",
    "$JS.API.STREAM.MSG.GET.AIM_HISTORY": "the history is looked up where the outcome of a write is in doubt",
    "$JS.API.DIRECT.GET.AIM_HISTORY": "what objects were at some time, for a part of the decisions",
    "$JS.API.CONSUMER.": "a publisher that doubts the history reads it, which limits count by the hour",
    "aim.state.facts.": "facts come from effects, and not all services had to ask for anything",
    "aim.log.facts.": "facts come from effects, and not all services had to ask for anything",
    "aim.state.facts-": "facts of shards, into which these services are not divided",
    "aim.log.facts-": "facts of shards, into which these services are not divided",
    "aim.sync.facts-": "facts of shards, into which these services are not divided",
}
"""What this run need not use, by its beginning, and what it is for; `test_broker_users` does each of it."""
UNSEEN: Final = {
    "aimruntimeconfigs",
    "aimnamespaceconfigs",
    "kaiwoconfigs",
    "events-inferenceservices",
    "configmaps-custom-profile",
    "configmaps-service-plan",
    "events-templates",
    "aimprofiles",
    "aimclusterprofiles",
    "aimprofilesets",
    "aimclusterprofilesets",
    "aimprofilecaches",
    "configmaps-profile-catalogue",
}
"""Parts of which the run has no object."""


def reader(broker: RenderedBroker) -> BusSettings:
    """The user of the command line."""
    seed = broker.seeds["aim-engine-nats-aim"]
    return BusSettings.of_urls(broker.cluster.url, "aim", seed, broker.cluster.authority)


async def leader_of(bus: BusConnection, stream: str) -> str:
    return str((await bus.api(f"STREAM.INFO.{stream}"))["cluster"]["leader"])


async def all_whole(bus: BusConnection) -> bool:
    """Whether every stream has three copies that are up to date; not while nobody can say."""
    try:
        infos = [await bus.api(f"STREAM.INFO.{stream}") for stream in STREAMS]
    except BusError:
        return False
    return all(is_whole(one) for one in infos)


def is_whole(info: JsonObject) -> bool:
    copies = info["cluster"].get("replicas") or ()
    current = [one for one in copies if one["current"] and not one.get("offline")]
    return len(current) == 2


def matches(granted: str, subject: str) -> bool:
    """Whether a subject is one of those that a grant with wildcards allows."""
    wanted, tokens = granted.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, tokens = wanted[:-1], tokens[: len(wanted) - 1]
    return len(wanted) == len(tokens) and all(one in ("*", other) for one, other in zip(wanted, tokens, strict=True))


def unused(broker: RenderedBroker) -> list[tuple[str, str]]:
    """Who was granted what without using it, except for what is seldom needed."""
    used = broker.cluster.used()
    found = []
    for user, entry in broker.users.items():
        for how, permissions in (("PUB", "publish"), ("SUB", "subscribe")):
            own = [subject for key, verb, subject in used if key == entry["nkey"] and verb == how]
            granted: Iterable[str] = entry["permissions"][permissions]["allow"]
            found += [(user, one) for one in granted if not any(matches(one, subject) for subject in own)]
    return [(user, one) for user, one in found if not one.startswith(tuple(SELDOM)) and one.split(".")[2] not in UNSEEN]


async def replayed(bus: BusConnection) -> list[Replayed]:
    """Every decision, taken again from what the brokers kept."""
    return [one async for one in Replayer(History(bus, Layout()), services()).decisions()]


async def reported(broker: RenderedBroker, *words: str) -> int:
    """How a command ends that has the user of the command line."""
    env = {
        **os.environ,
        "AIM_NATS_URL": broker.cluster.url,
        "AIM_NATS_CREDENTIALS_FILE": str(broker.seeds["aim-engine-nats-aim"]),
        "AIM_NATS_CA_FILE": str(broker.cluster.authority),
    }
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "aim_cli", *words, env=env)
    return await process.wait()


async def killed_and_back(broker: RenderedBroker, bus: BusConnection) -> None:
    """Kill the leader of the present once there is something in it; start it again when another one leads."""

    async def begun() -> bool:
        return await count_messages(bus, "AIM_STATE", "aim.state.aimservices.>") > 0

    await eventually(begun, "there is an AIMService")
    lost = await leader_of(bus, "AIM_STATE")
    [number] = [one for one in range(3) if broker.cluster.pod(one) == lost]
    await broker.cluster.kill(number)
    before = int((await stream_after(bus, lost))["state"]["last_seq"])

    async def goes_on() -> bool:
        with suppress(BusError):
            return (await stream_state(bus, "AIM_STATE")).last_sequence > before
        return False

    await eventually(goes_on, "two of three take what is written")
    await broker.cluster.servers[number].start()
    await eventually(lambda: all_whole(bus), "all streams have three copies again")
    await eventually(lambda: broker.cluster.healthy(number), "the probe of the startup succeeds")


async def stream_after(bus: BusConnection, lost: str) -> JsonObject:
    """The present as another leader tells it."""
    reported: JsonObject = {}

    async def another() -> bool:
        nonlocal reported
        try:
            reported = await bus.api("STREAM.INFO.AIM_STATE")
        except BusError:
            return False
        return str(reported["cluster"].get("leader") or lost) != lost

    await eventually(another, "another broker leads")
    return reported


@pytest.mark.spec("FW-580", "FW-581", "FW-535", "FW-538", "FW-628")
async def test_one_of_three_brokers_is_killed_and_nothing_is_lost_or_denied(tmp_path: Path) -> None:
    async with rendered_broker(tmp_path, traced=True) as broker:
        env = {name: {**one, **SHORT.get(name, {})} for name, one in broker.service_env.items()}
        folder, url = tmp_path / "platform", broker.cluster.url
        async with (
            started_platform(folder, service_env=env, broker_url=url) as platform,
            connect(reader(broker)) as bus,
        ):
            await bus.wait_connected()
            async with asyncio.TaskGroup() as group:
                group.create_task(story(platform))
                group.create_task(killed_and_back(broker, bus))
            await eventually(lambda: all_whole(bus), "all streams have three copies")
            results = await replayed(bus)
            assert await reported(broker, "timeline", "aimservice", "whole/chat") == 0
            assert await reported(broker, "bus") == 0
        assert {one.stored.record.service for one in results} == set(SERVICES)
        assert [(one.stored.record.key, one.missing) for one in results if one.verdict is not Verdict.SAME] == []
        assert broker.cluster.denials() == []
        assert unused(broker) == []


async def shown(broker: RenderedBroker, number: int) -> bytes:
    """The certificate that a server shows to its clients."""
    trusted = ssl.create_default_context(cafile=str(broker.cluster.authority))
    reader, writer = await asyncio.open_connection(HOST, broker.cluster.ports[number].client)
    try:
        assert (await reader.readline()).startswith(b"INFO ")
        await writer.start_tls(trusted, server_hostname=HOST)
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return certificate
    finally:
        writer.close()


@pytest.mark.spec("FW-702")
async def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    async with rendered_broker(tmp_path) as broker:
        numbers, running = range(len(broker.cluster)), [one.pid for one in broker.cluster.servers]
        before = {await shown(broker, number) for number in numbers}
        broker.cluster.renew()

        async def renewed() -> bool:
            return not before & {await shown(broker, number) for number in numbers}

        await eventually(renewed, "all three show the new one")
        assert [one.pid for one in broker.cluster.servers] == running
