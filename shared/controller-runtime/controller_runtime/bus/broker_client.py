"""The client library of the message broker, with what has to be different inside it."""

import logging
from typing import Final

import nats.errors
from nats.aio.client import Client

from controller_runtime.bus.headers import parse_headers

_NO_TLS: Final = "the broker offers no TLS, which tls:// in --nats-url, or --nats-ca-file, asks for"
_END_OF_TLS: Final = "eof_received() has no effect when using ssl"
"""What asyncio says when a connection ends whose streams the client library has made for a plain one."""


def is_news(record: logging.LogRecord) -> bool:
    """Whether a line of asyncio's log is worth a line of ours; for a logger's filter (FW-713)."""
    return _END_OF_TLS not in record.getMessage()


class BrokerClient(Client):
    """The library's client, but for two things.

    Of headers it looks at each character of each name, every time. And where a broker offers no TLS it goes on in plain
    text, credentials first, whatever the URL says (FW-587).

    Args:
        needs_tls: a CA is named, so TLS is meant.
    """

    def __init__(self, *, needs_tls: bool) -> None:
        super().__init__()
        self._needs_tls = needs_tls

    def _connect_command(self) -> bytes:
        # The last moment before anything is sent; the greeting of the broker has been read.
        server = self._current_server
        scheme = "" if server is None else server.uri.scheme
        wanted = scheme == "tls" or (self._needs_tls and scheme != "wss")
        if wanted and not self._server_info.get("tls_required"):
            raise nats.errors.Error(_NO_TLS)
        return super()._connect_command()

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        return parse_headers(raw)
