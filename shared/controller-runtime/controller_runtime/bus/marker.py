"""The sync marker of a part: its publisher's word that the stream says what Kubernetes says.

It lies in the state stream itself, so that its place among the messages means something, and is written with a fence,
so that two publishers notice each other. It says what the part holds at that place, so that a consumer believes it only
if it was told the same. It also carries what the next publisher needs to know of this one.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final

from controller_runtime.bus.envelope import EnvelopeError, Header, is_number
from controller_runtime.bus.epoch_name import epoch_time
from controller_runtime.bus.logbook import NEVER_READ, Logbook
from controller_runtime.bus.proof import Proof
from controller_runtime.json import JsonObject, dumps, loads

MARKER_INTERVAL: Final = 10.0
"""Seconds between two markers of a part that does not change."""

UNPROVEN: Final = -1


@dataclass(frozen=True, slots=True)
class Marker:
    """What a publisher vouches for.

    Attributes:
        source: the publishing process.
        number: counts up within one process.
        epoch: the present epoch of the part.
        comparable_since: first epoch whose resource versions compare with the present ones.
        cluster: UID of kube-system.
        resource_version: every change up to this version lies before the marker; empty for facts.
        stream_created: when the state stream was made.
        state_sequence: highest sequence known in it before this marker.
        objects: how many objects live in the part; `UNPROVEN` = nobody vouches for anything yet.
        fold: over key and sequence of each of them (`controller_runtime.bus.proof`).
        history: where the history has all of them; nothing of a release that did not tell.
    """

    source: str
    number: int
    epoch: str
    comparable_since: str
    cluster: str
    resource_version: str
    stream_created: str
    state_sequence: int
    objects: int = UNPROVEN
    fold: str = ""
    history: Logbook = NEVER_READ

    @property
    def proof(self) -> Proof | None:
        """What the part holds before this marker.

        ``None`` for a claim, by which a publisher tells that the part is its own before it writes anything, and for
        the marker of a release that proved nothing.
        """
        return None if self.objects < 0 else Proof(self.objects, self.fold)

    @property
    def id(self) -> str:
        """The marker's message id."""
        return f"{self.epoch}/{self.source}/{self.number}/marker"

    def headers(self) -> dict[str, str]:
        """The message's headers."""
        return {Header.MESSAGE_ID: self.id, Header.EPOCH: self.epoch, Header.CE_SOURCE: self.source}

    def body(self) -> bytes:
        """The message's body."""
        return dumps(asdict(self))


_TYPES: Final[Mapping[object, type]] = {str: str, int: int, Logbook: dict}


def decode_marker(body: bytes) -> Marker:
    """Read a marker.

    Raises:
        EnvelopeError: it is none.
    """
    try:
        found = loads(body)
        known = _known(Marker, found)
        if "history" in known:
            known["history"] = Logbook(**_known(Logbook, known["history"]))
        marker = Marker(**known)
        for epoch in (marker.epoch, marker.comparable_since):
            epoch_time(epoch)
        if marker.resource_version and not is_number(marker.resource_version):
            raise ValueError("its resource version is not a number")
        return marker
    except (KeyError, TypeError, ValueError) as error:
        raise EnvelopeError(f"a message on a sync subject is not a marker: {error}") from error


def _known(kind: type[Marker | Logbook], found: JsonObject) -> JsonObject:
    """The fields that this release knows: a former one knows fewer, a later one more."""
    known = {field.name: found[field.name] for field in fields(kind) if field.name in found}
    if not all(isinstance(known[field.name], _TYPES[field.type]) for field in fields(kind) if field.name in known):
        raise TypeError("a field has another type")
    return known
