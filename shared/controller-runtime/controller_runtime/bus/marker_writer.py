"""Writes the sync marker of a part with a fence, and so notices a second publisher and another cluster."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controller_runtime.bus.envelope import EnvelopeError
from controller_runtime.bus.interruption import InterruptedSessionError
from controller_runtime.bus.judgement import Scope
from controller_runtime.bus.logbook import NEVER_READ, Logbook
from controller_runtime.bus.marker import UNPROVEN, Marker, decode_marker
from controller_runtime.bus.outcome import PubAck, PublishOutcome
from controller_runtime.bus.proof import Proof
from controller_runtime.bus.publisher_state import PublisherSetup, SupersededError
from controller_runtime.bus.stored import StoredMessage, last_message

_ATTEMPTS: Final = 5
_ALIVE_MARKERS: Final = 3
"""A publisher whose last marker is older than so many intervals is gone."""


class ForeignClusterError(InterruptedSessionError):
    """Another cluster publishes the part on the same subjects; this one keeps its hands off."""


@dataclass(frozen=True, slots=True)
class Vouched:
    """What a marker says besides its place; by default nothing, as a claim does. See `Marker`."""

    proof: Proof | None = None
    resource_version: str = ""
    history: Logbook = NEVER_READ


class MarkerWriter:
    """The marker of one part, as this process writes it.

    Args:
        service: for facts, which service's.
        source: name of the publisher.
    """

    def __init__(self, setup: PublisherSetup, part: str, service: str, source: str) -> None:
        self._connection = setup.connection
        self._stream = setup.layout.state_stream
        self._subject = setup.layout.sync(part, service)
        self._cluster = setup.cluster
        self._interval = setup.settings.marker_interval
        self._guard = setup.guard
        self._part = part
        self._source = source
        self._sequence = 0
        self._number = 0
        self._leading = False
        self._outcome: PublishOutcome | None = None
        self.written = 0

    def forget(self) -> None:
        """This process did not lead for a while: a marker of somebody else is no surprise now."""
        self._leading = False

    def is_own(self, marker: Marker | None) -> bool:
        """Whether this process wrote it."""
        return marker is not None and marker.source == self._source

    async def read(self, now: datetime) -> Marker | None:
        """The part's marker; ``None`` if there is none that can be read.

        Args:
            now: the broker's clock.

        Raises:
            ForeignClusterError: a process of another cluster vouches for the part.
            SupersededError: another process has written it since this one did.
            BusUnavailableError: no answer.
            BusApiError: the broker refused.
        """
        found = await self._look()
        marker = _decode(found)
        if found is None or marker is None:
            return None
        if self._is_foreign(marker):
            # A cluster that was replaced leaves a marker that nobody renews. One that is renewed belongs to an
            # installation that lives, and whoever came first keeps the subjects.
            if now - found.stored < timedelta(seconds=_ALIVE_MARKERS * self._interval):
                raise ForeignClusterError(self._foreign(marker))
            return marker
        if marker.source != self._source and self._leading:
            raise SupersededError(self._superseded(marker))
        return marker

    async def claim(self, scope: Scope, stream_created: str, state_sequence: int) -> None:
        """Tell who publishes the part from now on, before anything else is written; vouch for nothing.

        What another cluster or a second process writes afterwards can be told from what belongs to this one.

        Raises:
            as `write`
        """
        await self._write(scope, Vouched(), stream_created, state_sequence)

    async def write(self, scope: Scope, vouched: Vouched, stream_created: str, state_sequence: int) -> int:
        """Vouch for the part; returns the marker's sequence.

        Raises:
            ForeignClusterError: another cluster claims the part.
            SupersededError: another process vouches for it.
            InterruptedSessionError: it could not be written, or the last one is gone.
            BusUnavailableError: no answer.
            BusApiError: the broker refused.
        """
        await self._write(scope, vouched, stream_created, state_sequence)
        self.written += 1
        return self._sequence

    async def _write(self, scope: Scope, vouched: Vouched, stream_created: str, state_sequence: int) -> None:
        proof = vouched.proof
        for _ in range(_ATTEMPTS):
            self._number += 1
            marker = Marker(
                source=self._source,
                number=self._number,
                epoch=scope.epoch,
                comparable_since=scope.comparable_since,
                cluster=self._cluster,
                resource_version=vouched.resource_version,
                stream_created=stream_created,
                state_sequence=state_sequence,
                objects=UNPROVEN if proof is None else proof.objects,
                fold="" if proof is None else proof.fold,
                history=vouched.history,
            )
            if await self._try(marker):
                self._leading = True
                return
        raise InterruptedSessionError(f"{self._subject}: the marker could not be written: {self._outcome}")

    async def _try(self, marker: Marker) -> bool:
        if self._guard() <= 0:
            raise InterruptedSessionError("the Lease was not renewed in time; another replica may lead")
        expected = self._sequence
        outcome = self._outcome = await self._connection.publish(
            self._subject, marker.body(), marker.headers(), expected=expected
        )
        if isinstance(outcome, PubAck) and not outcome.duplicate:
            self._sequence = outcome.sequence
            return True
        holder = _decode(await self._look())
        if self._sequence < expected:
            # Whatever removed it (a purge, a limit, an older copy of the store) removed objects as well.
            raise InterruptedSessionError(f"the marker of {self._part} vanished from the stream")
        if holder is None or holder.source == self._source:
            # An earlier one of ours whose answer got lost, or this very one.
            return holder is not None and holder.id == marker.id
        if self._is_foreign(holder):
            raise ForeignClusterError(self._foreign(holder))
        if self._leading:
            raise SupersededError(self._superseded(holder))
        raise InterruptedSessionError(f"{holder.source} still published {self._part} during the take-over")

    async def _look(self) -> StoredMessage | None:
        found = await last_message(self._connection, self._stream, self._subject)
        self._sequence = found.sequence if found else 0
        return found

    def _is_foreign(self, holder: Marker) -> bool:
        return bool(self._cluster and holder.cluster and holder.cluster != self._cluster)

    def _foreign(self, holder: Marker) -> str:
        return (
            f"{self._part} is published by another cluster ({holder.cluster}) under the same names; "
            "give one of the two installations another --nats-root"
        )

    def _superseded(self, holder: Marker) -> str:
        return f"{self._part} is published by {holder.source} as well; this process must stop publishing it"


def _decode(message: StoredMessage | None) -> Marker | None:
    try:
        return decode_marker(message.data) if message is not None else None
    except EnvelopeError:
        return None
