"""Where a reflector goes next, and what it reports: plain data in, plain data out."""

from typing import Any

import pytest
from support.fake_apiserver import config_map

from aim_domain.kind_names import CONFIG_MAP
from controller_runtime import ApiError, JsonObject, KubeError
from controller_runtime.api.meta import Identity
from controller_runtime.kube.client import VersionMatch, WatchEvent, WatchEventType
from controller_runtime.kube.errors import ApiConnectionError, ConnectionFailure, StatusCause
from controller_runtime.kube.reflector_state import (
    Bookmark,
    Delete,
    Empty,
    Item,
    KnownVersions,
    ListComplete,
    ListFrom,
    Listing,
    Page,
    Ready,
    Restarted,
    State,
    Upsert,
    Watching,
    after_failure,
    after_page,
    is_older,
    list_query,
    merged,
)

EXPIRED = ApiError("GET x", 410, "Expired", "too old resource version")
AHEAD = ApiError("GET x", 504, "Timeout", causes=(StatusCause("ResourceVersionTooLarge", "", ""),))
BROKEN = ApiConnectionError("GET x", ConnectionFailure.RESET, "host", "exchange", "bye")
GARBLED = ValueError("not JSON")


def item(obj: JsonObject) -> Item[JsonObject]:
    return Item(Identity.of(obj), obj)


def listed(*objects: JsonObject, version: str, from_store: bool = False) -> ListComplete[JsonObject]:
    return ListComplete(tuple(map(item, objects)), version, from_store)


SOME = ((item(config_map("a")),),)


@pytest.mark.parametrize(
    ("source", "floor", "expected"),
    [
        (ListFrom.FLOOR, "", (None, None)),
        (ListFrom.STORE, "", (None, None)),
        (ListFrom.FLOOR, "7", ("7", VersionMatch.NOT_OLDER_THAN)),
        (ListFrom.STORE, "7", (None, None)),
    ],
)
def test_freshness_of_a_list(source: ListFrom, floor: str, expected: tuple[str, VersionMatch | None]) -> None:
    assert list_query(source, floor) == expected


def test_pages_add_up_to_one_list() -> None:
    a, b = config_map("a"), config_map("b")
    first = after_page(Empty(ListFrom.FLOOR), Page((item(a),), "5", "more"))
    assert first == Listing(ListFrom.FLOOR, ((item(a),),), "more")
    assert isinstance(first, Listing)
    assert after_page(first, Page((item(b),), "5", "")) == listed(a, b, version="5")
    nothing: Page[JsonObject] = Page((), "5", "")
    assert after_page(Empty(ListFrom.STORE), nothing) == listed(version="5", from_store=True)
    assert listed(a, b, version="5").restarted(rewound=True) == Restarted((a, b), "5", rewound=True)


@pytest.mark.parametrize(
    ("state", "error", "expected"),
    [
        (Empty(ListFrom.STORE), BROKEN, Empty(ListFrom.STORE)),
        (Empty(ListFrom.FLOOR), AHEAD, Empty(ListFrom.STORE)),
        (Listing(ListFrom.FLOOR, SOME, "t"), EXPIRED, Empty(ListFrom.STORE)),
        (Listing(ListFrom.FLOOR, SOME, "t"), BROKEN, Empty(ListFrom.FLOOR)),
        (Ready("5"), BROKEN, Ready("5")),
        (Ready("5"), EXPIRED, Empty(ListFrom.FLOOR)),
        (Ready("5"), AHEAD, Empty(ListFrom.STORE)),
        (Watching("6"), BROKEN, Ready("6")),
        (Watching("6"), EXPIRED, Empty(ListFrom.FLOOR)),
        (Watching("6"), GARBLED, Empty(ListFrom.FLOOR)),
    ],
)
def test_way_on_after_an_error(
    state: State[JsonObject], error: KubeError | ValueError, expected: State[JsonObject]
) -> None:
    assert after_failure(state, error) == expected


def test_a_new_list_reports_what_vanished_and_nothing_else() -> None:
    known = KnownVersions(CONFIG_MAP)
    assert known.replace(listed(config_map("a", 1), config_map("b", 2), version="3")) == ()

    deleted = known.replace(listed(config_map("b", 8), config_map("c", 9), version="10"))

    assert [(event.obj["metadata"]["name"], event.resource_version) for event in deleted] == [("a", "10")]
    assert deleted[0].synthetic
    assert deleted[0].obj == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "team", "uid": "uid-a", "resourceVersion": "1"},
    }
    assert len(known) == 2


def test_a_name_reused_during_a_gap_is_a_deletion_of_the_former_object() -> None:
    known = KnownVersions(CONFIG_MAP)
    known.replace(listed(config_map("a", 1, uid="old"), version="1"))

    deleted = known.replace(listed(config_map("a", 5, uid="new"), version="6"))

    assert [event.obj["metadata"]["uid"] for event in deleted] == ["old"]


def test_watch_events_keep_the_names_up_to_date() -> None:
    known = KnownVersions(CONFIG_MAP)
    a1, a2 = config_map("a", 1), config_map("a", 2)

    assert known.take(WatchEvent(WatchEventType.ADDED, a1)) == Upsert(a1, "1")
    assert known.take(WatchEvent(WatchEventType.MODIFIED, a2)) == Upsert(a2, "2")
    assert len(known) == 1
    assert known.take(WatchEvent(WatchEventType.DELETED, a2)) == Delete(a2, "2")
    assert len(known) == 0
    bookmark: dict[str, Any] = {"metadata": {"resourceVersion": "9"}}
    assert known.take(WatchEvent(WatchEventType.BOOKMARK, bookmark)) == Bookmark("9")
    assert known.replace(listed(version="10")) == ()


def test_an_object_that_leaves_the_selection_has_the_version_at_which_it_left() -> None:
    known = KnownVersions(CONFIG_MAP)
    known.take(WatchEvent(WatchEventType.ADDED, config_map("a", 1, colour="red")))

    left = known.take(WatchEvent(WatchEventType.DELETED, config_map("a", 4, colour="red")))

    assert left == Delete(config_map("a", 4, colour="red"), "4", synthetic=False)


@pytest.mark.parametrize("obj", [{}, {"metadata": {}}, {"metadata": {"resourceVersion": "1"}}])
def test_an_event_that_says_nothing_is_refused(obj: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="without"):
        KnownVersions(CONFIG_MAP).take(WatchEvent(WatchEventType.ADDED, obj))


def test_versions_compare_as_numbers() -> None:
    assert is_older("9", "10")
    assert not is_older("10", "9")
    assert not is_older("abc", "10")
    assert not is_older("10", "")


@pytest.mark.spec("FW-426")
def test_a_list_is_merged_with_what_a_watch_brought_meanwhile() -> None:
    a5, b6, c7 = config_map("a", 5), config_map("b", 6), config_map("c", 7)
    first = listed(a5, b6, version="6", from_store=True)
    b9 = config_map("b", 9)

    def upsert(obj: JsonObject) -> Item[Upsert[JsonObject] | Delete]:
        return Item(Identity.of(obj), Upsert(obj, obj["metadata"]["resourceVersion"]))

    def delete(obj: JsonObject) -> Item[Upsert[JsonObject] | Delete]:
        return Item(Identity.of(obj), Delete(obj, obj["metadata"]["resourceVersion"]))

    assert merged(first, []) == first
    assert merged(first, [upsert(config_map("b", 6)), delete(config_map("a", 4))]) == first
    later = merged(first, [upsert(c7), delete(config_map("a", 8)), upsert(b9)])
    assert later == listed(b9, c7, version="9", from_store=True)
