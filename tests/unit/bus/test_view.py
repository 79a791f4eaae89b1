"""What a reconcile sees, what it cannot know, and that every look is remembered."""

from collections.abc import Callable

import pytest
from support.cache_objects import colour_index, entry_of, widget, widgets

from controller_runtime import Cache, Category, ClassifiedError, Index, Key, Kind, Part, Resource, scoped
from controller_runtime.log.cache.view import CacheView, IndexRead, ObjectRead

RED = {"colour": "red"}


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


@pytest.fixture
def index(part: Part[Resource]) -> Index[Resource]:
    return colour_index(part)


@pytest.fixture
def cache(part: Part[Resource], index: Index[Resource]) -> Cache:
    cache = Cache([part], [index])
    cache.put(entry_of(part, widget("b", "u2", 4, labels=RED), 2), 0)
    cache.put(entry_of(part, widget("a", "u1", 3, labels=RED), 1), 0)
    cache.mark(part, synced=True, fresh=True)
    return cache


@pytest.mark.spec("FW-004")
def test_an_object_by_name(cache: Cache, part: Part[Resource]) -> None:
    view = CacheView(cache)
    found = view.get(part, "ns", "a")
    assert found.error is None
    assert found.value is not None
    assert found.value.name == "a"
    entry = cache.get(part, Key("ns", "a"))
    assert entry is not None
    assert list(view.reads.objects.values()) == [ObjectRead("widgets", Key("ns", "a"), entry.version)]


def test_the_absence_of_an_object_counts_as_read(cache: Cache, part: Part[Resource]) -> None:
    view = CacheView(cache)
    found = view.get(part, "ns", "none")
    assert (found.value, found.error) == (None, None)
    assert list(view.reads.objects.values()) == [ObjectRead("widgets", Key("ns", "none"), None)]


@pytest.mark.spec("FW-004", "FW-019")
def test_what_is_not_found_in_a_stale_part_is_not_known(
    cache: Cache, part: Part[Resource], index: Index[Resource]
) -> None:
    cache.mark(part, fresh=False)
    view = CacheView(cache)
    assert view.get(part, "ns", "a").value is not None
    assert view.get(part, "ns", "a").error is None
    for error in (view.get(part, "ns", "none").error, view.select(index, scoped("ns", "blue")).error):
        assert error is not None
        assert (error.category, error.reason) == (Category.INFRASTRUCTURE, "ViewStale")
    assert view.select(index, scoped("ns", "red")).error is None
    assert view.reads.stale_parts == {"widgets"}


@pytest.mark.spec("FW-490")
def test_whether_a_look_up_had_no_answer(cache: Cache, part: Part[Resource], index: Index[Resource]) -> None:
    def unanswered(look: Callable[[CacheView], object]) -> bool:
        view = CacheView(cache)
        look(view)
        assert view.reads.unanswered <= {"widgets"}
        return bool(view.reads.unanswered)

    looks: dict[Callable[[CacheView], object], bool] = {
        lambda view: view.get(part, "ns", "a"): False,
        lambda view: view.get(part, "ns", "none"): True,
        lambda view: view.select(index, scoped("ns", "red")): False,
        lambda view: view.select(index, scoped("ns", "blue")): True,
    }
    assert not any(map(unanswered, looks)), "nothing is an answer of a part that is fresh"
    cache.mark(part, fresh=False)
    assert [unanswered(look) for look in looks] == list(looks.values())


def test_many_by_an_index_sorted_and_each_remembered(
    cache: Cache, part: Part[Resource], index: Index[Resource]
) -> None:
    view = CacheView(cache)
    assert [item.name for item in view.select(index, scoped("ns", "red")).items] == ["a", "b"]
    keys = (Key("ns", "a"), Key("ns", "b"))
    assert list(view.reads.indexes.values()) == [IndexRead("widgets", "label:colour", "ns/red", keys)]
    assert {read.key for read in view.reads.objects.values()} == set(keys)


def test_everything_of_a_part(cache: Cache, part: Part[Resource]) -> None:
    view = CacheView(cache)
    assert [item.name for item in view.all(part).items] == ["a", "b"]
    assert [(read.index, read.value) for read in view.reads.indexes.values()] == [("", "")]


def test_an_object_that_can_not_be_decoded_is_an_error_by_name_and_left_out_of_a_selection(
    cache: Cache, part: Part[Resource]
) -> None:
    cache.put(entry_of(part, widget("bad", "u3", labels={"colour": 7}), 3), 0)
    view = CacheView(cache)
    error = view.get(part, "ns", "bad").error
    assert error is not None
    assert error.category is Category.INVALID_SPEC
    assert "ns/bad" in error.message
    assert [item.name for item in view.all(part).items] == ["a", "b"]


def test_the_namespace_of_a_cluster_scoped_kind_is_ignored() -> None:
    kind = Kind("example.com", "v1", "Gadget", "gadgets", namespaced=False, model=Resource)
    part = Part("gadgets", kind)
    cache = Cache([part])
    cache.put(entry_of(part, widget("g", namespace=""), 1), 0)
    cache.mark(part, synced=True, fresh=True)
    assert CacheView(cache).get(part, "any", "g").value is not None


def test_the_failure_is_passed_on(cache: Cache) -> None:
    failure = ClassifiedError(Category.AUTH, "Forbidden", "no")
    assert CacheView(cache, failure).failure is failure
    assert CacheView(cache).failure is None
