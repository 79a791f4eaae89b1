"""Text of a tenant in any field of any kind, as long and as much as the API server admits, holds no service."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import pytest
from support.bad_values import Field
from support.hostile_text import HOSTILE_METADATA, hostile_fields
from support.planned_schemas import refusals
from support.whole_platform import own_passes, passes_after, stumbles_over, variants

from controller_runtime import JsonObject

VARIANTS: Final = variants()
EXPLORING: Final = os.environ.get("AIM_EXPLORE") == "random"
STRIDE: Final = 1 if EXPLORING else 40
"""Of the texts for a field one is tried, of the next field the one after it; all of them when exploring."""
READ: Final = 1 if EXPLORING else 3
"""Each third field is tried, for each kind of object another third; each of them when exploring (`make chaos`)."""
FIELDS: Final = 1 if EXPLORING else 17
"""Each seventeenth field is tried beside all other objects; each of them when exploring."""
_SECONDS: Final = 0.5
"""Of the processor; what takes less is not compared. The budget of a decision is 10 s (FW-745)."""
_RATIO: Final = 8.0
"""How much longer than harmless text of the same size hostile text may take."""


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End what computes for longer, as the text that this is about may take for ever."""

    def end(*_: object) -> NoReturn:
        raise TimeoutError(f"not decided after {seconds} s of the processor")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _seconds(run: Callable[[], object], repeat: int = 1) -> float:
    best = float("inf")
    for _ in range(repeat):
        begin = time.thread_time()
        run()
        best = min(best, time.thread_time() - begin)
    return best


def _decided(usual: JsonObject, changed: JsonObject) -> None:
    """Read by every index, and decided by every reconciler of its kind."""
    assert list(stumbles_over([changed])) == []
    own_passes(usual, changed)


def _held(run: Callable[[JsonObject], object], field: Field, usual: JsonObject, text: object, limit: float = 3) -> str:
    """Why the text holds a service for so many seconds of the processor, or nothing."""
    hostile = field.put(usual, text)
    if refusals(hostile):
        return ""
    try:
        with _ended_after(limit):
            if _seconds(lambda: run(hostile)) < _SECONDS:
                return ""
            taken = _seconds(lambda: run(hostile), repeat=3)
    except TimeoutError as error:
        return f"{field}: {error}, with {text!r:.60}"
    except AssertionError as error:
        return f"{field}: {error!s:.300}, with {text!r:.60}"
    harmless = field.put(usual, field.values[0])
    needed = max(_SECONDS, _RATIO * _seconds(lambda: run(harmless), repeat=3))
    return "" if taken < needed else f"{field}: {taken:.2f} s, with {text!r:.60}"


def _tried(name: str) -> Iterator[tuple[int, Field]]:
    kind = VARIANTS[name]["kind"]
    yield from enumerate((*hostile_fields(kind, "spec"), *hostile_fields(kind, "status"), *HOSTILE_METADATA))


@pytest.mark.spec("FW-740", "FW-478", "FW-480", "CC-340")
@pytest.mark.parametrize("name", VARIANTS)
def test_text_in_any_field_is_indexed_and_decided_in_bounded_time(name: str) -> None:
    usual = VARIANTS[name]
    held = [
        _held(lambda changed: _decided(usual, changed), field, usual, text)
        for number, field in _tried(name)
        if (number + list(VARIANTS).index(name)) % READ == 0
        for text in field.values[number % min(STRIDE, len(field.values)) :: STRIDE]
    ]
    assert [why for why in held if why] == []


@pytest.mark.spec("FW-740", "FW-478")
@pytest.mark.parametrize("name", VARIANTS)
def test_text_in_any_field_keeps_no_other_object_from_its_decision(name: str) -> None:
    usual = VARIANTS[name]
    held = [
        _held(lambda changed: list(passes_after(usual, changed)), field, usual, text)
        for number, field in _tried(name)
        if number % FIELDS == 0
        for text in (field.values[number % len(field.values)],)
    ]
    assert [why for why in held if why] == []


@pytest.mark.parametrize("pattern", [r"a/(1+)+$", r"a/(1|11)+$"])
def test_the_measure_finds_a_reader_that_is_held(pattern: str) -> None:
    usual = VARIANTS["AIMArtifact"]
    field = next(field for field in hostile_fields("AIMArtifact", "spec") if field.path[-1] == "modelId")
    read = re.compile(pattern).match
    assert any(
        _held(lambda changed: read(changed["spec"]["modelId"]), field, usual, text, 0.7) for text in field.values
    )
