"""The reflector against a server that behaves and misbehaves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.fake_apiserver import (
    CONFIG_MAP,
    FakeApiServer,
    Handler,
    config_map,
    dropped_connection,
    fake_apiserver,
    list_answer,
    status,
    status_answer,
    text_answer,
    watch_answer,
)

from aim_shared.kube.backoff import Backoff
from aim_shared.kube.client import KubeClient
from aim_shared.kube.reflector import (
    Bookmark,
    Delete,
    Event,
    Reflector,
    ReflectorSettings,
    Restarted,
    Upsert,
)
from aim_shared.kube.reflector_state import ListFrom
from aim_shared.kube.transport import TransportSettings

QUICK = ReflectorSettings(shortest_watch=1, longest_watch=1, grace=0.2, backoff=Backoff(base=0.01, cap=0.05), hasty=0.0)
ONE_TRY = TransportSettings(attempts=1)


@asynccontextmanager
async def reflecting(
    *handlers: Handler, settings: ReflectorSettings = QUICK, **selection: Any
) -> AsyncIterator[tuple[Reflector, FakeApiServer]]:
    async with (
        fake_apiserver(*handlers) as server,
        KubeClient(server.connection, service="test", settings=ONE_TRY) as client,
        Reflector(client, CONFIG_MAP, settings=settings, **selection) as reflector,
    ):
        yield reflector, server


async def take(reflector: Reflector, count: int) -> list[Event]:
    async with asyncio.timeout(10):
        return [await anext(reflector) for _ in range(count)]


def change(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def bookmark(version: int) -> dict[str, Any]:
    return change("BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": str(version)}})


async def test_first_list_then_watch_from_its_version() -> None:
    a, b = config_map("a", 1), config_map("b", 6)
    async with reflecting(
        list_answer("5", a),
        watch_answer(change("ADDED", b), bookmark(8), then_hang=True),
        label_selector="x=y",
    ) as (reflector, server):
        events = await take(reflector, 3)
        statistics = reflector.statistics()

    assert events == [Restarted((a,), "5"), Upsert(b, "6"), Bookmark("8")]
    first, second = (seen.query for seen in server.seen)
    assert (first["resourceVersion"], first["labelSelector"]) == ("0", "x=y")
    assert (second["resourceVersion"], second["labelSelector"]) == ("5", "x=y")
    assert (statistics.state, statistics.resource_version, statistics.objects) == ("Watching", "8", 2)


async def test_pages_are_one_list_and_only_the_first_names_a_version() -> None:
    a, b = config_map("a"), config_map("b")
    async with reflecting(
        list_answer("5", a, continue_token="t"), list_answer("5", b), watch_answer(then_hang=True)
    ) as (reflector, server):
        assert await take(reflector, 1) == [Restarted((a, b), "5")]

    assert server.seen[1].query == {"limit": "500", "continue": "t"}


@pytest.mark.parametrize("cut", [False, True])
async def test_a_watch_that_ends_or_breaks_resumes_at_the_last_version(cut: bool) -> None:
    a6, a7 = config_map("a", 6), config_map("a", 7)
    async with reflecting(
        list_answer("5"),
        watch_answer(change("ADDED", a6), bookmark(6), cut=cut),
        watch_answer(change("MODIFIED", a7), then_hang=True),
    ) as (reflector, server):
        events = await take(reflector, 4)

    assert events == [Restarted((), "5"), Upsert(a6, "6"), Bookmark("6"), Upsert(a7, "7")]
    assert [seen.query["resourceVersion"] for seen in server.seen] == ["0", "5", "6"]


async def test_a_half_open_connection_is_given_up_and_the_watch_resumed() -> None:
    a6 = config_map("a", 6)
    async with reflecting(
        list_answer("5"), watch_answer(then_hang=True), watch_answer(change("ADDED", a6), then_hang=True)
    ) as (reflector, server):
        assert await take(reflector, 2) == [Restarted((), "5"), Upsert(a6, "6")]

    assert server.seen[2].query["resourceVersion"] == "5"


@pytest.mark.parametrize(
    "expiry",
    [
        status_answer(410, "Expired", "too old resource version"),
        watch_answer(change("ERROR", status(410, "Expired", "too old resource version"))),
    ],
    ids=["status line", "event"],
)
@pytest.mark.spec("FW-406")
async def test_an_expired_watch_lists_again_and_reports_deletions_of_the_gap(expiry: Handler) -> None:
    a, b, c = config_map("a", 1), config_map("b", 2), config_map("c", 9)
    async with reflecting(list_answer("5", a, b), expiry, list_answer("10", b, c), watch_answer(then_hang=True)) as (
        reflector,
        server,
    ):
        first, deleted, second = await take(reflector, 3)

    assert first == Restarted((a, b), "5")
    assert isinstance(deleted, Delete)
    assert (deleted.obj["metadata"]["name"], deleted.synthetic) == ("a", True)
    assert second == Restarted((b, c), "10")
    relist = server.seen[2].query
    assert (relist["resourceVersion"], relist["resourceVersionMatch"]) == ("5", "NotOlderThan")


@pytest.mark.spec("FW-408")
async def test_a_server_restored_to_an_older_state_is_followed() -> None:
    too_large = status_answer(
        504, "Timeout", "Too large resource version: 500", causes=[{"reason": "ResourceVersionTooLarge"}]
    )
    a, b = config_map("a", 400), config_map("b", 3)
    async with reflecting(
        list_answer("500", a),
        status_answer(410, "Expired"),
        too_large,
        list_answer("7", b),
        watch_answer(then_hang=True),
    ) as (reflector, server):
        events = await take(reflector, 3)

    assert isinstance(events[1], Delete)
    assert events[2] == Restarted((b,), "7", rewound=True, from_store=True)
    assert "resourceVersion" not in server.seen[3].query


async def test_a_wished_comparison_interrupts_a_silent_watch() -> None:
    a, b = config_map("a", 1), config_map("b", 8)
    async with reflecting(
        list_answer("5", a), watch_answer(bookmark(7), then_hang=True), list_answer("9", b),
        watch_answer(then_hang=True),
        settings=ReflectorSettings(),
    ) as (reflector, server):  # fmt: skip
        await take(reflector, 2)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(take(reflector, 2))
            await asyncio.sleep(0)
            assert reflector._interruptible is not None
            reflector.relist()
        deleted, restarted = waiting.result()
        async with asyncio.TaskGroup() as group:
            following = group.create_task(reflector.step())
            await server.wait_for_requests(4)
            await following

    assert isinstance(deleted, Delete)
    assert restarted == Restarted((b,), "9")
    assert server.seen[2].query["resourceVersion"] == "7"
    assert server.seen[3].query["resourceVersion"] == "9"


async def test_errors_are_shown_and_survived() -> None:
    a = config_map("a", 1)
    async with reflecting(
        status_answer(403, "Forbidden", "cannot list resource configmaps"),
        dropped_connection(),
        text_answer("<html>bad gateway</html>", 502),
        text_answer("<html>not the API server</html>"),
        list_answer("5", a),
        watch_answer(change("MODIFIED", a), then_hang=True),
    ) as (reflector, _):
        assert await reflector.step() == ()
        assert "cannot list resource configmaps" in str(reflector.statistics().last_error)
        assert await take(reflector, 2) == [Restarted((a,), "5"), Upsert(a, "1")]
        assert reflector.statistics().failures == 0
        assert reflector.statistics().last_error is None


async def test_a_server_that_ends_watches_at_once_is_not_hammered() -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    settings = ReflectorSettings(hasty=5.0, backoff=Backoff(base=1.0, jitter=0.0, cap=4.0))
    async with reflecting(list_answer("5"), watch_answer(), settings=settings, sleep=sleep) as (reflector, _):
        for _step in range(11):
            await reflector.step()

    assert delays == [1.0, 2.0, 4.0, 4.0]


async def test_the_server_decides_how_long_a_throttled_reflector_waits() -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    throttled = status_answer(429, "TooManyRequests", headers={"Retry-After": "7"})
    async with reflecting(throttled, list_answer("5"), sleep=sleep) as (reflector, _):
        assert await take(reflector, 1) == [Restarted((), "5")]

    assert delays == [7.0]


async def test_a_list_from_the_store_can_be_asked_for() -> None:
    a = config_map("a", 5)
    async with reflecting(
        list_answer("7", a),
        list_answer("9", a),
        settings=ReflectorSettings(),
    ) as (reflector, server):  # fmt: skip
        await take(reflector, 1)
        reflector.relist(ListFrom.STORE)
        reflector.relist()
        assert await take(reflector, 1) == [Restarted((a,), "9", from_store=True)]
        assert "resourceVersion" not in server.seen[-1].query
