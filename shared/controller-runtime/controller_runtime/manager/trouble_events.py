"""Tells of troubles: once in the log, and as Events on the Pod of the process while they stand (FW-583, FW-584)."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from controller_runtime.api.enums import EventType
from controller_runtime.kinds import POD
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_connection
from controller_runtime.kube.errors import KubeError
from controller_runtime.log.wire.part import Part
from controller_runtime.manager.causes import Cause
from controller_runtime.manager.settings import Settings, own_namespace
from controller_runtime.manager.troubles import Trouble
from controller_runtime.reconcile.child import Target
from controller_runtime.reconcile.events import EventWriter
from controller_runtime.reconcile.plan import Event

_log = structlog.get_logger(__name__)


_LOOK: Final = 1.0


_STANDING: Final = 2.0
"""Seconds that a trouble has to last: at a start much is missing for a moment."""


_OVER: Final = 5.0
"""Seconds after which it does not count any more: of several brokers each fails in its own way, by turns."""


_REPEAT: Final = 300.0


_RETRY: Final = 10.0


_END: Final = 2.0
"""Seconds that a process which fails may take to say why."""


_PODS: Final = Part("pods", POD)


def own_pod(settings: Settings) -> Target | None:
    """The Pod that this process runs in; ``None`` where it runs in none."""
    if not settings.pod_uid:
        return None
    return _pod(settings.pod_name, settings.system_namespace, settings.pod_uid)


def _pod(name: str, namespace: str, uid: str) -> Target:
    return Target(_PODS, {"metadata": {"name": name, "namespace": namespace, "uid": uid}})


class Poster(Protocol):
    """Posts Events, as `EventWriter` does."""

    async def post(self, target: Target, source: str, event: Event) -> bool: ...


@dataclass(slots=True)
class _Ongoing:
    """A trouble since it appeared.

    Attributes:
        seen: when it was there last.
        next_event: when to post it.
    """

    was: Trouble
    since: float
    seen: float
    logged: bool = False
    next_event: float = 0.0


class TroubleReporter:
    """Looks at the troubles of a process every second.

    Args:
        writer: posts the Events; its client has no guard, because those who do not lead have troubles, too.
        pod: what they are about; ``None`` = only the log has it.
    """

    def __init__(
        self,
        troubles: Callable[[], Iterable[Trouble]],
        writer: Poster,
        component: str,
        pod: Target | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._troubles = troubles
        self._writer = writer
        self._component = component
        self._pod = pod
        self._clock = clock
        self._ongoing: dict[str, _Ongoing] = {}

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK)

    async def look(self) -> None:
        """Tell of what stands for long enough, and of what is over."""
        now = self._clock()
        present = {trouble.identity: trouble for trouble in self._troubles()}
        for identity, ongoing in list(self._ongoing.items()):
            if identity not in present and now - ongoing.seen >= _OVER:
                del self._ongoing[identity]
                if ongoing.logged:
                    _log.info("no longer in the way", reason=ongoing.was.cause.value, was=ongoing.was.found)
        for identity, trouble in present.items():
            ongoing = self._ongoing.setdefault(identity, _Ongoing(trouble, now, now))
            ongoing.seen = now
            if now - ongoing.since < _STANDING:
                continue
            if not ongoing.logged:
                ongoing.logged = True
                _log.warning(trouble.line, reason=trouble.cause.value)
            if self._pod is not None and now >= ongoing.next_event:
                reported = await self._writer.post(self._pod, self._component, event_of(trouble))
                ongoing.next_event = now + (_REPEAT if reported else _RETRY)


def event_of(trouble: Trouble) -> Event:
    """The Event of a trouble."""
    return Event(EventType.WARNING, trouble.cause.value, trouble.line)


async def report_unusable(prefix: str, line: str) -> None:
    """Leave the Event of a process whose settings cannot be used; only where it runs can be taken from them.

    Args:
        prefix: of its variables.
    """
    name, uid = os.environ.get(f"{prefix}POD_NAME", ""), os.environ.get(f"{prefix}POD_UID", "")
    if not name or not uid:
        return
    pod = _pod(name, os.environ.get(f"{prefix}SYSTEM_NAMESPACE") or own_namespace("default"), uid)
    # The line is printed already; nothing is left to report a failure here to.
    with suppress(KubeError, TimeoutError):
        async with asyncio.timeout(2 * _END), KubeClient(await load_connection(), service="start") as kube:
            await _post_last(kube, pod, name, Trouble(Cause.SETTINGS, line))


async def report_end(kube: KubeClient, settings: Settings, manager: str, trouble: Trouble) -> None:
    """Leave the Event of a process that ends; a late answer is not waited for."""
    pod = own_pod(settings)
    if pod is not None:
        await _post_last(kube, pod, manager, trouble)


async def _post_last(kube: KubeClient, pod: Target, manager: str, trouble: Trouble) -> None:
    # In a task of its own: the task that failed may still be marked as cancelled.
    posting = asyncio.create_task(EventWriter(kube, manager).post(pod, manager, event_of(trouble)))
    await asyncio.wait((posting,), timeout=_END)
    posting.cancel()
