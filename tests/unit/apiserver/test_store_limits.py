"""What the embedded control plane keeps in memory, counted in versions and bytes under a clock of its own."""

import pytest

from controller_runtime import JsonObject
from embedded_apiserver import Limits
from embedded_apiserver.debugapi import KINDS_KEPT, RequestKind, RequestLog
from embedded_apiserver.life import EVENT_SECONDS, EVENTS_KEPT, Upkeep
from embedded_apiserver.store import WARM, WATCHER_BACKLOG, Collection, EventType, Store, Watcher

PODS, EVENTS = "pods", "events"


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def body(name: str, filler: int = 0) -> JsonObject:
    return {"metadata": {"name": name, "uid": f"u-{name}"}, "data": "x" * filler}


def write(store: Store, name: str = "a", *, storage: str = PODS, filler: int = 0) -> None:
    store.put(storage, ("ns", name), body(name, filler))


def sizes(collection: Collection) -> int:
    """The bytes of the former versions that the events hold, counted one by one."""
    present = set(map(id, collection.objects.values()))
    held = {id(v): v for event in collection.events for v in (event.previous, event.current) if v is not None}
    return sum(len(version.raw) for key, version in held.items() if key not in present)


@pytest.mark.spec("FW-465")
def test_events_of_a_kind_are_bounded_by_number() -> None:
    store = Store(Limits(events=10), Clock())
    for _ in range(100):
        write(store)
    kept = store.memory()[PODS]
    assert (kept.objects, kept.events) == (1, 10)
    assert kept.event_bytes == sizes(store.collection(PODS))
    assert store.collection(PODS).floor == store.revision - 10


@pytest.mark.spec("FW-465")
def test_former_versions_are_bounded_in_bytes_over_all_kinds_the_oldest_first() -> None:
    store = Store(Limits(size=10_000), Clock())
    for _ in range(5):
        write(store, storage="nodes", filler=900)
    for _ in range(100):
        write(store, filler=900)
    kept = store.memory()
    assert sum(one.event_bytes for one in kept.values()) <= 10_000
    assert (kept["nodes"].events, kept["nodes"].objects) == (0, 1)
    assert kept[PODS].events == 10


@pytest.mark.spec("FW-465")
def test_former_versions_are_bounded_by_age_also_when_nobody_writes() -> None:
    clock = Clock()
    store = Store(Limits(seconds=300), clock)
    upkeep = Upkeep(store, clock)
    for _ in range(3):
        write(store)
        clock.now += 100
    upkeep.look()
    assert store.memory()[PODS].events == 3
    clock.now += 100
    upkeep.look()
    assert store.memory()[PODS].events == 2
    store.remove(PODS, ("ns", "a"))
    clock.now += 301
    upkeep.look()
    assert store.memory()[PODS].event_bytes == store.memory()[PODS].events == store.memory()[PODS].objects == 0


@pytest.mark.spec("FW-465")
def test_what_the_window_still_holds_is_reported_as_it_was() -> None:
    store = Store(Limits(events=4), Clock())
    for number in range(3 * WARM):
        write(store, f"n{number}")
        write(store, f"n{number}")
        store.remove(PODS, ("ns", f"n{number}"))
    pods = store.collection(PODS)
    assert [event.type for event in pods.events] == [
        EventType.DELETED,
        EventType.ADDED,
        EventType.MODIFIED,
        EventType.DELETED,
    ]
    assert list(pods.at(store.revision - 1)) == [("ns", f"n{3 * WARM - 1}")]
    assert pods.at(pods.floor).keys() == {("ns", f"n{3 * WARM - 2}")}


@pytest.mark.spec("FW-465")
def test_only_what_was_used_last_is_kept_decoded() -> None:
    store = Store(Limits(), Clock())
    for number in range(2 * WARM):
        write(store, f"n{number}")
    versions = list(store.collection(PODS).objects.values())
    assert sum(version.decoded for version in versions) <= WARM
    assert all(version.obj["metadata"]["name"] == version.key[1] for version in versions)
    assert sum(version.decoded for version in versions) <= WARM


@pytest.mark.spec("FW-465")
def test_a_line_is_encoded_once_while_young_and_the_same_when_old() -> None:
    store = Store(Limits(), Clock())
    write(store)
    event = store.collection(PODS).events[0]
    young = event.line(EventType.ADDED, event.current)
    assert event.line(EventType.ADDED, event.current) is young
    event.cool()
    assert event.line(EventType.ADDED, event.current) == young
    assert event.line(EventType.ADDED, event.current) is not event.line(EventType.ADDED, event.current)


@pytest.mark.spec("FW-465")
def test_a_watcher_that_does_not_read_is_ended() -> None:
    store = Store(Limits(), Clock())
    watcher = Watcher("")
    store.collection(PODS).watchers.add(watcher)
    for _ in range(WATCHER_BACKLOG // (1 << 20)):
        assert not watcher.closed
        write(store, filler=1 << 20)
    assert (watcher.closed, watcher.take()) == (True, [])


@pytest.mark.spec("FW-466")
def test_events_expire_an_hour_after_they_were_last_written() -> None:
    clock = Clock()
    store = Store(Limits(), clock)
    upkeep = Upkeep(store, clock)
    write(store, "once", storage=EVENTS)
    write(store, "again", storage=EVENTS)
    clock.now += EVENT_SECONDS / 2
    write(store, "again", storage=EVENTS)
    clock.now += EVENT_SECONDS / 2 + 1
    upkeep.look()
    events = store.collection(EVENTS)
    assert list(events.objects) == [("ns", "again")]
    assert [event.type for event in events.events] == [EventType.DELETED]


@pytest.mark.spec("FW-466")
def test_events_are_bounded_in_number_the_oldest_first() -> None:
    clock = Clock()
    store = Store(Limits(), clock)
    upkeep = Upkeep(store, clock)
    for number in range(EVENTS_KEPT + 7):
        write(store, f"e{number}", storage=EVENTS)
    write(store, "e0", storage=EVENTS)
    store.remove(EVENTS, ("ns", "e1"))
    upkeep.look()
    kept = store.collection(EVENTS).objects
    assert len(kept) == EVENTS_KEPT
    assert ("ns", "e0") in kept
    assert not {("ns", f"e{number}") for number in range(1, 8)} & set(kept)


@pytest.mark.spec("FW-467")
def test_clients_can_not_fill_the_request_counters() -> None:
    log = RequestLog()
    for number in range(KINDS_KEPT + 50):
        log.count(RequestKind("get", "", f"/made/up/{number}", "", "", "", 404))
    report = log.report()
    assert report["total"] == KINDS_KEPT + 50
    assert len(report["requests"]) == KINDS_KEPT + 1
    assert report["requests"][0]["count"] == 50
