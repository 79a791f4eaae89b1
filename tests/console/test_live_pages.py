"""Pages that change while somebody looks at them, in a real browser (FW-644)."""

from pathlib import Path

import pytest
from support.browser import Tab
from support.console_objects import cluster, service
from support.console_site import Site, site
from support.nats import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROW = "[...document.querySelectorAll('[aria-labelledby=services] tbody tr')]"
PLACE = """({
  top: document.activeElement.getBoundingClientRect().top, focus: document.activeElement.innerText,
  own: document.activeElement.matches('[aria-labelledby=services] a'), search: document.querySelector('input').value,
  left: document.querySelector('[aria-labelledby=services]').scrollLeft,
})"""


def says(name: str, word: str) -> str:
    """Whether the row of a service has a word."""
    return f"{ROW}.some((row) => row.innerText.includes('{name}') && row.innerText.includes('{word}'))"


@pytest.mark.spec("FW-632", "FW-644")
async def test_news_leave_the_reader_where_they_are(browser: Tab, crowded: Site) -> None:
    # So narrow that tables are wider.
    await browser.look(700, 800)
    await browser.open(crowded.address)
    await browser.until("document.getElementById('live').textContent === 'live'")
    # A link that is there twice, among the concerns and among the services; and words that were not sent yet.
    await browser.evaluate(f"""(() => {{
      window.here = true;
      document.querySelector('input').value = 'half a na';
      {ROW}.find((row) => row.innerText.includes('team-7/chat-407')).querySelector('a').focus();
      scrollBy(0, -200);
      document.querySelector('[aria-labelledby=services]').scrollLeft = 30;
    }})()""")
    before = await browser.evaluate(PLACE)
    assert await browser.evaluate("scrollY") > 0
    assert (before["own"], before["left"]) == (True, 30)
    await crowded.feed.change(service("team-1", "newcomer", "Failed"))
    await browser.until(says("team-1/newcomer", "Failed"))
    after = await browser.evaluate(PLACE)
    # A window is moved by whole pixels, rows have parts of them.
    assert after == before | {"top": pytest.approx(before["top"], abs=1)}
    await crowded.feed.change(service("team-1", "newcomer", "Running"))
    await browser.until(f"!{says('team-1/newcomer', 'Failed')}")
    assert await browser.evaluate("window.here"), "it is the same document"


@pytest.mark.spec("FW-632")
async def test_news_wait_while_somebody_types(browser: Tab, crowded: Site) -> None:
    await browser.open(crowded.address)
    await browser.open(crowded.url("/?q=team-2/new"))
    await browser.until("document.getElementById('live').textContent === 'live'")
    await browser.press("/")
    await browser.press("x")
    await crowded.feed.change(service("team-2", "newcomer", "Failed"))

    async def is_reported() -> bool:
        return "team-2/newcomer" in await browser.evaluate("fetch(location.href).then((answer) => answer.text())")

    await eventually(is_reported, "the console knows the newcomer")
    await browser.evaluate("renew()")
    assert await browser.evaluate(f"{ROW}.length") == 0
    typed = await browser.evaluate("document.querySelector('input').value")
    assert typed == "x"
    await browser.evaluate("document.activeElement.blur()")
    await browser.until(says("team-2/newcomer", "Failed"))
    assert await browser.evaluate("document.querySelector('input').value") == typed


@pytest.mark.spec("FW-644")
async def test_what_is_open_stays_open(browser: Tab, crowded: Site) -> None:
    await crowded.feed.change(service("team-3", "reader", "Starting"))
    await browser.open(crowded.url("/objects/aimservices/team-3/reader"))
    await browser.until("document.getElementById('live').textContent === 'live'")
    spec = "[...document.querySelectorAll('details')].find((one) => one.innerText.startsWith('Spec'))"
    assert not await browser.evaluate(f"{spec}.open")
    await browser.evaluate(f"{spec}.open = true")
    await crowded.feed.change(service("team-3", "reader", "Failed"))
    await browser.until("document.querySelector('h1').innerText.includes('Failed')")
    assert await browser.evaluate(f"{spec}.open")


@pytest.mark.spec("FW-632")
async def test_news_wait_while_something_is_selected(browser: Tab, crowded: Site) -> None:
    await crowded.feed.change(service("team-4", "reader", "Starting"))
    await browser.open(crowded.url("/objects/aimservices/team-4/reader"))
    await browser.until("document.getElementById('live').textContent === 'live'")
    await browser.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
    await crowded.feed.change(service("team-4", "reader", "Failed"))

    async def is_reported() -> bool:
        return "Failed" in await browser.evaluate("fetch(location.href).then((answer) => answer.text())")

    await eventually(is_reported, "the console knows the change")
    await browser.evaluate("renew()")
    assert "Failed" not in await browser.evaluate("document.querySelector('h1').innerText")
    await browser.evaluate("getSelection().empty()")
    await browser.until("document.querySelector('h1').innerText.includes('Failed')")


@pytest.mark.spec("FW-636", "FW-642")
async def test_a_broker_that_is_away_is_reported_and_comes_back(browser: Tab, tmp_path: Path, pictures: Path) -> None:
    async with site(tmp_path, cluster(3)) as small:
        await browser.look(1280, 800)
        await browser.open(small.address)
        await browser.until("document.getElementById('live').textContent === 'live'")
        browser.complaints.clear()
        await small.broker.kill()
        await browser.until("document.body.innerText.includes('The broker has not answered since')")
        assert await browser.evaluate(says("team-0/broken", "Degraded")), "what was known stays"
        await browser.picture(pictures / "broker-away-light-1280.png")
        assert browser.complaints == []
        assert await browser.evaluate("document.getElementById('live').textContent") == "waiting for the broker"
        await browser.open(small.url("/objects/aimservices/team-0/broken/story"))
        assert "Cannot be shown" in await browser.evaluate("document.body.innerText")
        await browser.picture(pictures / "broker-away-story-light-1280.png")
        await browser.open(small.url("/"))
        await small.broker.start()
        await browser.until("!document.body.innerText.includes('The broker has not answered since')")
        await browser.until("document.getElementById('live').textContent === 'live'")


@pytest.mark.spec("FW-645")
async def test_consoles_of_two_clusters_stand_side_by_side(browser: Tab, crowded: Site, empty: Site) -> None:
    await browser.open(crowded.address)
    await browser.open(empty.address)
    for one in (crowded, empty):
        await browser.open(one.url("/capacity"))
        assert await browser.evaluate("document.querySelector('h1').innerText") == "Capacity"
