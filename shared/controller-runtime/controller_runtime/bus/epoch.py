"""Epochs: spans within which sequences and versions compare, and within which the history is without gaps. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from controller_runtime.bus.epoch_name import epoch_name, epoch_time
from controller_runtime.bus.judgement import Scope
from controller_runtime.bus.marker import Marker


class Reason(StrEnum):
    """Why a new epoch starts."""

    FIRST = "no marker: the part was never published to this stream"
    STREAM_REMADE = "the stream was recreated"
    MARKER_GONE = "the marker is gone: the stream was purged, or a limit was set on it"
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
        marker: the part's last marker in the stream.
        created: when the stream was made.
        last_sequence: the stream's highest sequence.
        high_sequence: highest sequence this process has seen in it.
        known_created: when the stream was made that this process saw last; empty at first.
        cluster: UID of kube-system; empty if not known.
        version_fell: the list stayed below what is known.
        newest_stored_epoch: newest epoch among the messages of the part.
    """

    marker: Marker | None
    created: str
    last_sequence: int
    high_sequence: int
    known_created: str
    cluster: str
    version_fell: bool
    newest_stored_epoch: str


def reason_for_new(sight: Sight) -> Reason | None:
    """Why the present epoch cannot go on; ``None`` if it can."""
    marker = sight.marker
    if sight.known_created and sight.known_created != sight.created:
        return Reason.STREAM_REMADE
    if sight.last_sequence < max(sight.high_sequence, marker.state_sequence if marker else 0):
        return Reason.SEQUENCE_FELL
    if marker is None:
        return Reason.MARKER_GONE if sight.known_created else Reason.FIRST
    if marker.stream_created != sight.created:
        return Reason.STREAM_REMADE
    if sight.cluster and marker.cluster and marker.cluster != sight.cluster:
        return Reason.CLUSTER_CHANGED
    return Reason.VERSION_FELL if sight.version_fell else None


def continued(sight: Sight, present: Scope | None) -> Scope:
    """The scope to go on with: the newest epoch that the stream, its marker or this process knows."""
    marker = sight.marker
    epochs = [sight.newest_stored_epoch, marker.epoch if marker else "", present.epoch if present else ""]
    since = max(marker.comparable_since if marker else "", present.comparable_since if present else "")
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
