"""Whether a version may be put over what the state stream holds. Pure.

The rule that nothing else may break: in one epoch an older version never replaces a newer one, regardless of its
writer and its delay.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from controller_runtime.compact import shared
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.wire.messages import StateMessage, Verb
from controller_runtime.log.wire.part import Key


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """What the state stream holds of one subject, without the body.

    Attributes:
        digest: short hash of the content.
        logged: sequence under which the history has this content.
        stored: the broker's time, where it is known; an ack has none.
        gap: it tells that versions before it were not kept.
    """

    sequence: int
    verb: Verb
    epoch: str
    uid: str
    resource_version: str
    digest: bytes
    logged: int
    stored: datetime | None = None
    gap: bool = False

    @classmethod
    def of(
        cls, message: StateMessage, sequence: int, stored: datetime | None = None, logged: int | None = None
    ) -> "StoredVersion":
        """What lies in the stream after the message got this sequence; by default the history has it as it says."""
        return cls(
            sequence,
            message.verb,
            # One text for all objects instead of one each.
            shared(message.epoch),
            shared(message.uid),
            message.resource_version,
            message.digest,
            (message.previous if message.repeats else sequence) if logged is None else logged,
            stored,
            message.gap,
        )

    def is_message(self, message: StateMessage, sequence: int) -> bool:
        """Whether this is about a message, by what its headers tell: in one stream no body changes under a sequence."""
        reported = message.verb, message.epoch, message.uid, message.resource_version, message.gap
        return sequence == self.sequence and reported == (
            self.verb,
            self.epoch,
            self.uid,
            self.resource_version,
            self.gap,
        )

    @property
    def deleted(self) -> bool:
        """Whether it is a tombstone."""
        return self.verb is Verb.DELETE

    def is_repeated_by(self, version: SourceVersion, digest: bytes, scope: "Scope") -> bool:
        """Whether a version to be published says what this one says, within one chain of the history."""
        living = not self.deleted and version.verb is Verb.UPSERT
        return living and (self.epoch, self.uid, self.digest) == (scope.epoch, version.uid, digest)


class Verdict(Enum):
    """What to do with a version."""

    PUBLISH = "publish"
    DONE = "the stream holds it"
    STALE = "the stream holds a newer one"


@dataclass(frozen=True, slots=True)
class Scope:
    """What may be compared.

    Attributes:
        epoch: the present one; epochs sort by age.
        comparable_since: the first epoch in which resource versions count as they do now (another one starts when
            the cluster's store was restored or replaced).
    """

    epoch: str
    comparable_since: str


def judge(wanted: SourceVersion, stored: StoredVersion | None, scope: Scope) -> Verdict:
    """Compare a version with what the stream holds.

    Always by content as well: it differs under an equal version when another release trims objects otherwise, when
    the cluster's store was restored, and when another client put another body in the place of a message.
    """
    if stored is None:
        return Verdict.PUBLISH
    if stored.epoch > scope.epoch:
        return Verdict.STALE
    if _is_same(wanted, stored):
        return Verdict.DONE
    comparable = stored.epoch >= scope.comparable_since
    return Verdict.STALE if comparable and _is_older(wanted, stored) else Verdict.PUBLISH


def _is_same(wanted: SourceVersion, stored: StoredVersion) -> bool:
    reported = wanted.uid, wanted.verb, wanted.resource_version, wanted.digest
    return reported == (stored.uid, stored.verb, stored.resource_version, stored.digest)


def _is_older(wanted: SourceVersion, stored: StoredVersion) -> bool:
    """By resourceVersion, which in one cluster is comparable over all objects of a kind; facts are never older."""
    if not wanted.resource_version or not stored.resource_version:
        return False
    new, old = int(wanted.resource_version), int(stored.resource_version)
    # At the same version the deletion is the later one.
    return new < old or (new == old and stored.deleted and wanted.verb is Verb.UPSERT and wanted.uid == stored.uid)


def differences(
    present: Mapping[Key, SourceVersion],
    stored: Mapping[Key, StoredVersion],
    *,
    pending: Mapping[Key, SourceVersion],
    version: str,
    scope: Scope,
) -> list[SourceVersion]:
    """What must be published so that the stream says what Kubernetes says.

    Args:
        pending: the newest version of every object that has versions under way; they count as published.
        version: of the list; that of the deletions found by it.
    """
    return [
        *_missing(present, stored, pending, scope),
        *_vanished(present, stored, pending, version),
    ]


def _missing(
    present: Mapping[Key, SourceVersion],
    stored: Mapping[Key, StoredVersion],
    pending: Mapping[Key, SourceVersion],
    scope: Scope,
) -> Iterable[SourceVersion]:
    for key, found in present.items():
        coming = pending.get(key)
        if coming is not None:
            if (coming.uid, coming.verb, coming.resource_version) != (found.uid, found.verb, found.resource_version):
                yield found
            continue
        if judge(found, stored.get(key), scope) is Verdict.PUBLISH:
            yield found


def _vanished(
    present: Mapping[Key, SourceVersion],
    stored: Mapping[Key, StoredVersion],
    pending: Mapping[Key, SourceVersion],
    version: str,
) -> Iterable[SourceVersion]:
    for key in (stored.keys() | pending.keys()) - present.keys():
        last = pending.get(key) or stored[key]
        if last.verb is not Verb.DELETE:
            yield SourceVersion.deletion(key, last.uid, version)


def is_ahead(stored: Mapping[Key, StoredVersion], present: Mapping[Key, SourceVersion], scope: Scope) -> bool:
    """Whether the stream holds a version newer than the present one of an object that exists."""
    return any(
        (held := stored.get(key)) is not None
        and scope.comparable_since <= held.epoch <= scope.epoch
        and _is_older(found, held)
        for key, found in present.items()
    )


def newest_version(stored: Iterable[StoredVersion], comparable_since: str) -> int:
    """The newest resourceVersion among what the stream holds, as far as it compares; 0 without any."""
    versions = (
        int(held.resource_version) for held in stored if held.resource_version and held.epoch >= comparable_since
    )
    return max(versions, default=0)
