"""The console over a running platform."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from support.restricted import CONTAINER_SECURITY, POD_SECURITY
from support.stack import Platform
from typer.testing import CliRunner

from aim_cli.__main__ import app
from aim_cli.cluster.targets import Where
from aim_console.serving import serve

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


@dataclass(frozen=True, slots=True)
class Opened:
    """A console, and a browser that has its cookie."""

    address: str
    session: aiohttp.ClientSession

    async def page(self, path: str) -> str:
        """A page that has to be there."""
        async with self.session.get(path) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.text()

    async def until(self, path: str, words: str) -> None:
        """Look at a page each time that news come, as the script of the page does."""
        async with asyncio.timeout(60), self.session.get("/live") as news:
            async for line in news.content:
                if line.startswith(b"data: ") and words in await self.page(path):
                    return


@asynccontextmanager
async def opened(platform: Platform) -> AsyncIterator[Opened]:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    where = Where(str(platform.stack.kubeconfig), None)
    serving = asyncio.ensure_future(serve(where, platform.stack.nats_url, 0, address.set_result))
    try:
        await asyncio.wait((address, serving), return_when=asyncio.FIRST_COMPLETED)
        base = (await address).partition("/?")[0]
        # The jar leaves cookies of addresses out unless it is told not to.
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(base, cookie_jar=jar) as session:
            yield Opened(await address, session)
    finally:
        serving.cancel()
        await asyncio.wait((serving,))


@pytest.mark.spec("FW-630", "FW-631", "FW-632", "FW-634", "FW-872", "FW-874", "FW-883")
async def test_the_platform_as_pages(platform: Platform) -> None:
    await platform.namespace("console")
    await platform.running(await platform.service("console", "chat", model={"image": IMAGE}))
    async with opened(platform) as console:
        base = console.address.partition("/?")[0]
        async with aiohttp.ClientSession(base) as stranger:
            for path in ("/", "/bus", "/objects/aimservices/console/chat", "/live"):
                async with stranger.get(path) as answer:
                    assert answer.status == 403, path
            async with stranger.get("/?token=wrong") as answer:
                assert answer.status == 403
        async with console.session.get(console.address) as answer:
            assert answer.status == 200
            assert "token" not in str(answer.url), "it is not to stay in the address bar"
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        async with console.session.get("/", headers={"Host": "evil.example.com"}) as answer:
            assert answer.status == 400

        await console.until("/?q=console/", ">console/chat<")
        about = await console.page("/objects/aimservices/console/chat")
        assert "No problem found" in about
        assert "InferenceService console/" in about
        beside = await console.page("/objects/aimservices/console/chat/events")
        assert "AIMService chat" in beside
        assert "kserve-container" in beside
        assert "cannot be read" not in beside
        story = await console.page("/objects/aimservices/console/chat/story")
        assert "AIMService console/chat" in story
        assert "created" in story or "applied" in story
        replay = await console.page("/objects/aimservices/console/chat/replay")
        assert ">different" not in re.sub(r"</svg>", ">", replay)
        assert "same" in replay
        one = re.search(r'href="(/objects/aimservices/console/chat/replay/[^"]+)"', story)
        assert one, "each decision has a page"
        decision = re.sub(r"</svg>", ">", await console.page(one[1]))
        assert ">same" in decision
        assert "AIMService console/chat" in decision
        past = "/objects/aimservices/console/chat/past"
        slider = re.search(r'name="stop"[^>]* max="(\d+)"', await console.page(past))
        assert slider
        stops = [await console.page(f"{past}?stop={number}") for number in range(int(slider[1]) + 1)]
        assert all("As of" in one for one in stops)
        # The first moments of its trace may be of what was decided before it was created.
        assert any("fields differ today" in one for one in stops)
        assert ">Running" not in re.sub(r"</svg>", ">", stops[0]), "it has just been created"
        assert ">Running" in re.sub(r"</svg>", ">", await console.page("/objects/aimservices/console/chat/past"))
        async with console.session.get("/objects/aimservices/console/chat/past?at=yesterday") as answer:
            assert answer.status == 400
        assert "qwen" in await console.page("/catalogue?q=qwen")
        assert "MI300X" in await console.page("/capacity")
        assert "training" not in await console.page("/capacity/others")
        await platform.namespace("training")
        asks = {"limits": {"amd.com/gpu": "2"}, "requests": {"amd.com/gpu": "2"}}
        train = {
            "name": "train",
            "image": "registry.example.com/train:1",
            "resources": asks,
            "securityContext": CONTAINER_SECURITY,
        }
        spec = {"containers": [train], "securityContext": POD_SECURITY}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": spec}
        await platform.api.created("/api/v1/namespaces/training/pods", pod)
        await console.until("/capacity/others", ">training</a>")
        assert ">training</a>" not in await console.page("/capacity"), "it is not in the event log"
        assert "aimservices" in await console.page("/bus")
        async with console.session.get("/objects/aimservices/console/nobody") as answer:
            assert answer.status == 404
            assert "there is no AIMService console/nobody, or you may not list it" in await answer.text()
        assert '"/objects/aimservices/console/chat/replay/' in await console.page("/"), "a recent decision"
        for file in ("console.css", "console.js", "icon.svg"):
            await console.page(f"/static/{file}")

        await platform.service("console", "another", model={"image": IMAGE})
        await console.until("/?q=console/", ">console/another<")


@pytest.mark.spec("FW-630")
async def test_a_cluster_or_broker_that_is_not_there_is_one_line(platform: Platform) -> None:
    words = ("console", "--nats-url", "nats://127.0.0.1:9", "--kubeconfig", str(platform.stack.kubeconfig))
    ended = await asyncio.to_thread(CliRunner().invoke, app, list(words))
    assert (ended.exit_code, ended.stdout) == (4, "")
    assert ended.stderr.count("\n") == 1
    assert "the message broker nats://127.0.0.1:9 cannot be reached" in ended.stderr
