"""What came of a publish, as values: a broker's answer is a fact about the stream, never a failure of the program."""

import re
from dataclasses import dataclass
from typing import Any, Final

from controller_runtime.json import loads


@dataclass(frozen=True, slots=True)
class PubAck:
    """Stored, and synced to disk.

    Attributes:
        sequence: where it lies.
        duplicate: the broker had seen the message id before; ``sequence`` is where that message was stored, which
            may have been replaced or removed since.
    """

    sequence: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class WrongSequence:
    """Refused: the subject's last sequence is another one than expected (10071).

    Attributes:
        last: the subject's last sequence, where the broker told it.
    """

    last: int | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Refused for good: the same message will never be stored, because body or headers are too large."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer, or one that may change (no storage left): it may be stored already, may be later, or never."""

    reason: str


PublishOutcome = PubAck | WrongSequence | Refused | Unknown

_WRONG_SEQUENCE_CODES: Final = frozenset({10071, 10164})
TOO_LARGE: Final = 10054
_HEADERS_TOO_LARGE: Final = 10097
_REFUSED_FOR_GOOD: Final = frozenset({TOO_LARGE, _HEADERS_TOO_LARGE})
_LAST_SEQUENCE: Final = re.compile(r"wrong last sequence: (\d+)")


def read_ack(data: bytes) -> PublishOutcome:
    """The broker's answer to a publish."""
    try:
        answer = loads(data)
        error: dict[str, Any] | None = answer.get("error")
        if error is None:
            return PubAck(int(answer["seq"]), bool(answer.get("duplicate")))
    except (KeyError, ValueError) as problem:
        return Unknown(f"the broker's answer is unreadable: {problem}")
    return _read_error(error)


def _read_error(error: dict[str, Any]) -> PublishOutcome:
    text = str(error.get("description", "no description"))
    code = int(error.get("err_code", 0))
    if code in _WRONG_SEQUENCE_CODES:
        match = _LAST_SEQUENCE.search(text)
        return WrongSequence(int(match.group(1)) if match else None)
    return Refused(code, text) if code in _REFUSED_FOR_GOOD else Unknown(f"{text} ({code})")
