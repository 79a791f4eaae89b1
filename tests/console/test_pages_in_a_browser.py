"""The console's pages in a real browser (FW-642…FW-644)."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.browser import Tab
from support.console_objects import ABUSED, EVIL, FAILING
from support.console_site import Site
from support.nats import eventually
from support.page_checks import LAPTOP, PHONE, faults, focus_order, looked_at

pytestmark = pytest.mark.asyncio(loop_scope="session")

FAILED = "/objects/aimservices/" + "/".join(FAILING)
PAGES = {
    "home": "/",
    "found": "/?q=team-3/",
    "object": FAILED,
    "healthy": "/objects/aimservices/team-3/chat-003",
    "model": "/objects/aimclustermodels/-/llama-3-70b",
    "abused": "/objects/aimservices/" + "/".join(ABUSED),
    "events": f"{FAILED}/events?last=1h",
    "story": f"{FAILED}/story",
    "replay": f"{FAILED}/replay",
    "catalogue": "/catalogue",
    "catalogue-new": "/catalogue?last=1d&q=llama",
    "capacity": "/capacity",
    "others": "/capacity/others",
    "bus": "/bus",
    "holes": "/bus/holes",
    "missing": "/objects/aimservices/team-0/nobody",
}


@pytest.mark.spec("FW-634", "FW-635", "FW-642", "FW-643")
async def test_pages_of_a_crowded_cluster(browser: Tab, crowded: Site, pictures: Path) -> None:
    await browser.open(crowded.address)
    browser.requested.clear()
    assert await looked_at(browser, crowded.url, PAGES, pictures) == {}
    asked = {urlsplit(url).netloc for url in browser.requested}
    assert asked == {urlsplit(crowded.address).netloc}, "pages ask nobody else"


@pytest.mark.spec("FW-642", "FW-643")
async def test_pages_of_an_empty_cluster(browser: Tab, empty: Site, pictures: Path) -> None:
    await browser.open(empty.address)
    paths = {f"empty-{name}": PAGES[name] for name in ("home", "catalogue", "capacity", "bus")}
    assert await looked_at(browser, empty.url, paths, pictures) == {}
    await browser.open(empty.url("/"))
    text = await browser.evaluate("document.body.innerText")
    assert "There is no AIMService yet" in text
    assert "What is shown is current." in text
    assert await browser.evaluate("document.querySelectorAll('.notice').length") == 0


@pytest.mark.spec("FW-642", "FW-643")
async def test_what_is_wrong_with_a_page_is_noticed(browser: Tab, empty: Site) -> None:
    """The checks of this file, against faults that are planted."""
    await browser.look(*PHONE)
    await browser.open(empty.address)
    browser.complaints.clear()
    await browser.evaluate("""(() => {
      const wide = document.createElement("p"), sign = document.querySelector("svg.sign").cloneNode(true);
      wide.textContent = "faint";
      wide.style.cssText = "width: 500px; color: #999";
      const alone = document.createElement("p");
      alone.append(sign);
      document.body.append(wide, alone);
      const inline = document.createElement("script");
      inline.textContent = "alert(3)";
      document.body.append(inline);
    })()""")
    await eventually(lambda: bool(browser.complaints), "the content policy is heard of")
    found = await faults(browser, PHONE)
    assert found[:3] == ["faint text 2.85: faint", "111 pixels wider than the window", "1 signs without a word"]
    assert any("Content Security Policy" in one or "ContentSecurityPolicy" in one for one in found[3:]), found


@pytest.mark.spec("FW-635", "FW-642")
async def test_what_users_wrote_stays_text(browser: Tab, crowded: Site) -> None:
    await browser.look(*LAPTOP)
    await browser.open(crowded.address)
    browser.requested.clear()
    for path in (PAGES["home"], PAGES["abused"], f"{PAGES['abused']}/story", "/?q=%3Cscript%3Ealert(4)%3C/script%3E"):
        browser.complaints.clear()
        await browser.open(crowded.url(path))
        assert await browser.evaluate("document.querySelectorAll('main img, main script').length") == 0, path
        assert browser.complaints == [], path
        shown = await browser.evaluate("document.body.textContent")
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert not [url for url in browser.requested if "evil" in url]
    await browser.open(crowded.url(PAGES["abused"]))
    assert EVIL.partition("\x1b")[0] in await browser.evaluate("document.body.innerText")


@pytest.mark.spec("FW-635", "FW-643")
async def test_everything_is_reached_by_keyboard(browser: Tab, crowded: Site) -> None:
    await browser.look(*LAPTOP)
    await browser.open(crowded.address)
    await browser.open(crowded.url("/?q=team-3/chat-00"))
    regions = await focus_order(browser, "search", 10)
    assert regions[:2] == ["skip", "nav"]
    assert regions[-1] == "search"
    # The filter's other fields, and the way back to all.
    assert (await focus_order(browser, "table", 8))[-1] == "table"
    await browser.press("Enter")
    await browser.until("location.pathname === '/objects/aimservices/team-3/chat-003'")


@pytest.mark.spec("FW-635", "FW-643")
async def test_what_is_searched_for_is_shown(browser: Tab, crowded: Site) -> None:
    await browser.look(*PHONE)
    await browser.open(crowded.address)
    await browser.press("/")
    for key in "team-4/chat-01":
        await browser.press(key)
    await browser.press("Enter")
    await browser.until("location.search === '?q=team-4%2Fchat-01' && document.readyState === 'complete'")
    rows = "document.querySelectorAll('[aria-labelledby=services] tbody tr')"
    assert await browser.evaluate(f"{rows}.length") == 1
    shown = await browser.evaluate(f"{rows}[0].getBoundingClientRect().bottom")
    assert 0 < shown < PHONE[1], "the window is where it was found, not at what needs attention"


@pytest.mark.spec("FW-870")
async def test_the_filter_takes_effect_while_one_types_and_stands_in_the_address(browser: Tab, crowded: Site) -> None:
    await browser.look(*LAPTOP)
    await browser.open(crowded.address)
    await browser.press("/")
    for key in "team-4/chat-0":
        await browser.press(key)
    rows = "document.querySelectorAll('[aria-labelledby=services] tbody tr').length"
    await browser.until(f"location.search === '?q=team-4%2Fchat-0' && {rows} === 10")
    assert await browser.evaluate("document.activeElement.name + document.activeElement.selectionStart") == "q13"
    await browser.press("1")
    await browser.until(f"location.search === '?q=team-4%2Fchat-01' && {rows} === 1")
    await browser.open(crowded.url("/?q=team-4/chat-"))
    assert await browser.evaluate(rows) == 50
    await browser.evaluate("""(() => {
      const model = document.querySelector("select[name=model]");
      model.value = "llama-3-70b";
      model.dispatchEvent(new Event("input", { bubbles: true }));
    })()""")
    await browser.until(f"location.search.endsWith('&model=llama-3-70b') && {rows} < 50")
    few = await browser.evaluate(rows)
    await browser.open(crowded.url("/") + await browser.evaluate("location.search"))
    assert await browser.evaluate(f"document.querySelector('select[name=model]').value + {rows}") == f"llama-3-70b{few}"


@pytest.mark.spec("FW-871")
async def test_a_button_copies_the_command_of_the_remedy(browser: Tab, crowded: Site) -> None:
    await browser.open(crowded.address)
    await browser.open(crowded.url(FAILED))
    await browser.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    await browser.evaluate("document.querySelector('button.copy').click()")
    await browser.until("window.copied === 'kubectl edit aimservice broken -n team-0'")
    await browser.until("document.querySelector('button.copy').textContent === 'Copied'")
