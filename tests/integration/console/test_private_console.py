"""The console of one person: who is let in, what they may not see, and how it tells of news."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
import pytest
from support.console_objects import service
from support.console_site import Feed, reported
from support.nats import eventually

from aim_console import app
from aim_console.access import Access
from aim_console.app import Console
from aim_console.login import POLICY, PrivateDoor
from aim_console.mirror import mirror
from aim_local.ports import free_port
from controller_runtime import JsonObject, KubeClient
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.transport import TransportSettings
from controller_runtime.manager.http import HttpServer
from controller_runtime.manager.settings import Address

TOKEN: Final = "the-token"
CHAT: Final = "/objects/aimservices/team-a/chat"
READINGS: Final = (
    "/capacity/others",
    f"{CHAT}/events",
    f"{CHAT}/story",
    f"{CHAT}/past",
    f"{CHAT}/replay",
    f"{CHAT}/replay/none",
    "/bus/holes",
)
PAGES: Final = ("/", "/catalogue", "/capacity", "/bus", CHAT, *READINGS)
PATIENCE: Final = 60.0


class House(NamedTuple):
    """A console, and what it is told."""

    address: str
    feed: Feed


@asynccontextmanager
async def opened(tmp_path: Path, namespace: str | None) -> AsyncIterator[House]:
    """For whoever may list everything in a namespace; ``None``: in the cluster."""

    async def review(body: JsonObject) -> JsonObject:
        return {"status": {"allowed": body["spec"]["resourceAttributes"].get("namespace") == namespace}}

    nowhere = Connection("http://127.0.0.1:9", NoCredentials())
    async with (
        reported(tmp_path, [service("team-a", "chat")]) as (broker, feed),
        mirror(broker.url) as present,
        KubeClient(nowhere, service="console", settings=TransportSettings(attempts=1)) as kube,
    ):
        port = free_port()
        console = Console(present, PrivateDoor(Access(review), TOKEN, kube))
        running = asyncio.ensure_future(HttpServer(console.application(), Address("127.0.0.1", port)).run())
        try:
            await eventually(lambda: present.complete, "the console knows everything")
            yield House(f"http://127.0.0.1:{port}", feed)
        finally:
            running.cancel()
            await asyncio.wait((running,))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path, "team-a") as house:
        yield house


@pytest.fixture
async def stranger(house: House) -> AsyncIterator[aiohttp.ClientSession]:
    """Somebody else on the machine."""
    async with aiohttp.ClientSession(house.address, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


@pytest.fixture
async def viewer(stranger: aiohttp.ClientSession) -> aiohttp.ClientSession:
    async with stranger.get(f"/?token={TOKEN}") as answer:
        assert answer.status == 200
    return stranger


@pytest.mark.spec("FW-634")
async def test_without_the_token_nothing_is_answered(stranger: aiohttp.ClientSession) -> None:
    for path in (*PAGES, "/live", "/?token=other", "/?token="):
        async with stranger.get(path) as answer:
            assert (answer.status, "chat" in await answer.text()) == (403, False), path
    # The same for everybody, and on the page of a login before it.
    async with stranger.get("/static/console.css") as answer:
        assert answer.status == 200


@pytest.mark.spec("FW-634")
async def test_the_token_becomes_a_cookie_for_scripts_and_other_sites_out_of_reach(
    stranger: aiohttp.ClientSession,
) -> None:
    async with stranger.get(f"/?token={TOKEN}", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["location"]) == (303, "/")
        [cookie] = SimpleCookie(answer.headers["set-cookie"]).values()
    assert (cookie["httponly"], cookie["samesite"]) == (True, "strict")


@pytest.mark.spec("FW-634")
async def test_pages_are_only_read_for_this_host_and_load_what_they_ship_with(viewer: aiohttp.ClientSession) -> None:
    for path in PAGES:
        async with viewer.get(path) as answer:
            assert answer.headers["content-security-policy"] == POLICY, path
        async with viewer.get(path, headers={"host": "evil.example"}) as answer:
            assert answer.status == 400, path
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            async with viewer.request(method, path) as answer:
                assert answer.status == 405, (method, path)


@pytest.mark.spec("FW-633")
async def test_the_page_of_the_log_is_for_who_may_list_nodes(viewer: aiohttp.ClientSession) -> None:
    async with viewer.get(CHAT) as answer:
        assert answer.status == 200
    for path in ("/bus", "/bus/holes"):
        async with viewer.get(path) as answer:
            assert (answer.status, "aimservices" in await answer.text()) == (403, False), path


@pytest.mark.spec("FW-633", "FW-673")
async def test_holes_are_counted_for_who_asks(tmp_path: Path) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with opened(tmp_path, None) as house, aiohttp.ClientSession(house.address, cookie_jar=jar) as operator:
        await operator.get(f"/?token={TOKEN}")
        for path, counted in (("/bus", False), ("/bus/holes", True)):
            async with operator.get(path) as answer:
                text = await answer.text()
                assert (answer.status, 'data-label="holes"' in text) == (200, counted), path
            assert "aimservices" in text


@pytest.mark.spec("FW-632")
async def test_news_come_one_after_the_other_with_time_between(
    house: House, viewer: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def knows(name: str) -> bool:
        async with viewer.get("/") as answer:
            return name in await answer.text()

    assert app._BETWEEN == 1.0
    monkeypatch.setattr(app, "_BETWEEN", PATIENCE)
    async with viewer.get("/live") as news, asyncio.timeout(PATIENCE):
        assert news.content_type == "text/event-stream"
        assert (await news.content.readuntil(b"\n\n")).startswith(b"data: ")
        await house.feed.change(service("team-a", "one"))
        assert (await news.content.readuntil(b"\n\n")).startswith(b"data: ")
        await house.feed.change(service("team-a", "two"))
        await eventually(lambda: knows("team-a/two"), "a page with the newest")
        assert await knows("team-a/two")
        assert news.content.read_nowait() == b""


@pytest.mark.spec("FW-635")
async def test_an_address_without_a_page_says_so_with_the_way_back(viewer: aiohttp.ClientSession) -> None:
    async with viewer.get("/nowhere") as answer:
        text = await answer.text()
        assert (answer.status, "there is no page /nowhere" in text, '<nav aria-label="Pages">' in text) == (
            404, True, True,
        )  # fmt: skip


@pytest.mark.spec("FW-872")
async def test_without_an_api_server_the_page_of_events_says_so(viewer: aiohttp.ClientSession) -> None:
    async with viewer.get(f"{CHAT}/events") as answer:
        assert "Events of AIMService team-a/chat cannot be read" in await answer.text()
        assert answer.status == 200


@pytest.mark.spec("FW-883")
async def test_without_an_api_server_the_pods_of_others_are_not_known(viewer: aiohttp.ClientSession) -> None:
    async with viewer.get("/capacity/others") as answer:
        assert (answer.status, "Pods of others cannot be read" in await answer.text()) == (200, True)
