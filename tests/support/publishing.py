"""Objects to publish, and what the streams say of them afterwards."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from support.cache_objects import widgets
from support.nats import TEST_LIMITS, eventually

from controller_runtime import JsonObject, Key, Part
from controller_runtime.kube.guard import WriteGuard, unguarded
from controller_runtime.kube.reflector_state import Bookmark, Delete, ListFrom, Restarted, Upsert
from controller_runtime.log.broker.address import BusError
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.consumer import last_per_subject
from controller_runtime.log.broker.reading import DeliveryPosition, StoredMessage, delete_message, last_message
from controller_runtime.log.publish.missed import Changes
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.source import SourceVersion, published
from controller_runtime.log.publish.state import PublisherSettings, PublisherSetup
from controller_runtime.log.wire.messages import EnvelopeError, LogMessage, StateMessage, decode_log, decode_state
from controller_runtime.log.wire.subjects import Layout

QUICK = PublisherSettings(checkpoint_interval=0.2, list_grace=0.3, limits=TEST_LIMITS)
"""Settings for tests that cannot wait ten seconds for a checkpoint."""


@dataclass
class Cluster:
    """The objects of one part, with versions that count up as etcd's do."""

    version: int = 100
    part: Part[Any] = field(default_factory=widgets)
    objects: dict[Key, JsonObject] = field(default_factory=dict)
    made: int = 0
    past: dict[str, list[str]] = field(default_factory=dict)
    """Every version of every name, in order."""
    events: list[SourceVersion] = field(default_factory=list)
    """What a watch from the beginning brings."""

    async def changes(self, since: str) -> AsyncGenerator[SourceVersion, None]:
        """What a watch from a version brings, and then nothing, as long as it is open."""
        for event in self.events:
            if int(event.resource_version) > int(since):
                yield event
        await asyncio.Event().wait()

    def listing(self, *, rewound: bool = False) -> Restarted[SourceVersion]:
        """What a list would bring."""
        return Restarted(tuple(map(published(self.part), self.objects.values())), str(self.version), rewound)

    def put(self, name: str, **spec: Any) -> Upsert[SourceVersion]:
        """Create or change an object."""
        self.version += 1
        key = Key("ns", name)
        self.past.setdefault(name, []).append(str(self.version))
        known = self.objects.get(key)
        if known is None:
            self.made += 1
        uid = known["metadata"]["uid"] if known else f"uid-{self.made}"
        self.objects[key] = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(self.version)},
            "spec": spec,
        }
        self.events.append(published(self.part)(self.objects[key]))
        return Upsert(self.events[-1], str(self.version))

    def delete(self, name: str) -> Delete:
        """Delete an object."""
        self.version += 1
        self.past[name].append(str(self.version))
        gone = self.objects.pop(Key("ns", name))
        self.events.append(SourceVersion.deletion(Key("ns", name), gone["metadata"]["uid"], str(self.version)))
        return Delete(gone, str(self.version))

    def bookmark(self) -> Bookmark:
        """Nothing happened up to now."""
        return Bookmark(str(self.version))


async def present(bus: BusConnection, layout: Layout, part: str) -> dict[Key, StateMessage]:
    """What the state stream says exists."""
    found = await last_per_subject(bus, layout.state_stream, (layout.state_filter(part),))
    return {message.key: message for message in map(_state(layout), found) if not message.deleted}


async def all_states(bus: BusConnection, layout: Layout, part: str) -> dict[Key, StateMessage]:
    """What the state stream holds, tombstones included."""
    found = await last_per_subject(bus, layout.state_stream, (layout.state_filter(part),))
    return {message.key: message for message in map(_state(layout), found)}


def _state(layout: Layout) -> Any:
    def read(message: StoredMessage) -> StateMessage:
        part, key = layout.parse_state(message.subject)
        return decode_state(part, key, message.headers, message.data)

    return read


async def history(bus: BusConnection, layout: Layout, part: str) -> list[LogMessage]:
    """Every version in the history, oldest first."""
    queue: asyncio.Queue[StoredMessage] = asyncio.Queue()
    pending = 0

    async def take(message: Any) -> None:
        nonlocal pending
        if not message.status:
            position = DeliveryPosition.of(message.reply)
            pending = position.pending
            await queue.put(
                StoredMessage(message.subject, position.stream_sequence, position.stored, message.headers, message.data)
            )

    inbox = bus.inbox()
    subscription = await bus.subscribe(inbox, take)
    try:
        created = await bus.api(
            f"CONSUMER.CREATE.{layout.history_stream}",
            {
                "stream_name": layout.history_stream,
                "config": {
                    "deliver_policy": "all",
                    "deliver_subject": inbox,
                    "filter_subject": layout.log_filter(part),
                    "ack_policy": "none",
                    "mem_storage": True,
                },
            },
        )
        expected = created["num_pending"]
        found: list[StoredMessage] = []
        async with asyncio.timeout(60):
            while len(found) < expected:
                found.append(await queue.get())
    finally:
        await subscription.close()
    versions = []
    for message in found:
        name, key = layout.parse_log(message.subject)
        versions.append(decode_log(name, key, message.headers, message.data))
    return versions


def of(versions: list[LogMessage], name: str) -> list[LogMessage]:
    """The versions of one object."""
    return [version for version in versions if version.state.key.name == name]


def unnamed_holes(versions: list[LogMessage]) -> list[str]:
    """Breaks of a chain within one epoch. An empty result means that whatever is missing, the history says so."""
    holes = []
    last: dict[Key, LogMessage] = {}
    for version in versions:
        before = last.get(version.state.key)
        same_epoch = before is not None and before.state.epoch == version.state.epoch
        if before is not None and same_epoch and version.state.previous not in {before.sequence, 0}:
            holes.append(f"{version.state.key} {version.state.resource_version}")
        if before is not None and same_epoch and version.state.previous == 0 and not before.state.deleted:
            holes.append(f"{version.state.key} {version.state.resource_version} lost its predecessor")
        last[version.state.key] = version
    return holes


def skipped(versions: list[LogMessage], cluster: Cluster) -> list[str]:
    """Versions that the cluster had and that the history misses between two of one epoch, without saying so."""
    missing = []
    last: dict[Key, LogMessage] = {}
    for version in versions:
        before = last.get(version.state.key)
        if before is not None and before.state.epoch == version.state.epoch and not version.state.gap:
            past = cluster.past[version.state.key.name]
            first, second = past.index(before.state.resource_version), past.index(version.state.resource_version)
            missing += [f"{version.state.key} {lost}" for lost in past[first + 1 : second]]
        last[version.state.key] = version
    return missing


def latest(versions: list[LogMessage]) -> dict[Key, JsonObject]:
    """What the history says exists in the end."""
    last = {version.state.key: version.state for version in versions}
    return {key: obj for key, state in last.items() if (obj := state.json()) is not None}


def repeated(versions: list[LogMessage]) -> list[str]:
    """Ids that occur more than once."""
    ids = [version.state.id for version in versions]
    return sorted({identity for identity in ids if ids.count(identity) > 1}) if len(set(ids)) < len(ids) else []


async def remove_from_history(bus: BusConnection, layout: Layout, part: str, name: str) -> None:
    """Take away the last version of an object."""
    logged = await last_message(bus, layout.history_stream, layout.log(part, Key("ns", name)))
    assert logged is not None
    await delete_message(bus, layout.history_stream, logged.sequence)


async def agrees(bus: BusConnection, layout: Layout, part: str, cluster: Cluster) -> bool:
    """Whether the state stream says exactly what the cluster has."""
    try:
        found = await present(bus, layout, part)
    except (BusError, EnvelopeError):
        return False
    return {key: message.json() for key, message in found.items()} == cluster.objects


async def settles(bus: BusConnection, layout: Layout, part: str, cluster: Cluster, publisher: Publisher) -> None:
    """Wait until stream and cluster agree and the publisher said so in a checkpoint."""
    checkpoints = publisher.statistics.checkpoints
    await eventually(lambda: agrees(bus, layout, part, cluster), f"stream = cluster, {publisher.statistics}")
    await eventually(lambda: publisher.statistics.checkpoints > checkpoints + 1, "a later marker")


@asynccontextmanager
async def publishing(
    connection: BusConnection,
    part: Part[Any],
    layout: Layout,
    source: str = "first",
    *,
    settings: PublisherSettings = QUICK,
    guard: WriteGuard = unguarded,
    relist: Callable[[ListFrom], None] | None = None,
    changes: Changes | None = None,
) -> AsyncIterator[Publisher]:
    """A running publisher."""
    setup = PublisherSetup(connection, source, "cluster-1", layout, guard=guard, settings=settings)
    publisher = Publisher(setup, part, relist=relist, changes=changes)
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(publisher.run())
        try:
            yield publisher
        finally:
            runner.cancel()
            with suppress(asyncio.CancelledError):
                await runner
