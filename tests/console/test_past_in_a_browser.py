"""An object at an earlier moment, in a real browser (FW-670)."""

import asyncio
from pathlib import Path

import pytest
from support.browser import Scheme, Tab
from support.console_objects import STORIED, cluster, story
from support.console_site import Site, site
from support.page_checks import LAPTOP, looked_at

pytestmark = pytest.mark.asyncio(loop_scope="session")

ABOUT = "/objects/aimservices/" + "/".join(STORIED)
STATE = "document.querySelector('h1 .state')?.innerText"
WHAT = "document.querySelector('.past .what').innerText"


async def reported(place: Site) -> None:
    for obj in story():
        await place.feed.tell(obj)
        # A page of the past is of a millisecond: what comes in the same one has come by then.
        await asyncio.sleep(0.002)
    await place.feed.vouch()


@pytest.mark.spec("FW-670", "FW-642", "FW-643")
async def test_a_slider_leads_through_the_story(browser: Tab, tmp_path: Path, pictures: Path) -> None:
    async with site(tmp_path, cluster(3)) as small:
        await reported(small)
        await browser.look(*LAPTOP)
        await browser.open(small.address)
        assert await looked_at(browser, small.url, {"past": f"{ABOUT}/past?stop=1"}, pictures) == {}
        await browser.look(*LAPTOP, Scheme.LIGHT)
        await browser.open(small.url(ABOUT))
        await browser.until(f"{STATE} === 'Running'")
        await browser.evaluate("document.querySelector('main nav a[href$=past]').click()")
        await browser.until(f"location.pathname.endsWith('/past') && {STATE} === 'Running'")
        assert "As of" in await browser.evaluate("document.querySelector('.notice').innerText")
        assert await browser.evaluate("document.getElementById('live').textContent") == "", "the past is not live"

        await browser.evaluate("document.querySelector('input[type=range]').focus()")
        await browser.press("ArrowLeft")
        await browser.until(f"{STATE} === 'Degraded'")
        assert "Pending → Degraded" in await browser.evaluate(WHAT)
        assert await browser.evaluate("document.activeElement.type") == "range", "the focus stays"
        text = await browser.evaluate("document.body.innerText")
        assert "AuthError" in text
        assert await browser.evaluate("document.querySelectorAll('.graph .box.cause').length") == 1
        links = await browser.evaluate("[...document.querySelectorAll('.graph a')].map((one) => one.href.baseVal)")
        assert links
        assert all("/past?at=" in link for link in links), "whoever follows one stays in the past"
        await browser.press("ArrowLeft")
        await browser.until(f"{STATE} === 'Pending'")
        assert "Nothing." in await browser.evaluate("document.querySelector('main').innerText")
        assert "?at=" in await browser.evaluate("location.search"), "what is seen has an address"
        await browser.evaluate("document.querySelector('.notice a').click()")
        await browser.until(f"location.pathname === '{ABOUT}' && {STATE} === 'Running'")
