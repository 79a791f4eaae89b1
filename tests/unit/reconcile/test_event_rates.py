"""De-duplication, combination and rates of Kubernetes Events."""

import pytest

from controller_runtime import Event, EventType
from controller_runtime.reconcile.events import EventRates, bundles, combined


def event(message: str = "m", *, standing: bool = False, condition: str = "CacheReady") -> Event:
    return Event(EventType.WARNING, "CacheFailed", message, standing=standing, condition=condition)


@pytest.mark.spec("FW-125", "DI-356", "SV-P38", "FW-P17", "DI-P41")
def test_a_standing_error_is_repeated_every_five_minutes() -> None:
    rates = EventRates()
    assert rates.admit("u", event(), 0)
    assert rates.admit("u", event(standing=True), 299) is None
    assert rates.admit("u", event(standing=True), 300)
    assert rates.admit("u", event(standing=True), 301) is None
    assert rates.admit("u", event(condition="Ready"), 301)
    assert rates.admit("other", event(), 301)


@pytest.mark.spec("FW-125")
def test_a_restart_does_not_repeat_what_stands() -> None:
    restarted = EventRates()
    assert restarted.admit("u", event(standing=True), 10) is None
    assert restarted.admit("u", event(standing=True), 309) is None
    assert restarted.admit("u", event(standing=True), 310)


@pytest.mark.spec("FW-125")
def test_a_burst_and_then_one_per_five_minutes() -> None:
    rates = EventRates()
    assert sum(rates.admit("u", event(), 0) is not None for _ in range(40)) == 25
    assert rates.admit("u", event(), 299) is None
    assert rates.admit("u", event(), 300)
    assert rates.admit("u", event(), 301) is None


@pytest.mark.spec("FW-125")
def test_similar_events_are_combined_after_the_tenth() -> None:
    rates = EventRates()
    postings = [rates.admit("u", event(f"m{number}"), number) for number in range(12)]
    identities = [posting.identity for posting in postings if posting]
    assert len(set(identities[:10])) == 10
    assert identities[10] == identities[11] == ("Warning", "CacheFailed", "")
    assert postings[11]
    assert postings[11].message == "(combined from similar events): m11"
    late = rates.admit("u", event("new"), 5000)
    assert late
    assert late.message == "new"


@pytest.mark.spec("FW-413")
def test_messages_are_cut() -> None:
    posting = EventRates().admit("u", event("x" * 3000), 0)
    assert posting
    assert len(posting.message) == 1024


def transition(condition: str, reason: str, message: str = "m") -> Event:
    return Event(EventType.NORMAL, reason, message, condition=condition, status="True")


@pytest.mark.spec("FW-121")
def test_normal_transitions_of_one_pass_share_an_event() -> None:
    reported = Event(EventType.NORMAL, "TemplateNameConflict", "taken")
    together, *alone = bundles(
        [event(), transition("ModelReady", "ModelResolved"), reported, transition("A", "B", "c")]
    )
    assert alone == [(event(),), (reported,)]
    one = combined(together)
    assert (one.reason, one.message) == ("B", "c (ModelReady=True)")


@pytest.mark.spec("FW-121", "FW-474")
def test_warnings_of_one_pass_with_the_same_words_share_an_event_which_is_news_if_one_is() -> None:
    stands, new, other = event(standing=True), event(), event("another")
    assert bundles([stands, new, other]) == [(stands, new), (other,)]
    assert [combined(sharing) for sharing in bundles([stands, new, other])] == [new, other]


@pytest.mark.spec("FW-121", "FW-474")
def test_a_warning_that_is_summed_up_goes_out_once_with_the_reason_of_its_component() -> None:
    def warning(condition: str, reason: str, *, standing: bool = False) -> Event:
        return Event(EventType.WARNING, reason, "spec.image is no image", condition=condition, standing=standing)

    of_component = warning("ImageMetadataReady", "InvalidImageReference")
    summed = (warning("ConfigValid", "InvalidSpec"), of_component, warning("Ready", "InvalidSpec"))
    assert [combined(sharing) for sharing in bundles(summed)] == [of_component]
    stands = warning("ImageMetadataReady", "InvalidImageReference", standing=True)
    [one] = [combined(sharing) for sharing in bundles([stands, warning("Ready", "InvalidSpec")])]
    assert (one.reason, one.standing) == ("InvalidImageReference", False)
    [one] = [combined(sharing) for sharing in bundles(summed[::2])]
    assert one.reason == "InvalidSpec"
    reported = warning("", "InvalidQuota", standing=True)
    [one] = [combined(sharing) for sharing in bundles([summed[0], reported])]
    assert (one.reason, one.standing) == ("InvalidQuota", False)


@pytest.mark.spec("FW-121")
def test_the_reason_of_ready_stands_for_all() -> None:
    changes = (transition("Ready", "AllComponentsReady", "runs"), transition("CacheReady", "CacheReady"))
    assert (combined(changes).reason, combined(changes).message) == ("AllComponentsReady", "runs (CacheReady=True)")


@pytest.mark.spec("FW-121")
def test_a_single_transition_keeps_its_words() -> None:
    assert [combined(sharing) for sharing in bundles([transition("A", "B", "c")])] == [transition("A", "B", "c")]
    assert bundles([]) == []
