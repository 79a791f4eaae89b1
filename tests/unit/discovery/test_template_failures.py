"""Scenarios of templates whose discovery fails: when it is tried again, and what is said meanwhile."""

import pytest
from support.builders import condition, make, owner, terminated, waiting
from support.discovery_cache import discovery_cluster, effect_of, model, template
from support.template_jobs import SOURCES, fail, finish, new_jobs, started

from aim_discovery.templates.attempts import Attempts
from aim_domain import DiscoveryState
from aim_domain.parts import DISCOVERY_JOBS, DISCOVERY_PODS, TEMPLATES
from aim_domain.pods.facts import POD_LOG
from controller_runtime import Category, ClassifiedError, timestamp
from controller_runtime.kinds import JOB
from controller_runtime.reconcile.child import same_status


@pytest.mark.spec("DI-291", "DI-292", "DI-298")
def test_an_attempt_is_dated_by_its_job_and_its_wait_by_its_failure() -> None:
    cluster, job = started()
    created = timestamp(cluster.now)
    assert cluster.status(TEMPLATES, "tpl")["discovery"]["lastAttemptTime"] == created
    cluster.later(100)
    fail(cluster, job)
    assert cluster.status(TEMPLATES, "tpl")["discovery"]["lastAttemptTime"] == created
    cluster.later(59)
    assert new_jobs(cluster) == []
    cluster.later(1)
    assert new_jobs(cluster) == [job]


@pytest.mark.spec("AC-56", "DI-296", "DI-300", "DI-298")
def test_other_inputs_start_from_nothing() -> None:
    cluster, job = started()
    fail(cluster, job)
    cluster.later(30)
    assert new_jobs(cluster) == []
    cluster.change(TEMPLATES, "tpl", spec={"modelName": "qwen", "profileId": "other"})
    (again,) = new_jobs(cluster)
    assert again != job
    cluster.settle(TEMPLATES, "tpl")
    fail(cluster, again)
    assert cluster.status(TEMPLATES, "tpl")["discovery"]["attempts"] == 1


@pytest.mark.spec("DI-299", "DI-296")
def test_attempts_of_other_inputs_do_not_count() -> None:
    error = ClassifiedError(Category.INVALID_SPEC, "PodFailed", "no")
    state = DiscoveryState.model_validate({"attempts": 4, "specHash": "old"})
    now = make(JOB, "j")["metadata"]["creationTimestamp"]
    assert Attempts.of(None).due(None) is None
    at = Attempts.of(DiscoveryState.model_validate({"lastAttemptTime": now})).last
    assert at is not None
    assert Attempts.of(state).failed_with(error, "new", at).failed == 1
    assert Attempts.of(state).failed_with(error, "old", at).failed == 5


@pytest.mark.spec("AC-61", "DI-301")
def test_another_pull_secret_is_tried_at_once() -> None:
    cluster, job = started()
    fail(cluster, job)
    cluster.change(TEMPLATES, "tpl", spec={"modelName": "qwen", "imagePullSecrets": [{"name": "new"}]})
    (again,) = new_jobs(cluster)
    assert again != job


@pytest.mark.spec("DI-307")
def test_the_remaining_wait_is_no_reason_to_write() -> None:
    cluster, job = started()
    fail(cluster, job)
    before = cluster.status(TEMPLATES, "tpl")
    for _ in range(5):
        cluster.later(7)
        cluster.run(TEMPLATES, "tpl")
        assert same_status(cluster.status(TEMPLATES, "tpl"), before)


@pytest.mark.spec("AC-58", "DI-286")
@pytest.mark.parametrize(
    ("text", "reason", "parent", "value"),
    [
        ("unauthorized: no", "ImagePullAuthFailure", ("AuthValid", "AuthError"), "Failed"),
        ("manifest unknown", "ImageNotFound", ("ConfigValid", "ReferenceNotFound"), "Failed"),
        ("i/o timeout", "ImagePullBackOff", ("DependenciesReachable", "InfrastructureError"), "Degraded"),
    ],
)
def test_an_image_that_the_node_can_not_pull(text: str, reason: str, parent: tuple[str, str], value: str) -> None:
    cluster, job = started()
    pod = cluster.job_pod(job, "Pending", waiting("discovery", "ImagePullBackOff", text))
    cluster.put(DISCOVERY_PODS, pod)
    for _ in range(2):
        cluster.run(TEMPLATES, "tpl")
        cluster.later(10)
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryPodsReady") == ("False", reason)
    assert cluster.condition(TEMPLATES, "tpl", parent[0]) == ("False", parent[1])
    assert cluster.value(TEMPLATES, "tpl") == value


@pytest.mark.spec("DI-304", "DI-287", "AC-59", "DI-340")
@pytest.mark.parametrize(
    ("line", "reason", "value"),
    [
        ("Repository Not Found for url … 401", "SourceNotFound", "Failed"),
        ("Cannot access gated repo", "AuthError", "Failed"),
        ("No space left on device", "StorageFull", "Failed"),
        ("RBAC: clusterrole x not found", "PodInfrastructureError", "Degraded"),
        ("boom", "PodFailed", "Failed"),
    ],
)
def test_every_failure_is_tried_again_after_a_minute(line: str, reason: str, value: str) -> None:
    cluster, job = started()
    cluster.put(DISCOVERY_PODS, cluster.job_pod(job, "Failed", terminated("discovery", 1)))
    cluster.end_job(job, "Failed", "BackoffLimitExceeded")
    cluster.answer(effect_of(cluster.run(TEMPLATES, "tpl"), POD_LOG.name), {"tail": line})
    for _ in range(2):
        cluster.run(TEMPLATES, "tpl")
        cluster.later(10)
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == value
    failure = cluster.status(TEMPLATES, "tpl")["discovery"]["lastFailureReason"]
    assert failure.startswith(f"{reason}: ")
    assert line.split(" …", maxsplit=1)[0] in failure
    cluster.remove(DISCOVERY_JOBS, job)
    cluster.later(50)
    assert new_jobs(cluster) == [job]


@pytest.mark.spec("DI-320")
def test_without_a_count_no_job_is_created() -> None:
    cluster = discovery_cluster(model(), template())
    cluster.make_stale(DISCOVERY_JOBS)
    assert cluster.run(TEMPLATES, "tpl").children == ()


@pytest.mark.spec("DI-316", "DI-319", "DI-202")
def test_the_limit_concerns_only_those_who_need_a_job() -> None:
    cluster, job = started()
    finish(cluster, job)
    ended = {"conditions": [condition("Failed", True)]}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    spec = {"template": {"spec": pod}}
    labels = {
        "app.kubernetes.io/name": "aim-discovery",
        "app.kubernetes.io/component": "discovery",
        "app.kubernetes.io/managed-by": "aim-controller",
    }
    owners = [owner(cluster.raw(TEMPLATES, "tpl"))]
    for number in range(10):
        cluster.put(DISCOVERY_JOBS, make(JOB, f"busy-{number}", labels=labels, spec=spec, owners=owners))
        cluster.put(DISCOVERY_JOBS, make(JOB, f"ended-{number}", labels=labels, spec=spec, status=ended))
    cluster.put(TEMPLATES, template("inline", modelSources=SOURCES))
    for name in ("tpl", "inline"):
        cluster.settle(TEMPLATES, name)
        assert cluster.value(TEMPLATES, name) == "Ready"
    cluster.put(TEMPLATES, template("held", profileId="x"))
    plan = cluster.run(TEMPLATES, "held")
    assert (plan.children, plan.requeue_after) == ((), None)
    cluster.remove(DISCOVERY_JOBS, "busy-0")
    assert len(cluster.run(TEMPLATES, "held").children) == 1, "those that have ended hold no place"
