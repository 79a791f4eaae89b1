"""The log of a service that decides by hand, and reconcilers for it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from support.bus_source import Source
from support.cache_feed import Fed, feeding
from support.cache_objects import colour_index, widgets
from support.nats import eventually

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
    scoped,
)
from controller_runtime.log.broker.connection import BusConnection, PubAck
from controller_runtime.log.cache.view import CacheView
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.history.reader import DecisionFilter, History
from controller_runtime.log.wire.subjects import Layout
from controller_runtime.manager.settings import effective, load_settings
from controller_runtime.reconcile.decide import Decision, decide
from controller_runtime.reconcile.plan import Execution
from controller_runtime.reconcile.record import Records
from controller_runtime.replay import Replayed, Replayer, ServiceCode, Verdict

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


def first_of(index: Index[Resource]) -> Reconcile:
    """The same choice, among what another index finds."""

    def choose(obj: Resource, view: View, now: datetime) -> Plan:
        found = view.select(index, scoped("ns", "red")).items
        return Plan(status={"first": min((one.name for one in found), default="")})

    return choose


@dataclass
class Log:
    """The log of a service that decides by hand."""

    bus: BusConnection
    layout: Layout
    source: Source
    fed: Fed
    settings: JsonObject = field(default_factory=lambda: effective(load_settings(AimSettings, [])))

    async def caught_up(self) -> None:
        await self.source.mark()
        await eventually(lambda: self.fed.equals(self.source, PART), "the world follows")

    async def decide(self, name: str, reconcile: Reconcile, *, digest: str = "d1") -> None:
        """One pass, recorded as the runtime does it."""
        entry = self.fed.cache.get(PART, Key("ns", name))
        assert entry is not None
        assert entry.object is not None
        reconciler = Reconciler("widget", PART, reconcile)
        view = CacheView(self.fed.cache)
        view.get(PART, "ns", name)
        standing = self.fed.cache.position()
        decision = Decision(reconciler, entry.object, view, datetime.now(UTC), view.reads, standing)
        made: list[DecisionRecord] = []
        records = Records("tester", made.append)
        with suppress(RuntimeError):
            plan = decide(decision, (records,))
            records.carried_out(decision, plan, Execution(started=True))
        await self._publish(self.layout.settings("tester", "d1"), dumps(self.settings))
        reported = made[0].model_copy(update={"settings": digest})
        await self._publish(self.layout.decision("tester", PART.name, entry.key), reported.to_json())

    async def replay(self, reconcile: Reconcile, wanted: DecisionFilter = EVERY) -> list[Replayed]:
        """Today's code decides again."""
        return [one async for one in self.replayer(reconcile).decisions(wanted)]

    def replayer(self, reconcile: Reconcile, history: History | None = None) -> Replayer:
        """What takes them again with this code, by default from the broker."""
        reconcilers = (Reconciler("widget", PART, reconcile),)
        code = ServiceCode(
            AimSettings, lambda _: ServiceDefinition("tester", (), (PART,), (COLOUR,), reconcilers=reconcilers)
        )
        return Replayer(history or History(self.bus, self.layout), {"tester": code})

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
