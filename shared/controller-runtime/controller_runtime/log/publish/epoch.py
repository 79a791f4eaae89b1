"""Epochs: spans within which versions compare; which one a publisher continues or begins at the start of a session."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import structlog

from controller_runtime.kube.reflector_state import ListFrom
from controller_runtime.log.broker.reading import StreamState
from controller_runtime.log.publish.checkpoint import Checkpoint
from controller_runtime.log.publish.intake import Intake
from controller_runtime.log.publish.judgement import Scope, StoredVersion, newest_version
from controller_runtime.log.wire.messages import epoch_name, epoch_time
from controller_runtime.tasks import within


class Reason(StrEnum):
    """Why a new epoch starts."""

    FIRST = "no checkpoint: the part was never published to this stream"
    STREAM_REMADE = "the stream was recreated"
    CHECKPOINT_GONE = "the checkpoint is gone: the stream was purged, or a limit was set on it"
    SEQUENCE_FELL = "the stream's last sequence fell: it was restored from an older copy"
    CLUSTER_CHANGED = "another cluster: the UID of kube-system changed"
    VERSION_FELL = "the list is older than what is known: the cluster's store was restored"
    VERSIONS_MISSED = "versions were missed while no publisher watched, or were dropped"


_INCOMPARABLE = frozenset({Reason.FIRST, Reason.CLUSTER_CHANGED, Reason.VERSION_FELL})
"""Reasons after which resource versions do not compare with earlier ones."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a publisher sees of stream and cluster when it starts, reconnects or compares.

    Attributes:
        checkpoint: the part's last checkpoint in the stream.
        created: when the stream was made.
        last_sequence: the stream's highest sequence.
        high_sequence: highest sequence this process has seen in it.
        known_created: when the stream was made that this process saw last; empty at first.
        cluster: UID of kube-system; empty if not known.
        version_fell: the list stayed below what is known.
        newest_stored_epoch: newest epoch among the messages of the part.
    """

    checkpoint: Checkpoint | None
    created: str
    last_sequence: int
    high_sequence: int
    known_created: str
    cluster: str
    version_fell: bool
    newest_stored_epoch: str


def reason_for_new(sight: Sight) -> Reason | None:
    """Why the present epoch cannot go on; ``None`` if it can."""
    checkpoint = sight.checkpoint
    if sight.known_created and sight.known_created != sight.created:
        return Reason.STREAM_REMADE
    if sight.last_sequence < max(sight.high_sequence, checkpoint.state_sequence if checkpoint else 0):
        return Reason.SEQUENCE_FELL
    if checkpoint is None:
        return Reason.CHECKPOINT_GONE if sight.known_created else Reason.FIRST
    if checkpoint.stream_created != sight.created:
        return Reason.STREAM_REMADE
    if sight.cluster and checkpoint.cluster and checkpoint.cluster != sight.cluster:
        return Reason.CLUSTER_CHANGED
    return Reason.VERSION_FELL if sight.version_fell else None


def continued(sight: Sight, present: Scope | None) -> Scope:
    """The scope to go on with: the newest epoch that the stream, its checkpoint or this process knows."""
    checkpoint = sight.checkpoint
    epochs = [sight.newest_stored_epoch, checkpoint.epoch if checkpoint else "", present.epoch if present else ""]
    since = max(checkpoint.comparable_since if checkpoint else "", present.comparable_since if present else "")
    return Scope(max(epochs), since)


def started(scope: Scope, reason: Reason, now: datetime, nonce: str) -> Scope:
    """A new epoch after the given one.

    Args:
        now: the broker's clock.
        nonce: as `epoch_name` wants it.
    """
    if scope.epoch:
        # A clock that was put back must not make a new epoch look older.
        now = max(now, epoch_time(scope.epoch) + timedelta(milliseconds=1))
    epoch = epoch_name(now, nonce)
    return Scope(epoch, epoch if reason in _INCOMPARABLE else scope.comparable_since)


_log = structlog.get_logger(__name__)

_NOT_BEFORE_ANYTHING: Final = Scope("", "")


class Scoping:
    """Keeps the epoch of one part through the sessions of its publisher.

    Args:
        cluster: UID of kube-system; empty if it is not to be checked.
        list_grace: seconds for which a list may stay behind what is known before the store itself is asked.
    """

    def __init__(self, part: str, intake: Intake, cluster: str, list_grace: float) -> None:
        self._part = part
        self._intake = intake
        self._cluster = cluster
        self._list_grace = list_grace
        self._rewinds_seen = 0
        self._now: datetime | None = None
        self.scope = _NOT_BEFORE_ANYTHING
        self.stream_created = ""

    async def choose(
        self, state: StreamState, checkpoint: Checkpoint | None, stored: Iterable[StoredVersion], high_sequence: int
    ) -> bool:
        """Find the epoch to publish in; returns whether it is a new one.

        Args:
            stored: what the stream holds of the part.
            high_sequence: highest sequence that this process has seen.
        """
        held = list(stored)
        self._now = state.now
        since = max(checkpoint.comparable_since if checkpoint else "", self.scope.comparable_since)
        floor = max(newest_version(held, since), int(checkpoint.resource_version or 0) if checkpoint else 0)
        changed = bool(checkpoint and self._cluster and checkpoint.cluster and checkpoint.cluster != self._cluster)
        sight = Sight(
            checkpoint=checkpoint,
            created=state.created,
            last_sequence=state.last_sequence,
            high_sequence=high_sequence if self.stream_created == state.created else 0,
            known_created=self.stream_created,
            cluster=self._cluster,
            version_fell=await self._fell_below(0 if changed else floor),
            newest_stored_epoch=max((one.epoch for one in held), default=""),
        )
        reason = reason_for_new(sight)
        self.scope = continued(sight, self.scope)
        if reason is not None:
            self.begin(reason)
        self.stream_created = state.created
        return reason is not None

    def begin(self, reason: Reason) -> None:
        """Begin a new epoch, at the broker's time when the session started.

        This machine's clock must have no say: a later leader, whose clock is right, could not put its own epochs over
        one that lies in the future.
        """
        assert self._now is not None
        self.scope = started(self.scope, reason, self._now, secrets.token_hex(3))
        _log.info("new epoch begins", part=self._part, epoch=self.scope.epoch, reason=reason.value)

    async def _fell_below(self, floor: int) -> bool:
        """Whether the cluster's store went back, behind a version or behind what the watch had shown."""
        source = self._intake.source
        fell = source.rewinds != self._rewinds_seen or not await self._caught_up(floor)
        fell = fell or source.rewinds != self._rewinds_seen
        self._rewinds_seen = source.rewinds
        return fell

    async def _caught_up(self, floor: int) -> bool:
        """Whether the watch has reached a version, however long it takes to be sure.

        A server's cache may lag behind for any time; only the store itself tells that the cluster went back.
        """
        intake = self._intake
        if not intake.source.version:
            return True
        if await within(self._list_grace, intake.until(lambda: intake.is_at(floor))):
            return True
        if not intake.can_relist:
            return False
        _log.warning("list from the API server cache is outdated; listing from its store", part=self._part)
        seen = intake.source.store_lists
        reported = False
        while not reported:
            # Asked again and again: the part loads for as long as this lasts, so one lost request must not be the end.
            intake.relist(ListFrom.STORE)
            reported = await within(
                self._list_grace,
                intake.until(lambda: intake.is_at(floor) or intake.source.store_lists > seen),
            )
        return intake.is_at(floor)
