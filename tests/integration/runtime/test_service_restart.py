"""A restart finds everything in order and says so by silence."""

import pytest
from support.controlplane import RawApi
from support.runtime_fixtures import MODELS, model
from support.services import Platform

from controller_runtime import JsonObject
from controller_runtime.log.broker.connection import BusConnection, BusSettings, connect
from controller_runtime.log.broker.reading import count_messages
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT

OBJECTS = 300


def rests(page: JsonObject) -> bool:
    """Whether every object had a pass, and all that followed is told."""
    queue, recorder = page["queues"].get("tiny"), page["recorder"]
    if queue is None or queue["taken"] < OBJECTS or queue["depth"] or queue["processing"] or recorder["waiting"]:
        return False
    return all(one["checkpoints"] and not one["waiting"] for one in page["publishers"].values())


async def reported(bus: BusConnection) -> list[int]:
    """How many versions and decisions are stored."""
    streams = (
        (DEFAULT_LAYOUT.history_stream, DEFAULT_LAYOUT.history_subjects[0]),
        (DEFAULT_LAYOUT.decisions_stream, DEFAULT_LAYOUT.decisions("tiny")),
    )
    return [await count_messages(bus, stream, subject) for stream, subject in streams]


@pytest.mark.spec("FW-531", "FW-532")
async def test_a_restart_with_hundreds_of_objects_writes_nothing(stage: Platform, api: RawApi) -> None:
    first = await stage.started()
    await first.ready()
    for number in range(OBJECTS):
        await api.created(MODELS, model(f"m{number}", "image:1"))

    def converged(page: JsonObject) -> bool:
        return rests(page) and all(one["published"] == OBJECTS for one in page["publishers"].values())

    await first.until("/debug/queue", lambda _, page: converged(page))
    async with connect(BusSettings.of_urls(stage.nats.url, "test")) as bus:
        await bus.wait_connected()
        versions, writes = await reported(bus), stage.writes()
        assert versions[0] >= 3 * OBJECTS
        assert writes >= OBJECTS
        assert await first.stop() == 0

        second = await stage.started("pod-1")
        page = await second.until("/debug/queue", lambda status, page: status == 200 and rests(page))

        assert page["queues"]["tiny"]["taken"] >= OBJECTS
        assert {name: (one["published"], one["copied"]) for name, one in page["publishers"].items()} == dict.fromkeys(
            ("tinymodels", "tinymaps", "facts"), (0, 0)
        )
        assert await reported(bus) == versions
        assert stage.writes() == writes
    assert stage.looked("image:1") == OBJECTS
