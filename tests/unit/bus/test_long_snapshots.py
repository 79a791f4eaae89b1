"""A long list or snapshot never keeps the event loop for long: what is slow is done piece by piece, ahead."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from pydantic import model_validator
from support.cache_objects import WIDGET, colour_index, entry_of, widget

from controller_runtime import ApiModel, Cache, Depth, Index, Key, Part, Resource
from controller_runtime.kube.reflector_state import Event, ListFrom, Restarted
from controller_runtime.log.cache.feed import DirectFeed
from controller_runtime.log.cache.indexes import IndexTable
from controller_runtime.log.publish.source import SourceVersion, published
from controller_runtime.log.wire.version import Entry
from controller_runtime.replay.past import Rebuilt


class Counted(Resource):
    """Counts how often it is decoded."""

    decoded: ClassVar[int] = 0

    @model_validator(mode="after")
    def _count(self) -> "Counted":
        Counted.decoded += 1
        return self


class OneList:
    """A watch that gives a list, and nothing more."""

    def __init__(self, restarted: Restarted[SourceVersion]) -> None:
        self._left: list[Event[SourceVersion]] = [restarted]

    def __aiter__(self) -> AsyncIterator[Event[SourceVersion]]:
        return self

    async def __anext__(self) -> Event[SourceVersion]:
        if not self._left:
            await asyncio.Event().wait()
        return self._left.pop()

    def relist(self, source: ListFrom) -> None:
        raise AssertionError(f"nobody has a reason to list again from {source}")


@pytest.fixture
def part() -> Part[Any]:
    Counted.decoded = 0
    return Part("widgets", replace(WIDGET, model=Counted))


@pytest.fixture
def cache(part: Part[Any]) -> Cache:
    return Cache([part], [colour_index(part)])


def snapshot(part: Part[Any], sequence: int) -> dict[Key, Entry[Any]]:
    entries = [entry_of(part, widget(f"w{n}", f"u{n}", 7, labels={"colour": "red"}), sequence + n) for n in range(3)]
    return {entry.key: entry for entry in entries}


def test_a_prepared_snapshot_is_swapped_in_without_decoding(cache: Cache, part: Part[Any]) -> None:
    first = snapshot(part, 1)
    for entry in first.values():
        cache.prepare(entry)
    assert Counted.decoded == 3
    assert len(cache.replace(part, first, 0)) == 3
    again = snapshot(part, 10)
    for entry in again.values():
        cache.prepare(entry)
    assert cache.replace(part, again, 1) == []
    assert Counted.decoded == 3, "what did not change is not decoded again"


def test_what_a_snapshot_repeats_is_neither_decoded_nor_packed_again(cache: Cache, part: Part[Any]) -> None:
    first = snapshot(part, 1)
    for entry in first.values():
        cache.prepare(entry)
    cache.replace(part, first, 0)
    for entry in first.values():
        entry.forget_decoded()
    again = snapshot(part, 10)
    for entry in again.values():
        cache.prepare(entry)
    assert cache.replace(part, again, 1) == []
    assert Counted.decoded == 3
    assert all(cache.get(part, key) is entry for key, entry in again.items())
    assert all(entry._held is first[key]._held for key, entry in again.items())
    assert len(cache.select(colour_index(part), "ns/red")) == 3


@pytest.mark.spec("FW-461")
@pytest.mark.parametrize(
    ("depth", "decoded"),
    [
        (Depth.METADATA, {"apiVersion", "kind", "metadata"}),
        (Depth.SPEC, {"apiVersion", "kind", "metadata", "spec"}),
        (Depth.WHOLE, {"apiVersion", "kind", "metadata", "spec", "status"}),
    ],
)
def test_what_nothing_is_derived_from_is_not_decoded_for_a_snapshot(depth: Depth, decoded: set[str]) -> None:
    seen: list[set[str]] = []

    class Reported(Resource):
        @model_validator(mode="before")
        @classmethod
        def _reported(cls, raw: dict[str, object]) -> dict[str, object]:
            seen.append(set(raw))
            return raw

    part: Part[Any] = Part("widgets", replace(WIDGET, model=Reported))
    by_name = Index(part, "name", lambda obj: [obj.name], depth=depth)
    cache = Cache([part], [by_name, colour_index(part)])
    entry = entry_of(
        part, widget("w0", "u0", 7, labels={"colour": "red"}, spec={"size": 1}, status={"phase": "Done"}), 1
    )
    cache.prepare(entry)
    cache.replace(part, {entry.key: entry}, 0)
    assert seen == [decoded]
    assert cache.select(by_name, "w0") == cache.select(colour_index(part), "ns/red") == [entry]
    assert entry.object is not None
    assert entry.object.model_extra == {"spec": {"size": 1}, "status": {"phase": "Done"}}, (
        "whoever looks sees all of it"
    )


class Phase(ApiModel):
    phase: int = 0


class Phased(Resource):
    spec: Phase = Phase()
    status: Phase = Phase()


@pytest.mark.spec("FW-461", "FW-480")
@pytest.mark.parametrize("others_look", [False, True])
@pytest.mark.parametrize(("depth", "unreadable"), [(Depth.SPEC, "status"), (Depth.METADATA, "spec")])
def test_an_object_of_which_something_cannot_be_read_is_found_alike_after_event_snapshot_and_replay(
    depth: Depth, unreadable: str, others_look: bool
) -> None:
    part: Part[Any] = Part("widgets", replace(WIDGET, model=Phased))
    blind = Index(part, "blind", lambda obj: [obj.name], depth=depth)
    seeing = Index(part, "seeing", lambda obj: [str(obj.status.phase)])
    tables = [blind, seeing] if others_look else [blind]

    def found(cache: Cache) -> list[int]:
        return [len(cache.select(index, value)) for index, value in ((blind, "w0"), (seeing, "0")) if index in tables]

    def entry() -> Entry[Any]:
        return entry_of(part, {**widget("w0", "u0", 7), unreadable: {"phase": "no number"}}, 1)

    by_event, by_snapshot = Cache([part], tables), Cache([part], tables)
    by_event.put(entry(), 0)
    one = entry()
    by_snapshot.prepare(one)
    by_snapshot.replace(part, {one.key: one}, 0)
    again = Rebuilt(IndexTable(blind))
    again.put(one.key, one)
    assert found(by_event) == found(by_snapshot) == [1, 0][: len(tables)]
    assert again.table.keys("w0") == (one.key,)
    assert one.object is None


def test_another_content_under_the_same_version_is_looked_at(cache: Cache, part: Part[Any]) -> None:
    first = snapshot(part, 1)
    cache.replace(part, first, 0)
    key = next(iter(first))
    restored = entry_of(part, widget("w0", "u0", 7, labels={"colour": "blue"}), 10)
    cache.prepare(restored)
    assert len(cache.replace(part, {**first, key: restored}, 1)) == 1
    assert [entry.key.name for entry in cache.select(colour_index(part), "ns/blue")] == ["w0"]


async def test_others_run_while_a_long_list_is_taken_in(cache: Cache, part: Part[Any]) -> None:
    form = published(part)
    objects = tuple(form(widget(f"w{n}", f"u{n}", 7)) for n in range(1000))
    done = asyncio.Event()
    decoded_at_step: list[int] = []

    @asynccontextmanager
    async def lists(_: Part[Any]) -> AsyncIterator[OneList]:
        yield OneList(Restarted(objects, "7"))

    feed = DirectFeed(cache, part, lists, lambda _: None, done.set, catch_up=10, clock=lambda: 0.0)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(feed.run())
        while not done.is_set():
            decoded_at_step.append(Counted.decoded)
            await asyncio.sleep(0)
        running.cancel()
    steps = [after - before for before, after in pairwise(decoded_at_step)]
    assert max(steps) <= 100
    assert cache.count(part) == Counted.decoded == 1000
