"""When a new epoch begins, and that it always sorts behind the old one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.epochs import E1, E2

from controller_runtime import dumps, loads
from controller_runtime.log.publish.checkpoint import Checkpoint, decode_checkpoint
from controller_runtime.log.publish.epoch import Reason, Sight, continued, reason_for_new, started
from controller_runtime.log.publish.judgement import Scope
from controller_runtime.log.wire.messages import EnvelopeError

CHECKPOINT = Checkpoint(
    "first", 3, "20260101T000000.000Z-00000a", "20260101T000000.000Z-00000a", "cluster", "100", "made", 50
)
CALM = Sight(
    checkpoint=CHECKPOINT,
    created="made",
    last_sequence=60,
    high_sequence=0,
    known_created="",
    cluster="cluster",
    version_fell=False,
    newest_stored_epoch="",
)


@pytest.mark.parametrize(
    ("sight", "reason"),
    [
        (CALM, None),
        (replace(CALM, checkpoint=None), Reason.FIRST),
        (replace(CALM, checkpoint=None, known_created="made"), Reason.CHECKPOINT_GONE),
        (replace(CALM, created="anew"), Reason.STREAM_REMADE),
        (replace(CALM, known_created="before"), Reason.STREAM_REMADE),
        (replace(CALM, checkpoint=None, known_created="before"), Reason.STREAM_REMADE),
        (replace(CALM, last_sequence=49), Reason.SEQUENCE_FELL),
        (replace(CALM, high_sequence=61), Reason.SEQUENCE_FELL),
        (replace(CALM, cluster="other"), Reason.CLUSTER_CHANGED),
        (replace(CALM, cluster=""), None),
        (replace(CALM, version_fell=True), Reason.VERSION_FELL),
    ],
)
def test_reasons(sight: Sight, reason: Reason | None) -> None:
    assert reason_for_new(sight) is reason


def test_the_newest_epoch_known_goes_on() -> None:
    assert continued(CALM, None) == Scope(CHECKPOINT.epoch, CHECKPOINT.comparable_since)
    # A publisher that died before its first checkpoint of an epoch had begun to use it.
    assert continued(replace(CALM, newest_stored_epoch="2027"), None).epoch == "2027"
    assert continued(CALM, Scope("2028", "2027")) == Scope("2028", "2027")


@pytest.mark.parametrize("reason", Reason)
def test_versions_compare_on_unless_the_cluster_changed(reason: Reason) -> None:
    scope = started(Scope(E2, E1), reason, datetime(2026, 1, 1, tzinfo=UTC), "00000b")
    lasting = reason not in {Reason.FIRST, Reason.CLUSTER_CHANGED, Reason.VERSION_FELL}
    assert scope.comparable_since == (E1 if lasting else scope.epoch)


@given(st.lists(st.integers(-5000, 5000), min_size=1, max_size=20), st.text("0123456789abcdef", min_size=6, max_size=6))
def test_epochs_sort_by_age_whatever_the_clock_does(steps: list[int], nonce: str) -> None:
    now, scope = datetime(2026, 1, 1, tzinfo=UTC), Scope("", "")
    for step in steps:
        now += timedelta(milliseconds=step)
        new = started(scope, Reason.VERSIONS_MISSED, now, nonce)
        assert new.epoch > scope.epoch
        scope = new


def test_a_checkpoint_comes_back() -> None:
    assert decode_checkpoint(CHECKPOINT.body()) == CHECKPOINT


@pytest.mark.spec("FW-415")
def test_the_checkpoint_of_a_release_that_proved_nothing_is_read_and_proves_nothing() -> None:
    former = loads(CHECKPOINT.body())
    del former["objects"], former["fold"]
    found = decode_checkpoint(dumps({**former, "later": "field"}))
    assert (found.epoch, found.proof) == (CHECKPOINT.epoch, None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"source": 1}',
        CHECKPOINT.body().replace(b'"number":3', b'"number":"3"'),
        replace(CHECKPOINT, epoch="zzzz").body(),
        replace(CHECKPOINT, comparable_since="").body(),
        replace(CHECKPOINT, resource_version="9" * 5000).body(),
    ],
)
@pytest.mark.spec("FW-486")
def test_what_is_no_checkpoint_is_an_error(body: bytes) -> None:
    with pytest.raises(EnvelopeError):
        decode_checkpoint(body)
