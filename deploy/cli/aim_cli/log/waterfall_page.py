"""The same bars as a page without scripts that needs no network, light or dark as the reader has it (FW-650)."""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Final

from aim_cli.answer import plain
from aim_cli.log.waterfall import Bar

_STYLE: Final = """
:root { color-scheme: light dark; --line: #2563eb; --dim: #64748b; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .2rem .6rem; white-space: nowrap; font-weight: normal; }
td.bar { width: 60%; }
tr:nth-child(even) { background: color-mix(in srgb, currentColor 5%, transparent); }
.track { position: relative; height: 1rem; }
.span { position: absolute; top: .3rem; height: .4rem; background: var(--line); border-radius: .2rem; min-width: 2px; }
.open { background: repeating-linear-gradient(90deg, var(--line) 0 6px, transparent 6px 10px); }
.write { position: absolute; top: .1rem; height: .8rem; width: 2px; background: currentColor; }
.dim { color: var(--dim); }
"""


def page_of(title: str, bars: Sequence[Bar]) -> str:
    """The page; what users named is shown as text, whatever it holds."""
    begun = min(bar.begun for bar in bars)
    span = max((moment - begun).total_seconds() for bar in bars for moment in bar.moments) or 0.001
    rows = "\n".join(_row(bar, begun, span, indented=number > 0) for number, bar in enumerate(bars))
    name = escape(plain(title))
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{name}</title>
<style>{_STYLE}</style>
<h1>{name}</h1>
<p class="dim">From {begun:%Y-%m-%d %H:%M:%S} UTC, {span:.2f} s. A bar goes from creation until the object was ready for
the first time; dashed while it is not. A stroke is a decision that wrote something.</p>
<table>
<tr><th>object<th>state<th>ready after<th>
{rows}
</table>
</html>
"""


def _row(bar: Bar, begun: datetime, span: float, *, indented: bool) -> str:
    def share(moment: datetime) -> float:
        return max(0.0, min(100.0, 100 * (moment - begun).total_seconds() / span))

    left = share(bar.begun)
    right = 100.0 if bar.ready is None else share(bar.ready)
    kind = "span open" if bar.ready is None else "span"
    strokes = "".join(f'<i class="write" style="left:{share(write):.2f}%"></i>' for write in bar.writes)
    name = escape(plain(f"{bar.kind} {bar.key}"))
    after = "" if bar.ready is None else f"{(bar.ready - begun).total_seconds():.2f} s"
    indent = ' style="padding-left:2rem"' if indented else ""
    return (
        f"<tr><td{indent}>{name}<td>{escape(plain(bar.state))}<td>{after}"
        f'<td class="bar"><div class="track"><i class="{kind}" style="left:{left:.2f}%;width:{right - left:.2f}%"></i>'
        f"{strokes}</div>"
    )
