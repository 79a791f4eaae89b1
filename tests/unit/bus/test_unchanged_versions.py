"""A version that says nothing new: not published where nobody here writes, and no deletion for whoever knew it."""

from typing import Any

import pytest
from support.cache_objects import WIDGET, entry_of, widget, widgets

from controller_runtime import Cache, JsonObject, Key, Part, Resource, dumps
from controller_runtime.kube.reflector_state import Restarted, Upsert
from controller_runtime.log.publish.source import Source, SourceVersion, published
from controller_runtime.log.wire.messages import digest_of
from controller_runtime.log.wire.version import Version

A = Key("ns", "a")


def without_pulse(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.items() if name != "pulse"}


def watched(*, read_only: bool = True) -> Part[Resource]:
    return Part("widgets", WIDGET, trim=without_pulse, read_only=read_only)


FORM = published(watched())


def listed(obj: JsonObject, version: str, *, rewound: bool = False) -> Restarted[SourceVersion]:
    return Restarted((FORM(obj),), version, rewound)


def seen(source: Source) -> str:
    return source.present[A].resource_version


@pytest.mark.spec("FW-446")
def test_a_heartbeat_is_as_if_it_had_never_been() -> None:
    source = Source(watched())
    source.take(listed(widget("a", rv=1, pulse=1), "1"))
    assert source.take(Upsert(FORM(widget("a", rv=2, pulse=2)), "2")) is None
    assert (seen(source), source.version) == ("1", "2")
    source.take(listed(widget("a", rv=3, pulse=3), "3"))
    assert seen(source) == "1"


@pytest.mark.spec("FW-446")
@pytest.mark.parametrize("changed", [{"spec": 1}, {"uid": "u2"}, {"labels": {"x": "y"}}])
def test_whatever_somebody_reads_is_published(changed: dict[str, Any]) -> None:
    source = Source(watched())
    source.take(listed(widget("a", rv=1, pulse=1), "1"))
    version = source.take(Upsert(FORM(widget("a", rv=2, pulse=2, **changed)), "2"))
    assert version is not None
    assert seen(source) == version.resource_version == "2"


@pytest.mark.spec("FW-446")
def test_a_version_that_somebody_here_may_have_written_is_published_all_the_same() -> None:
    """Whoever wrote it waits for it on the bus."""
    source = Source(watched(read_only=False))
    source.take(listed(widget("a", rv=1, pulse=1), "1"))
    assert source.take(Upsert(FORM(widget("a", rv=2, pulse=2)), "2")) is not None


@pytest.mark.spec("FW-446", "FW-408")
def test_an_older_version_of_the_same_content_shows_that_the_store_went_back() -> None:
    source = Source(watched())
    source.take(listed(widget("a", rv=9), "9"))
    source.take(listed(widget("a", rv=4), "4", rewound=True))
    assert seen(source) == "4"


def test_the_hash_of_a_body_tells_content_and_not_versions() -> None:
    def digest(rv: int, **fields: Any) -> bytes:
        return digest_of(dumps(widget("a", rv=rv, **fields)), str(rv))

    assert digest(7) == digest(8)
    assert digest(7, spec=1) != digest(7, spec=2)
    assert digest(7, labels={"resourceVersion": "7"}) != digest(8, labels={"resourceVersion": "8"})


class TestCache:
    """What was read from the API server directly is newer than anything the bus will tell of it."""

    @pytest.mark.spec("FW-446", "FW-019")
    def test_an_object_that_the_snapshot_tells_in_an_older_version_is_not_gone(self) -> None:
        part = watched()
        cache = Cache([part])
        cache.put(entry_of(part, widget("a", rv=40)), 0)
        cache.replace(part, {A: entry_of(part, widget("a", rv=10), 3)}, 1, upto=Version("", "35", None, "e1"))
        assert cache.confirm(part, Version("", "45", None, "e1"), 2) == []
        assert cache.get(part, A) is not None
        assert not cache.unconfirmed(part, 9999)

    @pytest.mark.spec("FW-446", "FW-019")
    def test_a_message_of_the_same_content_confirms_it(self) -> None:
        part = watched()
        cache = Cache([part])
        cache.put(entry_of(part, widget("a", rv=40, spec=2)), 0)
        cache.replace(part, {A: entry_of(part, widget("a", rv=10), 3)}, 1, upto=Version("", "35", None, "e1"))
        cache.put(entry_of(part, widget("a", rv=38, spec=2), 4), 2)
        assert cache.confirm(part, Version("", "45", None, "e1"), 3) == []
        assert cache.get(part, A) is not None

    @pytest.mark.spec("FW-446", "FW-019")
    def test_one_that_the_bus_passes_in_silence_is_gone(self) -> None:
        part = watched()
        cache = Cache([part])
        cache.put(entry_of(part, widget("a", rv=40, spec=2)), 0)
        cache.replace(part, {}, 1, upto=Version("", "35", None, "e1"))
        assert cache.confirm(part, Version("", "45", None, "e1"), 3) != []
        assert cache.get(part, A) is None

    @pytest.mark.spec("FW-446")
    def test_what_a_service_writes_is_not_declared_read_only(self) -> None:
        part = watched()
        with pytest.raises(AssertionError, match="read-only"):
            Cache([part]).absorb(part, widget("a"), 0)
        Cache([other := widgets()]).absorb(other, widget("a"), 0)
