"""Versions that wait to be published: in order per object, in bounded memory, and whether any is missing."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from controller_runtime.kube.reflector_state import Delete, Event, ListFrom, Restarted, Upsert
from controller_runtime.log.freshness import boot_seconds
from controller_runtime.log.publish.judgement import StoredVersion
from controller_runtime.log.publish.source import Source, SourceVersion
from controller_runtime.log.wire.messages import Verb
from controller_runtime.log.wire.part import Key, Part

MAX_WAITING: Final = 20_000
"""Versions that may wait; beyond, only the newest of each object is kept."""


@dataclass(slots=True)
class _Lane:
    waiting: deque[tuple[int, SourceVersion]] = field(default_factory=deque)
    busy: bool = False


class Lanes:
    """One queue per object. A version leaves its lane only when it is done, so nothing is lost in between."""

    def __init__(self, limit: int = MAX_WAITING, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._finished = 0
        self._finished_seconds = 0.0
        self._lanes: dict[Key, _Lane] = {}
        self._ready: OrderedDict[Key, None] = OrderedDict()
        self._open: dict[int, float] = {}
        self._tickets = 0
        self._dropped = 0
        self._forgotten = 0
        self._gaps: set[Key] = set()
        self._held = False

    def __len__(self) -> int:
        return len(self._open)

    def newest(self) -> dict[Key, SourceVersion]:
        """The last version under way of every object that has any."""
        return {key: lane.waiting[-1][1] for key, lane in self._lanes.items() if lane.waiting}

    def newest_of(self, key: Key) -> SourceVersion | None:
        """The last version under way of one object."""
        lane = self._lanes.get(key)
        return lane.waiting[-1][1] if lane is not None and lane.waiting else None

    def oldest_of(self, key: Key) -> SourceVersion | None:
        """The first version under way of one object."""
        lane = self._lanes.get(key)
        return lane.waiting[0][1] if lane is not None and lane.waiting else None

    def hold(self) -> None:
        """Give out nothing until `release`."""
        self._held = True

    def release(self) -> None:
        """Give out versions again."""
        self._held = False

    @property
    def dropped(self) -> int:
        """Versions that newer ones replaced before they were published."""
        return self._dropped

    @property
    def forgotten(self) -> int:
        """Objects that came and went without a trace, so that no version is left to tell that others are missing."""
        return self._forgotten

    def take_gap(self, key: Key) -> bool:
        """Whether versions of an object are missing before the one that is being worked on; that is forgotten here.

        Forgotten before the version is written and not after it, as versions behind it may be dropped meanwhile.
        """
        missing = key in self._gaps
        self._gaps.discard(key)
        return missing

    def note_gap(self, key: Key) -> None:
        """Versions are missing before the next one of an object: the one being worked on, or those before it."""
        self._gaps.add(key)

    @property
    def lag(self) -> float:
        """Seconds that the oldest version waits."""
        return next((self._clock() - since for since in self._open.values()), 0.0)

    @property
    def finished(self) -> tuple[int, float]:
        """Versions that were dealt with, and the seconds that they took from their arrival, in all."""
        return self._finished, self._finished_seconds

    @property
    def last_ticket(self) -> int:
        """Number of the latest version added."""
        return self._tickets

    def is_done(self, ticket: int) -> bool:
        """Whether every version up to that number is done."""
        return next(iter(self._open), ticket + 1) > ticket

    def add(self, version: SourceVersion, *, latest_only: bool = False) -> None:
        """Queue a version behind the object's earlier ones, or in their place."""
        lane = self._lanes.setdefault(version.key, _Lane())
        if latest_only or len(self._open) >= self._limit:
            self._shorten(lane, 1 if lane.busy else 0)
        self._tickets += 1
        self._open[self._tickets] = self._clock()
        lane.waiting.append((self._tickets, version))
        if not lane.busy:
            self._ready[version.key] = None

    def put_first(self, key: Key, versions: Sequence[SourceVersion]) -> None:
        """Queue versions before what waits of the object; none of it may be worked on."""
        if not versions:
            return
        lane = self._lanes.setdefault(key, _Lane())
        assert not lane.busy, "the session that works on it has ended"
        for version in reversed(versions):
            self._tickets += 1
            self._open[self._tickets] = self._clock()
            lane.waiting.appendleft((self._tickets, version))
        self._ready[key] = None

    def forget(self, key: Key) -> bool:
        """Drop an object's versions and the deletion that would follow them, as if it had never been.

        Returns whether it did; not so while one of them is being worked on.
        """
        lane = self._lanes.get(key)
        if lane is not None and lane.busy:
            return False
        if lane is not None:
            self._shorten(lane, 0)
            del self._lanes[key]
            self._ready.pop(key, None)
        self._dropped += 1
        self._forgotten += 1
        self._gaps.discard(key)
        return True

    def take(self) -> SourceVersion | None:
        """The next version to work on; its object is busy until `finish`."""
        while self._ready and not self._held:
            lane = self._lanes.get(self._ready.popitem(last=False)[0])
            if lane is not None and lane.waiting and not lane.busy:
                lane.busy = True
                return lane.waiting[0][1]
        return None

    def finish(self, key: Key) -> None:
        """The version taken is done."""
        lane = self._lanes[key]
        ticket, _ = lane.waiting.popleft()
        self._finished += 1
        self._finished_seconds += self._clock() - self._open.pop(ticket)
        lane.busy = False
        if lane.waiting:
            self._ready[key] = None
        else:
            del self._lanes[key]

    def put_back(self) -> None:
        """Nothing is being worked on any more; what was begun will be begun again."""
        for lane in self._lanes.values():
            lane.busy = False
        self._ready = OrderedDict.fromkeys(self._lanes)

    def collapse(self) -> None:
        """Keep only the newest version of every object."""
        for lane in self._lanes.values():
            self._shorten(lane, 0, keep_last=1)

    def _shorten(self, lane: _Lane, first: int, *, keep_last: int = 0) -> None:
        while len(lane.waiting) > first + keep_last:
            if first:
                # The one being worked on stays; what goes is what waits behind it.
                ticket, version = lane.waiting.pop()
            else:
                ticket, version = lane.waiting.popleft()
            del self._open[ticket]
            self._dropped += 1
            self._gaps.add(version.key)


Identity = tuple[str, str] | None
"""UID and resourceVersion of an object that exists."""


class Continuity:
    """Follows the changes after lists, until the streams were compared."""

    def __init__(self) -> None:
        self._open = False
        self._changed: set[Key] = set()
        self._expected: dict[Key, Identity] = {}
        self._broken = False

    def note_list(self) -> None:
        """A list came."""
        self._open = True
        self._changed.clear()

    def note_change(self, key: Key, before: SourceVersion | None, waiting: SourceVersion | None) -> None:
        """The watch brought a version.

        Args:
            before: what the object was until then; ``None`` if it did not exist.
            waiting: its newest version under way.
        """
        if not self._open or key in self._changed:
            return
        self._changed.add(key)
        if waiting is None:
            self._expected.setdefault(key, _identity(before))
        elif _identity(waiting) != _identity(before):
            self._broken = True

    def forget(self, key: Key) -> None:
        """An object is gone before anything of it was stored, and what waited of it was dropped."""
        self._changed.discard(key)
        self._expected.pop(key, None)

    def in_list(self, key: Key, present: SourceVersion | None) -> Identity:
        """UID and version that the list had of an object; ``None`` if it had none.

        Args:
            present: what there is of it now.
        """
        return self._expected[key] if key in self._expected else _identity(present)

    def missing(self, stored: Mapping[Key, StoredVersion]) -> set[Key]:
        """Objects of which versions are missing between what is stored and what is under way."""
        return {key for key, found in self._expected.items() if found != _identity(stored.get(key))}

    def is_broken(self, stored: Mapping[Key, StoredVersion]) -> bool:
        """Whether versions are missing between what is stored and what is under way."""
        return self._broken or bool(self.missing(stored))

    def compared(self) -> None:
        """What is under way from now on follows upon what was compared."""
        self._open = self._broken = False
        self._changed.clear()
        self._expected.clear()


def _identity(version: SourceVersion | StoredVersion | None) -> Identity:
    if version is None or version.verb is Verb.DELETE:
        return None
    return version.uid, version.resource_version


KEPT_WHILE_AWAY: Final = 2_000
"""Versions of a part that wait for a broker that is away; beyond, only the newest of each object is kept (FW-580).

Brokers of three have a new leader within twenty seconds, which is to go unnoticed. Packed, this is a megabyte.
"""


class Intake:
    """Takes in events and never waits; outlives the sessions of its publisher.

    Args:
        connected: whether the broker can be reached.
        relist: asks the reflector for a list, which comes as `Restarted`; ``None`` where Kubernetes knows nothing.
        held: whether the stream is known to hold something of an object.
        room: versions that wait for a broker that is away.

    Attributes:
        arrived: set when there may be something to publish.
        relisted: set when a list came that was not compared yet.
        moved: set when the newest version changed.
        contradicted: set when the stream was found to hold something else than was published.
    """

    def __init__(
        self,
        part: Part[Any],
        connected: Callable[[], bool],
        relist: Callable[[ListFrom], None] | None,
        held: Callable[[Key], bool] = lambda _: True,
        room: int = KEPT_WHILE_AWAY,
    ) -> None:
        self.source = Source(part)
        self.lanes = Lanes()
        self.continuity = Continuity()
        self.arrived = asyncio.Event()
        self.relisted = asyncio.Event()
        self.moved = asyncio.Event()
        self.contradicted = asyncio.Event()
        self._connected = connected
        self._relist = relist
        self._held = held
        self._room = room
        self._heard_at = boot_seconds()

    @property
    def silence(self) -> float:
        """Seconds since the watch brought anything."""
        return boot_seconds() - self._heard_at

    @property
    def can_relist(self) -> bool:
        """Whether there is a server to ask for a list."""
        return self._relist is not None

    def take(self, event: Event[SourceVersion]) -> None:
        """Take in an event of the reflector."""
        before = self._before(event)
        version = self.source.take(event)
        self._heard_at = boot_seconds()
        if isinstance(event, Restarted):
            # What follows may follow upon a version that the list folded; the comparison tells, and then it goes out.
            self.lanes.hold()
            self.continuity.note_list()
            self.relisted.set()
        self.moved.set()
        if version is not None:
            self.continuity.note_change(version.key, before, self.lanes.newest_of(version.key))
            self._enqueue(version)

    def _before(self, event: Event[SourceVersion]) -> SourceVersion | None:
        """What the object of an event was until then."""
        match event:
            case Upsert(version):
                return self.source.present.get(version.key)
            case Delete(obj):
                return self.source.present.get(Key.of(obj))
            case _:
                return None

    def in_list(self, key: Key) -> Identity:
        """What the last list had of an object."""
        return self.continuity.in_list(key, self.source.present.get(key))

    def put(self, version: SourceVersion) -> None:
        """Take in a version that no watch brought."""
        self._enqueue(self.source.put(version))

    def remove(self, key: Key, uid: str) -> None:
        """Take in a deletion that no watch brought."""
        self._enqueue(self.source.remove(key, uid, ""))

    def relist(self, source: ListFrom) -> None:
        """Ask for a list; where there is no server to ask, what is known counts as one."""
        if self._relist is not None:
            self._relist(source)
        else:
            self.relisted.set()

    def release(self) -> None:
        """Let versions go out, unless a list has to be compared before."""
        if not self.relisted.is_set():
            self.lanes.release()
        self.arrived.set()

    def shorten(self) -> None:
        """There is no broker: keep no more than what it takes to bridge a change of its leader."""
        if len(self.lanes) > self._room:
            self.lanes.collapse()

    def is_at(self, version: int) -> bool:
        """Whether the watch has reached a version."""
        return int(self.source.version) >= version

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the watch brings."""
        while not condition():
            self.moved.clear()
            await self.moved.wait()

    def _enqueue(self, version: SourceVersion) -> None:
        crowded = not self._connected() and len(self.lanes) >= self._room
        if crowded and version.deleted and not self._held(version.key) and self.lanes.forget(version.key):
            # The object was never published, and without a broker there is no end to such. The session that comes finds
            # what the stream holds of it after all, and tells by a new epoch that versions are missing.
            self.continuity.forget(version.key)
            return
        # Then only the newest version of an object is kept; the next one tells that others are missing.
        self.lanes.add(version, latest_only=crowded)
        self.arrived.set()
