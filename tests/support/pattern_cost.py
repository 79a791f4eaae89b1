"""How the time of a reader grows with its text, and the texts on which a regular expression takes longest."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

_LENGTHS: Final = (12, 16, 20, 24, 28, 32, 48, 64, 128, 256, 512)
_SMALL, _LARGE = 512, 2048
_HOPELESS: Final = 0.005
"""Seconds that nothing linear needs for 512 characters; what has two to the power of them ends here."""
_GROWTH: Final = 9.0
"""Four times the text takes four times as long, not sixteen times as long."""
_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_OF_CATEGORY: Final = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}
_UNMATCHED: Final = ("", "\x00", "x")
_PLAIN: Final = "aA1 .-/_:;<[{\"'\\(=@,*"


class Text(NamedTuple):
    """A text of any length: a start, a part that repeats, and an end that fits or does not."""

    start: str
    pump: str
    end: str

    def of(self, length: int) -> str:
        return f"{self.start}{self.pump * (length // len(self.pump))}{self.end}"


def is_linear(read: Callable[[str], object], text: Text) -> bool:
    """Whether the time grows with the length of the text and not with a power of it.

    What was slow is measured again: other programs empty the caches of the processor, a power of the length stays one.
    """
    for length in _LENGTHS:
        if all(_seconds(read, text.of(length), repeat) > _HOPELESS for repeat in (3, 8)):
            return False
    return any(_grows_slowly(read, text, repeat) for repeat in (2, 8, 16))


def _grows_slowly(read: Callable[[str], object], text: Text, repeat: int) -> bool:
    small, large = (_seconds(read, text.of(length), repeat) for length in (_SMALL, _LARGE))
    return large < _GROWTH * max(small, 2e-5)


def _seconds(read: Callable[[str], object], text: str, repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        # Of the processor: while other programs have it, nothing is read.
        begin = time.thread_time()
        read(text)
        best = min(best, time.thread_time() - begin)
    return best


def texts_against(pattern: re.Pattern[Any]) -> list[Text]:
    """What repeats in the pattern, behind what stands before it, and with ends that do not match."""
    source = pattern.pattern.decode() if isinstance(pattern.pattern, bytes) else pattern.pattern
    found = set(_pumps(list(_parser.parse(source, pattern.flags)), ""))
    pumps = {pump for _, pump in found}
    starts = {*found, *(("", pump) for pump in pumps), *(("", character) for character in _PLAIN)}
    return [Text(start, pump, end) for start, pump in sorted(starts) if pump for end in _UNMATCHED]


def _pumps(items: Sequence[tuple[Any, Any]], before: str) -> Iterator[tuple[str, str]]:
    for operation, argument in items:
        name = str(operation)
        inner: Iterable[Sequence[tuple[Any, Any]]] = ()
        if name in _REPEATS:
            inner = [argument[2]]
            yield before, _sample(argument[2])
        elif name == "SUBPATTERN":
            inner = [argument[3]]
        elif name == "BRANCH":
            inner = argument[1]
        for part in inner:
            yield from _pumps(list(part), before)
        before += _one(operation, argument)
    yield "", before


def _sample(items: Iterable[tuple[Any, Any]]) -> str:
    return "".join(_one(operation, argument) for operation, argument in items)


def _one(operation: Any, argument: Any) -> str:
    match str(operation):
        case "LITERAL":
            return chr(int(argument))
        case "NOT_LITERAL":
            return "y" if argument == ord("x") else "x"
        case "ANY":
            return "x"
        case "IN":
            return _of_set(argument)
        case "SUBPATTERN":
            return _sample(argument[3])
        case "BRANCH":
            return _sample(argument[1][0])
        case "ATOMIC_GROUP":
            return _sample(argument)
        case name if name in _REPEATS:
            return _sample(argument[2]) * max(1, int(argument[0]))
    return ""


def _of_set(members: Sequence[tuple[Any, Any]]) -> str:
    negated, held = False, []
    for operation, argument in members:
        match str(operation):
            case "NEGATE":
                negated = True
            case "LITERAL":
                held.append(chr(argument))
            case "RANGE":
                held.append(chr(argument[0]))
            case "CATEGORY":
                held.append(_OF_CATEGORY.get(str(argument), "!"))
    if not negated:
        return held[0] if held else ""
    return next(character for character in "ax1-._Z:/" if character not in held)
