"""The real `aim console` beside a broker that a test fills: no services, no reconciles."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from support.bus_source import Source
from support.nats import TEST_LIMITS, connected, eventually

from aim_console.mirror import OBJECT_PARTS
from aim_local.nats import NatsServer
from aim_local.processes import dying_with_parent, stop_process
from controller_runtime import JsonObject, Key
from controller_runtime.log.broker.connection import BusConnection, PubAck
from controller_runtime.log.broker.streams import ensure_streams
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT
from embedded_apiserver import ControlPlane

_PATIENCE: Final = 30.0
_IN_FLIGHT: Final = 32
_VOUCH_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Site:
    """A console and what it reads.

    Attributes:
        address: of the home page, with the token.
        plane: who is asked what the viewer may list.
        pid: of the console.
    """

    address: str
    plane: ControlPlane
    broker: NatsServer
    pid: int
    feed: "Feed"

    def url(self, path: str) -> str:
        """Of a page, for whoever has the cookie."""
        return self.address.partition("/?")[0] + path


class Feed:
    """Says to the broker what five services would say."""

    def __init__(self, bus: BusConnection) -> None:
        self._bus = bus
        # Where a kind has several parts, the mirror takes its objects from any of them.
        kinds = {(part.kind.api_version, part.kind.kind): part for part in reversed(OBJECT_PARTS)}
        # An epoch for each: the broker takes checkpoints of one epoch with one number for one and the same.
        self._sources = {
            part.name: Source(bus, DEFAULT_LAYOUT, part.name, epoch=f"20260101T000000.000Z-{number:06x}")
            for number, part in enumerate(OBJECT_PARTS)
        }
        self._of_kind = {kind: self._sources[part.name] for kind, part in kinds.items()}

    async def tell(self, obj: JsonObject) -> None:
        """A version of an object, which no publisher confirms yet."""
        source = self._of_kind[obj["apiVersion"], obj["kind"]]
        key = Key(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
        source.truth[key] = obj
        await source.publish(key, obj)

    async def tell_all(self, objects: Iterable[JsonObject]) -> None:
        """Many, in any order; and that this is all."""
        rest = iter(objects)

        async def work() -> None:
            for obj in rest:
                await self.tell(obj)

        await asyncio.gather(*(work() for _ in range(_IN_FLIGHT)))
        await self.vouch()

    async def change(self, obj: JsonObject) -> None:
        """A version, and that nothing else is there."""
        await self.tell(obj)
        await self._of_kind[obj["apiVersion"], obj["kind"]].mark()

    async def decided(self, record: DecisionRecord) -> None:
        """What a service decided."""
        subject = DEFAULT_LAYOUT.decision(record.service, record.part, record.key)
        outcome = await self._bus.publish(subject, record.to_json(), {})
        assert isinstance(outcome, PubAck), outcome

    async def vouch(self) -> None:
        """That all of every part is told."""
        for source in self._sources.values():
            await source.mark()

    async def keep_vouching(self) -> None:
        """As publishers do, so that nothing becomes stale while a test looks."""
        while True:
            await asyncio.sleep(_VOUCH_SECONDS)
            await self.vouch()


@asynccontextmanager
async def site(folder: Path, objects: Iterable[JsonObject] = ()) -> AsyncIterator[Site]:
    """A broker with these objects, and a console that has read them."""
    async with ControlPlane() as plane, reported(folder, objects) as (broker, feed):
        kubeconfig = folder / "kubeconfig"
        await asyncio.to_thread(kubeconfig.write_text, plane.kubeconfig())
        async with _console(broker.url, kubeconfig) as (address, pid):
            yield Site(address, plane, broker, pid, feed)


@asynccontextmanager
async def reported(folder: Path, objects: Iterable[JsonObject] = ()) -> AsyncIterator[tuple[NatsServer, Feed]]:
    """A broker that was told of these objects, and still is."""
    store = folder / "nats"
    # Nobody asks what is left after a crash of the machine: writes need not be synced.
    unsynced = f'jetstream {{ store_dir: "{store}", max_file_store: 1TB }}'
    async with NatsServer(store, extra_config=unsynced) as broker, connected(broker.url) as bus:
        await bus.wait_connected()
        await ensure_streams(bus, DEFAULT_LAYOUT, TEST_LIMITS)
        feed = Feed(bus)
        await feed.tell_all(objects)
        checkpointer = asyncio.ensure_future(feed.keep_vouching())
        try:
            yield broker, feed
        finally:
            checkpointer.cancel()
            await asyncio.wait((checkpointer,))


@asynccontextmanager
async def _console(nats_url: str, kubeconfig: Path) -> AsyncIterator[tuple[str, int]]:
    """The command as a person starts it; the address that it prints, and its process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aim_cli", "console", "--nats-url", nats_url, "--kubeconfig", str(kubeconfig),
        env=dict(os.environ), stdout=asyncio.subprocess.PIPE, start_new_session=True,
        preexec_fn=dying_with_parent(signal.SIGKILL),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_PATIENCE):
            address = (await process.stdout.readline()).decode().strip()
        assert address.startswith("http://127.0.0.1:"), f"aim console ended with {await process.wait()}"
        # The port is taken when the address is printed, and open a moment later.
        await eventually(lambda: _knows(address), "the console knows everything", _PATIENCE)
        yield address, process.pid
    finally:
        await stop_process(process, _PATIENCE)


async def _knows(address: str) -> bool:
    base, _, query = address.partition("/?")
    # The jar leaves cookies of addresses out unless it is told not to.
    async with aiohttp.ClientSession(base, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        try:
            async with session.get(f"/bus?{query}") as answer:
                return answer.status == 200 and "Not everything is known yet" not in await answer.text()
        except aiohttp.ClientConnectionError:
            return False
