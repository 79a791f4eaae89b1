"""Which snapshot of a part may go into the cache."""

from datetime import UTC, datetime

from support.cache_objects import entry_of, widget, widgets

from controller_runtime.log.cache.projection import Belief, PartView
from controller_runtime.log.publish.checkpoint import Account, Checkpoint

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def checkpoint_of(account: Account) -> Checkpoint:
    proof = account.proof
    return Checkpoint("p", 1, "e1", "e1", "c", "100", "made", 0, proof.objects, proof.fold)


def believed() -> tuple[PartView, Checkpoint]:
    """A part whose content a checkpoint agreed with."""
    view, part = PartView(widgets()), widgets()
    view.begin_stage()
    view.follow(entry_of(part, widget("a"), 1))
    assert view.stage is not None
    checkpoint = checkpoint_of(view.stage.account)
    assert view.judge(checkpoint, 2, caught_up=True) is Belief.AGREES
    view.believe(checkpoint, NOW)
    view.stage.complete = True
    return view, checkpoint


def test_a_complete_snapshot_that_a_checkpoint_agreed_with_may_go_in() -> None:
    view, _ = believed()
    assert view.swappable
    view.swap()
    assert not view.swappable


def test_a_checkpoint_of_the_content_before_says_nothing_of_the_next_snapshot() -> None:
    view, checkpoint = believed()
    view.swap()
    view.believe(checkpoint, NOW)
    view.begin_stage()
    assert view.stage is not None
    view.stage.complete = True
    assert view.marked_at == NOW
    assert not view.swappable, "nothing was told yet, and a marker knows of an object"
    view.follow(entry_of(view.part, widget("a"), 1))
    view.believe(checkpoint, NOW)
    assert view.swappable


def test_a_doubt_ends_the_belief_in_a_snapshot() -> None:
    view, _ = believed()
    view.mark_stale()
    assert not view.swappable


def test_a_snapshot_that_is_not_complete_stays_out() -> None:
    view, _ = believed()
    assert view.stage is not None
    view.stage.complete = False
    assert not view.swappable
