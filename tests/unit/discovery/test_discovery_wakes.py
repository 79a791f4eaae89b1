"""What enqueues models and templates, and what leaves them alone (section 18)."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import make, owner
from support.discovery_cache import (
    MI300X,
    SYSTEM,
    DiscoveryCache,
    DiscoveryCluster,
    cluster_model,
    cluster_template,
    discovery_cache,
    discovery_cluster,
    gpu_node,
    model,
    template,
)
from support.woken import woken as all_woken

from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG, AIM_TEMPLATE_CACHE
from aim_domain.naming import template_profile_name
from aim_domain.parts import (
    CLUSTER_MODELS,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    CUSTOM_PROFILES,
    DISCOVERY_JOBS,
    DISCOVERY_PODS,
    MODELS,
    NAMESPACES,
    NODES,
    RUNTIME_CONFIGS,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from controller_runtime import JsonObject, Key, Part, timestamp
from controller_runtime.kinds import CONFIG_MAP, JOB
from controller_runtime.kinds import NAMESPACE as NAMESPACE_KIND
from controller_runtime.testing import NOW


def woken(
    cluster: DiscoveryCache | DiscoveryCluster, part: Part[Any], before: JsonObject | None, after: JsonObject | None
) -> set[str]:
    """Who is enqueued by a change, other than the object itself."""
    itself = f"{(after or before or {})['metadata']['name']}"
    found = all_woken(cluster.definition, cluster, part, before, after, now=cluster.now)
    own = next((one.controller for one in cluster.definition.reconcilers if one.part is part), None)
    return {key for key in found if not (own is not None and key.startswith(f"{own}:") and key.endswith(itself))}


@pytest.mark.spec("DI-360", "DI-362", "DI-P39")
def test_a_template_wakes_the_model_that_it_names() -> None:
    cluster = discovery_cache(model(), cluster_model())
    pending, ready = template(), {**template(), "status": {"status": "Ready"}}
    assert woken(cluster, TEMPLATES, None, pending) == {"model:ml/qwen"}
    assert woken(cluster, TEMPLATES, pending, ready) == {"model:ml/qwen"}
    assert woken(cluster, TEMPLATES, ready, None) == {"model:ml/qwen"}
    noted = {**ready, "status": {**ready["status"], "observedGeneration": 2}}
    assert woken(cluster, TEMPLATES, ready, noted) == set()
    assert woken(cluster, CLUSTER_TEMPLATES, None, cluster_template()) == {"cluster-model:qwen"}


@pytest.mark.spec("DI-162", "DI-164", "DI-360")
def test_a_model_wakes_its_templates_and_a_cluster_model_those_that_fall_back() -> None:
    cluster = discovery_cache(
        model("both"), template("own", "both"), template("fallback", "only"), cluster_template("shared", "only")
    )
    assert woken(cluster, MODELS, None, model("both")) == {"service-template:ml/own"}
    fallen = {"service-template:ml/fallback", "cluster-service-template:shared"}
    assert woken(cluster, CLUSTER_MODELS, None, cluster_model("only")) == fallen
    assert woken(cluster, CLUSTER_MODELS, None, cluster_model("both")) == set()
    noted = {**model("both"), "status": {"observedGeneration": 2}}
    assert woken(cluster, MODELS, model("both"), noted) == set()


@pytest.mark.spec("DI-360", "DI-361", "DI-P38")
def test_configs_wake_those_whose_effective_name_it_is() -> None:
    other = {"runtimeConfigName": "other"}
    cluster = discovery_cache(model(), model("b", **other), template(), cluster_model(), cluster_template(**other))
    local = make(AIM_RUNTIME_CONFIG, "default", spec={})
    assert woken(cluster, RUNTIME_CONFIGS, None, local) == {"model:ml/qwen", "service-template:ml/tpl"}
    shared = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={})
    everyone = {"model:ml/qwen", "service-template:ml/tpl", "cluster-model:qwen"}
    assert woken(cluster, CLUSTER_RUNTIME_CONFIGS, shared, None) == everyone
    named = make(AIM_CLUSTER_RUNTIME_CONFIG, "other", spec={})
    assert woken(cluster, CLUSTER_RUNTIME_CONFIGS, None, named) == {"model:ml/b", "cluster-service-template:tpl"}
    assert woken(cluster, CLUSTER_RUNTIME_CONFIGS, shared, {**shared, "status": {"conditions": []}}) == set()


def woken_by_node(cluster: DiscoveryCache, node: JsonObject) -> set[str]:
    """Templates whose last pass read what this version of a node changes."""
    parts: tuple[Part[Any], ...] = (TEMPLATES, CLUSTER_TEMPLATES)
    names = [(part, str(one["metadata"]["name"])) for part in parts for one in cluster.all(part)]
    reads = {name: set(cluster.reads(part, name).summaries) for part, name in names}
    groups = {group for change in cluster.put(NODES, node) for group in change.groups}
    return {name for name, read in reads.items() if read & groups}


@pytest.mark.spec("DI-360", "DI-363", "DI-367", "FW-115", "FW-454")
def test_nodes_wake_only_templates_that_need_a_gpu_and_only_by_what_matters() -> None:
    profile = {"metadata": {"gpu": "MI300X", "gpuCount": 1}}
    found = {**template("discovered"), "status": {"resolvedHardware": MI300X, "profile": profile}}
    roomy = {"gpu": {"requests": 1, "minVram": "100Gi"}}
    cluster = discovery_cache(
        template("plain"),
        template("gpu", hardware=MI300X),
        found,
        cluster_template("shared", hardware=MI300X),
        template("roomy", hardware=roomy),
        template("any", hardware={"gpu": {"requests": 1}}),
        nodes=[],
    )
    everyone = {"gpu", "discovered", "shared", "roomy", "any"}
    assert woken_by_node(cluster, gpu_node("new")) == everyone
    heartbeat = {**gpu_node("new"), "status": {"conditions": []}}
    assert woken_by_node(cluster, heartbeat) == set()
    assert woken_by_node(cluster, gpu_node("another")) == set(), "one more of a known kind"
    assert woken_by_node(cluster, gpu_node("other-model", "74a5")) == {"roomy", "any"}


def job(owner_of: JsonObject, namespace: str = "ml", ended: str = "") -> JsonObject:
    labels = {
        "app.kubernetes.io/name": "aim-discovery",
        "app.kubernetes.io/component": "discovery",
        "app.kubernetes.io/managed-by": "aim-controller",
    }
    conditions = [{"type": ended, "status": "True"}] if ended else []
    status = {"conditions": conditions}
    return make(JOB, "j", namespace=namespace, labels=labels, owners=[owner(owner_of)], status=status)


@pytest.mark.spec("DI-317", "DI-360")
def test_a_job_wakes_its_template_and_when_it_ends_one_that_waits_for_a_slot() -> None:
    done = {**template("done"), "status": {"status": "Ready", "conditions": [{"type": "Ready", "status": "True"}]}}
    cluster = discovery_cache(template("waiting"), done)
    own = cluster.stored[TEMPLATES, Key("ml", "done")]
    assert woken(cluster, DISCOVERY_JOBS, None, job(own)) == {"service-template:ml/done"}
    both = {"service-template:ml/done", "service-template:ml/waiting"}
    assert woken(cluster, DISCOVERY_JOBS, job(own), job(own, ended="Failed")) == both
    assert woken(cluster, DISCOVERY_JOBS, job(own), None) == both
    assert woken(cluster, DISCOVERY_JOBS, job(own, ended="Failed"), None) == {"service-template:ml/done"}
    shared = cluster_template()
    cluster = discovery_cache(shared)
    assert woken(cluster, DISCOVERY_JOBS, None, job(shared, SYSTEM)) == {"cluster-service-template:tpl"}


@pytest.mark.spec("DI-317", "DI-318")
def test_a_free_slot_wakes_the_oldest_only() -> None:
    def aged(obj: JsonObject, minutes: float) -> JsonObject:
        return {
            **obj,
            "metadata": {**obj["metadata"], "creationTimestamp": timestamp(NOW + timedelta(minutes=minutes))},
        }

    done = {**template("done"), "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    young = [aged(template(f"young-{number}"), number) for number in range(20)]
    shared = aged(cluster_template("shared"), 1.5)
    active = [{**job(done), "metadata": {**job(done)["metadata"], "name": f"j{number}"}} for number in range(2)]
    cluster = discovery_cache(*young, shared, done, *active, max_discovery_jobs=5)
    turn = {f"service-template:ml/{name}" for name in ("young-0", "young-1", "done")}
    ended = woken(cluster, DISCOVERY_JOBS, job(done), job(done, ended="Complete"))
    assert ended == {*turn, "cluster-service-template:shared"}
    full = discovery_cache(*young, shared, done, *active, max_discovery_jobs=2)
    assert woken(full, DISCOVERY_JOBS, job(done), None) == {"service-template:ml/done"}


@pytest.mark.spec("DI-364", "FW-170")
def test_a_pod_wakes_the_template_of_its_job() -> None:
    cluster = discovery_cluster(template(), {**model(), "status": {"status": "Ready"}})
    cluster.settle(TEMPLATES, "tpl")
    (started,) = cluster.all(DISCOVERY_JOBS)
    pending, running = (cluster.job_pod(started["metadata"]["name"], phase) for phase in ("Pending", "Running"))
    assert woken(cluster, DISCOVERY_PODS, pending, running) == {"service-template:ml/tpl"}
    assert woken(cluster, DISCOVERY_PODS, running, running) == set()


@pytest.mark.spec("DI-360")
def test_owned_caches_and_profiles_wake_their_template() -> None:
    cluster = discovery_cache(template(), cluster_template())
    own, shared = template(), cluster_template()
    cache = make(AIM_TEMPLATE_CACHE, "c", owners=[owner(own)])
    assert woken(cluster, TEMPLATE_CACHES, None, cache) == {"service-template:ml/tpl"}
    labels = {"aim.eai.amd.com/component": "custom-profile"}
    file = make(CONFIG_MAP, template_profile_name("tpl"), namespace=SYSTEM, labels=labels, owners=[owner(shared)])
    assert woken(cluster, CUSTOM_PROFILES, file, None) == {"cluster-service-template:tpl"}


@pytest.mark.spec("DI-010")
def test_a_namespace_that_appears_or_goes_wakes_what_is_in_it() -> None:
    cluster = discovery_cache(model(), template())
    here = make(NAMESPACE_KIND, "ml")
    everyone = {"model:ml/qwen", "service-template:ml/tpl"}
    assert woken(cluster, NAMESPACES, None, here) == everyone
    assert woken(cluster, NAMESPACES, here, make(NAMESPACE_KIND, "ml", deleting=cluster.now)) == everyone
    assert woken(cluster, NAMESPACES, here, make(NAMESPACE_KIND, "ml", annotations={"a": "b"})) == set()
