"""When a publisher may rely on what it has seen of the history."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controller_runtime.bus.logbook import NEVER_READ, Logbook
from controller_runtime.bus.stored import StreamState

SEEN = Logbook(session=1, created="c", deleted=2, oldest=50, last=90)
NOW = StreamState(created="c", last_sequence=90, now=datetime(2026, 1, 1, tzinfo=UTC), first_sequence=50, deleted=2)


@pytest.mark.spec("FW-489")
def test_it_counts_while_nothing_can_have_been_lost() -> None:
    assert SEEN.counts(1, NOW)
    later = replace(NOW, last_sequence=500)
    assert SEEN.counts(1, later), "what was logged since"
    assert not SEEN.at(later).counts(1, replace(NOW, last_sequence=499)), "an older copy than was seen at last"


@pytest.mark.spec("FW-489")
@pytest.mark.parametrize(
    ("session", "history"),
    [
        (2, NOW),
        (1, replace(NOW, created="another")),
        (1, replace(NOW, deleted=3)),
        (1, replace(NOW, first_sequence=51)),
        (1, replace(NOW, last_sequence=89)),
    ],
    ids=["another connection", "another stream", "something was removed", "the oldest has gone", "an older copy"],
)
def test_it_does_not_count_where_something_may_be_missing(session: int, history: StreamState) -> None:
    assert not SEEN.counts(session, history)


@pytest.mark.spec("FW-489")
def test_nothing_counts_before_the_first_reading() -> None:
    assert not NEVER_READ.counts(0, replace(NOW, created="", deleted=0, first_sequence=1))
    assert not NEVER_READ.counts(1, NOW)
