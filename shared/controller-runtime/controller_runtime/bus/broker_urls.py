"""URLs of brokers: which are none, and how they are shown without what is secret in them (FW-585, FW-587). Pure."""

import re
from typing import Final
from urllib.parse import urlsplit

_SCHEMES: Final = ("nats", "tls", "ws", "wss")
BROKER_URLS: Final = rf"^(({'|'.join(_SCHEMES)})://[^\s,/]+(\s*,\s*({'|'.join(_SCHEMES)})://[^\s,/]+)*)?$"
"""Pattern of a comma-separated list, for schemas."""
_CREDENTIALS: Final = re.compile(r"(^|://)[^/\s]*@")
"""To the last `@` before the path: a password may hold one, and one too much is hidden rather than one too few. At the
beginning also without a scheme, which somebody may have forgotten."""


def without_credentials(text: str) -> str:
    """The text with user, password and token masked in every URL of it."""
    return _CREDENTIALS.sub(r"\1***@", text)


def split_urls(text: str) -> tuple[str, ...]:
    """The URLs of a comma-separated list."""
    return tuple(url.strip() for url in text.split(",") if url.strip())


def checked_urls(text: str) -> str:
    """The same list.

    Raises:
        ValueError: one of them is no URL of a broker, or there is none.
    """
    urls = split_urls(text)
    if not urls:
        raise ValueError("expected at least one URL such as nats://host:4222")
    for url in urls:
        try:
            parts = urlsplit(url)
            fits = parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            fits = False
        if not fits:
            raise ValueError("expected URLs such as nats://host:4222, with nats, tls, ws or wss, separated by commas")
    return text
