"""The colours of the console's pages. How pages come out with them is looked at in a browser (`tests/console`)."""

import re
from pathlib import Path

import pytest

from aim_console import app

_STYLE = (Path(app.__file__).parent / "static/console.css").read_text("utf-8")
_PALETTE = {name: shades for name, *shades in re.findall(r"--(\w+): light-dark\(#(\w{6}), #(\w{6})\);", _STYLE)}
_LEAST = 4.5


def luminance(colour: str) -> float:
    """The relative luminance of WCAG."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4))
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.spec("FW-643")
@pytest.mark.parametrize("shade", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(shade: int) -> None:
    assert contrast("000000", "ffffff") == pytest.approx(21)
    text = {name: shades[shade] for name, shades in _PALETTE.items() if f" color: var(--{name})" in _STYLE}
    assert {"text", "dim", "accent"} <= text.keys()
    ground = _PALETTE["ground"][shade]
    assert {name: colour for name, colour in text.items() if contrast(colour, ground) < _LEAST} == {}
