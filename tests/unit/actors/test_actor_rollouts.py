"""Deployments and ReplicaSets decide as their real controllers do."""

from datetime import UTC, datetime, timedelta

import pytest

from aim_local.actors.deployment_decision import DeploymentStep, next_step, replica_set_for
from aim_local.actors.replica_set_decision import next_step as next_scale
from aim_local.actors.replica_set_decision import pod_for
from controller_runtime import JsonObject

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def deployment(replicas: int = 4, image: str = "a:1", status: JsonObject | None = None, **spec: object) -> JsonObject:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": "ns", "uid": "u-1", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "x"}},
            "template": template,
            "progressDeadlineSeconds": 600,
            **spec,
        },
        "status": status or {},
    }


def replica_set(of: JsonObject, replicas: int, available: int, revision: int = 1) -> JsonObject:
    made = replica_set_for(of, replicas, revision)
    made["metadata"] |= {"uid": f"rs-{revision}", "creationTimestamp": f"2026-01-01T12:00:0{revision}Z"}
    made["status"] = {"replicas": replicas, "readyReplicas": available, "availableReplicas": available}
    return made


def condition(step: DeploymentStep, type_: str) -> JsonObject:
    assert step.status is not None
    return next(one for one in step.status["conditions"] if one["type"] == type_)


def scaled(step: DeploymentStep) -> list[int]:
    return [replicas for _, replicas in step.scale]


def test_a_new_deployment_gets_its_replica_set_whole() -> None:
    step = next_step(deployment(), [], NOW)

    assert step.create is not None
    assert step.create["spec"]["replicas"] == 4
    assert step.create["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    assert step.create["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    digits = step.create["metadata"]["labels"]["pod-template-hash"]
    assert step.create["metadata"]["name"] == f"chat-{digits}"
    assert step.create["spec"]["selector"]["matchLabels"] == {"app": "x", "pod-template-hash": digits}
    assert condition(step, "Progressing")["reason"] == "NewReplicaSetCreated"
    assert condition(step, "Available")["reason"] == "MinimumReplicasUnavailable"


def test_a_changed_template_starts_within_the_surge() -> None:
    old = replica_set(deployment(), 4, 4)

    step = next_step(deployment(image="a:2"), [old], NOW)

    assert step.create is not None
    assert step.create["spec"]["replicas"] == 1
    assert step.create["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"


def test_old_pods_go_as_new_ones_serve() -> None:
    changed = deployment(image="a:2")
    old = replica_set(deployment(), 4, 4)
    waiting, serving = (replica_set(changed, 1, available, 2) for available in (0, 1))

    # One of four may be missing, so one old pod goes while the new one starts.
    assert scaled(next_step(changed, [old, waiting], NOW)) == [3]
    assert scaled(next_step(changed, [old, serving], NOW)) == [2]


def test_a_single_pod_is_only_replaced_by_one_that_serves() -> None:
    changed = deployment(1, image="a:2")
    old = replica_set(deployment(1), 1, 1)

    assert scaled(next_step(changed, [old, replica_set(changed, 1, 0, 2)], NOW)) == []
    assert scaled(next_step(changed, [old, replica_set(changed, 1, 1, 2)], NOW)) == [0]


def test_old_pods_that_do_not_serve_make_room() -> None:
    changed = deployment(1, image="a:3")
    broken = replica_set(deployment(1, image="a:2"), 1, 0, 2)
    serving = replica_set(deployment(1), 1, 1, 1)

    step = next_step(changed, [serving, broken, replica_set(changed, 0, 0, 3)], NOW)

    assert [(one["metadata"]["uid"], replicas) for one, replicas in step.scale] == [("rs-2", 0)]


def test_a_finished_rollout_says_so_and_is_not_written_twice() -> None:
    present = deployment(2)
    whole = replica_set(present, 2, 2)
    step = next_step(present, [whole], NOW)

    assert step.status is not None
    assert condition(step, "Progressing")["reason"] == "NewReplicaSetAvailable"
    assert condition(step, "Available")["status"] == "True"
    assert step.status["observedGeneration"] == 1
    again = next_step(deployment(2, status=step.status), [whole], NOW + timedelta(hours=1))
    assert again.status is None


def test_a_rollout_without_progress_times_out() -> None:
    present = deployment(1)
    stuck = replica_set(present, 1, 0)
    started = next_step(present, [stuck], NOW)
    assert started.status is not None
    waiting = next_step(deployment(1, status=started.status), [stuck], NOW + timedelta(seconds=1))
    assert waiting.again == pytest.approx(599, abs=1)
    late = next_step(deployment(1, status=started.status), [stuck], NOW + timedelta(seconds=601))

    assert condition(late, "Progressing")["status"] == "False"
    assert condition(late, "Progressing")["reason"] == "ProgressDeadlineExceeded"


def test_recreate_empties_first() -> None:
    strategy = {"type": "Recreate"}
    changed = deployment(2, image="a:2", strategy=strategy)

    assert scaled(next_step(changed, [replica_set(deployment(2), 2, 2)], NOW)) == [0]
    assert next_step(changed, [replica_set(deployment(2), 0, 0)], NOW).create is not None


def test_history_is_limited() -> None:
    present = deployment(1, image="a:9", revisionHistoryLimit=1)
    old = [replica_set(deployment(1, image=f"a:{number}"), 0, 0, number) for number in (1, 2, 3)]

    step = next_step(present, [*old, replica_set(present, 1, 1, 4)], NOW)

    assert [one["metadata"]["uid"] for one in step.delete] == ["rs-1", "rs-2"]


def pod(name: str, phase: str = "Running", *, ready: bool = True, going: bool = False, age: int = 0) -> JsonObject:
    conditions = [{"type": "Ready", "status": str(ready)}]
    metadata: JsonObject = {"name": name, "creationTimestamp": f"2026-01-01T12:00:0{age}Z", "labels": {"app": "x"}}
    if going:
        metadata["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    return {"metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": phase, "conditions": conditions}}


def test_ended_and_going_pods_are_replaced() -> None:
    wanted = replica_set(deployment(3), 3, 0)

    assert next_scale(wanted, [pod("a"), pod("b", "Failed"), pod("c", going=True)]).create == 2


def test_pods_that_serve_least_go_first_then_the_youngest() -> None:
    wanted = replica_set(deployment(1), 1, 0)

    step = next_scale(wanted, [pod("old"), pod("young", age=5), pod("idle", ready=False)])

    assert [one["metadata"]["name"] for one in step.delete] == ["idle", "young"]
    assert step.status is not None
    assert (step.status["replicas"], step.status["readyReplicas"]) == (3, 2)


def test_a_pod_is_named_and_owned_by_its_replica_set() -> None:
    wanted = replica_set(deployment(1), 1, 0)
    made = pod_for(wanted)

    assert made["metadata"]["generateName"] == f"{wanted['metadata']['name']}-"
    assert (
        made["metadata"]["ownerReferences"][0] | {"uid": "rs-1", "kind": "ReplicaSet", "controller": True}
        == (made["metadata"]["ownerReferences"][0])
    )
    assert made["metadata"]["labels"] == wanted["spec"]["template"]["metadata"]["labels"]
