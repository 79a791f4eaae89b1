"""Whatever is lost, doubled, reordered, purged or restored: what is believed is what the publisher confirmed.

The machine plays a cluster, its publisher, the stream with everything that can happen to it, and a consumer that makes
no check of its own but the one of the checkpoint. A restored store alone comes with a new consumer, as the broker
restarted, and with a new epoch where its last sequence fell (`Reason.SEQUENCE_FELL`).
"""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from support.cache_objects import entry_of, widget, widgets

from controller_runtime import Cache, Key
from controller_runtime.log.cache.projection import Belief, Deletion, PartView
from controller_runtime.log.publish.checkpoint import Checkpoint, Holdings
from controller_runtime.log.publish.judgement import StoredVersion
from controller_runtime.log.wire.messages import Verb
from controller_runtime.log.wire.version import Entry, Version

NAMES = st.sampled_from(["a", "b", "c"])
CHECKPOINT = Key("", "checkpoint")


@dataclass(frozen=True)
class Confirmed:
    """A checkpoint, and what was true when it was written."""

    checkpoint: Checkpoint
    truth: dict[str, int]


Message = Entry[Any] | Deletion | Confirmed


@dataclass
class Stream:
    """One message per key."""

    last: int = 0
    messages: dict[Key, tuple[int, Message]] = field(default_factory=dict)

    def behind(self, position: int) -> list[tuple[int, Message]]:
        """What lies behind a sequence, in order."""
        return sorted((one for one in self.messages.values() if one[0] > position), key=lambda one: one[0])


class ProofMachine(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.part = widgets()
        self.cache = Cache([self.part])
        self.view = PartView(self.part)
        self.stream = Stream()
        self.copy = Stream()
        self.truth: dict[str, tuple[str, int]] = {}
        self.versions = self.uids = self.checkpoints = self.epochs = 0
        self.holdings = Holdings()
        self.checkpoint_at = 0
        self.cursor = 0
        self.last: tuple[int, Message] | None = None
        self.believed = 0
        self.view.begin_stage()

    # The publisher

    @property
    def epoch(self) -> str:
        return f"e{self.epochs:03}"

    def _store(self, key: Key, message: Message) -> int:
        self.stream.messages[key] = (self.stream.last, message)
        return self.stream.last

    def _publish(self, name: str) -> None:
        key, known = Key("ns", name), self.truth.get(name)
        self.stream.last += 1
        held = self.holdings.get(key)
        uid = known[0] if known else held.uid if held else "?"
        version = Version(uid, str(known[1] if known else self.versions), self.stream.last, self.epoch, "e000")
        message: Message = Deletion(self.part, key, version)
        if known is not None:
            message = entry_of(self.part, widget(name, *known, n=known[1]), self.stream.last, self.epoch, "e000")
        self._store(key, message)
        verb = Verb.DELETE if known is None else Verb.UPSERT
        self.holdings[key] = _stored(self.stream.last, verb, version)

    @rule(name=NAMES)
    def someone_writes(self, name: str) -> None:
        self.versions += 1
        if name not in self.truth:
            self.uids += 1
        uid = self.truth[name][0] if name in self.truth else f"u{self.uids}"
        self.truth[name] = (uid, self.versions)
        self._publish(name)

    @rule(name=NAMES)
    def someone_deletes(self, name: str) -> None:
        if self.truth.pop(name, None) is not None:
            self.versions += 1
            self._publish(name)

    @rule()
    def the_publisher_writes_a_checkpoint(self) -> None:
        # Its fence: a checkpoint that is not where it was left ends the session.
        if self.stream.messages.get(CHECKPOINT, (0, None))[0] != self.checkpoint_at:
            self.the_publisher_compares()
        proof = self.holdings.proof
        self.stream.last += 1
        self.checkpoints += 1
        checkpoint = Checkpoint(
            "p", self.checkpoints, self.epoch, "e000", "", str(self.versions), "made", 0, proof.objects, proof.fold
        )
        truth = {name: version for name, (_, version) in self.truth.items()}
        self.checkpoint_at = self._store(CHECKPOINT, Confirmed(checkpoint, truth))

    @rule()
    def the_publisher_compares(self) -> None:
        self.holdings.clear()
        for key, (sequence, message) in self.stream.messages.items():
            if not isinstance(message, Confirmed):
                verb = Verb.DELETE if isinstance(message, Deletion) else Verb.UPSERT
                self.holdings[key] = _stored(sequence, verb, message.version)
        living = {key.name: held for key, held in self.holdings.items() if not held.deleted}
        for name in {*living, *self.truth}:
            held, known = living.get(name), self.truth.get(name)
            stored = (held.epoch, held.uid, held.resource_version) if held is not None else None
            if known is None or stored != (self.epoch, known[0], str(known[1])):
                self._publish(name)
        self.checkpoint_at = self.stream.messages.get(CHECKPOINT, (0, None))[0]

    # What happens to the stream

    @rule()
    def somebody_purges(self) -> None:
        self.stream.messages.clear()

    @precondition(lambda self: self.stream.messages)
    @rule(data=st.data())
    def somebody_deletes_a_message(self, data: st.DataObject) -> None:
        del self.stream.messages[data.draw(st.sampled_from(sorted(self.stream.messages)))]

    @rule()
    def the_store_is_copied(self) -> None:
        self.copy = replace(self.stream, messages=dict(self.stream.messages))

    @rule()
    def the_store_is_restored(self) -> None:
        self.epochs += self.copy.last < self.stream.last
        self.stream = replace(self.copy, messages=dict(self.copy.messages))
        self.the_consumer_starts_anew()
        self.the_publisher_compares()

    # What reaches the consumer

    @rule(count=st.integers(1, 5))
    def messages_arrive(self, count: int) -> None:
        for sequence, message in self.stream.behind(self.cursor)[:count]:
            self.cursor = sequence
            self._take(sequence, message)

    @rule()
    def everything_arrives(self) -> None:
        self.the_publisher_writes_a_checkpoint()
        self.messages_arrive(100)

    @rule(name=NAMES)
    def a_change_is_lost(self, name: str) -> None:
        self.messages_arrive(100)
        self.someone_writes(name)
        self.a_message_is_lost()

    @rule()
    def a_message_is_lost(self) -> None:
        for sequence, _ in self.stream.behind(self.cursor)[:1]:
            self.cursor = sequence

    @precondition(lambda self: self.last is not None)
    @rule()
    def a_message_arrives_twice(self) -> None:
        assert self.last is not None
        self._take(*self.last)

    @rule()
    def two_messages_arrive_in_the_wrong_order(self) -> None:
        for sequence, message in reversed(self.stream.behind(self.cursor)[:2]):
            self.cursor = max(self.cursor, sequence)
            self._take(sequence, message)

    @rule()
    def the_consumer_starts_anew(self) -> None:
        self.cursor, self.last = 0, None
        self.view.begin_stage()

    @rule()
    def the_part_is_read_again(self) -> None:
        self.view.begin_stage()
        for sequence, message in self.stream.behind(0):
            self._take(sequence, message, main=False)

    def _take(self, sequence: int, message: Message, *, main: bool = True) -> None:
        caught_up = not self.stream.behind(sequence)
        if main:
            self.last = (sequence, message)
        stage = self.view.stage
        if stage is not None:
            stage.complete = stage.complete or caught_up
            stage.covered = stage.covered if main else max(stage.covered, sequence)
        if isinstance(message, Confirmed):
            self._judge(sequence, message, caught_up)
        elif self.view.follow(message):
            if isinstance(message, Deletion):
                self.cache.delete(self.part, message.key, message.version, 0)
            else:
                self.cache.put(message, 0)

    def _judge(self, sequence: int, confirmed: Confirmed, caught_up: bool) -> None:
        belief = self.view.judge(confirmed.checkpoint, sequence, caught_up=caught_up)
        if belief is not Belief.AGREES:
            return
        if self.view.stage is not None and self.view.stage.complete:
            stage = self.view.swap()
            upto = Version("", "", max(self.view.covered, sequence), confirmed.checkpoint.epoch, "e000")
            self.cache.replace(self.part, stage.entries, 0, upto=upto)
        if self.view.stage is None:
            self.believed += 1
            assert self._known() == confirmed.truth, "what is believed is what was confirmed"

    def _known(self) -> dict[str, int]:
        return {entry.key.name: entry.raw["n"] for entry in self.cache.all(self.part)}

    def teardown(self) -> None:
        """However it went, a comparison and another snapshot make everything good."""
        self.the_publisher_compares()
        self.the_publisher_writes_a_checkpoint()
        believed = self.believed
        self.the_part_is_read_again()
        assert self.believed == believed + 1
        assert self._known() == {name: version for name, (_, version) in self.truth.items()}


def _stored(sequence: int, verb: Verb, version: Version) -> StoredVersion:
    return StoredVersion(
        sequence=sequence,
        verb=verb,
        epoch=version.epoch,
        uid=version.uid,
        resource_version=version.resource_version,
        digest=b"",
        logged=sequence,
    )


TestProofMachine = ProofMachine.TestCase
TestProofMachine.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
