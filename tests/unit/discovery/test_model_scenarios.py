"""Models as users write them: custom ones, CPU-only ones, switched-off ones, and their sums (acceptance scenarios)."""

from typing import Any

import pytest
from support.builders import condition, make, owner
from support.discovery_cache import (
    MI300X,
    DiscoveryCluster,
    cluster_model,
    discovery_cluster,
    effect_of,
    gpu_node,
    model,
    template,
)

from aim_discovery.image_effects import IMAGE_INSPECTION
from aim_discovery.models.custom_merge import merge_hardware
from aim_discovery.models.desired_templates import desired_templates
from aim_discovery.models.expectation import DiscoveryFlags, Expectation, templates_component
from aim_discovery.models.image_labels import parse_labels
from aim_domain import AIMModelSpec, Hardware, RuntimeConfigSpec
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG
from aim_domain.parts import CLUSTER_MODELS, CLUSTER_RUNTIME_CONFIGS, CLUSTER_TEMPLATES, MODELS, TEMPLATES
from aim_local.registry.images import find_image
from controller_runtime import Category, ClassifiedError, JsonObject

ON = DiscoveryFlags(extract=True, create=True)
OFF = {"extractMetadata": False, "createServiceTemplates": False}
SOURCE = {"modelId": "sshleifer/tiny-gpt2", "sourceUri": "hf://sshleifer/tiny-gpt2", "size": "100Mi"}
ALIAS = "aim.eai.amd.com/template.alias"
NODES = [gpu_node("a", "74a1"), gpu_node("b", "75a0")]
DUMMY = "amdenterpriseai/aim-dummy:0.1.0"


def inspected(cluster: DiscoveryCluster, labels: JsonObject | None = None, name: str = "qwen") -> None:
    """Let the registry answer, and everything settle."""
    effect = effect_of(cluster.run(MODELS, name), IMAGE_INSPECTION.name)
    cluster.answer(effect, {"labels": labels or {}})
    settle(cluster, name)


def settle(cluster: DiscoveryCluster, name: str = "qwen") -> None:
    """The model and all its templates, until nothing changes."""
    cluster.settle(MODELS, name)
    for made in cluster.all(TEMPLATES):
        cluster.settle(TEMPLATES, made["metadata"]["name"])
    cluster.settle(MODELS, name)


def by_alias(cluster: DiscoveryCluster) -> dict[str, JsonObject]:
    return {made["metadata"]["labels"][ALIAS]: made for made in cluster.all(TEMPLATES)}


def deployments(*entries: JsonObject) -> JsonObject:
    return {"model": {"recommendedDeployments": list(entries)}}


# Custom models


@pytest.mark.spec("AC-25", "AC-29", "DI-069", "DI-024", "DI-132", "DI-148")
def test_a_custom_model_is_inspected_and_has_one_template_with_its_sources() -> None:
    given = model("auto-gen-template-test", modelSources=[SOURCE], custom={"hardware": MI300X})
    cluster = discovery_cluster(given)
    inspected(cluster, {}, "auto-gen-template-test")
    (made,) = cluster.all(TEMPLATES)
    assert made["metadata"]["name"] == "auto-gen-template-test-custom-60ba3f14"
    assert made["spec"]["hardware"] == {"gpu": {**MI300X["gpu"], "resourceName": "amd.com/gpu"}}
    assert made["spec"]["modelSources"] == made["status"]["modelSources"] == [SOURCE]
    assert made["status"]["resolvedHardware"]["gpu"]["requests"] == 1
    assert made["status"]["hardwareSummary"] == "1 x MI300X"
    status = cluster.status(MODELS, "auto-gen-template-test")
    assert (status["status"], status["sourceType"]) == ("Ready", "Custom")
    found = cluster.condition(MODELS, "auto-gen-template-test", "ImageMetadataReady")
    assert found == ("True", "ImageFound"), "an image without labels will do"


ENTRIES: list[JsonObject] = [
    {"name": "default-hardware"},
    {"name": "multi-gpu", "hardware": {"gpu": {"requests": 2, "model": "MI300X"}}},
    {"name": "different-gpu", "hardware": {"gpu": {"requests": 1, "model": "MI250X"}}},
    {
        "name": "latency-optimized",
        "type": "optimized",
        "profile": {"metric": "latency", "precision": "fp16"},
        "env": [{"name": "VLLM_USE_V1", "value": "1"}, {"name": "MAX_MODEL_LEN", "value": "8192"}],
    },
    {
        "name": "throughput-optimized",
        "type": "preview",
        "profile": {"metric": "throughput", "precision": "fp8"},
        "env": [{"name": "VLLM_USE_V1", "value": "0"}, {"name": "MAX_BATCH_SIZE", "value": "256"}],
    },
    {"name": "minimal"},
]


@pytest.mark.spec("AC-26", "DI-133", "DI-136", "DI-140", "DI-144", "DI-323", "DI-339")
def test_every_entry_of_a_custom_model_is_a_template() -> None:
    given = model(modelSources=[SOURCE], custom={"hardware": MI300X}, customTemplates=ENTRIES)
    cluster = discovery_cluster(given, nodes=NODES)
    inspected(cluster)
    made = by_alias(cluster)
    assert {alias: one["status"]["status"] for alias, one in made.items()} == {
        **{str(entry["name"]): "Ready" for entry in ENTRIES},
        "different-gpu": "NotAvailable",
    }
    assert all(one["spec"]["modelSources"] == [SOURCE] for one in made.values())
    summaries = {alias: one["status"]["hardwareSummary"] for alias, one in made.items()}
    assert (summaries["multi-gpu"], summaries["different-gpu"]) == ("2 x MI300X", "1 x MI250X")
    assert made["minimal"]["spec"]["type"] == made["default-hardware"]["spec"]["type"] == "unoptimized"
    for entry, kind in ((ENTRIES[3], "optimized"), (ENTRIES[4], "preview")):
        one = made[str(entry["name"])]
        assert (one["spec"]["type"], one["spec"]["env"]) == (kind, entry["env"])
        assert one["status"]["profile"]["metadata"] == {
            "gpu": "MI300X",
            "gpuCount": 1,
            "type": kind,
            **entry["profile"],
        }
    assert cluster.condition(MODELS, "qwen", "ServiceTemplatesReady") == ("True", "SomeTemplatesReady")
    assert cluster.value(MODELS, "qwen") == "Ready"


@pytest.mark.spec("AC-27", "DI-143", "DI-192", "DI-327", "DI-330", "DI-331")
def test_a_model_for_processors_needs_no_gpu() -> None:
    hardware = {"cpu": {"requests": "500m", "limits": "2000m"}}
    cluster = discovery_cluster(model(modelSources=[SOURCE], custom={"hardware": hardware}), nodes=[])
    inspected(cluster)
    (made,) = cluster.all(TEMPLATES)
    assert made["spec"]["resources"]["requests"] == {"cpu": "500m"}
    assert made["status"]["resolvedHardware"] == hardware
    assert made["status"]["hardwareSummary"] == "CPU"
    assert "resolvedNodeAffinity" not in made["status"]
    assert cluster.condition(TEMPLATES, made["metadata"]["name"], "GPUReady") is None
    assert cluster.value(MODELS, "qwen") == "Ready"


@pytest.mark.spec("AC-28", "DI-134", "DI-135")
def test_entries_of_an_image_come_beside_what_it_recommends_and_are_discovered() -> None:
    image = find_image(DUMMY)
    assert image is not None
    entries = [{"name": "custom-high-memory", "hardware": {"gpu": {"requests": 2, "model": "MI300X"}}}, ENTRIES[3]]
    cluster = discovery_cluster(model(image=DUMMY, customTemplates=entries))
    inspected(cluster, image.labels("0.1.0"))
    labels = [one["metadata"]["labels"] for one in cluster.all(TEMPLATES)]
    assert len(labels) >= 3
    assert {one["aim.eai.amd.com/model"] for one in labels} == {"qwen"}
    assert {one[ALIAS] for one in labels if ALIAS in one} == {"custom-high-memory", "latency-optimized"}
    assert cluster.status(MODELS, "qwen")["sourceType"] == "Image"
    cluster.later(2)
    for one in cluster.all(TEMPLATES):
        cluster.run(TEMPLATES, one["metadata"]["name"])
        assert cluster.condition(TEMPLATES, one["metadata"]["name"], "Discovered") == ("False", "AwaitingDiscovery")


@pytest.mark.spec("AC-30", "DI-095", "DI-170", "DI-116")
def test_an_image_that_can_not_be_pulled_blocks_a_custom_model_too() -> None:
    given = model(modelSources=[SOURCE], custom={"hardware": MI300X})
    manual = template("manual", modelSources=[SOURCE], hardware=MI300X)
    cluster = discovery_cluster(given, manual)
    plan = cluster.run(MODELS, "qwen")
    assert plan.children == (), "not before the first answer"
    effect = effect_of(plan, IMAGE_INSPECTION.name)
    cluster.answer(effect, failure=ClassifiedError(Category.INFRASTRUCTURE, "ImageNotFound", "no"))
    for _ in range(2):
        cluster.run(MODELS, "qwen")
        cluster.later(10)
    settle(cluster)
    status = cluster.status(MODELS, "qwen")
    assert (status["status"], status["sourceType"]) == ("Degraded", "Custom")
    assert cluster.condition(MODELS, "qwen", "ImageMetadataReady") == ("False", "ImageNotFound")
    assert [one["metadata"]["name"] for one in cluster.all(TEMPLATES)] == ["manual"]
    assert cluster.value(TEMPLATES, "manual") == "Degraded"
    frozen = [condition(name, False) for name in ("ServiceTemplatesReady", "Ready")]
    cluster.change(MODELS, "qwen", status={**status, "status": "Failed", "conditions": frozen})
    cluster.settle(TEMPLATES, "manual")
    assert cluster.value(TEMPLATES, "manual") == "Ready"


@pytest.mark.spec("DI-139", "DI-133", "DI-138", "DI-P44")
def test_templates_of_a_cluster_model_keep_their_env() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]
    entry = {"name": "fast", "env": [{"name": "B", "value": "2"}]}
    cluster = discovery_cluster(cluster_model(env=env, customTemplates=[entry], discovery={"extractMetadata": False}))
    cluster.settle(CLUSTER_MODELS, "qwen")
    (made,) = cluster.all(CLUSTER_TEMPLATES)
    assert made["spec"]["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]


# Flags and metadata


@pytest.mark.spec("DI-116", "DI-117", "AC-20", "DI-102")
def test_custom_templates_need_no_metadata() -> None:
    cluster = discovery_cluster(model(customTemplates=[{"name": "a"}], discovery={"extractMetadata": False}))
    assert len(cluster.run(MODELS, "qwen").children) == 1
    bare = discovery_cluster(model(discovery={"extractMetadata": False}), model("off", discovery=OFF))
    for name in ("qwen", "off"):
        assert bare.run(MODELS, name).effects == ()
        assert bare.value(MODELS, name) == "Ready"
        assert bare.condition(MODELS, name, "ServiceTemplatesReady") == ("True", "NoTemplatesExpected")


@pytest.mark.spec("DI-061", "DI-062", "DI-152")
def test_flags_can_be_switched_at_any_time_and_remove_nothing() -> None:
    image = find_image(DUMMY)
    assert image is not None
    cluster = discovery_cluster(model(image=DUMMY, discovery=OFF))
    assert cluster.settle(MODELS, "qwen").children == ()
    cluster.change(MODELS, "qwen", spec={"image": DUMMY, "discovery": {}})
    inspected(cluster, image.labels("0.1.0"))
    made = cluster.all(TEMPLATES)
    assert made
    cluster.change(MODELS, "qwen", spec={"image": DUMMY, "discovery": OFF})
    plan = cluster.settle(MODELS, "qwen")
    assert (plan.deletes, plan.children) == ((), ())
    assert cluster.all(TEMPLATES) == made


@pytest.mark.spec("DI-065", "DI-066")
def test_given_metadata_counts_without_extraction_and_is_not_copied() -> None:
    given = deployments({"gpuModel": "MI300X", "gpuCount": 1})
    cluster = discovery_cluster(model(imageMetadata=given, discovery={"extractMetadata": False}))
    plan = cluster.run(MODELS, "qwen")
    assert (plan.effects, len(plan.children)) == ((), 1)
    assert "imageMetadata" not in cluster.status(MODELS, "qwen")


@pytest.mark.spec("DI-066", "DI-118", "AC-23")
def test_given_metadata_wins_over_stored_metadata_as_a_whole() -> None:
    stored = deployments({"gpuModel": "MI300X", "gpuCount": 1})
    own = {"model": {"canonicalName": "mine"}}
    cluster = discovery_cluster({**model(imageMetadata=own), "status": {"imageMetadata": stored}})
    plan = cluster.run(MODELS, "qwen")
    assert plan.children == ()
    assert cluster.condition(MODELS, "qwen", "ServiceTemplatesReady") == ("True", "NoTemplatesExpected")
    assert cluster.status(MODELS, "qwen")["imageMetadata"] == own
    kept = discovery_cluster({**model(), "status": {"imageMetadata": stored}})
    assert len(kept.run(MODELS, "qwen").children) == 1


@pytest.mark.spec("DI-101", "DI-100", "DI-P34")
def test_the_reason_stays_when_the_metadata_comes_from_the_status() -> None:
    image = find_image(DUMMY)
    assert image is not None
    cluster = discovery_cluster(model(image=DUMMY))
    inspected(cluster, image.labels("0.1.0"))
    assert cluster.settle(MODELS, "qwen").effects == ()
    assert cluster.condition(MODELS, "qwen", "ImageMetadataReady") == ("True", "ImageMetadataFound")


@pytest.mark.spec("DI-114", "DI-105")
def test_the_label_of_older_texts_is_not_read() -> None:
    found = parse_labels({"com.amd.aim.model.deployments": '[{"gpuModel": "MI300X"}]'})
    assert found["model"] == {}
    assert found["originalLabels"]


@pytest.mark.spec("DI-123")
def test_deployments_of_one_image_differ_in_name_and_count() -> None:
    given = deployments(
        {"metric": "throughput", "precision": "fp16", "gpuModel": "MI300X", "gpuCount": 1},
        {"metric": "latency", "precision": "fp32", "gpuModel": "MI300X", "gpuCount": 2},
        {"metric": "bogus"},
    )
    cluster = discovery_cluster(model(imageMetadata=given))
    children = cluster.run(MODELS, "qwen").children
    assert [child.body["spec"]["hardware"]["gpu"]["requests"] for child in children] == [1, 2]
    assert len({child.name for child in children}) == 2


@pytest.mark.spec("AC-16", "DI-119")
def test_two_deployments_are_two_templates() -> None:
    given = deployments(
        {"metric": "throughput", "precision": "fp16", "gpuModel": "MI300X", "gpuCount": 1},
        {"metric": "latency", "precision": "fp32", "gpuModel": "MI300X", "gpuCount": 2},
    )
    children = discovery_cluster(model(imageMetadata=given)).run(MODELS, "qwen").children
    specs = {child.name: child.body["spec"] for child in children}
    found = sorted((one["metric"], one["precision"], one["hardware"]["gpu"]["requests"]) for one in specs.values())
    assert found == [("latency", "fp32", 2), ("throughput", "fp16", 1)]


# Values


@pytest.mark.spec("AC-31", "DI-140", "DI-141")
@pytest.mark.parametrize(
    ("default", "override", "merged"),
    [
        (None, {"gpu": {"requests": 2}}, {"gpu": {"requests": 2}}),
        ({"gpu": {"requests": 1}}, None, {"gpu": {"requests": 1}}),
        (None, None, None),
        ({"gpu": {"requests": 1}}, {"gpu": {"requests": 4}}, {"gpu": {"requests": 4}}),
        (
            {"gpu": {"requests": 1, "model": "mi300x"}},
            {"gpu": {"model": "a100"}},
            {"gpu": {"requests": 1, "model": "a100"}},
        ),
        ({"gpu": {"requests": 2}}, {"cpu": {"requests": "4"}}, {"gpu": {"requests": 2}, "cpu": {"requests": "4"}}),
        ({"gpu": {"minVram": "64Gi"}}, {"gpu": {"model": "MI300X"}}, {"gpu": {"model": "MI300X"}}),
    ],
)
def test_hardware_of_model_and_entry(
    default: JsonObject | None, override: JsonObject | None, merged: JsonObject | None
) -> None:
    def typed(value: JsonObject | None) -> Hardware | None:
        return None if value is None else Hardware.model_validate(value)

    found = merge_hardware(typed(default), typed(override))
    assert (None if found is None else shown(found)) == merged


def shown(hardware: Hardware) -> JsonObject:
    """Its JSON without defaults."""
    found: JsonObject = hardware.model_dump(mode="json", by_alias=True, exclude_unset=True)
    gpu = {name: value for name, value in found["gpu"].items() if name != "resourceName" and value not in (0, None)}
    return {**found, "gpu": gpu}


@pytest.mark.spec("AC-32", "DI-137")
@pytest.mark.parametrize(
    ("default", "own", "effective"),
    [("optimized", "preview", "preview"), ("optimized", None, "optimized"), (None, None, "unoptimized")],
)
def test_type_of_a_custom_template(default: str | None, own: str | None, effective: str) -> None:
    entry = {"name": "e", **({"type": own} if own else {})}
    custom = {"custom": {"type": default}} if default else {}
    spec = AIMModelSpec.model_validate({"image": "i", "customTemplates": [entry], **custom})
    (made,) = desired_templates("m", spec, ON, None).templates.values()
    assert made.spec["type"] == effective


@pytest.mark.spec("AC-24", "DI-156")
@pytest.mark.parametrize(
    ("expected", "state", "reason"),
    [
        (Expectation.UNKNOWN, "Progressing", "AwaitingMetadata"),
        (Expectation.YES, "Progressing", "CreatingTemplates"),
        (Expectation.NO, "Ready", "NoTemplatesExpected"),
    ],
)
def test_a_model_without_templates(expected: Expectation, state: str, reason: str) -> None:
    component = templates_component("ServiceTemplates", [], expected)
    assert (component.state, component.reason) == (state, reason)


def reported_of_templates(cluster: DiscoveryCluster) -> str:
    conditions = cluster.status(MODELS, "qwen")["conditions"]
    reported = next(one for one in conditions if one["type"] == "ServiceTemplatesReady")
    assert (reported["status"], reported["reason"]) == ("True", "NoTemplatesExpected")
    return str(reported["message"])


@pytest.mark.spec("DI-420", "DI-103")
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({}, "has neither label com.amd.aim.model.canonicalName nor com.amd.aim.model.recommendedDeployments"),
        ({"com.example.team": "a", "com.amd.aim.model.deployments": "[]"}, "has neither label"),
        ({"org.amd.silogen.model.canonicalName": "a/b"}, "has no label com.amd.aim.model.recommendedDeployments"),
        (
            {"com.amd.aim.model.recommendedDeployments": "[]"},
            "lists no deployment in label com.amd.aim.model.recommended",
        ),
        (
            {"com.amd.aim.model.recommendedDeployments": ""},
            "lists no deployment in label com.amd.aim.model.recommended",
        ),
    ],
)
def test_an_image_that_recommends_nothing_is_stated_with_what_to_do(labels: JsonObject, words: str) -> None:
    cluster = discovery_cluster(model(image="a/b:1"))
    inspected(cluster, labels)
    message = reported_of_templates(cluster)
    assert f"image a/b:1 {words}" in message
    assert "push the image with label com.amd.aim.model.recommendedDeployments" in message
    assert "spec.modelName" in message
    assert cluster.value(MODELS, "qwen") == "Ready"
    cluster.later(600)
    cluster.settle(MODELS, "qwen")
    assert reported_of_templates(cluster) == message


@pytest.mark.spec("DI-420")
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"discovery": {"createServiceTemplates": False}}, "spec.discovery.createServiceTemplates is false"),
        ({"discovery": {"extractMetadata": False}}, "set spec.discovery.extractMetadata to true"),
        ({"imageMetadata": {"model": {"canonicalName": "a/b"}}}, "spec.imageMetadata.model.recommendedDeployments is"),
    ],
)
def test_what_else_keeps_a_model_from_having_templates_is_stated(spec: JsonObject, words: str) -> None:
    cluster = discovery_cluster(model(**spec))
    if spec.get("discovery", {}).get("extractMetadata") is False or "imageMetadata" in spec:
        cluster.settle(MODELS, "qwen")
    else:
        inspected(cluster)
    assert words in reported_of_templates(cluster)


@pytest.mark.spec("DI-420", "DI-059")
def test_a_config_that_switches_discovery_off_is_stated() -> None:
    config = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"model": {"autoDiscovery": False}})
    cluster = discovery_cluster(model(), config)
    cluster.settle(MODELS, "qwen")
    assert "model.autoDiscovery of the runtime config is false" in reported_of_templates(cluster)


@pytest.mark.spec("DI-421", "DI-123")
def test_recommendations_of_which_none_can_be_used_are_not_waited_for() -> None:
    cluster = discovery_cluster(model(imageMetadata=deployments({"metric": "speed"}, {"precision": "fp1"})))
    cluster.settle(MODELS, "qwen")
    message = reported_of_templates(cluster)
    assert "metric 'speed' is not one of" in message
    assert "and 1 more" in message
    mixed = discovery_cluster(model(imageMetadata=deployments({"metric": "speed"}, {"metric": "latency"})))
    assert len(mixed.run(MODELS, "qwen").children) == 1


# Configs, namespaces, others' templates


@pytest.mark.spec("DI-023", "DI-047", "DI-049", "DI-050", "DI-032")
def test_the_runtime_config_of_a_model_is_named_in_its_status() -> None:
    shared = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={})
    local = make(AIM_RUNTIME_CONFIG, "default", spec={})
    found: dict[str, Any] = {}
    for name, configs in {"none": [], "cluster": [shared], "namespace": [local], "both": [shared, local]}.items():
        cluster = discovery_cluster(model(discovery=OFF), *configs)
        cluster.run(MODELS, "qwen")
        found[name] = cluster.status(MODELS, "qwen").get("resolvedRuntimeConfig")
        reason = "ConfigFound" if configs else "DefaultConfigNotFound"
        assert cluster.condition(MODELS, "qwen", "RuntimeConfigReady") == ("True", reason)
    assert found["none"] is None
    assert [found[name]["scope"] for name in ("cluster", "namespace", "both")] == ["Cluster", "Namespace", "Merged"]
    assert found["both"] == {
        "name": "default",
        "namespace": "ml",
        "scope": "Merged",
        "kind": "aim.eai.amd.com/v1alpha1/AIMRuntimeConfig",
        "uid": local["metadata"]["uid"],
    }
    assert found["cluster"]["kind"] == "aim.eai.amd.com/v1alpha1/AIMClusterRuntimeConfig"


@pytest.mark.spec("DI-051")
def test_a_runtime_config_says_nothing_about_credentials() -> None:
    fields = {info.alias or name for name, info in RuntimeConfigSpec.model_fields.items()}
    assert not {"imagePullSecrets", "serviceAccountName"} & fields


@pytest.mark.spec("DI-054")
def test_labels_of_a_model_go_to_its_templates() -> None:
    given = {**model(customTemplates=[{"name": "a"}], discovery={"extractMetadata": False})}
    labels = {"aim.eai.amd.com/tier": "gold", "aim.eai.amd.com/origin": "mine", "team/cost": "7", "team/x": "1"}
    given["metadata"] = {**given["metadata"], "labels": labels}
    cluster = discovery_cluster(given)

    def copied() -> JsonObject:
        (child,) = cluster.run(MODELS, "qwen").children
        found: JsonObject = child.body["metadata"]["labels"]
        return {key: value for key, value in found.items() if key in labels}

    assert copied() == {"aim.eai.amd.com/tier": "gold", "aim.eai.amd.com/origin": "auto-generated"}
    propagation = {"labelPropagation": {"enabled": True, "match": ["team/c*", "*x"]}}
    cluster.put(CLUSTER_RUNTIME_CONFIGS, make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec=propagation))
    assert copied().get("team/cost") == "7"
    assert "team/x" not in copied(), "a star does not cross the slash"


@pytest.mark.spec("DI-160")
def test_templates_that_can_not_be_listed_are_an_error_of_the_component() -> None:
    cluster = discovery_cluster(model(discovery=OFF))
    cluster.settle(MODELS, "qwen")
    cluster.make_stale(TEMPLATES)
    for _ in range(2):
        cluster.run(MODELS, "qwen")
        cluster.later(10)
    assert cluster.condition(MODELS, "qwen", "ServiceTemplatesReady") == ("False", "ViewStale")
    assert cluster.condition(MODELS, "qwen", "DependenciesReachable") == ("False", "InfrastructureError")


@pytest.mark.spec("DI-005", "DI-155", "DI-376")
def test_derived_templates_are_templates_like_any_other() -> None:
    service = {"apiVersion": "v1", "kind": "AIMService", "metadata": {"name": "s", "uid": "s-uid"}}
    derived = template("derived", modelSources=[SOURCE])
    labels = {"aim.eai.amd.com/origin": "derived"}
    derived["metadata"] = {
        **derived["metadata"],
        "labels": labels,
        "ownerReferences": [owner(service, controller=False)],
    }
    cluster = discovery_cluster(model(discovery=OFF), derived)
    before = cluster.object(TEMPLATES, "ml", "derived").metadata
    plan = cluster.settle(TEMPLATES, "derived")
    assert plan.patches == ()
    after = cluster.object(TEMPLATES, "ml", "derived").metadata
    assert (after.labels, after.owner_references) == (before.labels, before.owner_references)
    assert cluster.value(TEMPLATES, "derived") == "Ready"
    cluster.settle(MODELS, "qwen")
    assert cluster.condition(MODELS, "qwen", "ServiceTemplatesReady") == ("True", "AllTemplatesReady")


@pytest.mark.spec("DI-161", "DI-173")
def test_a_model_has_these_conditions_and_no_others() -> None:
    image = find_image(DUMMY)
    assert image is not None
    cluster = discovery_cluster(model(image=DUMMY), cluster_model(discovery=OFF))
    inspected(cluster, image.labels("0.1.0"))
    cluster.settle(CLUSTER_MODELS, "qwen")

    def types(status: JsonObject) -> set[str]:
        return {one["type"] for one in status["conditions"]}

    common = {"RuntimeConfigReady", "ImageMetadataReady", "Ready"}
    assert types(cluster.status(MODELS, "qwen")) == common | {"ServiceTemplatesReady"}
    assert types(cluster.status(CLUSTER_MODELS, "qwen")) == common | {"ClusterServiceTemplatesReady"}
