"""Fields that another manager keeps overwriting: each answer comes later than the one before."""

from datetime import UTC, datetime

import pytest

from controller_runtime import JsonObject, Key
from controller_runtime.reconcile.child import FieldPath, differing
from controller_runtime.reconcile.fights import (
    EXISTENCE,
    FIRST_WAIT,
    LONGEST_WAIT,
    WINDOW,
    Contest,
    Fights,
    field_text,
    message_of,
    other_manager,
    with_contests,
    yielding,
)

OWNER = "uid-1"
CHILD = ("HTTPRoute", Key("demo", "chat"))
TIMEOUT: FieldPath = ("spec", "rules", 0, "timeouts", "request")
OTHER: FieldPath = ("spec", "hostnames")


class Side:
    """Our side of a fight, with a clock that the test moves."""

    def __init__(self) -> None:
        self.fights = Fights()
        self.now = 1000.0

    def look(self, *paths: FieldPath, wanted: bytes = b"1") -> tuple[set[FieldPath], set[FieldPath]]:
        """A pass that finds these fields different; what it applies, and what it holds."""
        verdict = self.fights.judge(OWNER, CHILD, dict.fromkeys(paths, wanted), self.now)
        self.fights.applied(OWNER, CHILD, verdict.fields, self.now)
        return set(verdict.fields), set(verdict.held)

    def answer(self, path: FieldPath) -> float:
        """The other side overwrites the field; seconds until it is applied again."""
        began = self.now
        while path not in self.look(path)[0]:
            due = self.fights.due(OWNER, self.now)
            assert due is not None
            self.now += due
        return self.now - began


@pytest.mark.spec("FW-812")
def test_the_third_overwrite_within_a_minute_is_answered_later_and_each_further_one_later_still() -> None:
    side = Side()
    waits = []
    for _ in range(14):
        side.now += 1
        waits.append(side.answer(TIMEOUT))
    assert waits[:2] == [0.0, 0.0]
    assert waits[2:6] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT, 8 * FIRST_WAIT]
    assert waits[-1] == LONGEST_WAIT
    assert waits == sorted(waits)


@pytest.mark.spec("FW-812")
def test_a_pass_that_looks_while_it_waits_counts_nothing() -> None:
    side = Side()
    for _ in range(3):
        side.look(TIMEOUT)
    before = side.fights.due(OWNER, side.now)
    for _ in range(20):
        assert side.look(TIMEOUT) == (set(), {TIMEOUT})
    assert side.fights.due(OWNER, side.now) == before == FIRST_WAIT


@pytest.mark.spec("FW-812")
def test_overwrites_that_are_far_apart_are_answered_at_once() -> None:
    side = Side()
    for _ in range(10):
        side.now += WINDOW / 2 + 1
        assert side.answer(TIMEOUT) == 0.0


@pytest.mark.spec("FW-812")
def test_an_apply_that_failed_is_no_overwrite() -> None:
    side = Side()
    for _ in range(10):
        verdict = side.fights.judge(OWNER, CHILD, {TIMEOUT: b"1"}, side.now)
        assert verdict.fields == {TIMEOUT}


@pytest.mark.spec("FW-813")
def test_another_field_another_child_and_another_wish_are_not_delayed() -> None:
    side = Side()
    for _ in range(3):
        side.look(TIMEOUT)
    assert side.look(TIMEOUT, OTHER) == ({OTHER}, {TIMEOUT})
    elsewhere = side.fights.judge(OWNER, ("HTTPRoute", Key("demo", "other")), {TIMEOUT: b"1"}, side.now)
    assert elsewhere.fields == {TIMEOUT}
    assert side.look(TIMEOUT, wanted=b"2") == ({TIMEOUT}, set()), "the user has changed the owner"


@pytest.mark.spec("FW-815")
def test_a_field_that_holds_for_a_minute_is_forgotten() -> None:
    side = Side()
    for _ in range(3):
        side.answer(TIMEOUT)
    assert [one.fields for one in side.fights.contests(OWNER, side.now)] == [(TIMEOUT,)]
    due = side.fights.due(OWNER, side.now)
    assert due == WINDOW
    side.now += WINDOW
    assert side.look() == (set(), set())
    assert side.fights.contests(OWNER, side.now) == []
    assert side.fights.due(OWNER, side.now) is None
    assert side.answer(TIMEOUT) == 0.0


@pytest.mark.spec("FW-815")
def test_the_other_side_that_gives_in_ends_it_too() -> None:
    side = Side()
    for _ in range(3):
        side.look(TIMEOUT)
    assert side.look() == (set(), set())
    assert side.fights.due(OWNER, side.now) == WINDOW
    side.now += WINDOW
    side.look()
    assert side.fights.contests(OWNER, side.now) == []


@pytest.mark.spec("FW-812")
def test_a_child_that_is_deleted_again_and_again_is_created_later_each_time() -> None:
    side = Side()
    assert [side.answer(EXISTENCE) for _ in range(5)] == [0.0, 0.0, FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT]
    side.fights.deleted(OWNER, CHILD)
    assert side.answer(EXISTENCE) == 0.0, "we deleted it ourselves"


@pytest.mark.spec("FW-815")
def test_nothing_is_remembered_of_an_owner_that_is_gone() -> None:
    side = Side()
    for _ in range(3):
        side.look(TIMEOUT)
    side.fights.forget(OWNER)
    assert side.fights.contests(OWNER, side.now) == []
    assert side.look(TIMEOUT) == ({TIMEOUT}, set())


LIVE: JsonObject = {
    "metadata": {
        "managedFields": [
            {"manager": "aim-routing", "operation": "Apply", "time": "3", "fieldsV1": {"f:spec": {"f:hostnames": {}}}},
            {
                "manager": "kubectl-edit",
                "operation": "Update",
                "time": "2",
                "fieldsV1": {
                    "f:spec": {
                        "f:rules": {},
                        "f:ports": {'k:{"name":"web","port":80}': {".": {}, "f:nodePort": {}}},
                        "f:finalizers": {'v:"a"': {}},
                    }
                },
            },
            {
                "manager": "kserve",
                "operation": "Update",
                "subresource": "status",
                "time": "9",
                "fieldsV1": {"f:spec": {}},
            },
            {"manager": "older", "operation": "Update", "time": "1", "fieldsV1": {"f:spec": {"f:rules": {}}}},
        ]
    },
    "spec": {
        "rules": [{"timeouts": {"request": "1s"}}],
        "ports": [{"name": "dns", "port": 53}, {"name": "web", "port": 80, "nodePort": 3}],
        "finalizers": ["a"],
    },
}


@pytest.mark.spec("FW-814")
@pytest.mark.parametrize(
    ("path", "manager"),
    [
        (TIMEOUT, "kubectl-edit"),
        (("spec", "ports", 1, "nodePort"), "kubectl-edit"),
        (("spec", "ports", 0, "nodePort"), ""),
        (("spec", "finalizers", 0), "kubectl-edit"),
        (("spec", "hostnames"), ""),
        (("spec", "absent", "deep"), ""),
    ],
)
def test_managed_fields_name_the_other_manager(path: FieldPath, manager: str) -> None:
    assert other_manager(LIVE, path, "aim-routing") == manager


@pytest.mark.spec("FW-813")
def test_what_is_sent_meanwhile_leaves_the_contested_fields_to_the_other_side() -> None:
    body: JsonObject = {
        "metadata": {"name": "chat"},
        "spec": {"rules": [{"timeouts": {"request": "5s"}, "name": "r"}], "hostnames": ["a"], "gone": 1},
    }
    sent = yielding(body, LIVE, [TIMEOUT, ("spec", "gone")])
    assert sent["spec"] == {"rules": [{"timeouts": {"request": "1s"}, "name": "r"}], "hostnames": ["a"]}
    assert body["spec"]["rules"][0]["timeouts"]["request"] == "5s"
    assert dict(differing({**sent, "spec": body["spec"]}, {"metadata": {"name": "chat"}, "spec": sent["spec"]})) == {
        TIMEOUT: "5s",
        ("spec", "gone"): 1,
    }


@pytest.mark.spec("FW-814")
def test_one_condition_and_one_event_name_manager_field_and_remedy() -> None:
    contests = [Contest("HTTPRoute demo/chat", "kubectl-edit", (TIMEOUT,))]
    message = message_of(contests, "aim-routing", "kubectl annotate -n demo aimservices chat paused=true")
    assert message == (
        "HTTPRoute demo/chat contested: field manager 'kubectl-edit' overwrites spec.rules[0].timeouts.request, "
        "which aim-routing sets; configure that client to leave the child alone, or pause this object: "
        "kubectl annotate -n demo aimservices chat paused=true"
    )
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def tell(stored: list[JsonObject]) -> tuple[JsonObject, bool]:
        status, event = with_contests(
            {"conditions": [{"type": "Ready"}]},
            contests,
            type_="Reconciled",
            stored=stored,
            generation=3,
            message=message,
            now=now,
        )
        assert status is not None
        return status["conditions"][-1], event is not None

    reported, first = tell([])
    assert first
    assert (reported["type"], reported["status"], reported["reason"]) == ("Reconciled", "False", "FieldConflict")
    before = {**reported, "lastTransitionTime": "2025-01-01T00:00:00Z"}
    again, second = tell([before])
    assert (again, second) == (before, False)


def test_fields_are_written_as_kubernetes_writes_them() -> None:
    assert field_text(TIMEOUT) == "spec.rules[0].timeouts.request"
    assert field_text(("metadata", "annotations", "a.b/c")) == 'metadata.annotations["a.b/c"]'


@pytest.mark.spec("FW-812", "FW-815")
def test_what_is_applied_no_more_is_forgotten_and_asks_for_no_pass() -> None:
    side = Side()
    for _ in range(4):
        side.now += 1
        side.answer(TIMEOUT)
    side.look(TIMEOUT)
    side.fights.keep(OWNER, [CHILD])
    assert side.fights.contests(OWNER, side.now) != []
    side.fights.keep(OWNER, [])
    assert (side.fights.contests(OWNER, side.now), side.fights.due(OWNER, side.now)) == ([], None)


@pytest.mark.spec("FW-812")
def test_a_turn_that_passed_without_an_apply_asks_for_no_pass_again_and_again() -> None:
    side = Side()
    for _ in range(4):
        side.now += 1
        side.answer(TIMEOUT)
    side.look(TIMEOUT)
    side.now += LONGEST_WAIT
    assert side.fights.due(OWNER, side.now) is None, "a write before it fails, and has a time of its own"
