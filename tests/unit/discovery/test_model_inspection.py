"""Image inspection of models: when the registry is asked, what is reported, when it is tried again (section 4)."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import make
from support.discovery_cache import SYSTEM, DiscoveryCluster, cluster_model, discovery_cluster, effect_of, model

from aim_discovery.image_effects import IMAGE_INSPECTION, PULL_SECRETS
from aim_discovery.models.inspection import RetrySchedule, is_transient
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_MODEL
from aim_domain.parts import CLUSTER_MODELS, CLUSTER_RUNTIME_CONFIGS, CLUSTER_TEMPLATES, MODELS, TEMPLATES
from aim_local.registry.images import find_image
from controller_runtime import FACTS, Category, ClassifiedError
from controller_runtime.kinds import NAMESPACE

IMAGES = IMAGE_INSPECTION.name


def refused(cluster: DiscoveryCluster, reason: str) -> None:
    """Let the registry refuse the model's image, and the grace period pass."""
    effect = effect_of(cluster.run(MODELS, "qwen"), IMAGES)
    cluster.answer(effect, failure=ClassifiedError(Category.INFRASTRUCTURE, reason, "image x cannot be inspected: no"))
    cluster.run(MODELS, "qwen")
    cluster.later(10)
    cluster.settle(MODELS, "qwen")


@pytest.mark.spec("DI-093", "DI-094", "DI-095")
@pytest.mark.parametrize("reason", ["ImageNotFound", "ImagePullAuthFailure", "MetadataExtractionFailed"])
def test_a_refusal_of_the_registry_degrades_the_model_and_makes_no_templates(reason: str) -> None:
    cluster = discovery_cluster(model(customTemplates=[{"name": "a"}]))
    refused(cluster, reason)
    assert cluster.value(MODELS, "qwen") == "Degraded"
    assert cluster.condition(MODELS, "qwen", "ImageMetadataReady") == ("False", reason)
    assert cluster.condition(MODELS, "qwen", "DependenciesReachable") == ("False", "InfrastructureError")
    assert cluster.condition(MODELS, "qwen", "AuthValid") is None
    assert cluster.condition(MODELS, "qwen", "ConfigValid") is None
    assert cluster.all(TEMPLATES) == []


@pytest.mark.spec("DI-377", "DI-093")
def test_what_is_wrong_with_a_new_model_is_reported_at_once() -> None:
    cluster = discovery_cluster(model(), model("unnamed", runtimeConfigName="nowhere"))
    effect = effect_of(cluster.run(MODELS, "qwen"), IMAGES)
    cluster.later(1)
    cluster.answer(effect, failure=ClassifiedError(Category.INFRASTRUCTURE, "ImagePullAuthFailure", "no"))
    cluster.run(MODELS, "qwen")
    assert cluster.value(MODELS, "qwen") == "Degraded"
    assert cluster.condition(MODELS, "qwen", "ImageMetadataReady") == ("False", "ImagePullAuthFailure")
    cluster.run(MODELS, "unnamed")
    assert cluster.value(MODELS, "unnamed") == "Failed", "a missing config needs no answer of the registry"


@pytest.mark.spec("DI-377")
def test_a_changed_model_says_at_once_that_it_is_inspected() -> None:
    cluster = discovery_cluster(model(discovery={"extractMetadata": False}))
    cluster.settle(MODELS, "qwen")
    cluster.change(MODELS, "qwen", spec={"image": "a/b:1"})
    cluster.run(MODELS, "qwen")
    assert cluster.condition(MODELS, "qwen", "ImageMetadataReady") == ("False", "ExtractingMetadata")


@pytest.mark.spec("DI-096")
def test_a_refusal_is_tried_again_on_its_own_schedule_and_never_by_passes() -> None:
    cluster = discovery_cluster(model())
    waits = []
    for _ in range(8):
        effect = effect_of(cluster.run(MODELS, "qwen"), IMAGES)
        waits.append(0.0 if effect.not_before is None else (effect.not_before - cluster.now).total_seconds())
        cluster.later(waits[-1])
        cluster.answer(effect, failure=ClassifiedError(Category.INFRASTRUCTURE, "MetadataExtractionFailed", "no"))
        plan = cluster.run(MODELS, "qwen")
        assert plan.retry is None
    for wait, plain in zip(waits, (0, 10, 20, 40, 80, 160, 320, 600), strict=True):
        assert plain - 1 <= wait <= plain * 1.1


@pytest.mark.spec("DI-096", "DI-097", "AC-10")
def test_only_not_found_and_malformed_are_final() -> None:
    schedule = RetrySchedule(10, 600)
    assert schedule.delay("ImageNotFound", 1, "k") == timedelta(seconds=600)
    assert [is_transient(reason) for reason in ("ImagePullAuthFailure", "MetadataExtractionFailed", "Odd")] == [
        True
    ] * 3
    assert [is_transient(reason) for reason in ("ImageNotFound", "MetadataFormatInvalid", "")] == [False] * 3


@pytest.mark.spec("DI-098", "DI-112", "AC-09")
def test_malformed_labels_fail_the_model_for_good() -> None:
    cluster = discovery_cluster(model())
    image = find_image("badcases/malformed-labels:1.0.0")
    assert image is not None
    effect = effect_of(cluster.run(MODELS, "qwen"), IMAGES)
    cluster.answer(effect, {"labels": image.labels("1.0.0")})
    plan = cluster.settle(MODELS, "qwen")
    assert cluster.value(MODELS, "qwen") == "Failed"
    assert cluster.condition(MODELS, "qwen", "ImageMetadataReady") == ("False", "MetadataFormatInvalid")
    assert cluster.condition(MODELS, "qwen", "ConfigValid") == ("False", "InvalidSpec")
    assert plan.effects == ()
    assert "imageMetadata" not in cluster.status(MODELS, "qwen")


@pytest.mark.spec("DI-081")
def test_an_image_that_is_no_reference_fails_the_model_without_any_access() -> None:
    cluster = discovery_cluster(model(image="UPPER/Case:1"))
    plan = cluster.run(MODELS, "qwen")
    assert plan.effects == ()
    assert cluster.value(MODELS, "qwen") == "Failed"
    assert cluster.condition(MODELS, "qwen", "ImageMetadataReady") == ("False", "InvalidImageReference")
    assert cluster.condition(MODELS, "qwen", "ConfigValid") == ("False", "InvalidSpec")


@pytest.mark.spec("DI-072", "DI-073", "DI-075", "FW-096", "AC-18")
def test_a_missing_pull_secret_fails_the_model_until_it_appears() -> None:
    cluster = discovery_cluster(model(imagePullSecrets=[{"name": "registry"}]))
    first = effect_of(cluster.run(MODELS, "qwen"), PULL_SECRETS.name)
    assert first.params == {"namespace": "ml", "secrets": ["registry"]}
    cluster.answer(first, {"versions": {"registry": None}})
    plan = cluster.settle(MODELS, "qwen")
    assert cluster.value(MODELS, "qwen") == "Failed"
    assert cluster.condition(MODELS, "qwen", "ImageMetadataReady") == ("False", "SecretNotFound")
    assert cluster.condition(MODELS, "qwen", "ConfigValid") == ("False", "ReferenceNotFound")
    again = effect_of(plan, PULL_SECRETS.name)
    assert again.not_before == cluster.now + timedelta(seconds=60)
    cluster.later(60)
    cluster.answer(again, {"versions": {"registry": "uid/1"}})
    assert effect_of(cluster.run(MODELS, "qwen"), IMAGES).params["secrets"] == ["registry"]


@pytest.mark.spec("FW-345", "FW-344")
def test_secrets_are_read_where_an_object_names_them_and_nowhere_else() -> None:
    asked: dict[str, list[tuple[str, list[str]]]] = {}
    for namespace, secrets in (("ml", []), ("other", [{"name": "registry"}])):
        spec = {"image": "amdenterpriseai/aim-dummy:0.1.0", "imagePullSecrets": secrets}
        named = make(AIM_MODEL, "qwen", namespace=namespace, spec=spec)
        cluster = discovery_cluster(named, make(NAMESPACE, namespace))
        effects = cluster.run(MODELS, "qwen", namespace).effects
        asked[namespace] = [(one.params["namespace"], one.params["secrets"]) for one in effects]
    assert asked == {"ml": [("ml", [])], "other": [("other", ["registry"])]}


@pytest.mark.spec("DI-075", "FW-096")
def test_a_changed_secret_allows_a_new_attempt_at_once_and_reading_it_again_does_not() -> None:
    cluster = discovery_cluster(model(imagePullSecrets=[{"name": "registry"}]))
    secrets = effect_of(cluster.run(MODELS, "qwen"), PULL_SECRETS.name)
    cluster.answer(secrets, {"versions": {"registry": "uid/1"}})
    refusal = ClassifiedError(Category.INFRASTRUCTURE, "ImagePullAuthFailure", "no")
    cluster.answer(effect_of(cluster.run(MODELS, "qwen"), IMAGES), failure=refusal)
    plan = cluster.settle(MODELS, "qwen")
    waiting = effect_of(plan, IMAGES)
    assert waiting.not_before is not None
    assert effect_of(plan, PULL_SECRETS.name).not_before == cluster.now + timedelta(seconds=60)
    cluster.answer(secrets, {"versions": {"registry": "uid/1"}})
    assert effect_of(cluster.run(MODELS, "qwen"), IMAGES) == waiting
    cluster.answer(secrets, {"versions": {"registry": "uid/2"}})
    assert effect_of(cluster.run(MODELS, "qwen"), IMAGES).not_before is None


@pytest.mark.spec("DI-074")
def test_an_unreadable_secret_is_an_infrastructure_error() -> None:
    cluster = discovery_cluster(model(imagePullSecrets=[{"name": "registry"}]))
    effect = effect_of(cluster.run(MODELS, "qwen"), PULL_SECRETS.name)
    cluster.answer(effect, failure=ClassifiedError(Category.INFRASTRUCTURE, "SecretAccessFailed", "no"))
    cluster.run(MODELS, "qwen")
    cluster.later(10)
    cluster.settle(MODELS, "qwen")
    assert cluster.value(MODELS, "qwen") == "Degraded"
    assert cluster.condition(MODELS, "qwen", "ImageMetadataReady") == ("False", "SecretAccessFailed")


@pytest.mark.spec("DI-064", "DI-119", "DI-066", "AC-14")
def test_metadata_in_the_spec_needs_no_access_at_all() -> None:
    deployment = {"gpuModel": "MI300X", "gpuCount": 1, "metric": "throughput", "precision": "fp16"}
    metadata = {"model": {"canonicalName": "spec-provided-model", "recommendedDeployments": [deployment]}}
    image = "this-registry-does-not-exist-12345.invalid/fake-model:v1"
    secret = [{"name": "this-secret-does-not-exist"}]
    cluster = discovery_cluster(model("test-model", image, imageMetadata=metadata, imagePullSecrets=secret))
    plan = cluster.run(MODELS, "test-model")
    assert plan.effects == ()
    assert cluster.condition(MODELS, "test-model", "ImageMetadataReady") == ("True", "ImageMetadataFound")
    assert cluster.status(MODELS, "test-model")["imageMetadata"] == metadata
    (child,) = plan.children
    assert child.name.startswith("this-registry-does-not-exist-12345-inva-1x-mi300x-thr-fp16-")


@pytest.mark.spec("DI-067", "DI-068", "DI-099", "DI-152", "AC-22")
def test_a_changed_image_is_inspected_again_and_keeps_the_old_templates() -> None:
    cluster = discovery_cluster(model())
    image = find_image("amdenterpriseai/aim-qwen-qwen3-32b:0.8.5")
    assert image is not None
    cluster.answer(effect_of(cluster.run(MODELS, "qwen"), IMAGES), {"labels": image.labels("0.8.5")})
    cluster.settle(MODELS, "qwen")
    for fact in cluster.all(FACTS):
        cluster.remove(FACTS, fact["metadata"]["name"], fact["metadata"]["namespace"])
    assert cluster.settle(MODELS, "qwen").effects == (), "stored metadata of this generation is believed"
    old = {obj["metadata"]["name"] for obj in cluster.all(TEMPLATES)}
    cluster.change(MODELS, "qwen", spec={"image": "amdenterpriseai/aim-dummy:0.1.0"})
    effect = effect_of(cluster.run(MODELS, "qwen"), IMAGES)
    assert effect.params["image"] == "amdenterpriseai/aim-dummy:0.1.0"
    cluster.answer(effect, failure=ClassifiedError(Category.INFRASTRUCTURE, "ImageNotFound", "no"))
    cluster.settle(MODELS, "qwen")
    assert cluster.status(MODELS, "qwen")["imageMetadata"]["model"]["canonicalName"] == "Qwen/Qwen3-32B"
    dummy = find_image("amdenterpriseai/aim-dummy:0.1.0")
    assert dummy is not None
    cluster.answer(effect, {"labels": dummy.labels("0.1.0")})
    cluster.settle(MODELS, "qwen")
    assert {obj["metadata"]["name"] for obj in cluster.all(TEMPLATES)} > old


@pytest.mark.spec("DI-067", "DI-068", "DI-P03")
def test_metadata_of_another_image_never_passes_for_that_of_this_one() -> None:
    cluster = discovery_cluster(model())
    image = find_image("amdenterpriseai/aim-qwen-qwen3-32b:0.8.5")
    assert image is not None
    cluster.answer(effect_of(cluster.run(MODELS, "qwen"), IMAGES), {"labels": image.labels("0.8.5")})
    cluster.settle(MODELS, "qwen")
    cluster.change(MODELS, "qwen", spec={"image": "amdenterpriseai/aim-dummy:0.1.0"})
    cluster.make_stale(FACTS)
    cluster.run(MODELS, "qwen")
    assert cluster.condition(MODELS, "qwen", "ImageMetadataReady") == ("False", "ViewStale")
    assert cluster.run(MODELS, "qwen").children == ()


@pytest.mark.spec("DI-058", "DI-059", "DI-057", "DI-102", "DI-115", "AC-21")
def test_automatic_discovery_switched_off_by_the_config_is_switched_on_by_the_spec() -> None:
    config = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"model": {"autoDiscovery": False}})
    cluster = discovery_cluster(model(), config)
    plan = cluster.run(MODELS, "qwen")
    assert (plan.effects, plan.children) == ((), ())
    assert cluster.value(MODELS, "qwen") == "Ready"
    assert cluster.condition(MODELS, "qwen", "ImageMetadataReady") == ("True", "ImageFound")
    assert cluster.condition(MODELS, "qwen", "ServiceTemplatesReady") == ("True", "NoTemplatesExpected")
    cluster.change(MODELS, "qwen", spec={"image": "a/b:1", "discovery": {}})
    effect_of(cluster.run(MODELS, "qwen"), IMAGES)


@pytest.mark.spec("DI-050", "DI-040", "RC-061", "AC-17", "DI-036")
def test_a_missing_runtime_config_fails_the_model_until_it_appears() -> None:
    discovery = {"extractMetadata": False, "createServiceTemplates": False}
    spec: dict[str, Any] = {"runtimeConfigName": "special", "discovery": discovery}
    cluster = discovery_cluster(model(**spec), cluster_model(**spec))
    cluster.run(MODELS, "qwen")
    cluster.run(CLUSTER_MODELS, "qwen")
    assert cluster.value(MODELS, "qwen") == "Failed"
    assert cluster.condition(MODELS, "qwen", "RuntimeConfigReady") == ("False", "ConfigNotFound")
    assert cluster.condition(CLUSTER_MODELS, "qwen", "RuntimeConfigReady") == ("False", "ReferenceNotFound")
    assert cluster.condition(MODELS, "qwen", "ConfigValid") == ("False", "ReferenceNotFound")
    cluster.put(CLUSTER_RUNTIME_CONFIGS, make(AIM_CLUSTER_RUNTIME_CONFIG, "special", spec={}))
    cluster.settle(MODELS, "qwen")
    assert cluster.value(MODELS, "qwen") == "Ready"
    assert cluster.condition(MODELS, "qwen", "ConfigValid") == ("True", "ConfigurationValid")
    assert cluster.status(MODELS, "qwen")["resolvedRuntimeConfig"]["scope"] == "Cluster"


@pytest.mark.spec("DI-070", "DI-119", "DI-159", "DI-045", "DI-053", "FW-344", "FW-365")
def test_a_cluster_model_reads_secrets_of_the_operator_and_makes_cluster_templates() -> None:
    cluster = discovery_cluster(cluster_model())
    effect = effect_of(cluster.run(CLUSTER_MODELS, "qwen"), IMAGES)
    assert effect.params["namespace"] == SYSTEM
    cluster.later(2)
    cluster.run(CLUSTER_MODELS, "qwen")
    assert cluster.value(CLUSTER_MODELS, "qwen") == "Pending"
    image = find_image("amdenterpriseai/aim-dummy:0.1.0")
    assert image is not None
    cluster.answer(effect, {"labels": image.labels("0.1.0")})
    cluster.settle(CLUSTER_MODELS, "qwen")
    (made,) = cluster.all(CLUSTER_TEMPLATES)
    assert cluster.all(TEMPLATES) == []
    assert made["metadata"]["labels"]["aim.eai.amd.com/cluster-model.name"] == "qwen"
