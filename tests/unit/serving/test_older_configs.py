"""What serving makes of configurations of older kinds, and says about them."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import NOW, make
from support.old_objects import KAIWO_DEFAULTS, NAMESPACE_CONFIG
from support.predictors import applied, env, predictor
from support.serving import TEAM, aim_service, model, serving_world, template

from aim_domain.kinds import AIM_NAMESPACE_CONFIG, KAIWO_CONFIG
from aim_domain.parts import KAIWO_CONFIGS, NAMESPACE_CONFIGS
from aim_serving.older_config import reconcile_kaiwo_config, reconcile_namespace_config
from controller_runtime import JsonObject


def namespace_config(name: str = "one", age: int = 0, **spec: Any) -> JsonObject:
    return make(AIM_NAMESPACE_CONFIG, name, namespace=TEAM, spec=spec, created=NOW - timedelta(days=age))


def kaiwo(name: str = "one", age: int = 0, **spec: Any) -> JsonObject:
    return make(KAIWO_CONFIG, name, spec=spec, created=NOW - timedelta(days=age))


def told_on(name: str, *configs: JsonObject) -> list[tuple[str, str]]:
    world = serving_world(*configs)
    if configs[0]["kind"] == "KaiwoConfig":
        plan = reconcile_kaiwo_config(world.object(KAIWO_CONFIGS, "", name), world.view(), NOW)
    else:
        plan = reconcile_namespace_config(world.object(NAMESPACE_CONFIGS, TEAM, name), world.view(), NOW)
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


@pytest.mark.spec("RC-154")
def test_what_has_no_effect_is_told_in_one_event() -> None:
    reference = {"secretName": "s", "secretKey": "k"}
    credentials = {"gcs": [{"applicationCredentials": reference}], "azureBlob": [{"connectionString": reference}]}
    assert told_on("one", namespace_config(credentials=credentials)) == [
        ("NoEffect", "accepted, but without effect here: spec.credentials.gcs, spec.credentials.azureBlob")
    ]
    assert told_on("one", namespace_config(**NAMESPACE_CONFIG)) == []
    assert told_on("one", kaiwo(**KAIWO_DEFAULTS | {"storage": {"defaultStorageClass": "fast"}})) == []
    assert told_on("one", kaiwo()) == []
    spec: JsonObject = {"ray": {"headPodMemory": "1Gi"}, "resourceMonitoring": {"targetNamespaces": ["a"]}}
    [(reason, message)] = told_on("one", kaiwo(**spec, defaultClusterQueueCohortName="mine"))
    fields = ("defaultClusterQueueCohortName", "ray.headPodMemory", "resourceMonitoring.targetNamespaces")
    assert (reason, message.partition(": ")[2]) == ("NoEffect", ", ".join(f"spec.{name}" for name in fields))


@pytest.mark.spec("RC-151", "RC-154")
def test_all_but_the_oldest_are_told_that_they_do_not_count() -> None:
    for made in (kaiwo, namespace_config):
        older, newer = made("z", 2), made("a", 1)
        assert told_on("z", older, newer) == []
        [(reason, message)] = told_on("a", older, newer)
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
def test_what_has_an_effect_is_not_told_as_without() -> None:
    chosen = kaiwo(
        scheduling={"kubeSchedulerName": "bins"},
        defaultClusterQueueName="research",
        nodes={"defaultGpuTaintKey": "mine"},
    )
    assert told_on("one", chosen) == []
