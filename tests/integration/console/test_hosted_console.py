"""The console for many viewers: who is let in, for how long, and what it does for nobody."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from html import escape
from http.cookies import SimpleCookie
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from starlette.applications import Starlette
from support.console_objects import service
from support.console_site import Feed, reported
from support.controlplane import RawApi
from support.hosted_console import NAME, Browser, Time, browser, hosted_console, port_of
from support.nats import eventually
from support.scraping import Certificates, planted_token, scrape

from aim_cli.cluster.targets import Where
from aim_cli.errors import UnreachableError
from aim_console.hosting import serve_until
from aim_console.mirror import Mirror, mirror
from aim_console.serving import serve
from aim_console.sessions import REVIEWED_SECONDS
from aim_console.tokens import KNOWN_SECONDS, OF_AN_ADDRESS
from aim_local.nats import NatsServer
from aim_local.ports import free_port
from aim_local.processes import dying_with_parent, stop_process
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.manager.certificates import self_signed_tls
from controller_runtime.manager.http import HttpServer
from controller_runtime.manager.settings import Address
from embedded_apiserver import ControlPlane

PATIENCE = 60.0


class House(NamedTuple):
    """A console, whose clocks the test moves."""

    address: str
    clock: Time
    feed: Feed


@pytest.fixture
async def house(controlplane: ControlPlane, tmp_path: Path) -> AsyncIterator[House]:
    clock = Time()
    connection = Connection(controlplane.url, NoCredentials())
    async with (
        reported(tmp_path, [service("team-a", "chat")]) as (broker, feed),
        hosted_console(broker.url, connection, clock) as address,
    ):
        yield House(address, clock, feed)


@pytest.fixture
async def ada(house: House) -> AsyncIterator[Browser]:
    async with browser(house.address) as opened:
        yield opened


@pytest.mark.spec("FW-677", "FW-678", "FW-679")
async def test_who_logs_in_sees_the_pages_until_they_log_out(house: House, ada: Browser, api: RawApi) -> None:
    token = await planted_token(api, "default", "ada")
    before = await ada.get("/objects/aimservices/team-a/chat")
    assert before.status == 401
    assert 'name="next" value="/objects/aimservices/team-a/chat"' in before.text
    assert "chat</h1>" not in before.text
    asked_for = "/objects/aimservices/team-a/chat/past?at=2026-11-23T14:05:00%2B02:00&stop=1"
    assert f'name="next" value="{escape(asked_for)}"' in (await ada.get(asked_for)).text
    async with browser(house.address) as other:
        assert (await other.log_in(token, asked_for)).headers["location"] == asked_for
    entered = await ada.log_in(f" {token[:4]}\n{token[4:]} ", "/objects/aimservices/team-a/chat")
    assert (entered.status, entered.headers["location"]) == (303, "/objects/aimservices/team-a/chat")
    [cookie] = SimpleCookie(entered.headers["set-cookie"]).values()
    assert cookie.key == f"__Host-aim-console-{port_of(house.address)}"
    flags = ("secure", "httponly", "samesite", "path", "domain", "expires")
    assert [cookie[one] for one in flags] == [True, True, "strict", "/", "", ""]
    home = await ada.get("/")
    assert home.status == 200
    assert "team-a/chat" in home.text
    assert "system:serviceaccount:default:ada" in home.text
    assert token not in home.text + str(home.headers)
    async with browser(house.address) as thief:
        thief.session.cookie_jar.update_cookies({cookie.key: cookie.value})
        assert (await thief.get("/")).status == 200, "the cookie is all that it takes"
        assert (await ada.log_out()).headers["location"] == "/"
        assert [(await one.get("/")).status for one in (ada, thief)] == [401, 401]


@pytest.mark.spec("FW-679")
async def test_who_logs_in_again_ends_the_session_before(house: House, ada: Browser, api: RawApi) -> None:
    token = await planted_token(api, "default", "ada")
    await ada.log_in(token)
    async with browser(house.address) as thief:
        thief.session.cookie_jar.update_cookies(ada.cookies)
        assert (await thief.get("/")).status == 200
        await ada.log_in(token)
        assert [(await one.get("/")).status for one in (ada, thief)] == [200, 401]


@pytest.mark.spec("FW-709")
async def test_who_comes_with_the_cookie_of_another_pod_is_reported_and_led_back(
    house: House, ada: Browser, api: RawApi
) -> None:
    page = "/objects/aimservices/team-a/chat"
    assert "session has ended" not in (await ada.get(page)).text
    ada.session.cookie_jar.update_cookies({f"__Host-aim-console-{port_of(house.address)}": "of-another-pod"})
    reported_so = await ada.get(page)
    assert reported_so.status == 401
    assert "Your session has ended" in reported_so.text
    assert f'name="next" value="{page}"' in reported_so.text
    entered = await ada.log_in(await planted_token(api, "default", "ada"), page)
    assert (entered.status, entered.headers["location"]) == (303, page)
    assert (await ada.get(page)).status == 200


@pytest.mark.spec("FW-678", "FW-680")
async def test_a_bad_token_is_refused_with_a_line_and_many_with_a_time_to_wait(
    house: House, ada: Browser, api: RawApi
) -> None:
    token = await planted_token(api, "default", "ada")
    refused = await ada.log_in("forged")
    assert (refused.status, ada.cookies) == (401, {})
    assert refused.reported == "the API server does not know this token: it may have expired, or be of another cluster"
    assert "forged" not in refused.text
    for n in range(OF_AN_ADDRESS[0] - 1):
        assert (await ada.get("/", authorization=f"Bearer forged-{n}")).status == 401
    late = await ada.log_in(token)
    assert (late.status, late.headers["retry-after"]) == (429, "2")
    assert late.reported == "too many tokens that the API server does not know; try again in 2 s"
    house.clock.passed += OF_AN_ADDRESS[1]
    assert (await ada.log_in(token)).status == 303


@pytest.mark.spec("FW-678")
async def test_a_proxy_may_send_the_token_with_each_request(house: House, ada: Browser, api: RawApi) -> None:
    sent = {"authorization": f"Bearer {await planted_token(api, 'default', 'ada')}"}
    page = await ada.get("/", **sent)
    assert page.status == 200
    assert "Log out" not in page.text
    assert ada.cookies == {}
    await api.delete("/api/v1/namespaces/default/secrets/ada-token")
    assert (await ada.get("/", **sent)).status == 200
    house.clock.passed += KNOWN_SECONDS
    refused = await ada.get("/", **sent)
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert "\n" not in refused.text


@pytest.mark.spec("FW-679", "FW-682")
async def test_a_token_that_is_deleted_ends_its_session_and_its_streams(
    house: House, ada: Browser, api: RawApi
) -> None:
    await ada.log_in(await planted_token(api, "default", "ada"))
    async with ada.session.get(f"{house.address}/live") as news:
        assert news.status == 200
        await api.delete("/api/v1/namespaces/default/secrets/ada-token")
        assert (await ada.get("/")).status == 200
        house.clock.passed += REVIEWED_SECONDS
        # Whoever waits for news is looked at when there are some, else within fifteen seconds.
        await house.feed.change(service("team-a", "other"))
        async with asyncio.timeout(PATIENCE):
            await news.read()
    assert (await ada.get("/")).status == 401
    assert (await ada.get("/live")).status == 401


@pytest.mark.spec("FW-682")
async def test_a_viewer_has_so_many_streams_and_no_more(house: House, ada: Browser, api: RawApi) -> None:
    await ada.log_in(await planted_token(api, "default", "ada"))
    streams = [await ada.session.get(f"{house.address}/live") for _ in range(8)]
    assert [one.status for one in streams] == [200] * 8
    assert (await ada.get("/live")).status == 429
    async with browser(house.address) as other:
        await other.log_in(await planted_token(api, "default", "bob"))
        async with other.session.get(f"{house.address}/live") as own:
            assert own.status == 200
    streams[0].close()

    async def has_room() -> bool:
        async with ada.session.get(f"{house.address}/live") as again:
            return again.status == 200

    await eventually(has_room, "the place of a stream that was closed")
    for one in streams:
        one.close()


@pytest.mark.spec("FW-681")
@pytest.mark.parametrize("origin", ["", "null", "https://evil.example", "http://127.0.0.1"])
async def test_forms_of_other_origins_are_refused(house: House, ada: Browser, api: RawApi, origin: str) -> None:
    token = await planted_token(api, "default", "ada")
    assert (await ada.log_in(token, origin=origin)).status == 403
    assert ada.cookies == {}
    assert (await ada.log_in(token, after="//evil.example/")).headers["location"] == "/"
    assert (await ada.log_out(origin=origin)).status == 403
    assert (await ada.get("/")).status == 200


@pytest.mark.spec("FW-681")
async def test_nothing_else_takes_anything_but_reads(house: House, ada: Browser, api: RawApi) -> None:
    await ada.log_in(await planted_token(api, "default", "ada"))
    about = "/objects/aimservices/team-a/chat"
    pages = ("/", "/catalogue", "/capacity", "/bus", about, f"{about}/story", f"{about}/replay", "/live")
    for path in (*pages, "/static/console.js", "/healthz", "/readyz"):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert (await ada.send(method, path, {}, origin=house.address)).status in {404, 405}, (method, path)
    assert [(await ada.get(path)).status for path in ("/login", "/logout")] == [405, 405]
    for body in ("x" * 40_000, "token=%ff%fe", "a=1&" * 20):
        async with ada.session.post(
            f"{house.address}/login",
            data=body,
            headers={"origin": house.address, "content-type": "application/x-www-form-urlencoded"},
        ) as answer:
            assert answer.status in {400, 401}


@pytest.mark.spec("FW-677")
async def test_pages_are_for_the_named_hosts_and_probes_for_the_pod_s_address(house: House, ada: Browser) -> None:
    assert (await ada.get("/", host="evil.example")).status == 400
    assert (await ada.get("/static/console.css", host="evil.example")).status == 400
    assert (await ada.get("/", host=NAME)).status == 401
    for path in ("/healthz", "/readyz"):
        assert (await ada.get(path, host="10.0.0.7:8443")).status == 200


@pytest.mark.spec("FW-678")
async def test_while_the_api_server_is_away_nothing_is_shown(
    house: House, ada: Browser, api: RawApi, controlplane: ControlPlane
) -> None:
    token = await planted_token(api, "default", "ada")
    await ada.log_in(token)
    assert (await ada.get("/")).status == 200
    await controlplane.__aexit__(None, None, None)
    try:
        house.clock.passed += KNOWN_SECONDS + 1
        page = await ada.get("/")
        assert (page.status, "team-a/chat" in page.text) == (503, False)
        assert (await ada.log_in(token)).reported == (
            "the API server cannot be asked who you are; the log of the console says why"
        )
        house.clock.passed += REVIEWED_SECONDS
        assert (await ada.get("/")).status == 503
    finally:
        await controlplane.__aenter__()
    assert (await ada.get("/")).status == 200, "an outage ends no session"


# The command


@asynccontextmanager
async def started(folder: Path, nats_url: str, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`aim console` as a pod starts it; what it says goes to `log`."""
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "aim_cli", "console", "--nats-url", nats_url, *options,
            env=dict(os.environ), stdout=log, stderr=log, start_new_session=True,
            preexec_fn=dying_with_parent(signal.SIGKILL),
        )  # fmt: skip
    try:
        yield process
    finally:
        await stop_process(process, PATIENCE)


@pytest.mark.spec("FW-677", "FW-680")
async def test_the_command_serves_before_the_broker_is_there_and_ends_when_it_is_asked_to(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    await asyncio.to_thread(kubeconfig.write_text, controlplane.kubeconfig())
    certificates = Certificates(tmp_path / "tls")
    certificates.issue("before.example")
    token = await planted_token(api, "default", "ada")
    broker_port, port = free_port(), free_port()
    options = ("--listen", f"127.0.0.1:{port}", "--cert-path", str(certificates.folder), "--host", NAME)
    address = f"https://127.0.0.1:{port}"
    async with (
        started(tmp_path, f"nats://127.0.0.1:{broker_port}", *options, "--kubeconfig", str(kubeconfig)) as process,
        browser(address) as ada,
    ):

        async def says(status: int) -> bool:
            try:
                return (await ada.get("/readyz")).status == status
            except aiohttp.ClientConnectionError:
                return False

        await eventually(lambda: says(503), "the console without a broker")
        assert (await ada.get("/healthz")).status == 200
        assert (await ada.log_in(token)).status == 303
        assert "Not everything is known yet" in (await ada.get("/")).text
        assert (await ada.log_in("forged-token")).status == 401
        async with NatsServer(tmp_path / "nats", port=broker_port):
            await eventually(lambda: says(200), "the console with a broker")
        assert await says(200), "it stays ready to say that the broker is away"
        certificates.issue("after.example")
        # Without a session it asks to log in; what counts is that it is trusted under this name.
        assert (await scrape(f"127.0.0.1:{port}", certificates.client, name="after.example"))[0] == 401
        async with ada.session.get(f"{address}/live"):
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == 0
    log = await asyncio.to_thread((tmp_path / "log").read_text)
    assert '"user": "system:serviceaccount:default:ada"' in log
    assert token not in log
    assert "forged-token" not in log
    assert "Traceback" not in log


def _fault(self: Mirror) -> None:
    self.version += 1
    if not self.ended.is_set():
        raise ZeroDivisionError


@pytest.mark.spec("FW-677")
async def test_it_ends_with_its_server_and_with_what_it_knows_so_that_it_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = asyncio.Event()

    @asynccontextmanager
    async def parts(broker_url: str) -> AsyncIterator[tuple[HttpServer, Mirror, asyncio.Future[None]]]:
        async with mirror(broker_url) as present:
            server = HttpServer(Starlette(), Address("127.0.0.1", free_port()), self_signed_tls())
            serving = asyncio.ensure_future(serve_until(stop, server, present))
            yield server, present, serving

    async with reported(tmp_path) as (broker, _):
        async with parts(broker.url) as (server, _, serving), asyncio.timeout(PATIENCE):
            server._server.stop()
            with pytest.raises(UnreachableError, match="the server of the pages has ended"):
                await serving
        async with parts(broker.url) as (_, present, serving), asyncio.timeout(PATIENCE):
            present.following.cancel()
            with pytest.raises(UnreachableError, match="what follows the message broker has ended"):
                await serving
        monkeypatch.setattr(Mirror, "_move", _fault)
        async with parts(broker.url) as (_, _, serving), asyncio.timeout(PATIENCE):
            with pytest.raises(ExceptionGroup) as raised:
                await serving
            assert raised.group_contains(ZeroDivisionError)
        monkeypatch.undo()
        async with parts(broker.url) as (_, _, serving), asyncio.timeout(PATIENCE):
            stop.set()
            await serving


@pytest.mark.spec("FW-630")
async def test_on_the_loopback_it_ends_as_well_when_nothing_more_is_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mirror, "_move", _fault)
    async with ControlPlane() as plane, reported(tmp_path) as (broker, _), asyncio.timeout(PATIENCE):
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(plane.kubeconfig())
        with pytest.raises(ExceptionGroup) as raised:
            await serve(Where(str(kubeconfig), None), broker.url, 0, lambda _: None)
    assert raised.group_contains(ZeroDivisionError)


@pytest.mark.spec("FW-677", "FW-602")
@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--listen", "nowhere"], 2, "--listen nowhere: expected host:port or :port"),
        (["--listen", "192.0.2.1:8443"], 4, "choose another --listen"),
        (["--listen", "127.0.0.1:0"], 2, "expected host:port"),
        (["--listen", "127.0.0.1:1234", "--cert-path", "/none"], 4, "correct --cert-path"),
    ],
    ids=str,
)
async def test_what_is_wrong_with_its_options_is_reported_in_a_line(
    controlplane: ControlPlane, tmp_path: Path, options: list[str], code: int, said: str
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    await asyncio.to_thread(kubeconfig.write_text, controlplane.kubeconfig())
    async with started(tmp_path, "nats://127.0.0.1:1", *options, "--kubeconfig", str(kubeconfig)) as process:
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == code
    log = await asyncio.to_thread((tmp_path / "log").read_text)
    [line] = [one for one in log.splitlines() if one.startswith("aim: ")]
    assert said in line
    assert "Traceback" not in log


@pytest.mark.spec("FW-872", "FW-884")
async def test_events_and_logs_are_read_as_the_viewer(house: House, ada: Browser, api: RawApi) -> None:
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    about = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMService", "namespace": "team-a", "name": "chat"}
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "chat.1"}, "involvedObject": about, "count": 3,
        "type": "Warning", "reason": "RouteRemoved", "message": "routing is <b>off</b>",
    }  # fmt: skip
    await api.created("/api/v1/namespaces/team-a/events", event)
    page = "/objects/aimservices/team-a/chat/events"
    assert (await ada.get(page)).status == 401
    await ada.log_in(await planted_token(api, "default", "ada"))
    found = await ada.get(page)
    assert (found.status, "RouteRemoved" in found.text, "routing is &lt;b&gt;off&lt;/b&gt;" in found.text) == (
        200, True, True,
    )  # fmt: skip
    assert "× 3" in found.text
    seen = {"lastTimestamp": f"{datetime.now(UTC) - timedelta(minutes=30):%Y-%m-%dT%H:%M:%SZ}"}
    await api.merge("/api/v1/namespaces/team-a/events/chat.1", seen)
    recent = await ada.get(f"{page}?last=15m")
    assert ("RouteRemoved" in recent.text, "1 earlier" in recent.text) == (False, True)
    assert "RouteRemoved" in (await ada.get(f"{page}?last=1h")).text
    assert "It has no pod now." in found.text
    assert (await ada.get("/objects/aimservices/team-b/chat/events")).status == 404
    await ada.log_out()
    assert (await ada.get(page)).status == 401
