"""Publishes the facts of one service: the results of its effects.

Kubernetes does not know facts, so what the stream holds is their truth, except for what this process gathered or
removed itself: that it publishes again whenever the stream lost it.
"""

from collections.abc import Sequence
from typing import Any

from controller_runtime.bus.envelope import EnvelopeError, StateMessage
from controller_runtime.bus.part import Key, Part
from controller_runtime.bus.publisher import Publisher
from controller_runtime.bus.publisher_state import PublisherSetup, PublisherStatistics
from controller_runtime.bus.source import SourceVersion
from controller_runtime.bus.trace import unknown_trace
from controller_runtime.json import JsonObject, dumps


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
        """What its markers bear as their source."""
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
            # Nobody can read it, so nobody misses it; comparing will remove it.
            return
        told = SourceVersion.of(message.key, message.uid, "", message.body, message.traceparent)
        self._publisher.assume(told)
