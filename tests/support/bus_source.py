"""A stand-in for a publisher: writes what a test says to both streams, and knows what is true."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from support.cache_objects import widget
from support.epochs import E1

from controller_runtime import JsonObject, Key, dumps
from controller_runtime.log.broker.address import BusError
from controller_runtime.log.broker.connection import BusConnection, PubAck
from controller_runtime.log.broker.reading import stream_state
from controller_runtime.log.publish.checkpoint import Account, Checkpoint, Proof
from controller_runtime.log.wire.messages import LogMessage, StateMessage, Verb, message_id
from controller_runtime.log.wire.subjects import Layout

TRACE = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"


class Source:
    """One part's publisher.

    Attributes:
        truth: what the cluster holds.
    """

    def __init__(self, connection: BusConnection, layout: Layout, part: str = "widgets", *, epoch: str = E1) -> None:
        self.connection = connection
        self.layout = layout
        self.part = part
        self.epoch = epoch
        self.truth: dict[Key, JsonObject] = {}
        self.sequences: dict[Key, int] = {}
        self.history = True
        self.cluster = "c"
        self._rv = 100
        self._uid = 0
        self._marks = 0
        self._repairs = 0

    @property
    def resource_version(self) -> str:
        """The newest version that the cluster gave out."""
        return str(self._rv)

    async def upsert(self, name: str, *, namespace: str = "ns", **fields: Any) -> int:
        """Create or change an object in the cluster, and publish it; returns its sequence."""
        obj = self.change(name, namespace=namespace, **fields)
        return await self.publish(Key(namespace, name), obj)

    def change(self, name: str, *, namespace: str = "ns", **fields: Any) -> JsonObject:
        """Create or change an object in the cluster only."""
        key = Key(namespace, name)
        self._rv += 1
        if key in self.truth:
            uid = self.truth[key]["metadata"]["uid"]
        else:
            self._uid += 1
            uid = f"{self.part}-{self._uid}"
        self.truth[key] = widget(name, uid, self._rv, namespace=namespace, **fields)
        return self.truth[key]

    async def delete(self, name: str, *, namespace: str = "ns") -> int:
        """Delete an object in the cluster, and publish the tombstone; returns its sequence."""
        return await self.publish_deletion(Key(namespace, name), self.remove(name, namespace=namespace))

    def remove(self, name: str, *, namespace: str = "ns") -> JsonObject:
        """Delete an object in the cluster only; returns its last content under the deletion's version."""
        self._rv += 1
        gone = self.truth.pop(Key(namespace, name))
        return {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self._rv)}}

    async def publish(self, key: Key, obj: JsonObject) -> int:
        return await self._store(key, Verb.UPSERT, obj["metadata"], dumps(obj))

    async def publish_deletion(self, key: Key, obj: JsonObject) -> int:
        return await self._store(key, Verb.DELETE, obj["metadata"], b"")

    async def repair(self, *, epoch: str) -> None:
        """After a loss: publish everything again in a new epoch, as a compare with an emptied stream would."""
        self.epoch = epoch
        self.sequences.clear()
        self._repairs += 1
        for key, obj in self.truth.items():
            await self.publish(key, obj)

    def rewind(self, resource_version: int) -> None:
        """The cluster's store was restored."""
        self._rv = resource_version

    async def mark_facts(self, service: str) -> None:
        """Write the checkpoint of the facts of one service."""
        await self.mark(service)

    async def mark(self, service: str = "", *, complete_to: str | None = None) -> None:
        """Write the part's checkpoint; by default everything that is true is published."""
        state = await stream_state(self.connection, self.layout.state_stream)
        proof = self._proof(service)
        self._marks += 1
        checkpoint = Checkpoint(
            "test",
            self._marks,
            self.epoch,
            self.epoch,
            self.cluster,
            complete_to or str(self._rv),
            state.created,
            state.last_sequence,
            proof.objects,
            proof.fold,
        )
        subject = self.layout.sync(self.part, service)
        outcome = await self.connection.publish(subject, checkpoint.body(), checkpoint.headers())
        assert isinstance(outcome, PubAck), outcome

    def _proof(self, service: str) -> Proof:
        published = (key for key in self.truth if key in self.sequences and service in {"", key.namespace})
        return Account((key, self.sequences[key]) for key in published).proof

    async def keep_marking(self, interval: float = 0.1) -> None:
        """Write checkpoints for ever, through outages."""
        while True:
            try:
                await self.mark()
            except (AssertionError, BusError):
                await asyncio.sleep(0.05)
            await asyncio.sleep(interval)

    async def _store(self, key: Key, verb: Verb, metadata: JsonObject, body: bytes) -> int:
        previous = self.sequences.get(key, 0)
        uid, rv = metadata["uid"], metadata["resourceVersion"]
        identity = message_id(self.epoch, uid, rv, verb, self._repairs)
        message = StateMessage(
            self.part,
            key,
            verb,
            self.epoch,
            self.epoch,
            uid,
            rv,
            previous,
            body,
            TRACE,
            datetime.now(UTC),
            "test",
            identity,
        )
        subject = self.layout.state(self.part, key)
        outcome = await self.connection.publish(subject, body, message.headers())
        assert isinstance(outcome, PubAck), outcome
        self.sequences[key] = outcome.sequence
        if self.history:
            logged = LogMessage(message, outcome.sequence)
            kept = await self.connection.publish(self.layout.log(self.part, key), body, logged.headers())
            assert isinstance(kept, PubAck), kept
        return outcome.sequence
