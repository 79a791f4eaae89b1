"""When a publisher may rely on what it has seen of the history."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controller_runtime.log.broker.reading import StreamState
from controller_runtime.log.publish.checkpoint import NEVER_READ, HistoryRange, Place

SEEN = HistoryRange(created="c", first=40, deleted=2, oldest=50, last=90, id="x")
NOW = StreamState(created="c", last_sequence=90, now=datetime(2026, 1, 1, tzinfo=UTC), first_sequence=40, deleted=2)


@pytest.mark.spec("FW-489")
def test_it_counts_while_nothing_can_have_been_lost() -> None:
    assert SEEN.counts(NOW)
    assert SEEN.counts(replace(NOW, last_sequence=500)), "what was logged since"
    assert SEEN.counts(replace(NOW, first_sequence=50, deleted=0)), "what is too old went, and the gaps with it"
    later = SEEN.upto(Place(500, "y"))
    assert later.counts(replace(NOW, last_sequence=500))
    assert not later.counts(replace(NOW, last_sequence=499)), "an older copy than was seen at last"


@pytest.mark.spec("FW-489")
@pytest.mark.parametrize(
    "history",
    [
        replace(NOW, created="another"),
        replace(NOW, deleted=3),
        replace(NOW, first_sequence=45),
        replace(NOW, first_sequence=51, deleted=0),
        replace(NOW, last_sequence=89),
    ],
    ids=[
        "another stream",
        "something was removed",
        "as many gaps, but perhaps others",
        "the oldest has gone",
        "an older copy",
    ],
)
def test_it_does_not_count_where_something_may_be_missing(history: StreamState) -> None:
    assert not SEEN.counts(history)


@pytest.mark.spec("FW-489")
def test_nothing_counts_before_the_first_reading() -> None:
    assert not NEVER_READ.counts(replace(NOW, created="", deleted=0, first_sequence=0))
    assert not NEVER_READ.counts(NOW)


@pytest.mark.spec("FW-489")
def test_of_two_places_the_later_one_counts() -> None:
    assert max(Place(9, "z"), Place(10, "a"), Place()) == Place(10, "a")
