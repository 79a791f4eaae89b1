"""Objects that come and go leave nothing behind: counts of what is remembered, not megabytes."""

import pytest
from support.cache_objects import entry_of, widget, widgets

from controller_runtime import Cache, Key
from controller_runtime.log.wire.version import (
    CROWDED_SECONDS,
    DELETED_MEMORY_SECONDS,
    MOST_DELETIONS,
    DeletedMemory,
    Evidence,
    Version,
)


def remembered(cache: Cache) -> int:
    return sum(len(store.deleted) for store in cache._stores.values())


@pytest.mark.spec("FW-462")
def test_the_memory_of_deletions_does_not_grow_with_their_number() -> None:
    part, counts = widgets(), []
    cache = Cache([part])
    sequence = 0
    for minute in range(40):
        now = 60.0 * minute
        for number in range(200):
            name, sequence = f"w{minute}-{number}", sequence + 2
            cache.put(entry_of(part, widget(name, name, sequence), sequence), now)
            cache.delete(part, Key("ns", name), Version(name, str(sequence + 1), sequence + 1, "e1"), now)
        cache.forget_deleted(now)
        counts.append(remembered(cache))
    # Five minutes of them are kept whatever their number.
    assert max(counts) == counts[-1] <= 200 * (CROWDED_SECONDS / 60)
    assert cache.count(part) == 0


@pytest.mark.spec("FW-462")
def test_few_deletions_are_remembered_for_an_hour() -> None:
    memory = DeletedMemory()
    for number in range(MOST_DELETIONS):
        key = Key("ns", f"w{number}")
        memory.remember(key, Version(f"u{number}", "5", 5 + number, "e1"), 0.0, Evidence.MESSAGE)
    memory.forget_old(DELETED_MEMORY_SECONDS - 1)
    assert len(memory) == MOST_DELETIONS
    assert memory.bars(Key("ns", "w0"), Version("u0", "4", None, "e1"), DELETED_MEMORY_SECONDS - 1)
    memory.forget_old(DELETED_MEMORY_SECONDS + 1)
    assert len(memory) == 0
