"""What a page has to be for its viewers, computed in the browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from support.browser import Scheme, Tab

LAPTOP: Final = (1280, 800)
PHONE: Final = (390, 844)

CONTRAST: Final = 4.5
"""Of text to its ground, as WCAG 2 asks at level AA; the pages have no large text that needed less."""
_NOT_THERE: Final = "network: Failed to load resource: the server responded with a status of 404 (Not Found)"

_CONTRASTS: Final = """(() => {
  const numbers = (colour) => {
    const found = colour.match(/^rgba?\\(([^)]+)\\)$/);
    if (!found) { throw new Error("colour of an unknown form: " + colour); }
    const [r, g, b, a = 1] = found[1].split(/[ ,/]+/).map(Number);
    return [r, g, b, a];
  };
  const over = (top, below) => below.map((one, place) => top[3] * top[place] + (1 - top[3]) * one);
  const ground = (element) => {
    const own = numbers(getComputedStyle(element).backgroundColor);
    if (own[3] === 1) { return own.slice(0, 3); }
    return over(own, element.parentElement ? ground(element.parentElement) : [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((one) => one / 255).map((one) =>
      one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (text, below) => {
    const [low, high] = [light(over(text, below)), light(below)].sort((one, other) => one - other);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (text && element.checkVisibility()) {
      found.push([ratio(numbers(getComputedStyle(element).color), ground(element)), text.slice(0, 60)]);
    }
  }
  for (const input of document.querySelectorAll("input:not([type=range])")) {
    const shown = getComputedStyle(input, input.value ? null : "::placeholder").color;
    found.push([ratio(numbers(shown), ground(input)), input.value || input.placeholder]);
  }
  return found;
})()"""

_WORDLESS: Final = """[...document.querySelectorAll("svg.sign")].filter((sign) => {
  // Of a drawing, and of what is folded, there is no innerText.
  const said = sign.parentElement.textContent.trim();
  return sign.getAttribute("aria-hidden") !== "true" || !said;
}).length"""

_FOCUS: Final = """(() => {
  const at = document.activeElement, style = getComputedStyle(at), place = at.getBoundingClientRect();
  return {
    where: at.closest("main table") ? "table" : at.closest("form") ? "search" : at.closest("header nav") ? "nav"
      : at.className === "skip" ? "skip" : at.closest("main") ? "main" : at.tagName,
    visible: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && place.width > 0
      && place.right > 0 && place.bottom > 0 && place.top < innerHeight && place.left < innerWidth,
    named: at.innerText || at.getAttribute("aria-label") || "",
  };
})()"""


async def faint_texts(tab: Tab) -> list[str]:
    """Texts whose contrast to what is below them is too low, each with its contrast."""
    measured = await tab.evaluate(_CONTRASTS)
    assert measured, "the page has no text"
    return [f"{ratio:.2f}: {text}" for ratio, text in measured if ratio < CONTRAST]


async def overflow(tab: Tab, width: int) -> int:
    """By how many pixels the page is wider than its window."""
    return max(0, int(await tab.evaluate("document.documentElement.scrollWidth")) - width)


async def wordless_signs(tab: Tab) -> int:
    """How many signs of a state have no word beside them."""
    return int(await tab.evaluate(_WORDLESS))


async def focus_order(tab: Tab, stop: str, most: int) -> list[str]:
    """Press Tab until the focus is in a region; the regions on the way, each once.

    Raises:
        AssertionError: it does not come there, or cannot be seen on the way.
    """
    regions = list[str]()
    for _ in range(most):
        await tab.press("Tab")
        at = await tab.evaluate(_FOCUS)
        assert at["visible"], f"the focus cannot be seen: {at}"
        if not regions or regions[-1] != at["where"]:
            regions.append(at["where"])
        if at["where"] == stop:
            return regions
    raise AssertionError(f"Tab does not lead to {stop}: {regions}")


async def faults(browser: Tab, size: tuple[int, int]) -> list[str]:
    """What is wrong with the page that is open."""
    faint = [f"faint text {one}" for one in await faint_texts(browser)]
    wide = await overflow(browser, size[0])
    signs = await wordless_signs(browser)
    complaints = [one for one in browser.complaints if one != _NOT_THERE]
    return [
        *faint,
        *([f"{wide} pixels wider than the window"] if wide else []),
        *([f"{signs} signs without a word"] if signs else []),
        *complaints,
    ]


async def looked_at(
    browser: Tab, address: Callable[[str], str], paths: dict[str, str], pictures: Path
) -> dict[str, list[str]]:
    """Open pages in both schemes and at both sizes; what is wrong with each.

    Args:
        address: of a path, for a browser that has the cookie.
    """
    found = {}
    for name, path in paths.items():
        for size in (LAPTOP, PHONE):
            for scheme in Scheme:
                browser.complaints.clear()
                await browser.look(*size, scheme)
                await browser.open(address(path))
                title = f"{name}-{scheme}-{size[0]}"
                await browser.picture(pictures / f"{title}.png")
                if wrong := await faults(browser, size):
                    found[title] = wrong
    return found
