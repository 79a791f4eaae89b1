"""Publishes one part: every version the watch gives, in order per object, and repairs whatever the streams lost.

The publisher lives in *sessions*. Each begins with reading what the stream holds, copying into the history what a
crash may have left out of it, comparing with Kubernetes, and only then writing the part's marker. A lost connection,
a doubtful outcome, a new list and the time for a comparison all lead to the next session: there is one way to become
sure, and it is always the same.
"""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import structlog

from controller_runtime.backoff import Backoff
from controller_runtime.bus.connection import raise_if_cancelled
from controller_runtime.bus.envelope import StateMessage
from controller_runtime.bus.intake import Intake
from controller_runtime.bus.marker_writer import MarkerWriter
from controller_runtime.bus.part import Key, Part
from controller_runtime.bus.publisher_context import Progress, PublisherContext
from controller_runtime.bus.publisher_state import PublisherSetup, PublisherStatistics
from controller_runtime.bus.pump import Unwritable
from controller_runtime.bus.scoping import Scoping
from controller_runtime.bus.session import Session
from controller_runtime.bus.source import SourceVersion
from controller_runtime.bus.tasks import in_own_task
from controller_runtime.bus.vouching import CompareDueError
from controller_runtime.bus.writer import Writer
from controller_runtime.kube.reflector_state import Event, ListFrom, Restarted

_log = structlog.get_logger(__name__)

_BACKOFF: Final = Backoff(base=0.1, cap=5.0)
_LEASE_POLL: Final = 0.25


class Publisher:
    """Publishes one part while this process leads.

    Feed it with `take` (or `consume`) from the moment the watch starts, connected or not, and let `run` work.

    Args:
        service: for facts, which service's.
        relist: asks the reflector for a list, which comes as `Restarted`.
        loaded: told of all messages found in the stream when a session begins.
    """

    def __init__(
        self,
        setup: PublisherSetup,
        part: Part[Any],
        *,
        service: str = "",
        relist: Callable[[ListFrom], None] | None = None,
        loaded: Callable[[Sequence[StateMessage]], None] | None = None,
    ) -> None:
        # Two processes of one name, or two terms of one process, must be able to tell each other apart.
        self.source: Final = f"{setup.source}/{secrets.token_hex(4)}"
        """What its markers bear as their source."""
        connection = setup.connection
        writer = Writer(setup, part, self.source)
        intake = Intake(part, lambda: connection.connected, relist, lambda key: key in writer.stored)
        self._context = PublisherContext(
            setup=setup,
            part=part,
            service=service,
            loaded=loaded,
            intake=intake,
            scoping=Scoping(part.name, intake, setup.cluster, setup.settings.list_grace),
            writer=writer,
            markers=MarkerWriter(setup, part.name, service, self.source),
            unwritable=Unwritable(intake),
            progress=Progress(),
        )

    # What others see

    @property
    def statistics(self) -> PublisherStatistics:
        """A snapshot for metrics."""
        context, progress, counts = self._context, self._context.progress, self._context.writer.counts
        return PublisherStatistics(
            phase=progress.phase,
            epoch=self.epoch,
            objects=len(context.intake.source.present),
            waiting=len(context.intake.lanes),
            published=counts.published,
            dropped=context.intake.lanes.dropped,
            stale=counts.stale,
            refused=counts.refused,
            rereads=counts.rereads,
            copied=counts.copied,
            sessions=progress.sessions,
            differences=progress.differences,
            repaired=progress.repaired,
            markers=context.markers.written,
            swept=progress.swept,
            lag_seconds=context.intake.lanes.lag,
            finished=context.intake.lanes.finished,
            interrupted_by=progress.withheld,
        )

    @property
    def epoch(self) -> str:
        """The present epoch; empty before the first session."""
        return self._context.scoping.scope.epoch

    # What comes in

    def take(self, event: Event[SourceVersion]) -> None:
        """Take in an event of the reflector; never waits."""
        self._context.intake.take(event)

    async def consume(self, events: AsyncIterator[Event[SourceVersion]]) -> None:
        """Take in everything that a reflector tells, whose form is `controller_runtime.bus.source.published`."""
        async for event in events:
            self.take(event)
            # A list is the largest thing there is; the next event may be a minute away.
            del event

    def restart_empty(self) -> None:
        """Begin without a list, for what Kubernetes does not know (facts)."""
        self.take(Restarted((), ""))

    def assume(self, version: SourceVersion) -> None:
        """The stream's own word for what Kubernetes does not know."""
        self._context.intake.source.put(version)

    def knows(self, key: Key) -> bool:
        """Whether an object exists, as far as this process knows."""
        return key in self._context.intake.source.present

    def present(self, key: Key) -> SourceVersion | None:
        """The version of an object that exists, as far as this process knows."""
        return self._context.intake.source.present.get(key)

    def is_under_way(self, key: Key) -> bool:
        """Whether a version of an object waits to be published."""
        return self._context.intake.lanes.newest_of(key) is not None

    def put(self, version: SourceVersion) -> None:
        """Publish a version that no watch brought."""
        self._context.intake.put(version)

    def remove(self, key: Key, uid: str) -> None:
        """Publish a deletion that no watch brought."""
        self._context.intake.remove(key, uid)

    def reread(self) -> None:
        """Read the stream again and compare it with what is known; asks Kubernetes nothing."""
        self._context.intake.doubted.set()

    # Sessions

    async def run(self) -> None:
        """Publish until cancelled.

        Raises:
            SupersededError: another process publishes the part.
        """
        context, progress, failures = self._context, self._context.progress, 0
        connection = context.setup.connection
        while True:
            await self._wait_for_lease()
            session = await connection.wait_connected()
            markers = context.markers.written
            progress.sessions += 1
            outcome = await in_own_task(Session(context).run(session))
            # A task group that fails and is cancelled at the same time reports the failure alone.
            raise_if_cancelled()
            if isinstance(outcome, CompareDueError):
                failures = 0
                continue
            if not connection.connected:
                context.intake.shorten()
            news, progress.withheld = str(outcome) != progress.withheld, str(outcome)
            vouched = context.markers.written > markers
            failures = 0 if vouched or not connection.connected else failures + 1
            if news:
                _log.warning("publishing interrupted; retrying", part=context.part.name, cause=str(outcome))
            await asyncio.sleep(random.uniform(_BACKOFF.base, _BACKOFF.nominal(failures + 1)))

    async def _wait_for_lease(self) -> None:
        while self._context.setup.guard() <= 0:
            # Somebody else may have led meanwhile, and rightly so.
            self._context.markers.forget()
            await asyncio.sleep(_LEASE_POLL)
