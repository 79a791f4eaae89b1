"""The documentation of two releases in one folder, as a reader of one finds the other."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from support.browser import Tab

from aim_packaging.site import publish

ROOT = Path(__file__).parents[2]
OFFERED = "!document.querySelector('.aim-versions').hidden"
CHOOSE = (
    "(() => {{ const choice = document.querySelector('.aim-versions select');"
    " choice.value = '{}'; choice.dispatchEvent(new Event('change')) }})()"
)

pytestmark = pytest.mark.asyncio(loop_scope="session")


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[str]:
    application = web.Application()
    application.add_routes([web.static("/docs", folder)])
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/docs"
    finally:
        await runner.cleanup()


@pytest.mark.spec("FW-888")
async def test_a_page_offers_the_other_versions_and_leads_to_the_same_page(browser: Tab, tmp_path: Path) -> None:
    built, folder = tmp_path / "built", tmp_path / "site"
    sphinx = await asyncio.create_subprocess_exec(sys.executable, "-m", "sphinx", "-qb", "html", ROOT / "docs", built)
    assert await sphinx.wait() == 0
    publish(built, folder, "0.1.0")
    # Of which the newer release has no more.
    (built / "faq.html").unlink()
    publish(built, folder, "0.2.0")
    async with served(folder) as root:
        await browser.open(f"{root}/0.1.0/guides/scaling.html")
        await browser.until(OFFERED)
        shown = "[...document.querySelectorAll('.aim-versions option')].map(one => one.text).join()"
        assert await browser.evaluate(shown) == "0.2.0,0.1.0"
        assert await browser.evaluate("document.querySelector('.aim-versions select').value") == await browser.evaluate(
            "document.querySelector('.aim-versions').dataset.version"
        )
        await browser.evaluate(CHOOSE.format("0.2.0"))
        await browser.until("location.pathname === '/docs/0.2.0/guides/scaling.html'")
        await browser.open(f"{root}/0.1.0/faq.html")
        await browser.until(OFFERED)
        await browser.evaluate(CHOOSE.format("0.2.0"))
        await browser.until("location.pathname === '/docs/0.2.0/index.html'")
