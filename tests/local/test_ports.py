"""Which ports a part of the platform is told to listen on before it starts."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice

import pytest

from aim_local.ports import HOST, Blocks, blocks, free_port, free_ports


@contextmanager
def taken(found: list[range]) -> Iterator[Blocks]:
    mine = Blocks(found)
    try:
        yield mine
    finally:
        mine.release()


@pytest.fixture
def found() -> list[range]:
    """Three blocks without a claim, of one port each, below those that the system gives to connections of others."""
    return [range(port, port + 1) for port in free_ports(5) if is_free_for_datagrams(port)][:3]


def is_free_for_datagrams(port: int) -> bool:
    """Whether a claim can be made with it: the first port of a block of this process has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.bind((HOST, port))
        except OSError:
            return False
    return True


def test_a_port_is_chosen_where_the_system_gives_none_away_and_not_soon_again() -> None:
    ports = list(chain.from_iterable(blocks(32_768, 0.5)))
    assert max(ports) < 32_768
    assert min(ports) > 10_000
    assert len(set(ports)) == len(ports) > 20_000
    assert ports[0] != blocks(32_768, 0.25)[0][0], "another process begins elsewhere"


def test_where_all_ports_are_ephemeral_none_is_left_to_choose() -> None:
    assert blocks(1024, 0.5) == []
    assert blocks(12_500, 0.5) == []


def test_what_one_has_taken_no_other_is_given(found: list[range]) -> None:
    with taken(found[1:]) as former, taken(found) as later:
        assert set(islice(former.ports, 5)) == {*found[1], *found[2]}
        assert set(islice(later.ports, 5)) == {*found[0]}, "again and again"
        with taken(found) as last:
            assert list(last.ports) == [], "nothing is left"
    with taken(found) as after:
        assert set(islice(after.ports, 5)) == set(chain.from_iterable(found))


def test_a_taken_block_leaves_its_ports_to_who_listens(found: list[range]) -> None:
    with taken(found) as mine, socket.socket() as listener:
        listener.bind((HOST, next(mine.ports)))


@pytest.mark.parametrize("before", [0, 2])
def test_a_fork_is_given_other_ports_than_its_parent(before: int) -> None:
    mine = [free_port() for _ in range(before)]
    reading, telling = os.pipe()
    waiting, ending = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(telling, str(free_port()).encode())
            # What it has is its own for as long as it lives.
            os.close(ending)
            os.read(waiting, 1)
        finally:
            os._exit(0)
    os.close(telling)
    with os.fdopen(reading) as reported:
        theirs = int(reported.read(5))
    ahead = [free_port() for _ in range(200)]
    os.close(waiting)
    os.close(ending)
    os.waitpid(child, 0)
    assert theirs not in {*mine, *ahead}
