"""What the running workload, the route and the autoscaler make of the status (serving.md sections 11 and 12)."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.builders import EARLIER, condition, fact, make, terminated, waiting
from support.live import Live
from support.serving import (
    GATEWAY,
    TEAM,
    WORKLOAD,
    aim_service,
    children_of,
    condition_of,
    config,
    living,
    message_of,
    model,
    node,
    overall,
    plan_for,
    pod_events,
    predictor_pod,
    run,
    serving_cache,
    template,
    template_cache,
    workload,
)

from aim_domain import ResolvedReference, kinds, labels
from aim_domain.parts import INFERENCE_SERVICES, PREDICTOR_PODS, SERVICES
from aim_domain.pods.facts import POD_EVENTS, POD_LOG
from aim_serving.autoscaling import METRICS_GRACE, SCALER_REMOVAL, SCALER_REPORT
from aim_serving.model import ModelResult, model_component
from controller_runtime import FACTS, Category, ClassifiedError, JsonObject, Plan, State
from controller_runtime.testing import NOW, BuiltCache

SERVICE = aim_service(template={"name": "qwen3-lat"})
METRIC: JsonObject = {
    "type": "PodMetric",
    "podmetric": {"metric": {"query": "q"}, "target": {"type": "Value", "value": "1"}},
}


def running(*objects: JsonObject, service: JsonObject = SERVICE, ready: bool | None = True) -> BuiltCache:
    """A service whose inputs are fine and whose InferenceService exists."""
    return serving_cache(*around(service, ready), *objects)


def routing_says(status: bool, reason: str) -> JsonObject:
    """The service with the condition that routing wrote."""
    return {**SERVICE, "status": {"conditions": [condition("HTTPRouteReady", status, reason)]}}


def alive(*objects: JsonObject) -> Live:
    """The same service at work, before anything is known of its InferenceService."""
    return living(*around(SERVICE, None), *objects)


def around(service: JsonObject, ready: bool | None) -> list[JsonObject]:
    return [service, template(), model(), node(), template_cache("qwen3-lat-a04542d9"), workload(service, ready=ready)]


def event(
    reason: str, message: str, *, uid: str = f"inferenceservice-{WORKLOAD}-uid", age: int = 0, lasted: int = 0
) -> JsonObject:
    """A Warning about the InferenceService; the last of several that took so many seconds."""
    body: JsonObject = {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": "InferenceService", "name": WORKLOAD, "namespace": TEAM, "uid": uid},
        "firstTimestamp": (NOW - timedelta(seconds=age + lasted)).isoformat(),
        "lastTimestamp": (NOW - timedelta(seconds=age)).isoformat(),
    }
    return make(kinds.EVENT, f"event-{reason.lower()}", namespace=TEAM, **body)


# InferenceService


@pytest.mark.spec("SV-012", "SV-192", "SV-197", "AT-123")
def test_knative_is_missing() -> None:
    plan = plan_for(running(event("ServerlessModeRejected", "no"), ready=None))
    assert (condition_of(plan, "InferenceServiceReady"), overall(plan)) == (
        ("False", "ServerlessModeRejected"),
        "Failed",
    )
    assert len(children_of(plan, "InferenceService")) == 1


@pytest.mark.spec("SV-195", "SV-274", "SV-P24")
@pytest.mark.parametrize(
    ("age", "lasted", "left"),
    [(0, 0, 60), (59, 0, 1), (60, 0, None), (100, 40, None), (79, 40, 1), (1299, 3600, 1), (1300, 3600, None)],
)
def test_a_failure_that_is_not_repeated_is_over(age: int, lasted: int, left: int | None) -> None:
    """KServe is silent when its retry succeeds."""
    pod = predictor_pod("Running", ready=True)
    ready = workload(SERVICE, ready=True)
    ready["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    inputs = [one for one in around(SERVICE, True) if one["kind"] != "InferenceService"]
    plan = plan_for(serving_cache(*inputs, ready, pod, event("InternalError", "boom", age=age, lasted=lasted)))
    assert condition_of(plan, "InferenceServiceReady") == (
        ("True", "RuntimeReady") if left is None else ("False", "InternalError")
    )
    assert plan.requeue_after == left
    ready["status"]["conditions"][0]["status"] = "False"
    broken = plan_for(serving_cache(*inputs, ready, pod, event("InternalError", "boom", age=age, lasted=lasted)))
    assert condition_of(broken, "InferenceServiceReady") == ("False", "InternalError")
    assert broken.requeue_after is None


@pytest.mark.spec("SV-012", "SV-193", "SV-194", "SV-195", "SV-197", "SV-275", "AT-124", "SV-P24")
@pytest.mark.parametrize(
    ("found", "ready", "reason"),
    [
        (event("InternalError", "boom"), None, "InternalError"),
        (event("InternalError", "Operation cannot be fulfilled on x"), None, "CreatingRuntime"),
        (event("InternalError", "x: the object has been modified; try again"), None, "CreatingRuntime"),
        (event("InternalError", 'fails: scaledobjects.keda.sh "chat-predictor" not found'), True, "RuntimeReady"),
        (event("InternalError", 'opentelemetrycollectors.opentelemetry.io "chat" not found'), True, "RuntimeReady"),
        (event("InternalError", 'configmaps "inferenceservice-config" not found'), True, "InternalError"),
        (event("InternalError", "boom", uid="earlier"), None, "CreatingRuntime"),
        (event("InternalError", "boom", age=60), True, "RuntimeReady"),
        (event("InternalError", "boom"), True, "InternalError"),
    ],
)
def test_events_of_the_workload(found: JsonObject, ready: bool | None, reason: str) -> None:
    plan = plan_for(running(found, predictor_pod("Running", ready=True), ready=ready))
    seen = condition_of(plan, "InferenceServiceReady")
    assert seen is not None
    assert seen[1] == reason
    assert (overall(plan) == "Failed") is (reason == "InternalError")
    hinted = plan_for(running(event("InternalError", "must be less than or equal to cpu limit"), ready=None))
    assert "blank" in message_of(hinted, "InferenceServiceReady")


@pytest.mark.spec("SV-191", "FW-112", "SV-044")
def test_an_unreadable_workload_stops_everything() -> None:
    cache = serving_cache(SERVICE, template(), model(), node(), template_cache("qwen3-lat-a04542d9"))
    cache.make_stale(INFERENCE_SERVICES)
    plan = plan_for(cache)
    assert condition_of(plan, "InferenceServiceReady") == ("False", "FetchError")
    assert condition_of(plan, "DependenciesReachable") == ("False", "InfrastructureError")
    assert plan.children == ()
    assert plan.retry is not None
    assert "resolvedTemplate" not in (plan.status or {})


# Pods


@pytest.mark.spec("SV-198", "SV-199", "SV-205", "SV-224", "AT-120", "SV-P05")
@pytest.mark.parametrize(
    ("text", "reason", "parent", "value"),
    [
        ("unauthorized: authentication required", "ImagePullAuthFailure", ("AuthValid", "AuthError"), "Failed"),
        ("manifest unknown", "ImageNotFound", ("ConfigValid", "ReferenceNotFound"), "Failed"),
        ("weather", "ImagePullBackOff", ("DependenciesReachable", "InfrastructureError"), "Degraded"),
    ],
)
def test_images_that_can_not_be_pulled(text: str, reason: str, parent: tuple[str, str], value: str) -> None:
    blocked = predictor_pod("Pending", containers=[waiting("kserve-container", "ImagePullBackOff", text)])
    plan = plan_for(running(blocked, ready=None))
    assert condition_of(plan, "InferenceServicePodsReady") == ("False", reason)
    assert condition_of(plan, parent[0]) == ("False", parent[1])
    assert overall(plan) == value
    assert len(children_of(plan, "InferenceService")) == 1


@pytest.mark.spec("SV-201", "SV-202", "SV-203", "AT-117", "AT-118", "FW-P23")
@pytest.mark.parametrize(
    ("events", "reason", "value"),
    [
        ([("FailedScheduling", "20 GPUs are too many")], "FailedScheduling", "Pending"),
        ([("Pulling", "pulling image")], "Pulling", "Starting"),
        ([], "PodsPending", "Pending"),
    ],
)
def test_pending_pods(events: list[tuple[str, str]], reason: str, value: str) -> None:
    pod = predictor_pod("Pending")
    plan = plan_for(running(pod, pod_events(SERVICE, pod, *events), ready=None))
    assert (condition_of(plan, "InferenceServicePodsReady"), overall(plan)) == (("False", reason), value)
    (effect,) = plan.effects
    assert effect.kind == POD_EVENTS.name
    assert effect.not_before == NOW + timedelta(seconds=10)


@pytest.mark.spec("FW-155", "SV-201")
def test_until_events_are_read_a_pending_pod_changes_nothing() -> None:
    cache = alive()
    run(cache)
    cache.put(PREDICTOR_PODS, predictor_pod("Pending"))
    plan = plan_for(cache)
    assert condition_of(plan, "InferenceServicePodsReady") == ("False", "NoPods")
    assert [effect.not_before for effect in plan.effects] == [NOW + timedelta(seconds=2)]
    # A clock that is behind the API server's does not put it off.
    behind = NOW - timedelta(hours=1)
    assert [effect.not_before for effect in plan_for(cache, now=behind).effects] == [behind + timedelta(seconds=2)]
    unschedulable = predictor_pod("Pending")
    unschedulable["status"]["conditions"] = [condition("PodScheduled", False, "Unschedulable")]
    cache.put(PREDICTOR_PODS, unschedulable)
    assert [effect.not_before for effect in plan_for(cache).effects] == [None]


@pytest.mark.spec("SV-198", "SV-200", "SV-204", "FW-146", "AT-122", "SV-P25")
def test_failed_and_crashing_pods() -> None:
    failed = predictor_pod("Failed", containers=[terminated("kserve-container", 1)])
    plan = plan_for(running(failed, ready=None))
    assert condition_of(plan, "InferenceServicePodsReady") == ("False", "PodFailed")
    (effect,) = plan.effects
    assert (effect.kind, effect.params["container"]) == (POD_LOG.name, "kserve-container")
    crashing = predictor_pod("Running", ready=False, containers=[waiting("kserve-container", "CrashLoopBackOff")])
    plan = plan_for(running(crashing, ready=None))
    assert (condition_of(plan, "InferenceServicePodsReady"), overall(plan)) == (
        ("False", "CrashLoopBackOff"),
        "Degraded",
    )


@pytest.mark.spec("FW-146", "FW-147", "SV-200")
def test_a_failure_is_reported_once_its_log_is_read() -> None:
    cache = alive()
    run(cache)
    failed = predictor_pod("Failed", containers=[terminated("kserve-container", 1)])
    cache.put(PREDICTOR_PODS, failed)
    plan = plan_for(cache)
    assert condition_of(plan, "InferenceServicePodsReady") == ("False", "NoPods")
    (effect,) = plan.effects
    outcome = {"tail": "An error occurred: s3 answered 403"}
    cache.put(FACTS, fact("serving", POD_LOG.name, effect.key, SERVICE, SERVICES, outcome=outcome))
    reported = plan_for(cache)
    assert condition_of(reported, "InferenceServicePodsReady") == ("False", "AuthError")
    assert condition_of(reported, "AuthValid") == ("False", "AuthError")
    assert reported.effects == ()


@pytest.mark.spec("SV-198", "AT-121")
def test_pods_that_start_and_run() -> None:
    plan = plan_for(running(predictor_pod("Running", ready=False), ready=None))
    assert (condition_of(plan, "InferenceServicePodsReady"), overall(plan)) == (("False", "PodsStarting"), "Starting")
    assert overall(plan_for(running(predictor_pod("Running", ready=True)))) == "Running"


@pytest.mark.spec("SV-198", "FW-013")
def test_steps_that_are_overtaken_at_once_are_not_written() -> None:
    cache = alive()
    run(cache)
    started = {"name": "kserve-container", "state": {"running": {"startedAt": NOW.isoformat()}}}
    cache.put(PREDICTOR_PODS, predictor_pod("Running", ready=False, containers=[started]))
    soon = plan_for(cache, now=NOW + timedelta(seconds=0.5))
    assert condition_of(soon, "InferenceServicePodsReady") == ("False", "NoPods")
    assert soon.requeue_after == pytest.approx(1.5)
    cache.later(2)
    run(cache)
    cache.put(PREDICTOR_PODS, predictor_pod("Running", ready=True, since=cache.now))
    assert condition_of(plan_for(cache), "InferenceServicePodsReady") == ("False", "PodsStarting")
    cache.later(2)
    lasting = plan_for(cache)
    assert condition_of(lasting, "InferenceServicePodsReady") == ("True", "PodsReady")
    assert lasting.requeue_after is None
    cache.put(INFERENCE_SERVICES, workload(SERVICE, ready=True))
    assert overall(plan_for(cache)) == "Running"


@pytest.mark.spec("SV-217", "FW-038", "SV-P02", "FW-P03")
def test_conditions_of_what_is_absent_are_left_out() -> None:
    stored = [condition("HPAReady", False, "HPANotFound"), condition("InferenceServicePodsReady", False, "NoPods")]
    service = aim_service(template={"name": "qwen3-lat"}, status={"conditions": stored})
    plan = plan_for(serving_cache(service, template(), model()))
    assert condition_of(plan, "HPAReady") is None
    assert condition_of(plan, "InferenceServicePodsReady") is None


# Autoscaler


def autoscaler(*conditions: JsonObject) -> JsonObject:
    """The autoscaler that KServe makes for class hpa."""
    spec = {"minReplicas": 1, "maxReplicas": 8}
    status = {"currentReplicas": 2, "desiredReplicas": 4, "conditions": list(conditions)}
    own = {labels.SERVICE: "qwen-chat"}
    name = f"{WORKLOAD}-predictor"
    return make(kinds.HORIZONTAL_POD_AUTOSCALER, name, namespace=TEAM, labels=own, spec=spec, status=status)


@pytest.mark.spec("SV-207", "SV-185", "SV-209", "SV-212", "AT-111", "AT-113")
@pytest.mark.parametrize(
    ("conditions", "ready", "reason", "value"),
    [
        ([], None, "WaitingForMetrics", "Starting"),
        ([condition("ScalingActive", False)], True, "MetricsFailed", "Degraded"),
        ([condition("ScalingActive", True), condition("AbleToScale", False)], True, "ScaleTargetNotReady", "Starting"),
        ([condition("ScalingActive", True), condition("AbleToScale", True)], True, "HPAOperational", "Running"),
        ([condition("ScalingActive", True)], True, "HPAOperational", "Running"),
    ],
)
def test_autoscaler(conditions: list[JsonObject], ready: bool | None, reason: str, value: str) -> None:
    service = aim_service(template={"name": "qwen3-lat"}, minReplicas=1, maxReplicas=8)
    pod = predictor_pod("Running", ready=True)
    plan = plan_for(running(autoscaler(*conditions), pod, service=service, ready=ready))
    seen = condition_of(plan, "HPAReady")
    assert seen is not None
    assert (seen[1], overall(plan)) == (reason, value)
    assert plan.status is not None
    assert plan.status["runtime"]["replicas"] == "2/4 (1-8)"


@pytest.mark.spec("SV-207", "AT-113")
def test_a_service_that_has_just_become_ready_waits_for_the_first_metrics_of_its_pods() -> None:
    service = aim_service(template={"name": "qwen3-lat"}, minReplicas=1, maxReplicas=8)
    pod = predictor_pod("Running", ready=True)

    def seen(since: datetime, created: datetime = EARLIER) -> tuple[str, str, float | None]:
        scaler = autoscaler(condition("ScalingActive", False))
        scaler["metadata"]["creationTimestamp"] = created.isoformat()
        own = workload(service, ready=True, since=since)
        plan = plan_for(
            serving_cache(service, template(), model(), node(), template_cache("qwen3-lat-a04542d9"), own, scaler, pod)
        )
        reported = condition_of(plan, "HPAReady")
        assert reported is not None
        return reported[1], overall(plan), plan.requeue_after

    grace = METRICS_GRACE.total_seconds()
    assert seen(NOW - timedelta(seconds=20)) == ("WaitingForMetrics", "Starting", grace - 20)
    assert seen(NOW - timedelta(hours=1), NOW - timedelta(seconds=5)) == ("WaitingForMetrics", "Starting", grace - 5)
    assert seen(NOW - METRICS_GRACE)[:2] == ("MetricsFailed", "Degraded")


@pytest.mark.spec("SV-211")
def test_a_left_over_autoscaler_does_not_count() -> None:
    plan = plan_for(running(autoscaler(condition("ScalingActive", True))))
    assert plan.status is not None
    assert plan.status["runtime"]["replicas"] == "1"
    assert condition_of(plan, "HPAReady") is None


@pytest.mark.spec("SV-272", "SV-223")
def test_what_keda_leaves_behind_is_removed() -> None:
    was_keda = workload(SERVICE, ready=True)
    was_keda["metadata"]["annotations"] = {labels.ANNOTATION_AUTOSCALER_CLASS: "keda"}
    around = [template(), model(), node(), template_cache("qwen3-lat-a04542d9"), predictor_pod("Running", ready=True)]
    cache = serving_cache(SERVICE, was_keda, *around)
    (effect,) = plan_for(cache).effects
    assert (effect.kind, effect.params["name"]) == (SCALER_REMOVAL.name, f"{WORKLOAD}-predictor")
    cache.put(FACTS, fact("serving", SCALER_REMOVAL.name, effect.key, SERVICE, SERVICES, outcome={"removed": []}))
    assert plan_for(cache).effects == ()
    left_over = autoscaler()
    left_over["metadata"]["name"] = f"keda-hpa-{WORKLOAD}-predictor"
    assert [one.kind for one in plan_for(running(left_over)).effects] == [SCALER_REMOVAL.name]
    keda = aim_service(template={"name": "qwen3-lat"}, autoScaling={"metrics": [METRIC]})
    assert [one.kind for one in plan_for(serving_cache(keda, was_keda, *around)).effects] == [SCALER_REPORT.name]
    blocked = aim_service(template={"name": "qwen3-lat"}, runtimeConfigName="missing")
    assert plan_for(serving_cache(blocked, was_keda, *around)).effects == (), "nothing is deleted on doubtful grounds"


# Route


def routed(reason: str | None, status: bool = False, **routing: Any) -> BuiltCache:
    """A running service with routing enabled."""
    own = GATEWAY if not routing else {"routing": routing}
    service = SERVICE if reason is None else routing_says(status, reason)
    return running(config(**own), predictor_pod("Running", ready=True), service=service)


@pytest.mark.spec("FW-374", "FW-375", "SV-004", "SV-224", "FW-371", "AT-128", "FW-S55", "RT-150", "RT-161", "RT-203")
@pytest.mark.parametrize(
    ("status", "reason", "value"),
    [
        (False, None, "Starting"),
        (True, "HTTPRouteAccepted", "Running"),
        (False, "HTTPRouteCreating", "Starting"),
        (False, "HTTPRoutePending", "Starting"),
        (False, "BackendNotFound", "Starting"),
        (False, "RefNotPermitted", "Starting"),
        (False, "InvalidKind", "Starting"),
        (False, "UnsupportedProtocol", "Starting"),
        (False, "RouteRefsUnresolved", "Starting"),
        (False, "PathTemplateInvalid", "Degraded"),
        (False, "PathConflict", "Degraded"),
        (False, "PathReserved", "Degraded"),
        (False, "HTTPRouteFetchError", "Degraded"),
        (False, "NotAllowedByListeners", "Failed"),
        (False, "AlreadyExists", "Failed"),
        (False, "InvalidSpec", "Failed"),
    ],
)
def test_route(status: bool, reason: str | None, value: str) -> None:
    plan = plan_for(routed(reason, status))
    assert overall(plan) == value
    ready = condition_of(plan, "Ready")
    assert ready is not None
    assert (ready[0] == "True") is status
    assert condition_of(plan, "HTTPRouteReady") is None
    assert len(children_of(plan, "InferenceService")) == 1


@pytest.mark.spec("SV-299", "FW-512")
@pytest.mark.parametrize("late", ["pods", "route"])
def test_readiness_waits_a_moment_for_what_is_only_seen_later(late: str) -> None:
    said = [] if late == "route" else [condition("HTTPRouteReady", True, "HTTPRouteAccepted")]
    service = {**SERVICE, "status": {"conditions": said}}
    pods = [] if late == "pods" else [predictor_pod("Running", ready=True)]

    def after(seconds: float, *others: JsonObject) -> Plan:
        became = workload(service, ready=True, since=NOW - timedelta(seconds=seconds))
        known = (template(), model(), node(), template_cache("qwen3-lat-a04542d9"), config(**GATEWAY))
        return plan_for(serving_cache(service, *known, became, *pods, *others))

    quiet = after(1)
    assert (quiet.status, quiet.events, quiet.requeue_after) == (None, (), 1.0)
    assert len(children_of(quiet, "InferenceService")) == 1, "it is applied all the same"
    assert overall(after(2)) == "Starting"
    crashing = predictor_pod("Running", ready=False, containers=[waiting("kserve-container", "CrashLoopBackOff")])
    reported = after(1, crashing).status if late == "pods" else None
    assert late == "route" or reported is not None, "a fault is reported at once"


def _new_service(age: float, reported: str | None = None) -> JsonObject:
    status = {"status": reported} if reported else {}
    created = f"{NOW - timedelta(seconds=age):%Y-%m-%dT%H:%M:%SZ}"
    return {**SERVICE, "metadata": {**SERVICE["metadata"], "creationTimestamp": created}, "status": status}


@pytest.mark.spec("SV-300", "FW-512")
@pytest.mark.parametrize("reported", [None, "Pending", "Progressing", "Starting"])
def test_a_new_workload_is_reported_with_its_pods(reported: str | None) -> None:
    service = _new_service(age=59, reported=reported)
    known = (template(), model(), node(), template_cache("qwen3-lat-a04542d9"))
    creating = plan_for(serving_cache(service, *known))
    assert (creating.status, creating.events, creating.requeue_after) == (None, (), 5.0)
    assert len(children_of(creating, "InferenceService")) == 1

    def after(seconds: float, *others: JsonObject) -> Plan:
        made = workload(service)
        made["metadata"]["creationTimestamp"] = f"{NOW - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
        return plan_for(serving_cache(service, *known, made, *others))

    assert (after(4).status, after(4).requeue_after) == (None, 1.0)
    assert condition_of(after(5), "InferenceServicePodsReady") == ("False", "NoPods")
    assert after(1, predictor_pod("Running", ready=True)).status is None, "the InferenceService is not yet"
    refused = predictor_pod("Pending", containers=[waiting("kserve-container", "InvalidImageName")])
    assert after(1, refused).status is not None, "a fault is reported at once"


@pytest.mark.spec("SV-300")
@pytest.mark.parametrize(("age", "reported"), [(60, "Starting"), (1, "Running"), (1, "Failed"), (1, "Degraded")])
def test_of_a_service_that_is_older_or_had_come_further_each_step_is_reported(age: float, reported: str) -> None:
    known = (template(), model(), node(), template_cache("qwen3-lat-a04542d9"))
    assert plan_for(serving_cache(_new_service(age, reported), *known)).status is not None


@pytest.mark.spec("FW-518")
def test_a_new_service_waits_a_moment_for_its_cache() -> None:
    known = (template(), model(), node())
    quiet, reported = (plan_for(serving_cache(_new_service(age), *known)) for age in (1, 2))
    assert (quiet.status, quiet.events, quiet.requeue_after) == (None, (), 1.0)
    assert len(children_of(quiet, "AIMTemplateCache")) == 1
    assert condition_of(reported, "CacheReady") == ("False", "CacheCreating")


@pytest.mark.spec("FW-376", "FW-092", "SV-224", "FW-S56", "RT-161", "RT-203")
def test_a_missing_gateway_blocks() -> None:
    around = [template(), model(), node(), template_cache("qwen3-lat-a04542d9"), config(routing={"enabled": True})]
    plan = plan_for(serving_cache(SERVICE, *around))
    assert condition_of(plan, "ConfigValid") == ("False", "InvalidSpec")
    assert overall(plan) == "Failed"
    assert plan.children == ()
    assert condition_of(plan, "InferenceServicePodsReady") is None


@pytest.mark.spec("FW-374")
def test_without_routing_a_left_over_condition_is_ignored() -> None:
    cache = running(predictor_pod("Running", ready=True), service=routing_says(False, "NotAllowedByListeners"))
    assert overall(plan_for(cache)) == "Running"


# The rest of the status


@pytest.mark.spec("SV-049", "SV-051", "RC-061", "AT-125", "AT-126")
def test_runtime_config() -> None:
    missing = aim_service(template={"name": "qwen3-lat"}, runtimeConfigName="missing")
    plan = plan_for(serving_cache(missing, template(), model(), template_cache("qwen3-lat-a04542d9")))
    assert (condition_of(plan, "RuntimeConfigReady"), overall(plan)) == (("False", "ReferenceNotFound"), "Failed")
    assert plan.children == ()
    without = plan_for(running())
    assert condition_of(without, "RuntimeConfigReady") == ("True", "DefaultConfigNotFound")
    assert "resolvedRuntimeConfig" not in (without.status or {})
    both = plan_for(running(config(), config(cluster=True)))
    assert both.status is not None
    assert both.status["resolvedRuntimeConfig"]["scope"] == "Merged"


@pytest.mark.spec("SV-225", "SV-226", "SV-223")
def test_a_failed_write_is_reported() -> None:
    failure = ClassifiedError(Category.INFRASTRUCTURE, "InfrastructureError", "apply of InferenceService failed")
    plan = plan_for(running(), failure=failure)
    assert condition_of(plan, "DependenciesReachable") == ("False", "InfrastructureError")
    assert "apply of InferenceService" in message_of(plan, "DependenciesReachable")
    assert plan.children == ()
    assert plan.retry is not None


@pytest.mark.spec("SV-031")
def test_generation_and_transition_times() -> None:
    cache = living(*around(SERVICE, True), predictor_pod("Running", ready=True))
    run(cache)
    later = plan_for(cache, now=NOW + timedelta(hours=1))
    assert later.status == plan_for(cache).status
    assert later.events == ()
    assert later.status is not None
    assert later.status["observedGeneration"] == 1
    assert {one["observedGeneration"] for one in later.status["conditions"]} == {1}


@pytest.mark.spec("SV-216", "SV-057")
def test_a_running_service_goes_on_with_a_model_that_was_resolved_before() -> None:
    before = {"name": "gone", "scope": "Cluster", "kind": "aim.eai.amd.com/v1alpha1/AIMClusterModel", "uid": "u"}
    found = model_component(ModelResult(), ResolvedReference.model_validate(before), running=True, template_ready=False)
    assert (found.state, found.reason) == (State.READY, "ModelResolved")
    assert found.message == "using AIMClusterModel gone as resolved before"
    for reference, running in ((None, True), (ResolvedReference.model_validate(before), False)):
        waiting = model_component(ModelResult(), reference, running=running, template_ready=False)
        assert (waiting.state, waiting.reason) == (State.PENDING, "ModelNotFound")
