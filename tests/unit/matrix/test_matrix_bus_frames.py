"""The broker's byte stream is cut into messages wherever it is torn, and meddlers do to them what they say."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrix.bus_frames import Frame, Frames, Jumbling, Late, Lossy

STREAM = (
    b'INFO {"server_id":"A"}\r\n'
    b"PING\r\n"
    b"MSG aim.state.pods.ns.a 1 5\r\nhello\r\n"
    b"HMSG aim.sync.pods 2 _INBOX.x 12 18\r\nNATS/1.0\r\n\r\nPING\r\n\r\n"
    b"MSG _INBOX.y 3 0\r\n\r\n"
    b"+OK\r\n"
)
SUBJECTS = ["", "", "aim.state.pods.ns.a", "aim.sync.pods", "_INBOX.y", ""]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_frames_do_not_depend_on_how_the_stream_is_torn(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    frames = Frames()
    found = [frame for a, b in pairwise(places) for frame in frames.feed(STREAM[a:b])]
    assert [frame.subject for frame in found] == SUBJECTS
    assert b"".join(frame.raw for frame in found) == STREAM


MESSAGES = [Frame(str(number).encode(), "s") for number in range(100)]


def delivered(meddler: Lossy | Jumbling | Late) -> list[int]:
    out = [frame for message in MESSAGES for frame in meddler.take(message)]
    return [int(frame.raw) for frame in [*out, *meddler.idle()]]


@pytest.mark.parametrize(("probability", "least", "most"), [(0.0, 100, 100), (0.5, 30, 70), (1.0, 0, 0)])
def test_lossy_loses_its_share_and_keeps_the_order(probability: float, least: int, most: int) -> None:
    lossy = Lossy(random.Random(1), probability)
    found = delivered(lossy)
    assert least <= len(found) <= most
    assert found == sorted(found)
    assert lossy.struck == 100 - len(found)


def test_jumbling_loses_nothing_and_keeps_nothing_in_order() -> None:
    found = delivered(Jumbling(random.Random(1), share=0.5))
    assert set(found) == set(range(100))
    assert len(found) > 100
    assert found != sorted(found)


def test_jumbling_holds_nothing_for_longer_than_its_span() -> None:
    jumbling, waiting = Jumbling(random.Random(3), share=0.3, span=5), set()
    for number, message in enumerate(MESSAGES):
        waiting.add(number)
        waiting -= {int(frame.raw) for frame in jumbling.take(message)}
        assert all(number - one <= 5 for one in waiting)


def test_late_keeps_the_order_and_is_that_many_behind() -> None:
    late = Late(behind=7)
    first = [frame for message in MESSAGES[:10] for frame in late.take(message)]
    assert [int(frame.raw) for frame in first] == [0, 1, 2]
    assert delivered(Late(behind=7)) == list(range(100))
