"""What is told about an object that has no plan, where no service writes such objects."""

from typing import Any

import pytest
from support.builders import make

from aim_domain.parts import KAIWO_CONFIGS, MODELS, NODES
from controller_runtime import Category, ClassifiedError, EventType, Plan, Reconciler
from controller_runtime.kinds import NODE
from controller_runtime.reconcile.worker import of_bug, of_undecodable
from controller_runtime.testing import NOW


def nothing(*_: object) -> Plan:
    return Plan()


@pytest.mark.spec("FW-542")
def test_of_what_no_service_writes_an_event_tells_it_alone() -> None:
    unreadable = ClassifiedError(Category.INVALID_SPEC, "InvalidSpec", "spec.a: no number")
    for part in (NODES, KAIWO_CONFIGS):
        reconciler: Reconciler[Any] = Reconciler("controller", part, nothing)
        raw = make(NODE, "one")
        for plan, reason in (
            (of_bug(reconciler, raw, ValueError("surprise"), NOW), "InternalError"),
            (of_undecodable(reconciler, raw, unreadable, NOW), "InvalidSpec"),
        ):
            [event] = plan.events
            assert plan == Plan(events=(event,))
            assert (event.type, event.reason, event.standing) == (EventType.WARNING, reason, True)
            assert "spec.a: no number" in event.message or "ValueError: surprise" in event.message
    assert of_bug(Reconciler("controller", MODELS, nothing), make(NODE, "one"), ValueError(), NOW).status is not None
