"""The reflector against a server that behaves and misbehaves."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any
from unittest.mock import ANY

import pytest
from aiohttp import web
from support.fake_apiserver import (
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
from support.nats import eventually

from aim_domain.kind_names import CONFIG_MAP
from controller_runtime import JsonObject, KubeClient, TransportSettings
from controller_runtime.backoff import Backoff
from controller_runtime.kube.reflector import (
    Bookmark,
    Delete,
    Event,
    Reflector,
    ReflectorSettings,
    Restarted,
    Upsert,
    as_sent,
)
from controller_runtime.kube.reflector_state import ListFrom

QUICK = ReflectorSettings(
    shortest_watch=1, longest_watch=1, grace=0.2, backoff=Backoff(base=0.01, cap=0.05), min_watch_seconds=0.0
)
ONE_TRY = TransportSettings(attempts=1)


@asynccontextmanager
async def reflecting(
    *handlers: Handler, settings: ReflectorSettings = QUICK, **selection: Any
) -> AsyncIterator[tuple[Reflector[JsonObject], FakeApiServer]]:
    async with (
        fake_apiserver(*handlers) as server,
        KubeClient(server.connection, service="test", settings=ONE_TRY) as client,
        Reflector(client, CONFIG_MAP, as_sent, settings=settings, **selection) as reflector,
    ):
        yield reflector, server


async def take(reflector: Reflector[JsonObject], count: int) -> list[Event[JsonObject]]:
    async with asyncio.timeout(60):
        return [await anext(reflector) for _ in range(count)]


def change(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def bookmark(version: int) -> dict[str, Any]:
    return change("BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": str(version)}})


@pytest.mark.spec("FW-464")
async def test_first_list_then_watch_from_its_version() -> None:
    a, b = config_map("a", 1), config_map("b", 6)
    async with reflecting(
        list_answer("5", a),
        watch_answer(change("ADDED", b), bookmark(8), then_hang=True),
        label_selector="x=y",
    ) as (reflector, server):
        events = await take(reflector, 3)
        statistics = reflector.statistics()

    assert events == [Restarted((a,), "5", from_store=True), Upsert(b, "6"), Bookmark("8")]
    first, second = (seen.query for seen in server.seen)
    # To a list from the cache a server answers with everything at once.
    assert first == {"limit": "100", "labelSelector": "x=y"}
    assert (second["resourceVersion"], second["labelSelector"]) == ("5", "x=y")
    assert (statistics.state, statistics.resource_version, statistics.objects) == ("Watching", "8", 2)


async def test_pages_are_one_list_and_only_the_first_names_a_version() -> None:
    a, b = config_map("a"), config_map("b")
    async with reflecting(
        list_answer("5", a, continue_token="t"), list_answer("5", b), watch_answer(then_hang=True)
    ) as (reflector, server):
        assert await take(reflector, 1) == [Restarted((a, b), "5", from_store=True)]

    assert server.seen[1].query == {"limit": "100", "continue": "t"}


@pytest.mark.parametrize("cut", [False, True])
async def test_a_watch_that_ends_or_breaks_resumes_at_the_last_version(cut: bool) -> None:
    a6, a7 = config_map("a", 6), config_map("a", 7)
    async with reflecting(
        list_answer("5"),
        watch_answer(change("ADDED", a6), bookmark(6), cut=cut),
        watch_answer(change("MODIFIED", a7), then_hang=True),
    ) as (reflector, server):
        events = await take(reflector, 4)

    assert events == [Restarted((), "5", from_store=True), Upsert(a6, "6"), Bookmark("6"), Upsert(a7, "7")]
    assert [seen.query.get("resourceVersion") for seen in server.seen] == [None, "5", "6"]


async def test_a_half_open_connection_is_given_up_and_the_watch_resumed() -> None:
    a6 = config_map("a", 6)
    async with reflecting(
        list_answer("5"), watch_answer(then_hang=True), watch_answer(change("ADDED", a6), then_hang=True)
    ) as (reflector, server):
        assert await take(reflector, 2) == [Restarted((), "5", from_store=True), Upsert(a6, "6")]

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

    assert first == Restarted((a, b), "5", from_store=True)
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


@pytest.mark.spec("FW-464")
async def test_errors_are_shown_and_survived() -> None:
    a = config_map("a", 1)
    async with reflecting(
        status_answer(403, "Forbidden", "cannot list resource configmaps"),
        dropped_connection(),
        text_answer("<html>bad gateway</html>", 502),
        text_answer("<html>not the API server</html>"),
        list_answer("5", {"metadata": None}),
        list_answer("5", {"metadata": {"name": 1, "resourceVersion": "1"}}),
        text_answer('{"items": ["a"]}'),
        list_answer("5", a),
        watch_answer(change("MODIFIED", a), then_hang=True),
    ) as (reflector, _):
        assert await reflector.step() == ()
        assert "cannot list resource configmaps" in str(reflector.statistics().last_error)
        assert await take(reflector, 2) == [Restarted((a,), "5", from_store=True), Upsert(a, "1")]
        assert reflector.statistics().failures == 0
        assert reflector.statistics().last_error is None


async def test_a_server_that_ends_watches_at_once_is_not_hammered() -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    settings = ReflectorSettings(min_watch_seconds=5.0, backoff=Backoff(base=1.0, jitter=0.0, cap=4.0))
    async with reflecting(list_answer("5"), watch_answer(), settings=settings, sleep=sleep) as (reflector, _):
        for _step in range(11):
            await reflector.step()

    assert delays == [1.0, 2.0, 4.0, 4.0]


@pytest.mark.parametrize(("asked", "slept"), [("7", 7.0), ("86400", 30.0), ("1e300", 30.0)])
@pytest.mark.spec("FW-427")
async def test_the_server_decides_within_bounds_how_long_a_throttled_reflector_waits(asked: str, slept: float) -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    throttled = status_answer(429, "TooManyRequests", headers={"Retry-After": asked})
    async with reflecting(throttled, list_answer("5"), sleep=sleep) as (reflector, _):
        assert await take(reflector, 1) == [Restarted((), "5", from_store=True)]

    assert delays == [slept]


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


@pytest.mark.spec("FW-427")
async def test_a_wish_for_a_list_is_heard_while_the_server_wants_patience() -> None:
    throttled = status_answer(429, "TooManyRequests", headers={"Retry-After": "86400"})
    async with reflecting(throttled, list_answer("5")) as (reflector, _), asyncio.TaskGroup() as group:
        waiting = group.create_task(take(reflector, 1))
        await eventually(lambda: reflector.statistics().failures > 0, "refused")
        reflector.relist()
        assert await waiting == [Restarted((), "5", from_store=True)]


@pytest.mark.spec("FW-427")
async def test_a_wish_that_comes_during_an_attempt_is_heard_when_the_attempt_fails() -> None:
    trying, answered = asyncio.Event(), asyncio.Event()

    async def slow_refusal(request: web.BaseRequest) -> web.StreamResponse:
        trying.set()
        await answered.wait()
        return await status_answer(429, "TooManyRequests", headers={"Retry-After": "86400"})(request)

    async with reflecting(slow_refusal, list_answer("5")) as (reflector, _), asyncio.TaskGroup() as group:
        waiting = group.create_task(take(reflector, 1))
        await asyncio.wait_for(trying.wait(), 60)
        reflector.relist()
        answered.set()
        assert await waiting == [Restarted((), "5", from_store=True)]


class Throttled:
    """A server whose watch is fine while it refuses lists; ``events`` are what the watch tells."""

    def __init__(self) -> None:
        self.lists: list[Handler] = []
        self.refused = 0
        self.watches = 0
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if "watch" in request.query:
            self.watches += 1
            return await self._watch(request)
        if self.lists:
            return await self.lists.pop(0)(request)
        self.refused += 1
        return await status_answer(429, "TooManyRequests", headers={"Retry-After": "86400"})(request)

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        # A handler whose client has gone finds out when it writes, and must not take what is for the next one.
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.events = events
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        while True:
            await response.write(json.dumps(await events.get()).encode() + b"\n")


@pytest.mark.spec("FW-426")
async def test_a_refused_comparison_takes_nothing_from_a_healthy_watch() -> None:
    server = Throttled()
    server.lists = [list_answer("5", config_map("a", 5))]
    async with reflecting(server, settings=ReflectorSettings()) as (reflector, _):
        await take(reflector, 1)
        events = asyncio.create_task(take(reflector, 2))
        await eventually(lambda: server.watches == 1, "the watch is open")
        reflector.relist()
        await eventually(lambda: server.refused > 0, "the list is refused")
        for version in (6, 7):
            server.events.put_nowait(change("MODIFIED", config_map("a", version)))
        assert [event.resource_version for event in await events] == ["6", "7"]
        assert server.watches == 1

        # The list that is taken at last is older than what the watch has told meanwhile, and than what it tells next.
        b8 = config_map("b", 8)
        server.lists = [list_answer("7", config_map("a", 7), config_map("gone", 3))]
        reflector.relist()
        restarted = (await take(reflector, 1))[0]
        assert restarted == Restarted((config_map("a", 7), config_map("gone", 3)), "7")
        following = asyncio.create_task(take(reflector, 1))
        await eventually(lambda: server.watches == 2, "a watch that follows the list")
        server.events.put_nowait(change("ADDED", b8))
        assert await following == [Upsert(b8, "8")]


@pytest.mark.spec("FW-426")
async def test_what_the_watch_tells_while_a_list_is_fetched_is_folded_into_the_list() -> None:
    server = Throttled()
    fetching, answered = asyncio.Event(), asyncio.Event()

    async def slow_list(request: web.BaseRequest) -> web.StreamResponse:
        fetching.set()
        await answered.wait()
        return await list_answer("6", config_map("a", 5), config_map("b", 6), config_map("c", 4))(request)

    server.lists = [list_answer("5", config_map("a", 5), config_map("c", 4)), slow_list]
    async with reflecting(server, settings=ReflectorSettings()) as (reflector, _):
        await take(reflector, 1)
        events = asyncio.create_task(take(reflector, 3))
        await eventually(lambda: server.watches == 1, "the watch is open")
        reflector.relist()
        await asyncio.wait_for(fetching.wait(), 60)
        b6, a7, c8 = config_map("b", 6), config_map("a", 7), config_map("c", 8)
        for one in (change("ADDED", b6), change("MODIFIED", a7), change("DELETED", c8)):
            server.events.put_nowait(one)
        assert await events == [Upsert(b6, "6"), Upsert(a7, "7"), Delete(c8, "8")]
        answered.set()
        assert await take(reflector, 1) == [Restarted((a7, b6), "8")]
        assert not reflector._since, "what was folded in is kept no longer"


@pytest.mark.spec("FW-427")
async def test_a_list_wanted_from_the_store_comes_from_there_although_the_watch_expires_meanwhile() -> None:
    server = Throttled()
    fetching, never = asyncio.Event(), asyncio.Event()

    async def endless_list(request: web.BaseRequest) -> web.StreamResponse:
        assert "resourceVersion" not in request.query
        fetching.set()
        await never.wait()
        raise AssertionError("nobody answers this one")

    async with reflecting(server, settings=ReflectorSettings()) as (reflector, _):
        server.lists = [list_answer("5"), endless_list, list_answer("7")]
        await take(reflector, 1)
        events = asyncio.create_task(take(reflector, 3))
        await eventually(lambda: server.watches == 1, "the watch is open")
        reflector.relist(ListFrom.STORE)
        await asyncio.wait_for(fetching.wait(), 60)
        a6 = config_map("a", 6)
        server.events.put_nowait(change("ADDED", a6))
        server.events.put_nowait(change("ERROR", status(410, "Expired")))
        assert await events == [
            Upsert(a6, "6"),
            Delete(ANY, "7", synthetic=True),
            Restarted((), "7", from_store=True),
        ]
        assert not reflector._since, "what the abandoned list would have needed is kept no longer"
        # A handler that waits for ever would keep the server from closing.
        never.set()


@pytest.mark.spec("FW-460")
async def test_of_a_page_nothing_but_its_form_is_kept_once_it_has_arrived() -> None:
    first, second = ([config_map(f"{page}{n}", page=page) for n in range(50)] for page in ("first", "second"))
    names = tuple(obj["metadata"]["name"] for obj in (*first, *second))
    of_the_server = {id(obj) for obj in first}
    alive: list[int] = []

    def form(obj: JsonObject) -> str:
        if obj["data"] == {"page": "second"}:
            whole = (one for one in gc.get_objects() if isinstance(one, dict) and one.get("kind") == "ConfigMap")
            alive.append(sum(one.get("data") == {"page": "first"} and id(one) not in of_the_server for one in whole))
        return str(obj["metadata"]["name"])

    answers = list_answer("5", *first, continue_token="t"), list_answer("5", *second), watch_answer(then_hang=True)
    async with (
        fake_apiserver(*answers) as server,
        KubeClient(server.connection, service="test", settings=ONE_TRY) as client,
        Reflector(client, CONFIG_MAP, form, settings=QUICK) as reflector,
    ):
        assert await anext(reflector) == Restarted(names, "5", from_store=True)
    assert alive == [0] * 50


@pytest.mark.spec("FW-461")
async def test_others_run_while_a_long_page_is_given_its_form() -> None:
    formed, seen = 0, list[int]()

    def form(obj: JsonObject) -> JsonObject:
        nonlocal formed
        formed += 1
        return obj

    async with (
        fake_apiserver(list_answer("5", *(config_map(f"m{n}") for n in range(300))), watch_answer()) as server,
        KubeClient(server.connection, service="test", settings=ONE_TRY) as client,
        Reflector(client, CONFIG_MAP, form, settings=QUICK) as reflector,
    ):
        listing = asyncio.ensure_future(anext(reflector))
        while not listing.done():
            seen.append(formed)
            await asyncio.sleep(0)
    assert formed == 300
    assert max(after - before for before, after in pairwise((*seen, formed))) <= 32


@pytest.mark.parametrize("turns", range(4))
async def test_the_watch_is_closed_also_when_its_end_is_interrupted(turns: int) -> None:
    async with (
        fake_apiserver(list_answer("5"), watch_answer(then_hang=True)) as server,
        KubeClient(server.connection, service="test", settings=ONE_TRY) as client,
    ):

        async def follow() -> None:
            async with Reflector(client, CONFIG_MAP, as_sent, settings=ReflectorSettings()) as reflector:
                await take(reflector, 2)

        following = asyncio.create_task(follow())
        await eventually(lambda: client.statistics().open_watches == 1, "the watch is open")
        following.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        assert client.statistics().open_watches == 0


@pytest.mark.parametrize("turns", range(4))
async def test_the_watch_is_closed_also_when_the_end_of_a_comparison_is_interrupted(turns: int) -> None:
    async with (
        fake_apiserver(list_answer("5"), watch_answer(then_hang=True), watch_answer(then_hang=True)) as server,
        KubeClient(server.connection, service="test", settings=ONE_TRY) as client,
    ):

        async def follow() -> None:
            async with Reflector(client, CONFIG_MAP, as_sent, settings=ReflectorSettings()) as reflector:
                await take(reflector, 1)
                reflector.relist()
                await take(reflector, 1)

        following = asyncio.create_task(follow())
        await server.wait_for_requests(3)
        await eventually(lambda: client.statistics().open_watches == 1, "the watch is open")
        following.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        assert client.statistics().open_watches == 0
