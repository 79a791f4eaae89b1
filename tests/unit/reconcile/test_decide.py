"""What every pass has in common: finalizers, pause, deletion; and the plan as JSON."""

from contextlib import nullcontext
from datetime import datetime
from typing import Any

import pytest
from support.builders import make
from support.deciding import decide

from aim_domain import AIMService, kinds, labels
from controller_runtime import (
    Category,
    Child,
    ClassifiedError,
    Delete,
    Effect,
    Event,
    EventType,
    Lookup,
    Part,
    Plan,
    Reconciler,
    View,
    canonical,
    namespace_terminating,
)
from controller_runtime.core import Namespace
from controller_runtime.reconcile.decide import Decision, Interceptor, Proceed
from controller_runtime.reconcile.plan import NOTHING
from controller_runtime.reconcile.record import is_nothing, plan_to_json
from controller_runtime.testing import NOW, cache_of

SERVICES = Part("aimservices", kinds.AIM_SERVICE)
CONFIG_MAPS = Part("configmaps", kinds.CONFIG_MAP)
REGULAR = Plan(status={"status": "Running"})
FINALIZER = labels.FINALIZER_SERVICE
STALE = Delete(SERVICES, "ml", "cache", "u", "unused")


def plan_of(clean_up: Plan | None = None, *, finalizer: str | None = FINALIZER, **metadata: Any) -> Plan:
    cache = cache_of([SERVICES], make(kinds.AIM_SERVICE, "chat", **metadata))

    def finalize(_obj: AIMService, _view: View, _now: datetime) -> Plan | None:
        return clean_up

    reconciler = Reconciler(
        "service", SERVICES, lambda _obj, _view, _now: REGULAR, finalizer=finalizer, finalize=finalize
    )
    return decide(reconciler, cache.object(SERVICES, "ml", "chat"), cache.view(), NOW)


@pytest.mark.spec("FW-181", "FW-190", "FW-411", "FW-P13")
def test_the_finalizer_comes_first_and_ends_the_pass() -> None:
    plan = plan_of(finalizers=["other"])
    [patch] = plan.patches
    assert patch.body == {"metadata": {"finalizers": ["other", FINALIZER]}}
    assert patch.resource_version
    assert (plan.status, plan.requeue_after) == (None, 0.0)


@pytest.mark.spec("FW-001")
def test_a_regular_pass() -> None:
    assert plan_of(finalizers=[FINALIZER]) is REGULAR
    assert plan_of(finalizer=None) is REGULAR


class Watching(Interceptor):
    """Notes what it sees of a decision, in a list that several share."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self._name, self._seen = name, seen

    def decide(self, decision: Decision[Any], proceed: Proceed) -> Plan:
        self._seen.append(f"{self._name} before")
        try:
            return proceed(decision)
        finally:
            read = [str(key) for _, key in decision.reads.objects]
            self._seen.append(f"{self._name} after {read}")


@pytest.mark.spec("FW-504")
@pytest.mark.parametrize("deleting", [None, NOW], ids=["reconcile", "finalize"])
@pytest.mark.parametrize("raises", [False, True], ids=["plan", "exception"])
def test_whatever_is_decided_interceptors_see_it(deleting: datetime | None, *, raises: bool) -> None:
    cache = cache_of([SERVICES], make(kinds.AIM_SERVICE, "chat", finalizers=[FINALIZER], deleting=deleting))

    def look(_obj: AIMService, view: View, _now: datetime) -> Plan:
        view.get(SERVICES, "ml", "other")
        if raises:
            raise RuntimeError("a bug")
        return REGULAR

    reconciler = Reconciler("service", SERVICES, look, finalizer=FINALIZER, finalize=look)
    seen: list[str] = []
    with pytest.raises(RuntimeError) if raises else nullcontext():
        obj = cache.object(SERVICES, "ml", "chat")
        decide(reconciler, obj, cache.view(), NOW, Watching("outer", seen), Watching("inner", seen))
    assert seen == ["outer before", "inner before", "inner after ['ml/other']", "outer after ['ml/other']"]


@pytest.mark.spec("FW-002", "DI-008", "FW-S18")
@pytest.mark.parametrize(("value", "paused"), [("true", True), ("True", False), ("false", False), ("", False)])
def test_pause(value: str, paused: bool) -> None:
    plan = plan_of(finalizers=[FINALIZER], annotations={labels.ANNOTATION_PAUSED: value})
    assert plan is (NOTHING if paused else REGULAR)


@pytest.mark.spec("FW-003", "FW-182")
def test_a_paused_object_gets_its_finalizer_and_can_be_deleted() -> None:
    paused = {labels.ANNOTATION_PAUSED: "true"}
    assert plan_of(annotations=paused).patches
    deleted = plan_of(Plan(deletes=(STALE,)), annotations=paused, finalizers=[FINALIZER], deleting=NOW)
    assert deleted.deletes == (STALE,)


@pytest.mark.spec("FW-182", "FW-184")
def test_a_deletion_runs_the_clean_up_only() -> None:
    child = Child(CONFIG_MAPS, make(kinds.CONFIG_MAP, "c"))
    rest: dict[str, Any] = {
        "deletes": (STALE,),
        "requeue_after": 5.0,
        "retry": ClassifiedError(Category.AUTH, "Denied", "no"),
    }
    wanted = Plan(children=(child,), status={"status": "Failed"}, **rest)
    assert plan_of(wanted, finalizers=[FINALIZER], deleting=NOW) == Plan(**rest)


@pytest.mark.spec("FW-190", "FW-188", "SV-238")
def test_after_the_clean_up_the_finalizer_goes() -> None:
    [patch] = plan_of(None, finalizers=["other", FINALIZER], deleting=NOW).patches
    assert patch.body == {"metadata": {"finalizers": ["other"]}}
    [last] = plan_of(None, finalizers=[FINALIZER], deleting=NOW).patches
    assert last.body == {"metadata": {"finalizers": None}}
    assert plan_of(None, finalizers=["other"], deleting=NOW) is NOTHING


@pytest.mark.spec("FW-184", "FW-185", "FW-S52")
@pytest.mark.parametrize(
    ("category", "reason", "given_up"),
    [(Category.AUTH, "Forbidden", True), (Category.INFRASTRUCTURE, "Timeout", False)],
)
def test_a_forbidden_clean_up_does_not_keep_the_object(category: Category, reason: str, given_up: bool) -> None:
    cache = cache_of([SERVICES], make(kinds.AIM_SERVICE, "chat", finalizers=[FINALIZER], deleting=NOW))
    reconciler = Reconciler(
        "service",
        SERVICES,
        lambda _obj, _view, _now: REGULAR,
        finalizer=FINALIZER,
        finalize=lambda _obj, _view, _now: Plan(deletes=(STALE,)),
    )
    view = cache.view(ClassifiedError(category, reason, "no"))
    plan = decide(reconciler, cache.object(SERVICES, "ml", "chat"), view, NOW)
    assert bool(plan.patches) is given_up
    assert bool(plan.deletes) is not given_up


@pytest.mark.spec("FW-186", "FW-187", "FW-S52")
def test_a_terminating_namespace() -> None:
    alive = Namespace.model_validate(make(kinds.NAMESPACE, "ml"))
    dying = Namespace.model_validate(make(kinds.NAMESPACE, "ml", deleting=NOW))
    unknown = [
        ClassifiedError(Category.INFRASTRUCTURE, "ViewStale", "x"),
        ClassifiedError(Category.AUTH, "Forbidden", "x"),
    ]
    assert namespace_terminating("", Lookup()) is False
    assert namespace_terminating("ml", Lookup(alive)) is False
    assert namespace_terminating("ml", Lookup(dying)) is True
    assert namespace_terminating("ml", Lookup()) is True
    assert [namespace_terminating("ml", Lookup(error=error)) for error in unknown] == unknown


def test_plans_as_json_are_canonical() -> None:
    a, b = (Child(CONFIG_MAPS, make(kinds.CONFIG_MAP, name, uid="x", generation=1)) for name in "ab")
    for body in (a.body, b.body):
        body["metadata"]["resourceVersion"] = "1"
    one = Plan(
        children=(b, a),
        status={},
        deletes=(STALE,),
        events=(Event(EventType.NORMAL, "R", "m"),),
        effects=(Effect("inspect", "k", not_before=NOW),),
        retry=ClassifiedError(Category.UNKNOWN, "R", "m"),
    )
    other = Plan(
        children=(a, b), status={}, deletes=one.deletes, events=one.events, effects=one.effects, retry=one.retry
    )
    assert canonical(plan_to_json(one)) == canonical(plan_to_json(other))
    assert plan_to_json(one)["effects"] == [
        {"kind": "inspect", "key": "k", "params": {}, "notBefore": "2026-11-21T12:00:00Z"}
    ]
    assert plan_to_json(one)["status"] == {}
    assert plan_to_json(NOTHING) == {}
    assert is_nothing(NOTHING)
    assert not is_nothing(one)
