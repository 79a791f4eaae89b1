"""Which objects asked what in their last pass: asking is subscribing (FW-500)."""

from array import array
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

from controller_runtime.bus.question import Question

K = TypeVar("K")

_NOTHING: Final = array("q")


class Readers(Generic[K]):
    """Kept by pass and not by declaration, so it cannot differ from what is really asked.

    A leader begins with a pass of every object; from then on nobody is missing. Most questions are asked by one object,
    so they get no collection of their own.
    """

    def __init__(self) -> None:
        self._asked: dict[K, array[int]] = {}
        self._readers: dict[Question, K | dict[K, None]] = {}

    def __contains__(self, question: Question) -> bool:
        return question in self._readers

    def of(self, question: Question) -> Iterable[K]:
        """Whom another answer concerns."""
        found = self._readers.get(question)
        return () if found is None else tuple(_several(found))

    def asked(self, key: K) -> Iterable[Question]:
        """What the latest pass of an object asked."""
        return self._asked.get(key, _NOTHING)

    def note(self, key: K, questions: Iterable[Question]) -> None:
        """What the latest pass of an object asked; nothing = it is not woken any more."""
        now, before = array("q", sorted(questions)), self._asked.get(key, _NOTHING)
        if now == before:
            return
        for question in set(before).difference(now):
            self._drop(question, key)
        for question in set(now).difference(before):
            self._add(question, key)
        if now:
            self._asked[key] = now
        else:
            del self._asked[key]

    def _add(self, question: Question, key: K) -> None:
        known = self._readers.get(question)
        if known is None:
            self._readers[question] = key
        else:
            several = _several(known)
            several[key] = None
            self._readers[question] = several

    def _drop(self, question: Question, key: K) -> None:
        known = self._readers[question]
        if isinstance(known, dict) and len(known) > 1:
            del known[key]
        else:
            del self._readers[question]


def _several(known: K | dict[K, None]) -> dict[K, None]:
    return known if isinstance(known, dict) else {known: None}
