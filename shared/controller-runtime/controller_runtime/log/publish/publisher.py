"""Publishes one part: every version the watch gives, in order per object, and repairs whatever the streams lost."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import structlog

from controller_runtime.backoff import Backoff
from controller_runtime.json import JsonObject, dumps
from controller_runtime.kube.reflector_state import Event, ListFrom, Restarted
from controller_runtime.log.broker.connection import raise_if_cancelled
from controller_runtime.log.publish.checkpointing import CheckpointWriter, CompareDueError, Progress, PublisherContext
from controller_runtime.log.publish.epoch import Scoping
from controller_runtime.log.publish.intake import Intake
from controller_runtime.log.publish.missed import Changes
from controller_runtime.log.publish.session import Session
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.publish.state import PublisherSetup, PublisherStatistics
from controller_runtime.log.publish.writer import Unwritable, Writer
from controller_runtime.log.wire.messages import EnvelopeError, StateMessage, unknown_trace
from controller_runtime.log.wire.part import Key, Part
from controller_runtime.tasks import in_own_task

_log = structlog.get_logger(__name__)

_BACKOFF: Final = Backoff(base=0.1, cap=5.0)
_LEASE_POLL: Final = 0.25


class Publisher:
    """Publishes one part while this process leads.

    Feed it with `take` (or `consume`) from the moment the watch starts, connected or not, and let `run` work.

    Args:
        service: for facts, which service's.
        relist: asks the reflector for a list, which comes as `Restarted`.
        changes: asks the API server for the versions since the checkpoint of the last publisher (FW-896).
        loaded: receives all messages found in the stream when a session begins.
    """

    def __init__(
        self,
        setup: PublisherSetup,
        part: Part[Any],
        *,
        service: str = "",
        relist: Callable[[ListFrom], None] | None = None,
        changes: Changes | None = None,
        loaded: Callable[[Sequence[StateMessage]], None] | None = None,
    ) -> None:
        # Two processes of one name, or two terms of one process, must be able to tell each other apart.
        self.source: Final = f"{setup.source}/{secrets.token_hex(4)}"
        """What its checkpoints bear as their source."""
        connection = setup.connection
        writer = Writer(setup, part, self.source)
        intake = Intake(part, lambda: connection.connected, relist, lambda key: key in writer.stored)
        self._context = PublisherContext(
            setup=setup,
            part=part,
            service=service,
            loaded=loaded,
            changes=changes,
            intake=intake,
            scoping=Scoping(part.name, intake, setup.cluster, setup.settings.list_grace),
            writer=writer,
            checkpoints=CheckpointWriter(setup, part.name, service, self.source),
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
            checkpoints=context.checkpoints.written,
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
        """Take in the events of a reflector, in the form of `controller_runtime.log.publish.source.published`."""
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
        self._context.intake.contradicted.set()

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
            checkpoints = context.checkpoints.written
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
            confirmed = context.checkpoints.written > checkpoints
            failures = 0 if confirmed or not connection.connected else failures + 1
            if news:
                _log.warning("publishing interrupted; retrying", part=context.part.name, cause=str(outcome))
            await asyncio.sleep(random.uniform(_BACKOFF.base, _BACKOFF.nominal(failures + 1)))

    async def _wait_for_lease(self) -> None:
        while self._context.setup.guard() <= 0:
            # Another process may have led meanwhile, and rightly so.
            self._context.checkpoints.forget()
            await asyncio.sleep(_LEASE_POLL)


class FactPublisher:
    """Keeps the facts of a service on the bus while this process leads.

    Args:
        part: the facts' part; its name is that of `subjects.FACTS_PART`.
        service: whose facts; the namespace of their keys.
    """

    def __init__(self, setup: PublisherSetup, part: Part[Any], service: str) -> None:
        # What is to go and still lies in the stream, which must not bring it back.
        self._removing: set[Key] = set()
        self._publisher = Publisher(setup, part, service=service, loaded=self._adopt)
        self._publisher.restart_empty()

    @property
    def source(self) -> str:
        """What its checkpoints bear as their source."""
        return self._publisher.source

    @property
    def statistics(self) -> PublisherStatistics:
        """A snapshot for metrics."""
        return self._publisher.statistics

    def publish_fact(self, fact: JsonObject, traceparent: str | None = None) -> None:
        """Publish the result of an effect (the JSON of a `Fact` with name, namespace and UID); never waits.

        Args:
            traceparent: context of the effect.
        """
        key = Key.of(fact)
        self._removing.discard(key)
        uid = str(fact["metadata"]["uid"])
        self._publisher.put(SourceVersion.of(key, uid, "", dumps(fact), traceparent or unknown_trace(uid)))

    def remove_fact(self, key: Key) -> None:
        """Remove a fact that nothing refers to any more; never waits."""
        self._removing.add(key)
        # A fact's UID is its name: effect and subject make it what it is.
        self._publisher.remove(key, key.name)

    def reread(self) -> None:
        """Read the stream again and compare it with what is known."""
        self._publisher.reread()

    async def run(self) -> None:
        """Publish until cancelled.

        Raises:
            SupersededError: another process publishes the service's facts.
        """
        await self._publisher.run()

    def _adopt(self, found: Sequence[StateMessage]) -> None:
        living = [message for message in found if not message.deleted]
        held = {message.key for message in living}
        # What is neither there nor on its way cannot come back any more.
        self._removing = {key for key in self._removing if key in held or self._publisher.is_under_way(key)}
        for message in living:
            if message.key not in self._removing and not self._publisher.knows(message.key):
                self._assume(message)

    def _assume(self, message: StateMessage) -> None:
        try:
            message.json()
        except EnvelopeError:
            # No consumer can read it, so none misses it; the comparison will remove it.
            return
        reported = SourceVersion.of(message.key, message.uid, "", message.body, message.traceparent)
        self._publisher.assume(reported)
