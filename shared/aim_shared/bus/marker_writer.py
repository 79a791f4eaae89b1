"""Writes the sync marker of a part with a fence, and so notices a second publisher."""

from collections.abc import Callable
from typing import Final

from aim_shared.bus.connection import BusConnection
from aim_shared.bus.envelope import EnvelopeError
from aim_shared.bus.interruption import InterruptedSessionError
from aim_shared.bus.judgement import Scope
from aim_shared.bus.marker import Marker, decode_marker
from aim_shared.bus.outcome import PubAck, PublishOutcome
from aim_shared.bus.publisher_state import SupersededError
from aim_shared.bus.stored import StoredMessage, last_message
from aim_shared.bus.subjects import Layout

_ATTEMPTS: Final = 5


class MarkerWriter:
    """The marker of one part, as this process writes it."""

    def __init__(
        self,
        connection: BusConnection,
        layout: Layout,
        part: str,
        *,
        service: str,
        source: str,
        may_write: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._stream = layout.state_stream
        self._subject = layout.sync(part, service)
        self._part = part
        self._source = source
        self._may_write = may_write
        self._sequence = 0
        self._number = 0
        self._leading = False
        self._outcome: PublishOutcome | None = None
        self.written = 0

    def forget(self) -> None:
        """This process did not lead for a while: a marker of somebody else is no surprise now."""
        self._leading = False

    async def read(self) -> Marker | None:
        """The part's marker; ``None`` if there is none that can be read.

        Raises:
            SupersededError: another process has written it since this one did.
            BusUnavailableError: no answer.
            BusApiError: the broker refused.
        """
        marker = await self._look()
        if marker is not None and marker.source != self._source and self._leading:
            raise SupersededError(self._superseded(marker))
        return marker

    async def write(
        self, scope: Scope, cluster: str, resource_version: str, stream_created: str, state_sequence: int
    ) -> int:
        """Vouch for the part; returns the marker's sequence.

        Raises:
            SupersededError: another process vouches for it.
            InterruptedSessionError: it could not be written.
            BusUnavailableError: no answer.
            BusApiError: the broker refused.
        """
        for _ in range(_ATTEMPTS):
            self._number += 1
            marker = Marker(
                self._source,
                self._number,
                scope.epoch,
                scope.comparable_since,
                cluster,
                resource_version,
                stream_created,
                state_sequence,
            )
            if await self._try(marker):
                self._leading = True
                self.written += 1
                return self._sequence
        raise InterruptedSessionError(f"{self._subject}: the marker could not be written: {self._outcome}")

    async def _try(self, marker: Marker) -> bool:
        if not self._may_write():
            raise InterruptedSessionError("the Lease was not renewed in time; another replica may lead")
        outcome = self._outcome = await self._connection.publish(
            self._subject, marker.body(), marker.headers(), expected=self._sequence
        )
        if isinstance(outcome, PubAck) and not outcome.duplicate:
            self._sequence = outcome.sequence
            return True
        holder = await self._look()
        if holder is None or holder.source == self._source:
            # An earlier one of ours whose answer got lost, or this very one.
            return holder is not None and holder.id == marker.id
        if self._leading:
            raise SupersededError(self._superseded(holder))
        raise InterruptedSessionError(f"{holder.source} still published {self._part} during the take-over")

    async def _look(self) -> Marker | None:
        found = await last_message(self._connection, self._stream, self._subject)
        self._sequence = found.sequence if found else 0
        return _decode(found)

    def _superseded(self, holder: Marker) -> str:
        return f"{self._part} is published by {holder.source} as well; this process must stop publishing it"


def _decode(message: StoredMessage | None) -> Marker | None:
    try:
        return decode_marker(message.data) if message is not None else None
    except EnvelopeError:
        return None
