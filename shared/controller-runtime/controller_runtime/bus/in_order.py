"""Deliveries put in the order in which the broker numbered them. Pure.

A connection delivers in order; what stands between a broker and its clients (a gateway, a proxy, a meddling test) may
not. Were each message that overtakes another taken for a loss, each would cost a snapshot of everything.
"""

from typing import Final, Generic, Protocol, TypeVar

from controller_runtime.bus.errors import BusError
from controller_runtime.bus.stored import DeliveryPosition

_EARLY: Final = 512
"""What may wait for one that is missing; no more lie between the requests of a reader."""


class DeliveryLostError(BusError):
    """The consumer missed something, or fell silent: make a new one."""


class Placed(Protocol):
    """Has a place in the stream and in the delivery."""

    @property
    def position(self) -> DeliveryPosition: ...


P = TypeVar("P", bound=Placed)


class InOrder(Generic[P]):
    """Holds back what came early and drops what came before.

    Attributes:
        taken: consumer sequence of the last one handed on.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._stream_sequence = 0
        self._early: dict[int, P] = {}
        self._told = 0

    def take(self, one: P) -> list[P]:
        """What can be handed on now.

        Raises:
            DeliveryLostError: it is not of the stream that was delivered so far, or one before it is missing and so
                much waits already that it will not come.
        """
        position = one.position
        if position.consumer_sequence <= self.taken:
            if position.stream_sequence > self._stream_sequence:
                raise self._of_another_stream(position)
            return []
        self._early.setdefault(position.consumer_sequence, one)
        if len(self._early) > _EARLY:
            raise DeliveryLostError(self.missing)
        found: list[P] = []
        while (following := self._early.pop(self.taken + 1, None)) is not None:
            if following.position.stream_sequence <= self._stream_sequence:
                raise self._of_another_stream(following.position)
            self.taken = following.position.consumer_sequence
            self._stream_sequence = following.position.stream_sequence
            found.append(following)
        return found

    def tell(self, delivered: int) -> None:
        """The broker says how many it has delivered."""
        self._told = max(self._told, delivered)

    @property
    def missing(self) -> str:
        """What is missing before something that came or was told of, in words; empty if nothing is."""
        if self._early:
            return f"delivery {min(self._early)} came after {self.taken}: messages were lost"
        if self._told > self.taken:
            return f"the broker delivered {self._told} messages, {self.taken} arrived"
        return ""

    def _of_another_stream(self, position: DeliveryPosition) -> DeliveryLostError:
        return DeliveryLostError(
            f"stream sequence {position.stream_sequence} came after {self._stream_sequence}: not the same stream"
        )
