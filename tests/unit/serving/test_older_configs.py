"""What serving makes of configurations of older kinds, and says about them."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import make
from support.old_objects import KAIWO_DEFAULTS, NAMESPACE_CONFIG
from support.predictors import USUAL, applied, env, predictor
from support.serving import (
    TEAM,
    aim_service,
    children_of,
    model,
    node,
    plan_for,
    serving_cache,
    template,
    template_cache,
)

from aim_domain import InferenceService
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_NAMESPACE_CONFIG, KAIWO_CONFIG
from aim_domain.parts import KAIWO_CONFIGS, NAMESPACE_CONFIGS
from aim_serving.runtime_config import reconcile_kaiwo_config, reconcile_namespace_config
from aim_serving.volumes import volumes_of_workload
from controller_runtime import JsonObject
from controller_runtime.testing import NOW


def namespace_config(name: str = "one", age: int = 0, **spec: Any) -> JsonObject:
    return make(AIM_NAMESPACE_CONFIG, name, namespace=TEAM, spec=spec, created=NOW - timedelta(days=age))


def kaiwo(name: str = "one", age: int = 0, **spec: Any) -> JsonObject:
    return make(KAIWO_CONFIG, name, spec=spec, created=NOW - timedelta(days=age))


def reported_on(name: str, *configs: JsonObject) -> list[tuple[str, str]]:
    cache = serving_cache(*configs)
    if configs[0]["kind"] == "KaiwoConfig":
        plan = reconcile_kaiwo_config(cache.object(KAIWO_CONFIGS, "", name), cache.view(), NOW)
    else:
        plan = reconcile_namespace_config(cache.object(NAMESPACE_CONFIGS, TEAM, name), cache.view(), NOW)
    assert (plan.status, plan.children, plan.patches) == (None, (), ())
    return [(event.reason, event.message) for event in plan.events]


@pytest.mark.spec("RC-152", "RC-S30")
def test_the_serving_container_has_the_token_for_its_weights() -> None:
    of_namespace = namespace_config(**NAMESPACE_CONFIG)
    found = env(aim_service(), of_namespace)
    assert found["HF_TOKEN"] == {"secretKeyRef": {"name": "hf-creds", "key": "token"}}
    assert "AWS_ACCESS_KEY_ID" not in found
    assert env(aim_service(env=[{"name": "HF_TOKEN", "value": "mine"}]), of_namespace)["HF_TOKEN"] == "mine"
    assert "HF_TOKEN" not in env(aim_service())


@pytest.mark.spec("RC-153", "RC-S30")
def test_the_serving_pod_has_the_namespace_s_pull_secrets_behind_its_own() -> None:
    service = aim_service(imagePullSecrets=[{"name": "own"}, {"name": "another-secret"}])
    secrets = predictor(service, namespace_config(**NAMESPACE_CONFIG))["imagePullSecrets"]
    assert secrets == [{"name": "own"}, {"name": "another-secret"}, {"name": "my-regcred"}]
    assert model()["spec"].get("imagePullSecrets") is None
    named = model(imagePullSecrets=[{"name": "of-model"}])
    every = serving_cache(
        aim_service(), named, template(), node(), template_cache(USUAL), namespace_config(**NAMESPACE_CONFIG)
    )
    (workload,) = children_of(plan_for(every), "InferenceService")
    names = [one["name"] for one in workload["spec"]["predictor"]["imagePullSecrets"]]
    assert names == ["of-model", "my-regcred", "another-secret"]


@pytest.mark.spec("RC-154")
def test_what_has_no_effect_is_reported_in_one_event() -> None:
    reference = {"secretName": "s", "secretKey": "k"}
    credentials = {"gcs": [{"applicationCredentials": reference}], "azureBlob": [{"connectionString": reference}]}
    assert reported_on("one", namespace_config(credentials=credentials)) == [
        ("NoEffect", "accepted, but without effect here: spec.credentials.gcs, spec.credentials.azureBlob")
    ]
    assert reported_on("one", namespace_config(**NAMESPACE_CONFIG)) == []
    assert reported_on("one", kaiwo(**KAIWO_DEFAULTS | {"storage": {"defaultStorageClass": "fast"}})) == []
    assert reported_on("one", kaiwo()) == []
    spec: JsonObject = {"ray": {"headPodMemory": "1Gi"}, "resourceMonitoring": {"targetNamespaces": ["a"]}}
    [(reason, message)] = reported_on("one", kaiwo(**spec, defaultClusterQueueCohortName="mine"))
    fields = ("defaultClusterQueueCohortName", "ray.headPodMemory", "resourceMonitoring.targetNamespaces")
    assert (reason, message.partition(": ")[2]) == ("NoEffect", ", ".join(f"spec.{name}" for name in fields))


@pytest.mark.spec("RC-151", "RC-154")
def test_all_but_the_oldest_are_reported_that_they_do_not_count() -> None:
    for made in (kaiwo, namespace_config):
        older, newer = made("z", 2), made("a", 1)
        assert reported_on("z", older, newer) == []
        [(reason, message)] = reported_on("a", older, newer)
        assert reason == "ConfigIgnored"
        assert f"{older['kind']} z is older" in message


@pytest.mark.spec("RC-155")
def test_serving_pods_tolerate_the_taint_of_gpu_nodes() -> None:
    tolerated = predictor(aim_service(), kaiwo())["tolerations"]
    assert tolerated == [{"key": "kaiwo.silogen.ai/gpu", "operator": "Exists"}]
    other = predictor(aim_service(), kaiwo(nodes={"defaultGpuTaintKey": "mine"}))["tolerations"]
    assert other == [{"key": "mine", "operator": "Exists"}]
    assert "tolerations" not in predictor(aim_service())
    assert "tolerations" not in predictor(aim_service(), kaiwo(nodes={"defaultGpuTaintKey": ""}))
    assert "tolerations" not in predictor(aim_service(), kaiwo(), of=template(gpu=""))


@pytest.mark.spec("RC-155")
def test_a_scheduler_and_a_queue_have_to_be_chosen() -> None:
    chosen = kaiwo(scheduling={"kubeSchedulerName": "bins"}, defaultClusterQueueName="research")
    body = applied(aim_service(), chosen)
    assert body["spec"]["predictor"]["schedulerName"] == "bins"
    assert body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
    for usual in ((), (kaiwo(),), (kaiwo(**KAIWO_DEFAULTS),)):
        body = applied(aim_service(), *usual)
        assert "schedulerName" not in body["spec"]["predictor"]
        assert "kueue.x-k8s.io/queue-name" not in body["metadata"]["labels"]


@pytest.mark.spec("RC-154", "RC-155")
def test_what_has_an_effect_is_not_reported_as_without() -> None:
    chosen = kaiwo(
        scheduling={"kubeSchedulerName": "bins"},
        defaultClusterQueueName="research",
        nodes={"defaultGpuTaintKey": "mine"},
    )
    assert reported_on("one", chosen) == []


@pytest.mark.spec("RC-156")
def test_hf_home_is_where_a_directory_is_mounted_and_below_every_other_variable() -> None:
    mounted = predictor(aim_service(), kaiwo(storage={"defaultHfMountPath": "/data/hf"}))
    container = mounted["containers"][0]
    assert {"name": "hf-home", "emptyDir": {}} in mounted["volumes"]
    assert {"name": "hf-home", "mountPath": "/data/hf"} in container["volumeMounts"]
    assert env(aim_service(), kaiwo(storage={"defaultHfMountPath": "/data/hf"}))["HF_HOME"] == "/data/hf"
    assert env(aim_service(), kaiwo())["HF_HOME"] == "/hf_cache"
    own = aim_service(env=[{"name": "HF_HOME", "value": "/own"}])
    assert env(own, kaiwo())["HF_HOME"] == "/own"
    of_config = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"env": [{"name": "HF_HOME", "value": "/config"}]})
    assert env(aim_service(), kaiwo(), of_config)["HF_HOME"] == "/config"
    assert "HF_HOME" not in env(aim_service())
    assert "hf-home" not in [volume["name"] for volume in predictor(aim_service())["volumes"]]


@pytest.mark.spec("RC-156")
def test_the_directory_of_a_running_service_follows_the_config() -> None:
    running = InferenceService.model_validate(applied(aim_service(), kaiwo()))
    taken = volumes_of_workload(running)
    assert "hf-home" not in [volume["name"] for volume in taken.volumes]
    assert taken.with_hf_home("/other").mounts[-1] == {"name": "hf-home", "mountPath": "/other"}
    assert taken.with_hf_home("") == taken


@pytest.mark.spec("RC-157", "CC-332")
def test_gpus_are_asked_for_by_the_config_s_resource_unless_the_template_names_one() -> None:
    def asked(*configs: JsonObject, **gpu: str) -> dict[str, str]:
        of = template()
        of["status"]["resolvedHardware"]["gpu"] |= gpu
        resources = predictor(aim_service(), *configs, of=of)["containers"][0]["resources"]
        assert {name for name in resources["limits"] if "/" in name} <= set(resources["requests"])
        return {name: amount for name, amount in resources["requests"].items() if "/" in name}

    other = kaiwo(nodes={"defaultGpuResourceKey": "example.com/gpu"})
    [(usual, count)] = asked().items()
    assert usual == "amd.com/gpu"
    assert asked(kaiwo()) == {usual: count}
    assert asked(other) == {"example.com/gpu": count}
    assert asked(other, resourceName="amd.com/gpu") == {"example.com/gpu": count}
    assert asked(other, resourceName="amd.com/gpu-x") == {"amd.com/gpu-x": count}


@pytest.mark.spec("RC-154", "RC-156", "RC-157", "RC-158")
def test_paths_resources_and_taints_of_nodes_have_an_effect() -> None:
    nodes = {"defaultGpuResourceKey": "example.com/gpu", "addTaintsToGpuNodes": True}
    assert reported_on("one", kaiwo(storage={"defaultHfMountPath": "/data/hf"}, nodes=nodes)) == []


@pytest.mark.spec("RC-159")
def test_what_no_pod_could_have_is_reported_and_counts_as_empty() -> None:
    nodes = {"defaultGpuResourceKey": "gpu", "defaultGpuTaintKey": "no key"}
    bad = kaiwo(storage={"defaultHfMountPath": "hf"}, nodes=nodes)
    [(reason, message)] = reported_on("one", bad)
    assert reason == "InvalidSpec"
    assert message == (
        "spec.storage.defaultHfMountPath: 'hf' is no absolute path at which a volume can be mounted, and is ignored; "
        "spec.nodes.defaultGpuResourceKey: 'gpu' is no name of an extended resource, such as amd.com/gpu, "
        "and is ignored; spec.nodes.defaultGpuTaintKey: 'no key' is no key of a taint, and is ignored"
    )
    assert applied(aim_service(), bad)["spec"] == applied(aim_service())["spec"]


@pytest.mark.spec("RC-159")
@pytest.mark.parametrize(
    ("path", "good"),
    [
        ("/hf_cache", True),
        ("/var/cache/huggingface", True),
        ("/mnt/a-b/c.d", True),
        ("/a/..b", True),
        ("hf", False),
        ("/", False),
        ("/a/", False),
        ("/a//b", False),
        ("/a/../etc", False),
        ("/a/.", False),
        ("/a:b", False),
        ("/workspace/cache", False),
        ("/cache", False),
        ("/dev/shm", False),
        ("/" + "a" * 256, False),
    ],
)
def test_where_a_directory_can_be_mounted(path: str, good: bool) -> None:
    assert env(aim_service(), kaiwo(storage={"defaultHfMountPath": path})).get("HF_HOME") == (path if good else None)


@pytest.mark.spec("RC-159")
@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("nvidia.com/gpu", True),
        ("example.com/gpu_2.x", True),
        ("gpu", False),
        ("kubernetes.io/gpu", False),
        ("node.kubernetes.io/gpu", False),
        ("requests.example.com/gpu", False),
        ("Example.com/gpu", False),
        ("example.com/", False),
        ("example.com/gpu/2", False),
        ("example.com/" + "g" * 64, False),
    ],
)
def test_what_can_be_the_resource_of_gpus(key: str, good: bool) -> None:
    resources = predictor(aim_service(), kaiwo(nodes={"defaultGpuResourceKey": key}))["containers"][0]["resources"]
    assert [name for name in resources["requests"] if "/" in name] == [key if good else "amd.com/gpu"]
