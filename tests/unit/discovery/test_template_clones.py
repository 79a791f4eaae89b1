"""Cloning of templates for another GPU, and what becomes of a clone (section 20)."""

from typing import Any

import pytest
from support.discovery_cache import (
    DiscoveryCluster,
    cluster_model,
    cluster_template,
    discovery_cluster,
    effect_of,
    gpu_node,
)

from aim_discovery.cloning.clones import clone, clone_name, clones_of
from aim_discovery.templates.job_log import JOB_LOG
from aim_domain.parts import CLUSTER_TEMPLATES
from controller_runtime import JsonObject

SYSTEM = "aim-system"


def hardware(model: str) -> JsonObject:
    return {"gpu": {"requests": 1, "model": model, "resourceName": "amd.com/gpu"}}


def names(templates: list[JsonObject]) -> list[str]:
    return [one["metadata"]["name"] for one in clones_of(templates, "MI300X", "MI308X")]


@pytest.mark.spec("DI-371")
def test_templates_of_exactly_the_source_gpu_are_cloned() -> None:
    resolved = {**cluster_template("resolved"), "status": {"resolvedHardware": hardware("MI300X")}}
    specified = cluster_template("specified", hardware=hardware("MI300X"))
    elsewhere = {
        **cluster_template("elsewhere", hardware=hardware("MI300X")),
        "status": {"resolvedHardware": hardware("MI325X")},
    }
    others = [cluster_template("none"), cluster_template("spelt", hardware=hardware("mi300x")), elsewhere]
    assert names([resolved, *others, specified]) == ["r-mi308x", "sp-mi308x"]
    assert names(others) == []


@pytest.mark.spec("DI-371")
def test_a_clone_is_not_cloned_again() -> None:
    env = [{"name": "AIM_GPU_MODEL", "value": "MI300X"}]
    made = cluster_template("clone", hardware=hardware("MI308X"), env=env)
    assert names([{**made, "status": {"resolvedHardware": hardware("MI300X")}}]) == []


@pytest.mark.spec("DI-372")
def test_a_clone_has_what_users_wrote_and_nothing_of_the_server() -> None:
    env = [{"name": "AIM_GPU_MODEL", "value": "old"}, {"name": "X", "value": "1"}]
    original = cluster_template("t-mi300x", hardware=hardware("MI300X"), env=env, profileId="p")
    metadata: dict[str, Any] = {
        **original["metadata"],
        "labels": {"a": "b"},
        "annotations": {"c": "d", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "ownerReferences": [{"kind": "AIMClusterModel", "name": "m", "uid": "u"}],
        "managedFields": [{}],
        "selfLink": "/x",
    }
    made = clone({**original, "metadata": metadata, "status": {"status": "Ready"}}, "MI300X", "MI308X")
    assert made == {
        "apiVersion": original["apiVersion"],
        "kind": "AIMClusterServiceTemplate",
        "metadata": {
            "name": "t-mi308x",
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "ownerReferences": metadata["ownerReferences"],
        },
        "spec": {
            "modelName": "qwen",
            "hardware": hardware("MI308X"),
            "env": [{"name": "X", "value": "1"}, {"name": "AIM_GPU_MODEL", "value": "MI300X"}],
            "profileId": "p",
        },
    }


@pytest.mark.spec("DI-373")
@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("a-1x-mi300x-MI300X-59b1", "a-1x-mi308x-mi308x-59b1"),
        ("aim-qwen-template", "aim-qwen-t-mi308x"),
        ("short", "s-mi308x"),
        ("n" * 63, "n" * 56 + "-mi308x"),
        ("n" * 90, "n" * 56 + "-mi308x"),
    ],
)
def test_names_of_clones(name: str, made: str) -> None:
    assert clone_name(name, "MI300X", "MI308X") == made
    assert len(made) <= 63


def discovered_clone() -> tuple[DiscoveryCluster, JsonObject]:
    """A clone for MI308X that was discovered, and its Job."""
    original = cluster_template("tpl-mi300x", hardware=hardware("MI300X"))
    made = clone(original, "MI300X", "MI308X")
    node = gpu_node("new", "74a8")
    cluster = discovery_cluster(cluster_model(), cluster_template("tpl-mi308x", **made["spec"]), nodes=[node])
    (job,) = cluster.run(CLUSTER_TEMPLATES, "tpl-mi308x").children
    cluster.settle(CLUSTER_TEMPLATES, "tpl-mi308x")
    cluster.end_job(job.name, namespace=SYSTEM)
    profile = {"metadata": {"gpu": "MI300X", "gpu_count": 1}}
    log = effect_of(cluster.run(CLUSTER_TEMPLATES, "tpl-mi308x"), JOB_LOG.name)
    cluster.answer(log, {"element": {"profile": profile, "models": []}})
    cluster.settle(CLUSTER_TEMPLATES, "tpl-mi308x")
    return cluster, job.body


@pytest.mark.spec("DI-236", "DI-374", "DI-375", "DI-332", "AC-65")
def test_a_clone_asks_for_the_profile_of_the_source_and_runs_on_the_target() -> None:
    cluster, job = discovered_clone()
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [one["value"] for one in env if one["name"] == "AIM_GPU_MODEL"] == ["MI300X"]
    status = cluster.status(CLUSTER_TEMPLATES, "tpl-mi308x")
    assert status["status"] == "Ready"
    assert status["resolvedHardware"]["gpu"]["model"] == "MI300X"
    (term,) = status["resolvedNodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["74a2", "74a8", "74b6"]
