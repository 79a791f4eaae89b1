"""What Deployments and ReplicaSets do: pods that are made, replaced and removed."""

from aim_local.actors.deployments import DeploymentStep, next_step, pod_for, replica_set_for
from aim_local.actors.deployments import next_replica_set_step as next_scale
from controller_runtime import JsonObject

NOW, LATER = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"


def deployment(replicas: int = 4, image: str = "a:1", status: JsonObject | None = None) -> JsonObject:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": "ns", "uid": "u-1", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "x"}},
            "template": template,
        },
        "status": status or {},
    }


def replica_set(of: JsonObject, replicas: int, available: int, number: int = 1) -> JsonObject:
    made = replica_set_for(of)
    made["spec"]["replicas"] = replicas
    made["metadata"] |= {"uid": f"rs-{number}", "creationTimestamp": f"2026-01-01T12:00:0{number}Z"}
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
    assert step.create["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    digits = step.create["metadata"]["labels"]["pod-template-hash"]
    assert step.create["metadata"]["name"] == f"chat-{digits}"
    assert step.create["spec"]["selector"]["matchLabels"] == {"app": "x", "pod-template-hash": digits}


def test_old_pods_go_as_new_ones_serve() -> None:
    changed = deployment(image="a:2")
    old = replica_set(deployment(), 4, 4)

    left = [scaled(next_step(changed, [old, replica_set(changed, 4, serving, 2)], NOW)) for serving in range(5)]
    assert left == [[], [3], [2], [1], [0]]


def test_old_pods_that_do_not_serve_make_room() -> None:
    changed = deployment(1, image="a:3")
    broken = replica_set(deployment(1, image="a:2"), 1, 0, 2)
    serving = replica_set(deployment(1), 1, 1, 1)

    step = next_step(changed, [serving, broken, replica_set(changed, 1, 0, 3)], NOW)

    assert [(one["metadata"]["uid"], replicas) for one, replicas in step.scale] == [("rs-2", 0)]


def test_replicas_follow_the_deployment() -> None:
    assert scaled(next_step(deployment(2), [replica_set(deployment(), 4, 4)], NOW)) == [2]


def test_a_replica_set_without_pods_goes_when_another_took_over() -> None:
    present = deployment(1, image="a:9")
    old = [replica_set(deployment(1), 0, 0, 1), replica_set(deployment(1, image="a:2"), 1, 0, 2)]

    step = next_step(present, [*old, replica_set(present, 1, 1, 3)], NOW)

    assert [one["metadata"]["uid"] for one in step.delete] == ["rs-1"]


def test_a_deployment_says_how_far_it_is() -> None:
    present = deployment(2)
    under_way = next_step(present, [replica_set(present, 2, 1)], NOW)
    assert condition(under_way, "Available")["reason"] == "MinimumReplicasUnavailable"
    assert condition(under_way, "Progressing")["reason"] == "ReplicaSetUpdated"
    whole = replica_set(present, 2, 2)
    step = next_step(deployment(2, status=under_way.status), [whole], LATER)

    assert step.status is not None
    assert condition(step, "Progressing")["reason"] == "NewReplicaSetAvailable"
    assert condition(step, "Available")["status"] == "True"
    assert condition(step, "Available")["lastTransitionTime"] == LATER
    assert step.status["observedGeneration"] == 1
    assert next_step(deployment(2, status=step.status), [whole], LATER).status is None


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
