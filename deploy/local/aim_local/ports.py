"""Free ports on the loopback."""

import contextlib
import socket
from typing import Final

HOST: Final = "127.0.0.1"
"""The loopback, where everything here listens."""


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    [port] = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on at this moment."""
    # Held together while choosing, so that all differ.
    with contextlib.ExitStack() as held:
        return [_bound(held.enter_context(socket.socket())) for _ in range(count)]


def _bound(one: socket.socket) -> int:
    one.bind((HOST, 0))
    return int(one.getsockname()[1])
