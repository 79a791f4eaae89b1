"""An object that an index, a summary or a line can make nothing of is in the cache all the same (FW-480)."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from structlog.testing import capture_logs
from support.cache_objects import colour_index, entry_of, widget, widgets

from controller_runtime import Cache, Index, Key, Part, Resource, Summary, WaitQueue, scoped
from controller_runtime.log.wire.version import Entry

A = Key("ns", "a")


class Said(BaseModel):
    """What widgets say."""

    model_config = ConfigDict(frozen=True)

    word: str


class Looks:
    """A cache whose look-ups stumble over red widgets."""

    def __init__(self) -> None:
        self.part = widgets()
        self.colours = colour_index(self.part)
        self.names: Index[Resource] = Index(self.part, "names", self._names)
        self.said: Summary[Resource, Said] = Summary(self.part, "said", Said, self._said)
        self.queue: WaitQueue[Resource] = WaitQueue(self.part, "line", self._since)
        self.cache = Cache([self.part], [self.names, self.said, self.queue, self.colours])

    def entry(self, colour: str, rv: int) -> Entry[Resource]:
        return entry_of(self.part, widget("a", rv=rv, labels={"colour": colour}), rv)

    def found(self) -> tuple[int, int, int]:
        by_name = self.cache.select(self.names, "a")
        return len(by_name), len(self.cache.summary(self.said, "all")), len(self.cache.first(self.queue, 9, _any))

    @staticmethod
    def _names(obj: Resource) -> list[str]:
        _look(obj)
        return [obj.name]

    @staticmethod
    def _said(obj: Resource) -> Iterable[tuple[str, Said]]:
        yield "all", Said(word="partly")
        _look(obj)

    @staticmethod
    def _since(obj: Resource) -> datetime:
        _look(obj)
        naive = obj.metadata.labels["colour"] == "naive"
        return datetime(2026, 1, 1, tzinfo=None if naive else UTC)


def _any(_: Key) -> bool:
    return True


def _look(obj: Resource) -> None:
    if obj.metadata.labels["colour"] == "red":
        raise OverflowError("date value out of range")


@pytest.fixture
def looks() -> Looks:
    return Looks()


def colours(looks: Looks) -> dict[str, int]:
    return {colour: len(looks.cache.select(looks.colours, scoped("ns", colour))) for colour in ("red", "green")}


@pytest.mark.spec("FW-480")
def test_it_is_in_the_cache_and_in_every_other_index(looks: Looks) -> None:
    looks.cache.put(looks.entry("red", 1), 0)
    assert looks.cache.get(looks.part, A) is not None
    assert (colours(looks), looks.found()) == ({"red": 1, "green": 0}, (0, 0, 0))


@pytest.mark.spec("FW-480")
def test_it_comes_into_the_index_and_out_of_it_like_any_other(looks: Looks) -> None:
    cache = looks.cache
    for number, colour in enumerate(("green", "red", "red", "green"), 1):
        cache.put(looks.entry(colour, number), 0)
        assert looks.found() == ((1, 1, 1) if colour == "green" else (0, 0, 0))
    cache.put(looks.entry("red", 5), 0)
    cache.delete(looks.part, A, looks.entry("red", 6).version, 0)
    assert (cache.count(looks.part), colours(looks), looks.found()) == (0, {"red": 0, "green": 0}, (0, 0, 0))


@pytest.mark.spec("FW-480")
def test_a_snapshot_of_it_is_taken_in(looks: Looks) -> None:
    entry = looks.entry("red", 1)
    looks.cache.prepare(entry)
    looks.cache.replace(looks.part, {A: entry}, 0)
    assert colours(looks) == {"red": 1, "green": 0}


@pytest.mark.spec("FW-480")
def test_a_moment_without_time_zone_has_no_place_in_a_line(looks: Looks) -> None:
    looks.cache.put(entry_of(looks.part, widget("b", "u2", labels={"colour": "green"}), 1), 0)
    looks.cache.put(looks.entry("naive", 2), 0)
    assert [entry.key.name for entry in looks.cache.first(looks.queue, 9, _any)] == ["b"]


@pytest.mark.spec("FW-480")
def test_it_is_reported_and_counted_once_per_version_and_index(looks: Looks) -> None:
    def reported() -> list[Any]:
        with capture_logs() as logs:
            looks.cache.prepare(looks.entry("red", 1))
            looks.cache.put(looks.entry("red", 1), 0)
        return [(queue["key"], queue["table"]) for queue in logs]

    assert reported() == [("ns/a", "widgets[names]"), ("ns/a", "widgets<said>"), ("ns/a", "widgets[line]")]
    assert reported() == []
    assert looks.cache.failures(looks.part) == 3
    looks.cache.put(looks.entry("red", 2), 0)
    assert looks.cache.failures(looks.part) == 6


@pytest.mark.spec("FW-480")
def test_one_that_cannot_even_be_decoded_is_taken_in(looks: Looks) -> None:
    part: Part[Resource] = looks.part
    version = looks.entry("red", 1).version
    looks.cache.put(Entry(part, A, b"not JSON", version), 0)
    assert looks.cache.get(part, A) is not None
    assert looks.cache.failures(part) == 1
