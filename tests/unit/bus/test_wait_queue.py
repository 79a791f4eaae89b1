"""Whose turn it is, read from the head of a line."""

from datetime import UTC, datetime, timedelta

import pytest
from support.cache_objects import entry_of, widget, widgets

from controller_runtime import Cache, JsonObject, Key, Part, Resource, View, WaitQueue
from controller_runtime.log.cache.view import CacheView
from controller_runtime.log.history.decisions import recorded_reads

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def since(obj: Resource) -> datetime | None:
    minutes = obj.metadata.labels.get("minutes")
    return None if minutes is None else BEGIN + timedelta(minutes=int(minutes))


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


@pytest.fixture
def queue(part: Part[Resource]) -> WaitQueue[Resource]:
    return WaitQueue(part, "waiting", since)


@pytest.fixture
def cache(part: Part[Resource], queue: WaitQueue[Resource]) -> Cache:
    cache = Cache([part], [queue])
    cache.mark(part, synced=True, fresh=True)
    for number, (name, minutes) in enumerate((("b", 2), ("z", 1), ("a", 2), ("c", 3)), 1):
        cache.put(entry_of(part, standing(name, 1, minutes), number), 0)
    return cache


def standing(name: str, version: int, minutes: int | None) -> JsonObject:
    return widget(name, f"u-{name}", version, labels={} if minutes is None else {"minutes": str(minutes)})


def first(view: View, queue: WaitQueue[Resource], most: int, *without: str) -> list[str]:
    return [obj.name for obj in view.first(queue, most, lambda key: key.name not in without)]


@pytest.mark.spec("FW-456")
def test_who_came_first_stands_first(cache: Cache, queue: WaitQueue[Resource]) -> None:
    view = CacheView(cache)
    assert first(view, queue, 2) == ["z", "a"]
    assert first(view, queue, 9) == ["z", "a", "b", "c"]
    assert first(view, queue, 2, "z", "b") == ["a", "c"]


@pytest.mark.spec("FW-456")
def test_a_place_follows_the_object(cache: Cache, part: Part[Resource], queue: WaitQueue[Resource]) -> None:
    cache.put(entry_of(part, standing("z", 2, 9), 5), 0)
    cache.put(entry_of(part, standing("a", 2, None), 6), 0)
    cache.absorb_deleted(part, Key("ns", "b"), "u-b", 0)
    assert first(CacheView(cache), queue, 9) == ["c", "z"]


@pytest.mark.spec("FW-456")
def test_a_look_at_the_head_reads_the_head_only(cache: Cache, part: Part[Resource], queue: WaitQueue[Resource]) -> None:
    for number in range(5000):
        cache.put(entry_of(part, standing(f"w{number}", 1, 10 + number), 10 + number), 0)
    view = CacheView(cache)
    answer = view.first(queue, 2, lambda key: key.name != "z")
    assert [obj.name for obj in answer] == ["a", "b"]
    assert [read.name for read in recorded_reads(view.reads).objects] == ["a", "b"]
