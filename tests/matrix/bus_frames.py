"""Messages on their way from a broker to a client: found in the byte stream, and lost, doubled, held back. Pure."""

import random
import re
from collections import deque
from dataclasses import dataclass, field
from typing import Final, Protocol

_MESSAGE: Final = re.compile(rb"^(H?MSG) (\S+) ")
_END: Final = b"\r\n"


@dataclass(frozen=True, slots=True)
class Frame:
    """One protocol message with its payload, as it came.

    Attributes:
        subject: of a message; empty for everything else that the broker says.
    """

    raw: bytes
    subject: str = ""


@dataclass(slots=True)
class Frames:
    """Cuts the broker's byte stream into frames."""

    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete with these bytes."""
        self._rest += data
        found = []
        while (frame := self._next()) is not None:
            found.append(frame)
        return found

    def _next(self) -> Frame | None:
        end = self._rest.find(_END)
        if end < 0:
            return None
        line = bytes(self._rest[:end])
        message = _MESSAGE.match(line)
        length = end + len(_END)
        if message is not None:
            length += int(line.rsplit(b" ", 1)[1]) + len(_END)
        if len(self._rest) < length:
            return None
        raw = bytes(self._rest[:length])
        del self._rest[:length]
        return Frame(raw, message[2].decode() if message is not None else "")


class Meddler(Protocol):
    """Decides what becomes of the messages of one connection."""

    struck: int
    """How many messages did not come once, at once and in order."""
    idle_seconds: float
    """After this long without a message it holds nothing back any longer."""

    def take(self, frame: Frame) -> list[Frame]:
        """What is delivered now that this message has come."""
        ...

    def idle(self) -> list[Frame]:
        """What is delivered now that nothing has come for a while."""
        ...


@dataclass(slots=True)
class Lossy:
    """Loses each message with a probability."""

    chance: random.Random
    probability: float
    struck: int = 0
    idle_seconds: float = 0.5

    def take(self, frame: Frame) -> list[Frame]:
        """Nothing, or the message."""
        if self.chance.random() < self.probability:
            self.struck += 1
            return []
        return [frame]

    def idle(self) -> list[Frame]:
        """Nothing is held back."""
        return []


@dataclass(slots=True)
class Jumbling:
    """Delivers a share of the messages once to three times, mixed, and after up to `span` that came later."""

    chance: random.Random
    share: float
    span: int = 8
    struck: int = 0
    idle_seconds: float = 0.1
    """Little: it is about order, and what comes late is told step by step, which costs writes."""
    _held: list[Frame] = field(default_factory=list)
    _since: int = 0
    """How many messages have come since the first that is held."""

    def take(self, frame: Frame) -> list[Frame]:
        """It, as a rule; and what has been held long enough."""
        out = [frame] if self.chance.random() >= self.share else []
        if not out:
            self._held += [frame] * self.chance.choice((1, 2, 3))
        if self._held:
            self._since += 1
        return out + (self.idle() if self._since > self.span else [])

    def idle(self) -> list[Frame]:
        """All that is held."""
        self.chance.shuffle(self._held)
        self.struck += len(self._held)
        out, self._held, self._since = self._held, [], 0
        return out


@dataclass(slots=True)
class Late:
    """Delivers in order, but `behind` messages late while messages keep coming."""

    behind: int
    struck: int = 0
    idle_seconds: float = 0.5
    _held: deque[Frame] = field(default_factory=deque)

    def take(self, frame: Frame) -> list[Frame]:
        """The oldest, when more are held than it is late."""
        self._held.append(frame)
        self.struck += 1
        return [self._held.popleft()] if len(self._held) > self.behind else []

    def idle(self) -> list[Frame]:
        """All that is held."""
        out = list(self._held)
        self._held.clear()
        return out
