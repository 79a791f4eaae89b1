"""Free ports on the loopback."""

import contextlib
import itertools
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

HOST: Final = "127.0.0.1"
"""The loopback, where everything here listens."""
LOOPBACK: Final = "127.0.0.0/8,::1"
"""The same as networks."""
_LOWEST: Final = 12_000
"""What has a well-known number lies below, most of it far."""
_BLOCK: Final = 64
"""Ports that a process takes for itself at once."""
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port without a listener at this moment."""
    [port] = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Different ports without a listener at this moment, reserved for the caller.

    Between the choice and the use lie seconds in which the system gives ephemeral ports to every connection and every
    listener that asks for any. So these are taken from below, one after the other, in blocks that each process has for
    itself; only where the system leaves nothing there, they are ephemeral ones.
    """
    # Held together while choosing, so that all differ.
    with contextlib.ExitStack() as held:
        return [_bound(held.enter_context(socket.socket())) for _ in range(count)]


def _bound(one: socket.socket) -> int:
    for port in itertools.islice(_mine.ports, 1000):
        try:
            one.bind((HOST, port))
        except OSError:
            continue
        return port
    one.bind((HOST, 0))
    return int(one.getsockname()[1])


def blocks(lowest_ephemeral: int, beginning: float) -> list[range]:
    """All ports below the ephemeral ones, in blocks; none where there are hardly any.

    Args:
        beginning: where to begin, from 0 to 1.
    """
    found = [range(port, port + _BLOCK) for port in range(_LOWEST, lowest_ephemeral - _BLOCK, _BLOCK)]
    if len(found) * _BLOCK < 1000:
        return []
    first = int(len(found) * beginning)
    return [*found[first:], *found[:first]]


@final
class Blocks:
    """Blocks of ports of one process.

    The first port of each is bound for datagrams as long as the process lives, which keeps other processes from taking
    the block and disturbs no program that listens on that port for connections.

    Attributes:
        ports: those of its blocks, again and again; ends where all belong to other programs.
    """

    def __init__(self, found: list[range]) -> None:
        self.ports = self._ports(found)
        self._claims: dict[int, socket.socket] = {}

    def release(self) -> None:
        """Leave them to others."""
        for claim in self._claims.values():
            claim.close()
        self._claims.clear()

    def _ports(self, found: list[range]) -> Iterator[int]:
        while True:
            mine = 0
            for block in found:
                if self._is_mine(block):
                    mine += 1
                    yield from block
            if not mine:
                return

    def _is_mine(self, block: range) -> bool:
        if block.start in self._claims:
            return True
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            claim.bind((HOST, block.start))
        except OSError:
            claim.close()
            return False
        self._claims[block.start] = claim
        return True


def _lowest_ephemeral() -> int:
    try:
        return int(_EPHEMERAL.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        # What IANA says, and what systems without this file do.
        return 49_152


def _begin() -> None:
    global _mine  # noqa: PLW0603
    _mine = Blocks(blocks(_lowest_ephemeral(), random.SystemRandom().random()))


_mine: Blocks
_begin()
# A fork would go on where its parent is.
os.register_at_fork(after_in_child=_begin)
