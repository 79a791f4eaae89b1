"""Response headers with rules of their own: announced waits and pagination links."""

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from yarl import URL

from controller_runtime import bounded

_LINK: Final = re.compile(r"<([^<>]*)>([^<]*)")
_REL_NEXT: Final = re.compile(r""";\s*rel\s*=\s*"?next"?(?:\s|;|,|$)""", re.IGNORECASE)


def announced_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the server wants to be left alone, from the first usable source of MS-152; None if it says nothing.

    At most `LONGEST_ANNOUNCED`, whatever it says.

    Args:
        headers: response headers, looked up case-insensitively by the mapping.
        now: Unix time in seconds.
    """
    retry_after = headers.get("Retry-After", "").strip()
    if retry_after.isascii() and retry_after.isdigit():
        return bounded(float(retry_after))
    moments = (_http_date(retry_after), *(_unix_time(headers.get(name, "")) for name in _RESET_HEADERS))
    return next((bounded(moment - now) for moment in moments if moment is not None), None)


def next_page(links: list[str], current: URL) -> URL | None:
    """Absolute URL of `rel="next"` of the `Link` headers, or None on the last page (MS-116)."""
    for header in links:
        for target, parameters in _LINK.findall(header):
            if _REL_NEXT.search(parameters):
                return current.join(URL(target, encoded=True))
    return None


_RESET_HEADERS: Final = ("X-Retry-After", "X-RateLimit-Reset")


def _http_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _unix_time(text: str) -> float | None:
    try:
        moment = float(text)
    except ValueError:
        return None
    return moment if math.isfinite(moment) else None
