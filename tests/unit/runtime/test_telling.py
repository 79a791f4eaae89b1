"""When a trouble is told: not for a moment, once in the log, again and again as an Event."""

import asyncio
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from controller_runtime.manager.causes import Cause
from controller_runtime.manager.settings import Settings
from controller_runtime.manager.trouble_events import TroubleReporter, own_pod
from controller_runtime.manager.troubles import Trouble
from controller_runtime.reconcile.child import Target
from controller_runtime.reconcile.plan import Event

AWAY = Trouble(Cause.BROKER_UNREACHABLE, "the broker is away")
DENIED = Trouble(Cause.PERMISSION, "may not list pods")


@dataclass
class Stage:
    """A teller whose clock, troubles and Kubernetes the test plays."""

    now: float = 0.0
    troubles: list[Trouble] = field(default_factory=list)
    posted: list[tuple[float, str, str]] = field(default_factory=list)
    answers: bool = True
    log: list[tuple[float, str]] = field(default_factory=list)
    uid: str = "u"

    def __post_init__(self) -> None:
        pod = own_pod(Settings(pod_name="p", pod_uid=self.uid, system_namespace="n"))
        self._reporter = TroubleReporter(lambda: self.troubles, self, "x", pod, lambda: self.now)

    async def post(self, target: Target, _source: str, event: Event) -> bool:
        self.posted.append((self.now, target.uid, event.reason))
        return self.answers

    def run(self, until: float) -> None:
        """Look every second up to that moment."""
        while self.now < until:
            with capture_logs() as lines:
                asyncio.run(self._reporter.look())
            self.log += [(self.now, str(line["event"])) for line in lines]
            self.now += 1


@pytest.mark.spec("FW-583")
def test_what_lasts_for_a_moment_is_not_reported() -> None:
    stage = Stage(troubles=[AWAY])
    stage.run(2)
    stage.troubles = []
    stage.run(20)
    assert (stage.log, stage.posted) == ([], [])


@pytest.mark.spec("FW-583", "FW-584")
def test_it_is_logged_once_and_posted_every_five_minutes_until_it_is_over() -> None:
    stage = Stage(troubles=[AWAY, DENIED])
    stage.run(605)
    assert stage.log == [(2, AWAY.line), (2, DENIED.line)]
    assert [at for at, _, reason in stage.posted if reason == DENIED.cause] == [2, 302, 602]
    stage.troubles = [AWAY]
    stage.run(620)
    assert stage.log[2:] == [(609, "no longer in the way")]


@pytest.mark.spec("FW-584")
def test_an_event_that_could_not_be_written_is_tried_again() -> None:
    stage = Stage(troubles=[DENIED], answers=False)
    stage.run(20)
    stage.answers = True
    stage.run(40)
    assert [at for at, _, _ in stage.posted] == [2, 12, 22]
    assert len(stage.log) == 1


@pytest.mark.spec("FW-583")
def test_brokers_that_fail_by_turns_in_their_own_ways_are_reported_once_each() -> None:
    stage, other = Stage(), Trouble(Cause.BROKER_CERTIFICATE, "not believed")
    for second in range(20):
        stage.troubles = [other] if second % 2 else [Trouble(AWAY.cause, f"attempt {second}")]
        stage.run(second + 1)
    assert len(stage.log) == 2
    assert {reason for _, _, reason in stage.posted} == {AWAY.cause, other.cause}


@pytest.mark.spec("FW-584")
def test_without_a_pod_only_the_log_is_reported() -> None:
    stage = Stage(troubles=[DENIED], uid="")
    stage.run(10)
    assert (len(stage.log), stage.posted) == (1, [])
