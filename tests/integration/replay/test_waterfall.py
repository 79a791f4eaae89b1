"""The bars of an object over a real log: whose they are, and when each begins and ends (FW-650)."""

import time
from typing import Any

import pytest
from support.bus_source import Source
from support.nats import eventually

from aim_cli.log.report import Bar, waterfall
from aim_cli.log.targets import target
from aim_domain.parts import CLUSTER_MODELS, INFERENCE_SERVICES, SERVICES, TEMPLATE_CACHES
from controller_runtime import Key
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.history.decisions import DecisionRecord, RecordedWrite
from controller_runtime.log.history.reader import History
from controller_runtime.log.wire.subjects import Layout

CHAT = Key("ns", "chat")
MODEL: dict[str, Any] = {"resolvedModel": {"kind": "AIMClusterModel", "name": "chosen"}}


def _millisecond() -> int:
    return time.time_ns() // 1_000_000


class Story:
    """What is said about a service and what is made for it."""

    def __init__(self, bus: BusConnection, layout: Layout) -> None:
        self._bus = bus
        self._layout = layout
        parts = (SERVICES, CLUSTER_MODELS, TEMPLATE_CACHES, INFERENCE_SERVICES)
        self.of = {part.name: Source(bus, layout, part.name) for part in parts}

    async def upsert(self, part: str, name: str, status: str, namespace: str = "ns", **more: object) -> None:
        await self.of[part].upsert(name, namespace=namespace, status={"status": status, **more})
        # Versions have the millisecond that has begun.
        begun = _millisecond()
        await eventually(lambda: _millisecond() > begun, "the next one begins")

    async def decided(self, about: str, *writes: RecordedWrite) -> None:
        log = History(self._bus, self._layout)
        at = (await log.versions(SERVICES.name, CHAT))[-1].state.time
        record = DecisionRecord(
            id=f"{about}-{len(writes)}", service="serving", controller="service", part=SERVICES.name, namespace="ns",
            name=about, at=at, writes=writes,
        )  # fmt: skip
        await self._bus.publish(self._layout.decision("serving", SERVICES.name, record.key), record.to_json(), {})

    async def bars(self) -> dict[str, Bar]:
        found = await waterfall(History(self._bus, self._layout), target("aimservice", "ns/chat"))
        return {f"{bar.kind} {bar.key}": bar for bar in found}


@pytest.mark.spec("FW-650")
async def test_bars_are_of_what_came_later_and_was_referred_to_or_made(bus: BusConnection, layout: Layout) -> None:
    story = Story(bus, layout)
    await story.upsert(CLUSTER_MODELS.name, "chosen", "Ready", namespace="")
    await story.upsert(SERVICES.name, "chat", "Pending", **MODEL)
    wrote = RecordedWrite(verb="apply", kind="AIMTemplateCache", namespace="ns", name="weights")
    await story.decided("chat")
    await story.decided("chat", wrote, RecordedWrite(verb="apply", kind="Secret", namespace="ns", name="unlogged"))
    await story.upsert(TEMPLATE_CACHES.name, "weights", "Progressing")
    await story.upsert(TEMPLATE_CACHES.name, "others", "Ready")
    await story.upsert(TEMPLATE_CACHES.name, "weights", "Ready")
    await story.upsert(SERVICES.name, "chat", "Running", **MODEL)
    await story.upsert(SERVICES.name, "chat", "Degraded", **MODEL)
    await story.upsert(TEMPLATE_CACHES.name, "late", "Ready")
    await story.decided("chat", wrote, wrote.model_copy(update={"name": "late"}))
    await story.upsert(SERVICES.name, "chat", "Running", **MODEL)
    bars = await story.bars()
    assert list(bars) == ["AIMService ns/chat", "AIMTemplateCache ns/weights", "AIMTemplateCache ns/late"], (
        "it waited for no model"
    )
    chat, weights, late = bars.values()
    assert (chat.state, len(chat.writes)) == ("Running", 2), "a decision that wrote nothing is no moment"
    assert (weights.state, weights.writes) == ("Ready", ())
    assert chat.ready is not None
    assert weights.ready is not None
    assert chat.begun < weights.begun < weights.ready < chat.ready < late.begun


@pytest.mark.spec("FW-650")
async def test_what_is_gone_is_called_deleted_and_nothing_has_no_bars(bus: BusConnection, layout: Layout) -> None:
    story = Story(bus, layout)
    assert await story.bars() == {}
    await story.upsert(SERVICES.name, "chat", "Running")
    await story.of[SERVICES.name].delete("chat")
    (bar,) = (await story.bars()).values()
    assert (bar.state, bar.ready) == ("deleted", bar.begun)
