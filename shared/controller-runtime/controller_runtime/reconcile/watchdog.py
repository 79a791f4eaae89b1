"""Notices an object that holds the event loop, and keeps that in mind beyond the end of the process (FW-745…FW-748).

What is watched of an object: taking it in, a decision about it, and each step of carrying out what was decided.

Three watch, because each is blind to something. A thread sees all that lets other threads run: Python code, also code
that waits. Code in C that keeps the interpreter's lock (a regular expression, a sort) stops the thread too: there a
timer of the kernel writes where the loop is, and a page of memory that is a file tells which object was under way.
And what ends after its budget reports itself.
"""

import faulthandler
import hashlib
import mmap
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self, TypeVar

import structlog
from pydantic import TypeAdapter, ValidationError

from controller_runtime import annotation_keys
from controller_runtime.api.meta import Resource
from controller_runtime.json import canonical, dumps
from controller_runtime.log.wire.version import Entry

R = TypeVar("R")

DEFAULT_BUDGET: Final = 10.0
"""Seconds for which one object may hold the event loop at a time."""

_FRAMES: Final = 8
_LEAST_COMPUTED: Final = 0.1
"""Part of the budget in which the processor has computed, or it was the process that stood still."""
_MOST_KEPT: Final = 1000
_STOP_SECONDS: Final = 1.0
_PAGE: Final = mmap.PAGESIZE
_VERSIONED: Final = frozenset({"resourceVersion", "managedFields"})
_FRAMEWORK: Final = frozenset({annotation_keys.TRACEPARENT, annotation_keys.APPLIED_HASH})

_log = structlog.get_logger(__name__)


class Stage(StrEnum):
    """What is done with an object, as a message names it."""

    READ = "taking it in"
    DECIDE = "a decision about it"
    CARRY_OUT = "carrying out its plan"


_READER: Final = ""
"""In place of a controller, where the process takes objects in for all of them."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A version of an object that one controller decides about, or that the process takes in.

    Attributes:
        digest: differs when anything but the status differs.
        overrun: for how long it held the loop, in seconds; 0 = that is not known.
        at: when that was noticed, RFC 3339.
    """

    controller: str
    kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    digest: str
    overrun: float = 0.0
    at: str = ""
    stage: Stage = Stage.DECIDE

    @classmethod
    def of(cls, controller: str, entry: Entry[Any], obj: Resource) -> Self:
        """The subject of a decision about an object."""
        return cls(
            controller,
            entry.part.kind.kind,
            entry.key.namespace,
            entry.key.name,
            entry.version.uid,
            obj.metadata.generation,
            entry.version.resource_version,
            _digest(entry, obj),
        )

    @classmethod
    def read(cls, entry: Entry[Any]) -> Self:
        """The subject of taking an object in, before anything of it is decoded."""
        metadata = entry.raw.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        generation = metadata.get("generation")
        generation = generation if isinstance(generation, int) else 0
        asked = metadata.get("deletionTimestamp"), metadata.get("labels"), metadata.get("annotations")
        # Of a kind without a generation each version is another one.
        stated = repr((generation, *asked) if generation else (entry.version.resource_version,)).encode()
        return cls(
            _READER,
            entry.part.kind.kind,
            entry.key.namespace,
            entry.key.name,
            entry.version.uid,
            generation,
            entry.version.resource_version,
            hashlib.blake2b(stated, digest_size=12).hexdigest(),
            stage=Stage.READ,
        )

    @property
    def version(self) -> str:
        """The version, as users find it in the metadata."""
        return f"generation {self.generation}" if self.generation else f"resourceVersion {self.resource_version}"


_SUBJECT: Final = TypeAdapter(Subject)


def _digest(entry: Entry[Any], obj: Resource) -> str:
    """What an object asks for: generation, deletion, labels and annotations; of kinds without a generation all of it.

    A status does not count, or what several services write into it would have the loop held once for each of them.
    """
    metadata = obj.metadata
    if metadata.generation:
        annotations = sorted(one for one in metadata.annotations.items() if one[0] not in _FRAMEWORK)
        asked = repr((metadata.generation, obj.deleting, sorted(metadata.labels.items()), annotations)).encode()
    else:
        raw = {name: value for name, value in entry.raw.items() if name != "status"}
        stable = {name: value for name, value in raw["metadata"].items() if name not in _VERSIONED}
        asked = canonical({**raw, "metadata": stable})
    return hashlib.blake2b(asked, digest_size=12).hexdigest()


class Memory:
    """Files of one process in a folder that outlives it, such as an `emptyDir`; not a volume that pods share.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / name
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._overruns = os.open(path.with_name(f"{name}.overruns"), flags | os.O_APPEND, 0o600)
        self.trace: Final = os.open(path.with_name(f"{name}.trace"), flags | os.O_APPEND, 0o600)
        under_way = os.open(path.with_name(f"{name}.deciding"), flags, 0o600)
        # With its room taken, no store into the mapped page can fail for want of it.
        os.posix_fallocate(under_way, 0, _PAGE)
        self._page = mmap.mmap(under_way, _PAGE)
        os.close(under_way)

    def begin(self, subject: Subject) -> None:
        """Something begins: a store into memory, which the kernel keeps whatever becomes of the process."""
        line = dumps(subject) + b"\n"
        if len(line) <= _PAGE:
            self._page[: len(line)] = line

    def end(self) -> None:
        """Nothing is under way."""
        self._page[0] = 0

    def keep(self, overrun: Subject) -> None:
        """Have an overrun read by the next process."""
        # On a line of its own, also behind one that a process did not finish.
        os.write(self._overruns, b"\n" + dumps(overrun))

    def noted_overruns(self) -> list[Subject]:
        """The overruns, the latest last."""
        lines = os.pread(self._overruns, os.fstat(self._overruns).st_size, 0).splitlines()
        found = [_read(line) for line in lines[-_MOST_KEPT:]]
        return [one for one in found if one is not None]

    def interrupted(self) -> tuple[Subject, list[str]] | None:
        """What the last process ended in after its timer had fired, and the innermost frames."""
        subject, frames = _read(self._page[:].partition(b"\n")[0]), self.traced()
        return (subject, frames) if subject is not None and frames else None

    def traced(self) -> list[str]:
        """The innermost frames as the timer has written them; empty when it has not fired."""
        lines = os.pread(self.trace, 1 << 16, 0).decode(errors="replace").splitlines()
        return [line.strip() for line in lines if line.startswith("  File ")][:_FRAMES]

    def forget_trace(self) -> None:
        """Drop what the timer wrote about a loop that goes on."""
        if os.fstat(self.trace).st_size:
            os.ftruncate(self.trace, 0)

    def close(self) -> None:
        """Give the files back; they stay."""
        self._page.close()
        os.close(self._overruns)
        os.close(self.trace)


def _read(line: bytes) -> Subject | None:
    try:
        return _SUBJECT.validate_json(line)
    except ValidationError:
        return None


@dataclass(slots=True)
class _UnderWay:
    """What is under way, and since when, by the clock and by the processor."""

    subject: Subject
    since: float
    computed: float


class Watchdog:
    """Watches what one process does with objects.

    Args:
        budget: seconds for which one object may hold the loop at a time.
        memory: opens the files that outlive the process; without them an overrun is known to this process alone.
    """

    def __init__(self, budget: float = DEFAULT_BUDGET, memory: Callable[[], Memory] | None = None) -> None:
        self.budget: Final = budget
        self._open = memory
        self._memory: Memory | None = None
        self._now: _UnderWay | None = None
        self._overruns: dict[tuple[str, str], Subject] = {}
        self._refused: set[str] = set()
        self._stopped = threading.Event()
        self._thread = 0

    def watch(self, subject: Subject, act: Callable[[], R]) -> R:
        """Do something with an object; what takes longer than the budget is an overrun from then on."""
        outer, began = self._now, _UnderWay(subject, time.monotonic(), time.thread_time())
        self._enter(began)
        try:
            return act()
        finally:
            seconds, computed = time.monotonic() - began.since, time.thread_time() - began.computed
            # A process that was suspended has held nothing.
            if seconds > self.budget and computed > self.budget * _LEAST_COMPUTED:
                self._note(subject, seconds, [] if self._memory is None else self._memory.traced())
            if outer is not None:
                # Taking in what an object has written is the other one's time.
                outer.since, outer.computed = outer.since + seconds, outer.computed + computed
            self._enter(outer)

    def _enter(self, what: _UnderWay | None) -> None:
        self._now = what
        if self._memory is not None:
            if what is None:
                self._memory.end()
            else:
                self._memory.begin(what.subject)

    @types.coroutine
    def steps(self, subject: Subject, work: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
        """Carry something out; each step from one wait to the next has the budget."""
        step: Callable[[], Any] = partial(work.send, None)
        while True:
            try:
                waited = self.watch(subject, step)
            except StopIteration as done:
                result: R = done.value
                return result
            try:
                step = partial(work.send, (yield waited))
            except BaseException as error:
                # A cancellation, too, is for the work to handle.
                step = partial(work.throw, error)

    def overrun(self, subject: Subject) -> Subject | None:
        """The overrun of this very version, if there was one."""
        found = self._overruns.get((subject.controller, subject.uid))
        return found if found is not None and found.digest == subject.digest else None

    def take_in(self, entry: Entry[Any], derive: Callable[[], None]) -> bool:
        """Read an object, unless this version held the loop when that was done before; returns whether it was read."""
        subject = Subject.read(entry)
        if self.overrun(subject) is None:
            self.let_go(subject.uid)
            self.watch(subject, derive)
        refused = self.overrun(subject) is not None
        if refused:
            self._refused.add(subject.uid)
        return not refused

    def let_go(self, uid: str) -> None:
        """An object is gone, or another version of it is there."""
        self._refused.discard(uid)
        self.forget(_READER, uid)

    def unread(self, entry: Entry[Any]) -> Subject | None:
        """The overrun of reading this very version, if there was one."""
        return self.overrun(Subject.read(entry)) if (_READER, entry.version.uid) in self._overruns else None

    @property
    def refused(self) -> list[Subject]:
        """The objects that are there and not read because they held the loop."""
        return [one for one in list(self._overruns.values()) if one.stage is Stage.READ and one.uid in self._refused]

    def forget(self, controller: str, uid: str) -> None:
        """The object is gone."""
        self._overruns.pop((controller, uid), None)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the thread that enters this, until it leaves."""
        self._thread = threading.get_ident()
        self._remember()
        thread = threading.Thread(target=self._sample, name="watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            # It may hang in the log, and then rewinds no timer.
            thread.join(_STOP_SECONDS)
            memory, self._memory = self._memory, None
            if memory is not None:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                faulthandler.unregister(signal.SIGVTALRM)
                memory.close()

    def _remember(self) -> None:
        """Read what the processes before have noticed, and have the kernel's timer write into the trace."""
        if self._open is None:
            return
        try:
            memory = self._open()
        except OSError as error:
            _log.warning("objects that hold the event loop are forgotten at a restart", error=str(error))
            return
        self._overruns = {(one.controller, one.uid): one for one in memory.noted_overruns()}
        self._memory = memory
        if (found := memory.interrupted()) is not None:
            self._note(found[0], self.budget, found[1])
        memory.end()
        memory.forget_trace()
        # Processor time: that of a suspended process stands still, and nothing else uses this timer.
        faulthandler.register(signal.SIGVTALRM, file=memory.trace, all_threads=False)

    def _sample(self) -> None:
        """Look again and again, holding no lock; what is counted is the time in which this thread ran too."""
        interval = min(1.0, self.budget / 4)
        seen, seconds, last = self._now, 0.0, time.monotonic()
        while not self._stopped.wait(interval):
            self._rewind()
            now, current = time.monotonic(), self._now
            seconds = seconds + min(now - last, 2 * interval) if current is seen else 0.0
            seen, last = current, now
            if current is not None and seconds > self.budget:
                self._note(current.subject, now - current.since, _frames(self._thread))

    def _rewind(self) -> None:
        """The timer fires when this thread did not come here for as long as the budget: something keeps it away."""
        if self._memory is not None:
            signal.setitimer(signal.ITIMER_VIRTUAL, self.budget)
            self._memory.forget_trace()

    def _note(self, subject: Subject, seconds: float, frames: list[str]) -> None:
        """Remember an overrun once, then log it: the log may be what does not move."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        overrun = replace(subject, overrun=round(seconds, 3), at=at)
        key = subject.controller, subject.uid
        before = self._overruns.get(key)
        if before is not None and before.digest == overrun.digest:
            return
        self._overruns[key] = overrun
        if self._memory is not None:
            self._memory.keep(overrun)
        _log.error(
            f"{overrun.stage} holds the event loop; the object is not reconciled until it changes",
            controller=subject.controller,
            kind=subject.kind,
            namespace=subject.namespace,
            name=subject.name,
            version=subject.version,
            seconds=overrun.overrun,
            frames=frames,
        )


def _frames(thread: int) -> list[str]:
    """The innermost frames of a thread, the innermost first; reads no source, which may be on a slow disk."""
    frame: FrameType | None = sys._current_frames().get(thread)
    found: list[str] = []
    while frame is not None and len(found) < _FRAMES:
        code = frame.f_code
        found.append(f"{code.co_filename}:{frame.f_lineno} {code.co_qualname}")
        frame = frame.f_back
    return found
