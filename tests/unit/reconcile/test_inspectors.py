"""Health of pods, Jobs and claims."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from support.builders import EARLIER, condition, make, owner, pod, terminated, waiting

from aim_domain import (
    LogRequest,
    blame_pods,
    has_succeeded,
    inspect_job,
    inspect_pods,
    inspect_pvc,
    is_job_finished,
    pod_predicate,
    wanted_logs,
)
from aim_domain.pods.log_patterns import LogGroup, excerpt, match_log
from controller_runtime import Category, Component, Part, State
from controller_runtime.core import Event, Job, PersistentVolumeClaim, Pod
from controller_runtime.kinds import EVENT, JOB, PERSISTENT_VOLUME_CLAIM, POD
from controller_runtime.testing import NOW

PODS = Part("pods", POD)
CRASHING = waiting("engine", "CrashLoopBackOff", restarts=4, last_exit=139)


def only_error(component: Component) -> tuple[Category, str]:
    [error] = component.errors
    return error.category, error.reason


def logs(text: str) -> Any:
    return lambda _: text


@pytest.mark.spec("FW-142")
def test_no_pods() -> None:
    assert only_error(inspect_pods("Pods", [])) == (Category.MISSING_DOWNSTREAM, "NoPods")


@pytest.mark.spec("FW-143", "FW-141", "FW-051")
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("401 unauthorized", (Category.AUTH, "ImagePullAuthFailure")),
        ("manifest unknown", (Category.MISSING_UPSTREAM, "ImageNotFound")),
        ("connection reset", (Category.INFRASTRUCTURE, "ImagePullBackOff")),
    ],
)
def test_image_pull_problems_come_first(message: str, expected: tuple[Category, str]) -> None:
    pods = [
        pod("a", "Running", ready=True),
        pod("b", "Failed", terminated("engine", 1)),
        pod("c", "Pending", waiting("engine", "ImagePullBackOff", message)),
    ]
    component = inspect_pods("Pods", pods)
    assert only_error(component) == expected
    assert "container engine" in component.effective_message
    assert not component.blocks


@pytest.mark.spec("FW-141")
def test_a_pod_that_was_asked_to_end_is_no_failure() -> None:
    stopped = pod("old", "Failed", terminated("engine", 143))
    going = stopped.metadata.model_copy(update={"deletion_timestamp": NOW})
    stopped = stopped.model_copy(update={"metadata": going})
    starting = pod("new", "Running", ready=False)
    assert inspect_pods("Pods", [stopped, starting]).reason == "PodsStarting"
    assert only_error(inspect_pods("Pods", [stopped])) == (Category.MISSING_DOWNSTREAM, "NoPods")
    assert wanted_logs([stopped]) == ()


@pytest.mark.spec("FW-141")
def test_an_evicted_pod_counts_until_it_is_replaced() -> None:
    made_by = owner(make(POD, "set") | {"kind": "ReplicaSet"})
    evicted = pod("evicted", "Failed", terminated("engine", 137), reason="Evicted", owners=[made_by])
    older = pod("older", ready=True, owners=[made_by], created=EARLIER - timedelta(seconds=5))
    assert only_error(inspect_pods("Pods", [evicted, older])) == (Category.INVALID_SPEC, "PodFailed")
    for moment in (EARLIER, NOW):
        replacement = pod("new", ready=True, owners=[made_by], created=moment)
        assert inspect_pods("Pods", [evicted, older, replacement]).reason == "PodsReady"
        assert wanted_logs([evicted, replacement]) == ()
    bare = pod("bare", "Failed", terminated("engine", 137))
    assert only_error(inspect_pods("Pods", [bare, replacement])) == (Category.INVALID_SPEC, "PodFailed")


@pytest.mark.spec("FW-141")
def test_an_engine_that_was_evicted_and_ended_well_serves_nothing() -> None:
    made_by = owner(make(POD, "set") | {"kind": "ReplicaSet"})
    evicted = pod("evicted", "Succeeded", terminated("engine", 0, "Completed"), owners=[made_by])
    pending = pod("new", "Pending", owners=[made_by])
    assert inspect_pods("Pods", [evicted, pending]).reason == "PodsPending"
    assert only_error(inspect_pods("Pods", [evicted])) == (Category.MISSING_DOWNSTREAM, "NoPods")


@pytest.mark.spec("FW-144", "DI-P11")
def test_a_container_that_can_not_be_made() -> None:
    component = inspect_pods("Pods", [pod("a", "Pending", waiting("x", "CreateContainerConfigError", "secret gone"))])
    assert only_error(component) == (Category.INVALID_SPEC, "CreateContainerConfigError")
    assert "secret gone" in component.effective_message


@pytest.mark.spec("FW-145", "FW-P09")
def test_the_first_container_with_a_code_is_to_blame() -> None:
    failed = pod("a", "Failed", terminated("side", 0, "Completed"), init=[terminated("init", 7)])
    assert "container init" in inspect_pods("Pods", [failed]).effective_message
    by_pod = pod("a", "Failed", reason="Evicted")
    assert only_error(inspect_pods("Pods", [by_pod])) == (Category.INFRASTRUCTURE, "PodEvicted")


@pytest.mark.spec("FW-145")
def test_of_a_job_the_newest_pod_decides() -> None:
    old = pod("old", "Failed", terminated("main", 1))
    new = pod("new", "Running", created=NOW + timedelta(seconds=5))
    assert inspect_pods("Pods", [old, new], of_job=True).effective_reason == "PodsStarting"
    assert only_error(inspect_pods("Pods", [old, new])) == (Category.INVALID_SPEC, "PodFailed")


@pytest.mark.spec("FW-149", "FW-146", "AC-59")
@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("OOMKilled", (Category.RESOURCE_EXHAUSTION, "PodOOMKilled")),
        ("Error", (Category.INVALID_SPEC, "PodFailed")),
        ("DeadlineExceeded", (Category.INVALID_SPEC, "PodDeadlineExceeded")),
        ("Odd", (Category.INVALID_SPEC, "PodFailed")),
    ],
)
def test_termination_reasons(reason: str, expected: tuple[Category, str]) -> None:
    assert only_error(inspect_pods("Pods", [pod("a", "Failed", terminated("main", 1, reason))])) == expected


@pytest.mark.spec("FW-148", "FW-147", "AC-59", "DI-286", "DI-P10", "AR-348")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("RepositoryNotFoundError: 401", (Category.INVALID_SPEC, "SourceNotFound")),
        ("Cannot access gated repo", (Category.AUTH, "AuthError")),
        ("No space left on device", (Category.RESOURCE_EXHAUSTION, "StorageFull")),
        ("RBAC: clusterrole x not found", (Category.INFRASTRUCTURE, "PodInfrastructureError")),
        ("boom", (Category.INVALID_SPEC, "PodFailed")),
    ],
)
def test_the_log_decides_before_the_termination_reason(line: str, expected: tuple[Category, str]) -> None:
    failed = pod("a", "Failed", terminated("main", 1))
    component = inspect_pods("Pods", [failed], log_of=logs(f"start\n  {line}  \nend"))
    assert only_error(component) == expected
    assert line in component.effective_message


@pytest.mark.spec("FW-150", "FW-151", "FW-152", "DI-287", "AR-358", "AR-P28")
def test_permission_lines_take_no_part_in_the_other_groups() -> None:
    denied = 'forbidden: user cannot patch resource "aimartifacts", file not found'
    match = match_log(f"{denied}\nENOSPC")
    assert match is not None
    assert match.group is LogGroup.STORAGE_FULL
    alone = match_log(denied)
    assert alone is not None
    assert alone.group is LogGroup.CLUSTER_PERMISSIONS
    both = match_log("401 Client Error: Unauthorized for hf.co\nRepository Not Found")
    assert both is not None
    assert both.group is LogGroup.SOURCE_NOT_FOUND
    assert match_log("all is well") is None


@pytest.mark.spec("FW-147", "DI-289")
def test_without_a_match_the_last_lines_are_quoted() -> None:
    assert excerpt("1\n2\n\n3\n4\n") == "2 | 3 | 4"


@pytest.mark.spec("FW-146", "FW-157")
def test_wanted_logs() -> None:
    pods = [
        pod("a", "Failed", terminated("main", 1)),
        pod("b", "Failed", terminated("main", 137, "OOMKilled")),
        pod("c", "Running", CRASHING),
    ]
    assert wanted_logs(pods) == (
        LogRequest("ml", "a", "pod-a-uid", "main", previous=False),
        LogRequest("ml", "c", "pod-c-uid", "engine", previous=True),
    )


@pytest.mark.spec("FW-153", "FW-154", "FW-156")
@pytest.mark.parametrize(
    ("pods", "state", "reason"),
    [
        ([pod("a", "Running", ready=False), pod("b", "Running", ready=True)], State.READY, "PodsReady"),
        ([pod("a", "Succeeded")], State.READY, "PodsReady"),
        ([pod("a", "Pending"), pod("b", "Running", ready=False)], State.STARTING, "PodsStarting"),
        ([pod("a", "Pending")], State.PENDING, "PodsPending"),
        ([pod("a", "Unknown")], State.PROGRESSING, "PodsProgressing"),
        ([pod("a", "Running", CRASHING), pod("b", "Running", ready=True)], State.READY, "PodsReady"),
    ],
)
def test_readiness(pods: list[Pod], state: State, reason: str) -> None:
    component = inspect_pods("Pods", pods)
    assert (component.effective_state, component.effective_reason) == (state, reason)


def of_a_lost_node(name: str = "a", phase: str = "Running", reason: str = "") -> Pod:
    """A pod as Kubernetes leaves it when its node stops reporting: the kubelet's last word, but for Ready."""
    conditions = [condition("ContainersReady", True), condition("Ready", False, reason)]
    return pod(name, phase, conditions=conditions, spec={"nodeName": "gpu-1"})


@pytest.mark.spec("FW-860")
def test_a_pod_whose_node_has_stopped_reporting_does_not_start() -> None:
    component = inspect_pods("Pods", [of_a_lost_node()])
    assert (component.effective_state, component.effective_reason) == (State.DEGRADED, "NodeNotReady")
    assert component.errors == ()
    assert component.effective_message == (
        "pod ml/a unreachable: its node gpu-1 has stopped reporting; Kubernetes replaces the pod when it no longer "
        "tolerates that, after 5 minutes by default; see `kubectl describe node gpu-1`"
    )


@pytest.mark.spec("FW-860")
@pytest.mark.parametrize(
    ("other", "reason"),
    [
        pytest.param(pod("b", "Running", ready=True), "PodsReady", id="another serves"),
        pytest.param(pod("b", "Running", ready=False), "PodsStarting", id="another starts"),
        pytest.param(pod("b", "Pending"), "PodsPending", id="another waits"),
        pytest.param(pod("b", "Running", CRASHING, ready=False), "CrashLoopBackOff", id="another ends"),
    ],
)
def test_a_successor_of_a_pod_on_a_lost_node_decides(other: Pod, reason: str) -> None:
    assert inspect_pods("Pods", [of_a_lost_node(), other]).effective_reason == reason


@pytest.mark.spec("FW-860")
@pytest.mark.parametrize(
    "starting",
    [
        of_a_lost_node(reason="ReadinessGatesNotReady"),
        pod("a", "Running", conditions=[condition("ContainersReady", False), condition("Ready", False)]),
        pod("a", "Running", ready=False),
    ],
)
def test_a_pod_that_its_kubelet_calls_not_ready_starts(starting: Pod) -> None:
    assert inspect_pods("Pods", [starting]).effective_reason == "PodsStarting"


@pytest.mark.spec("FW-157")
def test_a_crash_loop() -> None:
    crashing = pod("a", "Running", CRASHING, ready=False)
    component = inspect_pods("Pods", [crashing])
    assert (component.effective_state, component.effective_reason) == (State.DEGRADED, "CrashLoopBackOff")
    assert component.errors == ()
    assert "4 restarts, last exit code 139" in component.effective_message
    assert only_error(inspect_pods("Pods", [crashing], log_of=logs("ENOSPC"))) == (
        Category.RESOURCE_EXHAUSTION,
        "StorageFull",
    )


def pod_event(of: Pod, reason: str, second: int, message: str = "") -> Event:
    about = {"kind": "Pod", "name": of.name, "uid": of.uid}
    moment = (NOW + timedelta(seconds=second)).isoformat()
    name = f"{of.name}.{reason}.{second}"
    return Event.model_validate(
        make(EVENT, name, involvedObject=about, reason=reason, message=message, lastTimestamp=moment)
    )


@pytest.mark.spec("FW-155", "SV-P40")
@pytest.mark.parametrize(
    ("history", "state", "reason"),
    [
        (["FailedScheduling", "FailedMount"], State.PENDING, "FailedMount"),
        (["FailedScheduling", "Scheduled"], State.PENDING, "PodsPending"),
        (["FailedScheduling", "Scheduled", "Pulling"], State.PROGRESSING, "Pulling"),
        (["Scheduled", "FailedMount"], State.PENDING, "FailedMount"),
        ([], State.PENDING, "PodsPending"),
    ],
)
def test_a_pending_pod_is_explained_by_its_events(history: list[str], state: State, reason: str) -> None:
    waiting_pod = pod("a", "Pending")
    events = [pod_event(waiting_pod, name, second, "why") for second, name in enumerate(history)]
    foreign = pod_event(pod("b"), "FailedScheduling", 99)

    def events_of(_: Pod) -> Iterable[Event]:
        return [*events, foreign]

    component = inspect_pods("Pods", [waiting_pod], events_of=lambda one: list(events_of(one)))
    assert (component.effective_state, component.effective_reason) == (state, reason)


@pytest.mark.spec("FW-170")
@pytest.mark.parametrize(
    ("after", "matters"),
    [
        (pod("a", "Running", waiting("x", "ContainerCreating"), labels={"new": "label"}), False),
        (pod("a", "Failed", waiting("x", "ContainerCreating")), True),
        (pod("a", "Running", waiting("x", "ContainerCreating"), ready=True), True),
        (pod("a", "Running", waiting("x", "ImagePullBackOff")), True),
        (pod("a", "Running", waiting("x", "ContainerCreating"), waiting("y", "ContainerCreating")), True),
        (
            pod(
                "a",
                "Running",
                waiting("x", "ContainerCreating"),
                conditions=[condition("PodScheduled", False, "Unschedulable")],
            ),
            True,
        ),
    ],
)
def test_significant_pod_changes(after: Pod, matters: bool) -> None:
    before = pod("a", "Running", waiting("x", "ContainerCreating"))
    assert (pod_predicate(before) != pod_predicate(after)) is matters


def job(*conditions: dict[str, Any]) -> Job:
    return Job.model_validate(make(JOB, "j", status={"conditions": list(conditions)}))


@pytest.mark.spec("FW-160", "DI-282", "AC-52")
def test_job_states() -> None:
    assert only_error(inspect_job("J", None, what="Job ml/j")) == (Category.MISSING_DOWNSTREAM, "JobNotFound")
    assert inspect_job("J", job(condition("Complete", True)), what="x").effective_state is State.READY
    running = inspect_job("J", job(condition("Failed", False)), what="x")
    assert (running.effective_state, running.effective_reason) == (State.PROGRESSING, "JobRunning")
    assert not is_job_finished(job())
    assert is_job_finished(job(condition("Failed", True)))


@pytest.mark.spec("FW-163")
@pytest.mark.parametrize("said", [(), (condition("Failed", True, "DeadlineExceeded"),)])
def test_a_job_has_succeeded_when_its_pod_has(said: tuple[dict[str, Any], ...]) -> None:
    found = job(*said)

    def of(phase: str, owner: str) -> Pod:
        return Pod.model_validate(
            make(POD, "p", metadata={"ownerReferences": [{"kind": "Job", "uid": owner}]}, status={"phase": phase})
        )

    assert has_succeeded(found, [of("Failed", found.uid), of("Succeeded", found.uid)])
    assert not has_succeeded(found, [of("Running", found.uid), of("Failed", found.uid)])
    assert not has_succeeded(found, [of("Succeeded", "another")]), "a pod of the same name or labels proves nothing"
    assert has_succeeded(job(condition("Complete", True)), ())


@pytest.mark.spec("FW-161")
@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("BackoffLimitExceeded", (Category.INVALID_SPEC, "JobBackoffLimitExceeded")),
        ("DeadlineExceeded", (Category.INVALID_SPEC, "JobDeadlineExceeded")),
        ("Evicted", (Category.INFRASTRUCTURE, "JobEvicted")),
        ("Other", (Category.INVALID_SPEC, "JobFailed")),
    ],
)
def test_job_failures(reason: str, expected: tuple[Category, str]) -> None:
    component = inspect_job("J", job(condition("Failed", True, reason, "details")), what="Job ml/j")
    assert only_error(component) == expected
    assert "Job ml/j" in component.effective_message
    assert "details" in component.effective_message


@pytest.mark.spec("FW-162")
def test_the_pods_explain_a_failed_job() -> None:
    failed = inspect_job("J", job(condition("Failed", True, "BackoffLimitExceeded")), what="x")
    pods = inspect_pods("P", [pod("a", "Failed", terminated("main", 1))], log_of=logs("ENOSPC"))
    muted, same = blame_pods(failed, pods)
    assert (muted.errors, muted.effective_reason) == ((), "JobBackoffLimitExceeded")
    assert muted.effective_state is State.PROGRESSING
    assert same is pods
    assert blame_pods(failed, inspect_pods("P", []))[0] is failed


@pytest.mark.spec("FW-165", "AR-215")
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Bound"}, (State.READY, "Ready")),
        ({"phase": "Pending"}, (State.PROGRESSING, "PvcPending")),
        ({"phase": "Lost"}, (State.DEGRADED, "PvcLost")),
        (
            {"phase": "Pending", "conditions": [condition("Resizing", False, "ProvisioningFailed")]},
            (State.DEGRADED, "PvcProvisioningFailed"),
        ),
    ],
)
def test_claims(status: dict[str, Any], expected: tuple[State, str]) -> None:
    claim = PersistentVolumeClaim.model_validate(make(PERSISTENT_VOLUME_CLAIM, "c", status=status))
    component = inspect_pvc("C", claim, what="claim ml/c")
    assert (component.effective_state, component.effective_reason) == expected


@pytest.mark.spec("FW-165")
def test_a_missing_claim() -> None:
    assert only_error(inspect_pvc("C", None, what="x")) == (Category.MISSING_DOWNSTREAM, "PvcNotFound")


# Acceptance scenarios


@pytest.mark.spec("FW-S33", "FW-P08", "AR-348", "SC-031", "AR-358", "AR-P28")
@pytest.mark.parametrize(
    ("lines", "expected", "quoted"),
    [
        ("Access to model X is restricted", (Category.AUTH, "AuthError"), True),
        ("401 Client Error. Repository Not Found for url", (Category.INVALID_SPEC, "SourceNotFound"), True),
        ("No space left on device", (Category.RESOURCE_EXHAUSTION, "StorageFull"), True),
        ('RBAC: clusterrole "x" not found', (Category.INFRASTRUCTURE, "PodInfrastructureError"), True),
        ('RBAC: clusterrole "x" not found\nCannot access gated repo', (Category.AUTH, "AuthError"), False),
    ],
)
def test_what_a_log_says(lines: str, expected: tuple[Category, str], quoted: bool) -> None:
    failed = pod("a", "Failed", terminated("main", 1))
    component = inspect_pods("Pods", [failed], log_of=logs(f"begin\n{lines}\nend"))
    assert only_error(component) == expected
    assert (lines in component.effective_message) is quoted


@pytest.mark.spec("FW-S33")
def test_who_ran_out_of_memory_is_asked_nothing() -> None:
    failed = pod("a", "Failed", terminated("main", 137, "OOMKilled"))
    assert wanted_logs([failed]) == ()
    assert only_error(inspect_pods("Pods", [failed])) == (Category.RESOURCE_EXHAUSTION, "PodOOMKilled")


@pytest.mark.spec("FW-S34")
@pytest.mark.parametrize(
    ("pods", "events", "state", "reason"),
    [
        ([], [], State.PROGRESSING, "NoPods"),
        ([pod("a", "Running", ready=True), pod("b", "Running", ready=False)], [], State.READY, "PodsReady"),
        ([pod("a", "Running", ready=False)], [], State.STARTING, "PodsStarting"),
        ([pod("a", "Pending")], ["FailedScheduling"], State.PENDING, "FailedScheduling"),
        ([pod("a", "Pending")], ["Pulling"], State.PROGRESSING, "Pulling"),
        ([pod("a", "Pending")], [], State.PENDING, "PodsPending"),
    ],
)
def test_what_a_list_of_pods_comes_to(pods: list[Pod], events: list[str], state: State, reason: str) -> None:
    def events_of(one: Pod) -> list[Event]:
        return [pod_event(one, name, second, "why") for second, name in enumerate(events)]

    component = inspect_pods("Pods", pods, events_of=events_of)
    assert (component.effective_state, component.effective_reason) == (state, reason)


@pytest.mark.spec("FW-S35", "FW-P09")
def test_of_two_init_containers_the_one_that_failed_is_diagnosed() -> None:
    failed = pod("a", "Failed", init=[terminated("first", 0, "Completed"), terminated("second", 1)])
    message = inspect_pods("Pods", [failed]).effective_message
    assert "container second" in message
    assert "first" not in message
