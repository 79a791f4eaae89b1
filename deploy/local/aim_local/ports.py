"""Free ports on the loopback."""

import contextlib
import itertools
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
"""The loopback, where everything here listens."""
LOOPBACK: Final = "127.0.0.0/8,::1"
"""The same as networks."""
_LOWEST: Final = 12_000
"""What has a well-known number lies below, most of it far."""
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    [port] = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on at this moment, and that the system gives to nobody by itself.

    Between the choice and the use lie seconds in which the system gives ephemeral ports to every connection and every
    listener that asks for any. So these are taken from below, one after the other, beginning somewhere else in each
    process; only where the system leaves nothing there, they are ephemeral ones.
    """
    # Held together while choosing, so that all differ.
    with contextlib.ExitStack() as held:
        return [_bound(held.enter_context(socket.socket())) for _ in range(count)]


def _bound(one: socket.socket) -> int:
    for port in itertools.islice(_candidates, 1000):
        try:
            one.bind((HOST, port))
        except OSError:
            continue
        return port
    one.bind((HOST, 0))
    return int(one.getsockname()[1])


def candidates(lowest_ephemeral: int, beginning: float) -> Iterator[int]:
    """Every port below the ephemeral ones, again and again; none where there are hardly any.

    Args:
        beginning: where to begin, from 0 to 1.
    """
    ports = range(_LOWEST, lowest_ephemeral)
    if len(ports) < 1000:
        return
    first = int(len(ports) * beginning)
    yield from itertools.cycle([*ports[first:], *ports[:first]])


def _lowest_ephemeral() -> int:
    try:
        return int(_EPHEMERAL.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        # What IANA says, and what systems without this file do.
        return 49_152


_candidates: Final = candidates(_lowest_ephemeral(), random.random())
