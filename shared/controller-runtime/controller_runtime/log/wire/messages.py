"""Object versions on the log: CloudEvents 1.0 in binary mode, the epoch that orders them, and their trace."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from controller_runtime import annotation_keys
from controller_runtime.compact import shared
from controller_runtime.json import JsonObject, loads
from controller_runtime.log.wire.part import Key
from controller_runtime.log.wire.subjects import is_facts
from controller_runtime.names import PREFIX, REVERSED_DOMAIN
from controller_runtime.telemetry import tracing

_NAME: Final = re.compile(r"(?!9)[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9a-f]{6}")
"""The last thousand years are left out because something must be able to come after any epoch."""
_TIME: Final = "%Y%m%dT%H%M%S.%fZ"


def epoch_name(begun: datetime, nonce: str) -> str:
    """The name of an epoch, to the millisecond.

    Args:
        nonce: six hexadecimal digits, which tell two apart that begin in the same millisecond.
    """
    begun = begun.astimezone(UTC)
    return f"{begun:%Y%m%dT%H%M%S}.{begun.microsecond // 1000:03d}Z-{nonce}"


@lru_cache(maxsize=64)
def epoch_time(name: str) -> datetime:
    """When an epoch began, by the clock of its broker.

    Raises:
        ValueError: no publisher of ours gives such a name.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} names no epoch")
    return datetime.strptime(name.partition("-")[0], _TIME).replace(tzinfo=UTC)


_TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def is_traceparent(value: object) -> bool:
    """Whether a value is a valid version 00 ``traceparent``."""
    return isinstance(value, str) and _TRACEPARENT.fullmatch(value) is not None


def new_traceparent() -> str:
    """A ``traceparent`` that begins a trace of its own; its maker exports the root (`tracing.root_span`)."""
    trace_id = secrets.token_hex(16)
    return f"00-{trace_id}-{secrets.token_hex(8)}-{tracing.samples(int(trace_id, 16)):02x}"


def trace_of(obj: JsonObject) -> str:
    """The ``traceparent`` of a version of an object.

    That of the creating trace if its annotation tells it. Otherwise it follows from UID and generation alone, so
    that every process finds the same one, all versions of one generation share a trace (`kubectl apply` to
    *Running* is one), and a changed spec starts a new one. Its id also decides whether it is exported (FW-572).
    """
    stamped = _stamped(obj)
    if stamped is not None:
        return shared(stamped)
    metadata = obj.get("metadata") or {}
    digest = hashlib.sha256(f"{metadata.get('uid', '')}/{metadata.get('generation', 0)}".encode()).hexdigest()
    return shared(f"00-{digest[:32]}-{digest[32:48]}-{tracing.samples(int(digest[:32], 16)):02x}")


def unknown_trace(uid: str) -> str:
    """For what is known of an object no more than that it is gone: no process exports its root."""
    digest = hashlib.sha256(uid.encode()).hexdigest()
    return f"00-{digest[:32]}-{digest[32:48]}-00"


def is_own(obj: JsonObject) -> bool:
    """Whether the trace of an object begins with it rather than with one of its writers."""
    return _stamped(obj) is None


def _stamped(obj: JsonObject) -> str | None:
    found = ((obj.get("metadata") or {}).get("annotations") or {}).get(annotation_keys.TRACEPARENT)
    return found if isinstance(found, str) and is_traceparent(found) else None


SPEC_VERSION: Final = "1.0"
_MOST_DIGITS: Final = 20
_DIGEST_BYTES: Final = 12


class Verb(StrEnum):
    """What happened to the object."""

    UPSERT = "upsert"
    DELETE = "delete"


_OWN: Final = PREFIX.capitalize()


class Header:
    """Headers of the envelope; plain texts, as members of an enumeration take three times as long to look up."""

    CE_SPEC_VERSION: Final = "ce-specversion"
    CE_ID: Final = "ce-id"
    CE_SOURCE: Final = "ce-source"
    CE_TYPE: Final = "ce-type"
    CE_SUBJECT: Final = "ce-subject"
    CE_TIME: Final = "ce-time"
    CONTENT_TYPE: Final = "content-type"
    TRACEPARENT: Final = "traceparent"
    MESSAGE_ID: Final = "Nats-Msg-Id"
    EPOCH: Final = f"{_OWN}-Epoch"
    STORE_ID: Final = f"{_OWN}-Era"
    UID: Final = f"{_OWN}-Uid"
    RESOURCE_VERSION: Final = f"{_OWN}-Rv"
    VERB: Final = f"{_OWN}-Verb"
    SEQUENCE: Final = f"{_OWN}-Seq"
    PREVIOUS: Final = f"{_OWN}-Prev"
    GAP: Final = f"{_OWN}-Gap"
    REPEATS: Final = f"{_OWN}-Repeats"


_VERBS: Final[Mapping[str, Verb]] = {verb.value: verb for verb in Verb}
EVENT_TYPES: Final[Mapping[Verb, str]] = {
    Verb.UPSERT: f"{REVERSED_DOMAIN}.object.upserted",
    Verb.DELETE: f"{REVERSED_DOMAIN}.object.deleted",
}


class EnvelopeError(ValueError):
    """A message on the bus of an unknown publisher; consumers drop and count it."""


def message_id(epoch: str, uid: str, resource_version: str, verb: Verb, attempt: int = 0) -> str:
    """The id by which the broker recognises retries.

    ``attempt`` tells a repair of a lost message from a retry: within the broker's window an id that was stored once
    is acknowledged without being stored, even when the message is gone since.
    """
    base = f"{epoch}/{uid}/{resource_version}/{verb}"
    return f"{base}/{attempt}" if attempt else base


@dataclass(frozen=True, slots=True)
class StateMessage:
    """A version of an object as the state stream holds it.

    Attributes:
        part: name of the part.
        store_id: first epoch whose resource versions compare with this one's.
        resource_version: Kubernetes' one, a number; empty for facts, which are ordered by sequence alone.
        previous: sequence of the version before this one in the history; 0 if there is none.
        repeats: it says what that one said, only under another resourceVersion; so the history is spared it.
        body: the JSON as bytes; empty for a tombstone.
        time: when the publisher sent it, by its own clock.
        source: the publishing process.
        id: identity of the version, and ``Nats-Msg-Id`` of its messages.
        gap: versions between this one and the previous were not kept.
    """

    part: str
    key: Key
    verb: Verb
    epoch: str
    store_id: str
    uid: str
    resource_version: str
    previous: int
    body: bytes
    traceparent: str
    time: datetime
    source: str
    id: str
    gap: bool = False
    repeats: bool = False

    @property
    def deleted(self) -> bool:
        """Whether this is a tombstone."""
        return self.verb is Verb.DELETE

    @property
    def digest(self) -> bytes:
        """Short hash of the content."""
        return digest_of(self.body, self.resource_version)

    def headers(self) -> dict[str, str]:
        """The message's headers."""
        flags = {Header.GAP: self.gap, Header.REPEATS: self.repeats}
        return {
            **{name: "1" for name, is_set in flags.items() if is_set},
            Header.CE_SPEC_VERSION: SPEC_VERSION,
            Header.CE_ID: self.id,
            Header.CE_SOURCE: self.source,
            Header.CE_TYPE: EVENT_TYPES[self.verb],
            Header.CE_SUBJECT: f"{self.part}/{self.key}",
            Header.CE_TIME: self.time.astimezone(UTC).isoformat(timespec="milliseconds"),
            Header.CONTENT_TYPE: "application/json",
            Header.TRACEPARENT: self.traceparent,
            Header.MESSAGE_ID: self.id,
            Header.EPOCH: self.epoch,
            Header.STORE_ID: self.store_id,
            Header.UID: self.uid,
            Header.RESOURCE_VERSION: self.resource_version,
            Header.VERB: self.verb,
            Header.PREVIOUS: str(self.previous),
        }

    def json(self) -> JsonObject | None:
        """The object; ``None`` for a tombstone.

        Raises:
            EnvelopeError: the body is no JSON object.
        """
        if self.deleted:
            return None
        try:
            return loads(self.body)
        except ValueError as error:
            raise EnvelopeError(f"{self.part} {self.key}: the body is not a JSON object: {error}") from error

    def object(self) -> JsonObject | None:
        """What a consumer takes of it: the object; ``None`` for a tombstone.

        Raises:
            EnvelopeError: the body is no JSON object, or another one than the subject names.
        """
        found = self.json()
        if found is None:
            return None
        metadata = found.get("metadata")
        if not isinstance(metadata, dict):
            raise EnvelopeError(f"{self.part} {self.key}: the body has no metadata")
        if (metadata.get("namespace") or "", metadata.get("name")) != self.key:
            raise EnvelopeError(f"{self.part} {self.key}: the body is another object: {metadata.get('name')!r}")
        return found


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A version of an object as the history keeps it.

    Within one epoch the versions of a subject form a chain: ``state.previous`` is the ``sequence`` of the version
    before. A broken chain, and a change of the epoch, are where versions may be missing.

    Attributes:
        sequence: position that the version got in the state stream.
    """

    state: StateMessage
    sequence: int

    def headers(self) -> dict[str, str]:
        """The message's headers."""
        return {**self.state.headers(), Header.SEQUENCE: str(self.sequence)}


class Link(Protocol):
    """What of a message of the state stream tells its place in the history; see `StateMessage`."""

    @property
    def id(self) -> str: ...

    @property
    def epoch(self) -> str: ...

    @property
    def previous(self) -> int: ...

    @property
    def repeats(self) -> bool: ...


class Logged(NamedTuple):
    """The last version of a subject in the history, as far as it tells whether a present version is there.

    Attributes:
        sequence: position of the version in the state stream, as the header has it.
    """

    id: str
    epoch: str
    sequence: str

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> "Logged":
        """What the headers of a message in the history tell; empty where they lack something."""
        epoch = shared(headers.get(Header.EPOCH, ""))
        return cls(headers.get(Header.CE_ID, ""), epoch, headers.get(Header.SEQUENCE, ""))

    def holds(self, message: Link, sequence: int) -> int | None:
        """Under which sequence the history has what a message of the state stream says; ``None`` if it has not.

        Args:
            sequence: of the message in the state stream.
        """
        if (self.id, self.sequence) == (message.id, str(sequence)):
            return sequence
        repeated = message.repeats and self.epoch == message.epoch and self.sequence == str(message.previous)
        return message.previous if repeated else None


def decode_state(part: str, key: Key, headers: Mapping[str, str] | None, body: bytes) -> StateMessage:
    """Read a message of the state stream; ``part`` and ``key`` come from its subject.

    The body is not decoded here: see `StateMessage.json`.

    Raises:
        EnvelopeError: a header is missing or makes no sense.
    """
    found = headers or {}
    try:
        verb = _VERBS[found[Header.VERB]]
        traceparent = found.get(Header.TRACEPARENT, "")
        return StateMessage(
            part=part,
            key=key,
            verb=verb,
            epoch=_epoch(found, Header.EPOCH),
            store_id=_epoch(found, Header.STORE_ID),
            uid=_present(found, Header.UID),
            # Facts are ordered by the stream alone.
            resource_version=_version(found, may_lack=is_facts(part)),
            previous=_sequence(found, Header.PREVIOUS),
            body=b"" if verb is Verb.DELETE else body,
            # An object and what was made for it share a trace.
            traceparent=shared(traceparent) if is_traceparent(traceparent) else "",
            time=datetime.fromisoformat(found[Header.CE_TIME]),
            source=found.get(Header.CE_SOURCE, ""),
            id=_present(found, Header.CE_ID),
            gap=Header.GAP in found,
            repeats=Header.REPEATS in found,
        )
    except (KeyError, ValueError) as error:
        raise EnvelopeError(f"{part} {key}: header missing or invalid: {error}") from error


def decode_log(part: str, key: Key, headers: Mapping[str, str] | None, body: bytes) -> LogMessage:
    """Read a version from the history.

    Raises:
        EnvelopeError: a header is missing or makes no sense.
    """
    state = decode_state(part, key, headers, body)
    try:
        return LogMessage(state, _sequence(headers or {}, Header.SEQUENCE))
    except (KeyError, ValueError) as error:
        raise EnvelopeError(f"{part} {key}: header missing or invalid: {error}") from error


def digest_of(body: bytes, resource_version: str) -> bytes:
    """Short hash of a body without its resourceVersion, to tell equal content without keeping it."""
    # Of all hashes without chosen collisions, processors have instructions for this one.
    return hashlib.sha256(unversioned(body, resource_version)).digest()[:_DIGEST_BYTES]


def unversioned(body: bytes, resource_version: str) -> bytes:
    """A body as it is in every version that says the same.

    Should the text stand elsewhere first, equal content looks different; never the other way round.
    """
    if not resource_version:
        return body
    return body.replace(b'"resourceVersion":"%s"' % resource_version.encode(), b'"resourceVersion":""', 1)


def is_number(text: str) -> bool:
    """Whether a text is a number as etcd and the broker count: digits, and no more of them than 64 bits take."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


NOTHING: Final = digest_of(b"", "")
"""Digest of a deletion, which has no content."""


def _present(headers: Mapping[str, str], name: str) -> str:
    value = headers[name]
    if not value:
        raise ValueError(name)
    return value


def _epoch(headers: Mapping[str, str], name: str) -> str:
    # Something must be able to come after any epoch.
    epoch_time(headers[name])
    return headers[name]


def _version(headers: Mapping[str, str], *, may_lack: bool) -> str:
    value = headers[Header.RESOURCE_VERSION]
    return shared(value if may_lack and not value else _number(value))


def _sequence(headers: Mapping[str, str], name: str) -> int:
    return int(_number(headers[name]))


def _number(text: str) -> str:
    if not is_number(text):
        raise ValueError(text[:_MOST_DIGITS])
    return text
