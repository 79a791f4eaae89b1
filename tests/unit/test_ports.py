"""Which ports a part of the platform is told to listen on before it starts."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Final

import pytest

from aim_local.ports import HOST, Blocks, blocks, free_port


@contextmanager
def taken(found: list[range]) -> Iterator[Blocks]:
    mine = Blocks(found)
    try:
        yield mine
    finally:
        mine.release()


OTHERS: Final = [range(first, first + 10) for first in (11_000, 11_010, 11_020)]
"""Below those that anybody is given."""


def test_a_port_is_chosen_where_the_system_gives_none_away_and_not_soon_again() -> None:
    ports = list(chain.from_iterable(blocks(32_768, 0.5)))
    assert max(ports) < 32_768
    assert min(ports) > 10_000
    assert len(set(ports)) == len(ports) > 20_000
    assert ports[0] != blocks(32_768, 0.25)[0][0], "another process begins elsewhere"


def test_where_all_ports_are_ephemeral_none_is_left_to_choose() -> None:
    assert blocks(1024, 0.5) == []
    assert blocks(12_500, 0.5) == []


def test_what_one_has_taken_no_other_is_given() -> None:
    found = OTHERS
    with taken(found[1:]) as former, taken(found) as later:
        theirs = set(islice(former.ports, len(found[1]) + 1))
        assert theirs == {*found[1], found[2].start}
        assert set(islice(later.ports, 1000)) == set(found[0]), "again and again"
        with taken(found) as last:
            assert list(last.ports) == [], "nothing is left"
    with taken(found) as after:
        assert set(islice(after.ports, 1000)) == set(chain.from_iterable(found))


def test_a_taken_block_leaves_its_ports_to_who_listens() -> None:
    with taken(OTHERS) as mine, socket.socket() as listener:
        listener.bind((HOST, next(mine.ports)))


@pytest.mark.parametrize("before", [0, 2])
def test_a_fork_is_given_other_ports_than_its_parent(before: int) -> None:
    mine = [free_port() for _ in range(before)]
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, str(free_port()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        theirs = int(told.read())
    os.waitpid(child, 0)
    ahead = [free_port() for _ in range(200)]
    assert theirs not in {*mine, *ahead}
