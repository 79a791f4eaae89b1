"""What a publisher keeps while the broker is away."""

import pytest

from aim_domain.parts import DISCOVERY_PODS
from controller_runtime import JsonObject, Key
from controller_runtime.kube.reflector_state import Delete, Restarted, Upsert
from controller_runtime.log.publish.intake import Intake
from controller_runtime.log.publish.source import published


def pod(name: str, rv: int) -> JsonObject:
    return {"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(rv)}}


def changed(name: str, rv: int) -> JsonObject:
    return pod(name, rv) | {"status": {"phase": ("Pending", "Running")[rv % 2]}}


@pytest.mark.parametrize(("connected", "held", "waiting"), [(False, False, 0), (False, True, 50), (True, False, 100)])
def test_objects_that_come_and_go_without_a_broker_take_no_room(*, connected: bool, held: bool, waiting: int) -> None:
    form = published(DISCOVERY_PODS)
    intake = Intake(DISCOVERY_PODS, lambda: connected, None, lambda _: held, room=0)
    intake.take(Restarted((), "1"))
    for number in range(50):
        intake.take(Upsert(form(pod(f"p{number}", 2 * number + 2)), str(2 * number + 2)))
        intake.take(Delete(pod(f"p{number}", 2 * number + 3), str(2 * number + 3)))
    assert len(intake.lanes) == waiting
    assert len(intake.continuity._expected) == (0 if waiting == 0 else 50)
    # Whoever compares next sees that versions are missing.
    assert bool(intake.lanes.dropped) is not connected
    intake.take(Upsert(form(pod("p0", 200)), "200"))
    newest = intake.lanes.newest_of(Key("ns", "p0"))
    assert newest is not None
    assert newest.resource_version == "200"


@pytest.mark.spec("FW-580", "FW-418")
def test_a_broker_that_is_away_for_a_moment_misses_no_version_and_one_that_stays_away_takes_no_memory() -> None:
    form = published(DISCOVERY_PODS)
    intake = Intake(DISCOVERY_PODS, lambda: False, None, room=10)
    intake.take(Restarted((), "1"))
    for number in range(2, 12):
        intake.take(Upsert(form(changed("p", number)), str(number)))
    intake.shorten()
    assert (len(intake.lanes), intake.lanes.dropped) == (10, 0)
    for number in range(12, 100):
        intake.take(Upsert(form(changed("p", number)), str(number)))
        assert len(intake.lanes) <= 10
    assert intake.lanes.take_gap(Key("ns", "p"))
    intake.take(Upsert(form(changed("q", 100)), "100"))
    intake.take(Upsert(form(changed("q", 101)), "101"))
    newest = {key.name: one.resource_version for key, one in intake.lanes.newest().items()}
    assert newest == {"p": "99", "q": "101"}


@pytest.mark.spec("FW-580")
def test_what_waited_when_the_broker_went_is_shortened_only_if_it_is_much() -> None:
    form = published(DISCOVERY_PODS)
    intake = Intake(DISCOVERY_PODS, lambda: True, None, room=10)
    intake.take(Restarted((), "1"))
    for number in range(2, 13):
        intake.take(Upsert(form(changed("p", number)), str(number)))
    intake.shorten()
    assert (len(intake.lanes), intake.lanes.dropped) == (1, 10)
