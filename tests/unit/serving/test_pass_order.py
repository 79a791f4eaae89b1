"""In which order a pass goes about its steps, and which of them ends it (serving.md section 4)."""

from typing import Any

import pytest
from support.builders import make
from support.deciding import decide
from support.serving import (
    IMAGE,
    TEAM,
    artifact,
    children_of,
    condition_of,
    model,
    node,
    serving_cache,
    template,
    template_cache,
    workload,
)

from aim_domain import kinds, labels
from aim_domain.parts import INFERENCE_SERVICES, SERVICES
from aim_domain.pods.facts import POD_EVENTS
from aim_serving.service import SERVICE_RECONCILER
from controller_runtime import JsonObject, Plan
from controller_runtime.testing import NOW, BuiltCache

USUAL = "qwen3-lat-a04542d9"
PAUSED = {labels.ANNOTATION_PAUSED: "true"}


def service(*, paused: bool = False, finalizer: bool = True, deleting: bool = False, **spec: Any) -> JsonObject:
    """A service at some step."""
    own = make(
        kinds.AIM_SERVICE,
        "qwen-chat",
        namespace=TEAM,
        generation=4,
        annotations=PAUSED if paused else {},
        finalizers=[labels.FINALIZER_SERVICE] if finalizer else [],
        deleting=NOW if deleting else None,
    )
    return {**own, "spec": {"model": {"name": "qwen"}, "template": {"name": "qwen3-lat"}, **spec}}


def cache(of: JsonObject, *objects: JsonObject) -> BuiltCache:
    return serving_cache(of, template(), model(), node(), make(kinds.NAMESPACE, TEAM), *objects)


def decided(known: BuiltCache) -> Plan:
    return decide(SERVICE_RECONCILER, known.object(SERVICES, TEAM, "qwen-chat"), known.view(), NOW)


def finalizers(plan: Plan) -> list[str]:
    """Those that the only patch leaves."""
    (patch,) = plan.patches
    left = patch.body["metadata"]["finalizers"]
    assert left is None or isinstance(left, list)
    return left or []


@pytest.mark.spec("SV-044", "SV-045", "AT-131")
def test_deletion_comes_before_the_finalizer_and_both_before_the_pause() -> None:
    mine = template_cache(USUAL, status="Failed", labels={labels.SERVICE: "qwen-chat"})
    cleaning = decided(cache(service(paused=True, deleting=True), mine))
    assert ([one.name for one in cleaning.deletes], cleaning.children, cleaning.status) == ([USUAL], (), None)
    assert finalizers(decided(cache(service(paused=True, deleting=True)))) == []
    assert decided(cache(service(finalizer=False, deleting=True))).patches == ()
    assert finalizers(decided(cache(service(paused=True, finalizer=False), mine))) == [labels.FINALIZER_SERVICE]
    assert decided(cache(service(paused=True, finalizer=False))) == Plan()


@pytest.mark.spec("CC-352", "PR-011")
def test_what_runs_for_a_service_that_asks_for_too_much_of_a_profile_stays_as_it_is() -> None:
    former = service()
    asking = service(replicas=7, profile={"name": "p"}, overrides={"metric": "latency"})
    plan = decided(cache(asking, template_cache(USUAL), workload(former)))
    assert (plan.children, plan.patches, plan.deletes) == ((), (), ())
    assert plan.status is not None
    assert plan.status["status"] == "Failed"


@pytest.mark.spec("SV-045", "SV-046", "FW-002", "AT-131")
def test_a_paused_service_is_left_alone_with_everything_it_has() -> None:
    known = cache(service(paused=True, replicas=7), template_cache(USUAL), workload(service()))
    assert decided(known) == Plan()
    known.put(SERVICES, service(replicas=7))
    (resumed,) = children_of(decided(known), "InferenceService")
    assert resumed["spec"]["predictor"]["minReplicas"] == 7
    for value in ("True", "1", ""):
        almost = service(replicas=7)
        almost["metadata"]["annotations"] = {labels.ANNOTATION_PAUSED: value}
        known.put(SERVICES, almost)
        assert children_of(decided(known), "InferenceService") != [], value


@pytest.mark.spec("SV-044", "SV-047", "SV-223", "SV-226", "AT-130", "FW-005", "FW-006")
def test_a_blocked_pass_looks_at_everything_tells_it_and_writes_nothing() -> None:
    failed = (template_cache(USUAL, status="Failed"), artifact())
    blocked = cache(service(runtimeConfigName="missing"), workload(service()), *failed)
    plan = decided(blocked)
    assert (plan.children, plan.patches, plan.deletes) == ((), (), ())
    assert {one.kind for one in plan.effects} <= {POD_EVENTS.name}, "reading is no write"
    assert plan.status is not None
    assert condition_of(plan, "RuntimeConfigReady") == ("False", "ReferenceNotFound")
    assert condition_of(plan, "ModelReady") == ("True", "ModelResolved")
    assert condition_of(plan, "TemplateReady") == ("True", "Resolved")
    assert condition_of(plan, "CacheReady") == ("False", "CacheRetrying")
    assert "cache" not in plan.status, "the retry that was not carried out is not counted"
    assert condition_of(plan, "InferenceServicePodsReady") == ("False", "NoPods")
    assert plan.status["observedGeneration"] == 4
    assert plan.events != ()
    assert decided(blocked) == plan, "a pass has no memory of its own"


@pytest.mark.spec("SV-044", "SV-191", "AT-137")
def test_without_knowing_the_workload_nothing_is_resolved() -> None:
    known = cache(service(), template_cache(USUAL))
    known.make_stale(INFERENCE_SERVICES)
    plan = decided(known)
    assert condition_of(plan, "InferenceServiceReady") == ("False", "FetchError")
    assert condition_of(plan, "DependenciesReachable") == ("False", "InfrastructureError")
    assert condition_of(plan, "ModelReady") != ("True", "ModelResolved")
    assert condition_of(plan, "TemplateReady") != ("True", "Resolved")
    assert (plan.children, plan.retry is not None) == ((), True)


@pytest.mark.spec("SV-044")
@pytest.mark.parametrize(
    ("there", "made"),
    [
        ([], ["AIMModel"]),
        ([model()], []),
        ([model(), template()], ["AIMTemplateCache"]),
        ([model(), template(), template_cache(USUAL)], ["InferenceService"]),
    ],
)
def test_each_object_is_planned_once_the_one_before_it_is_there(there: list[JsonObject], made: list[str]) -> None:
    by_image = {**service(), "spec": {"model": {"image": IMAGE}}}
    plan = decided(serving_cache(by_image, node(), *there))
    assert [child.body["kind"] for child in plan.children] == made
