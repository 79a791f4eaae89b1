"""Steps 9 to 18 of the golden path: from an image to ready templates and a ready model."""

import pytest
from support.discovery_cache import IMAGE, DiscoveryCluster, discovery_cluster, effect_of, model

from aim_discovery.image_effects import IMAGE_INSPECTION
from aim_discovery.templates.job_log import JOB_LOG
from aim_discovery.templates.output import first_profile
from aim_domain.parts import DISCOVERY_JOBS, MODELS, TEMPLATES
from aim_local.registry.images import discovery_log, find_image
from controller_runtime import WriteMode

LATENCY = "amdenterpriseai-aim-qwen-qwen3-32b-0-8-1x-mi300x-lat-fp16-59b1"
THROUGHPUT = "amdenterpriseai-aim-qwen-qwen3-32b-0-8-5-1x-mi300x-thr-fp8-2cda"


def inspected() -> DiscoveryCluster:
    """A model whose image was just read."""
    cluster = discovery_cluster(model("qwen-qwen3-32b"))
    effect = effect_of(cluster.run(MODELS, "qwen-qwen3-32b"), IMAGE_INSPECTION.name)
    image = find_image(IMAGE)
    assert image is not None
    cluster.answer(effect, {"digest": "sha256:0", "labels": image.labels("0.8.5")})
    cluster.settle(MODELS, "qwen-qwen3-32b")
    cluster.later(2)
    return cluster


def discover(cluster: DiscoveryCluster, name: str) -> None:
    """Let the Job of a template do its work."""
    (child,) = cluster.run(TEMPLATES, name).children
    container = child.body["spec"]["template"]["spec"]["containers"][0]
    log = discovery_log(container["image"], {entry["name"]: entry["value"] for entry in container["env"]})
    assert log is not None
    cluster.settle(TEMPLATES, name)
    assert cluster.value(TEMPLATES, name) == "Progressing"
    cluster.end_job(child.name)
    plan = cluster.run(TEMPLATES, name)
    cluster.answer(effect_of(plan, JOB_LOG.name), {"element": first_profile(log)})
    cluster.settle(TEMPLATES, name)


@pytest.mark.spec("DI-047", "DI-048", "DI-057", "DI-063", "DI-377")
def test_a_new_model_asks_for_its_image() -> None:
    cluster = discovery_cluster(model())
    plan = cluster.run(MODELS, "qwen")
    effect = effect_of(plan, IMAGE_INSPECTION.name)
    assert effect.params == {"image": IMAGE, "namespace": "ml", "secrets": [], "serviceAccount": "default"}
    assert not plan.children
    assert (cluster.status(MODELS, "qwen"), plan.events, plan.requeue_after) == ({}, (), 2)
    cluster.later(2)
    assert effect_of(cluster.run(MODELS, "qwen"), IMAGE_INSPECTION.name) == effect
    assert cluster.value(MODELS, "qwen") == "Progressing"
    assert cluster.condition(MODELS, "qwen", "RuntimeConfigReady") == ("True", "DefaultConfigNotFound")
    assert cluster.condition(MODELS, "qwen", "ServiceTemplatesReady") == ("False", "AwaitingMetadata")


@pytest.mark.spec(
    "DI-100",
    "DI-119",
    "DI-120",
    "DI-122",
    "DI-127",
    "DI-129",
    "DI-151",
    "DI-156",
    "DI-024",
    "DI-052",
    "DI-053",
    "DI-055",
    "AC-12",
)
def test_labels_become_metadata_and_one_template_per_deployment() -> None:
    cluster = inspected()
    assert cluster.condition(MODELS, "qwen-qwen3-32b", "ImageMetadataReady") == ("True", "ImageMetadataFound")
    assert cluster.condition(MODELS, "qwen-qwen3-32b", "ServiceTemplatesReady") == ("False", "TemplatesProgressing")
    status = cluster.status(MODELS, "qwen-qwen3-32b")
    assert status["imageMetadata"]["model"]["canonicalName"] == "Qwen/Qwen3-32B"
    assert status["sourceType"] == "Image"
    made = {obj["metadata"]["name"]: obj for obj in cluster.all(TEMPLATES)}
    assert set(made) >= {LATENCY, THROUGHPUT}
    assert len(made) == 3
    assert made[THROUGHPUT]["spec"] == {
        "modelName": "qwen-qwen3-32b",
        "metric": "throughput",
        "precision": "fp8",
        "profileId": "vllm-mi300x-fp8-tp1-throughput",
        "hardware": {"gpu": {"requests": 1, "model": "MI300X", "resourceName": "amd.com/gpu"}},
    }
    metadata = made[THROUGHPUT]["metadata"]
    assert metadata["labels"] == {
        "aim.eai.amd.com/model": "qwen-qwen3-32b",
        "aim.eai.amd.com/origin": "auto-generated",
        "aim.eai.amd.com/model.name": "qwen-qwen3-32b",
        "app.kubernetes.io/managed-by": "aim-model-controller",
    }
    (reference,) = metadata["ownerReferences"]
    assert (reference["name"], reference["controller"]) == ("qwen-qwen3-32b", True)


@pytest.mark.spec("DI-162", "DI-168", "DI-172", "DI-196", "DI-207", "DI-208", "DI-209", "DI-222", "DI-032")
def test_a_template_with_model_and_gpu_starts_its_job() -> None:
    cluster = inspected()
    plan = cluster.run(TEMPLATES, LATENCY)
    (child,) = plan.children
    assert child.part is DISCOVERY_JOBS
    assert (child.namespace, child.mode, child.owned) == ("ml", WriteMode.CREATE, True)
    assert cluster.condition(TEMPLATES, LATENCY, "ModelReady") == ("True", "ModelFound")
    assert cluster.condition(TEMPLATES, LATENCY, "GPUReady") == ("True", "GPUAvailable")
    assert cluster.condition(TEMPLATES, LATENCY, "Discovered") == ("False", "AwaitingDiscovery")
    assert cluster.status(TEMPLATES, LATENCY)["resolvedModel"]["kind"] == "aim.eai.amd.com/v1alpha1/AIMModel"
    assert "profile" not in cluster.status(TEMPLATES, LATENCY)
    assert not cluster.run(TEMPLATES, LATENCY).children, "one Job is enough"


@pytest.mark.spec(
    "DI-214",
    "DI-219",
    "DI-267",
    "DI-268",
    "DI-270",
    "DI-276",
    "DI-278",
    "DI-322",
    "DI-330",
    "DI-334",
    "DI-022",
    "DI-283",
    "DI-P01",
)
def test_the_printed_profile_makes_the_template_ready() -> None:
    cluster = inspected()
    discover(cluster, THROUGHPUT)
    status = cluster.status(TEMPLATES, THROUGHPUT)
    assert cluster.value(TEMPLATES, THROUGHPUT) == "Ready"
    assert cluster.condition(TEMPLATES, THROUGHPUT, "Discovered") == ("True", "DiscoveryComplete")
    assert cluster.condition(TEMPLATES, THROUGHPUT, "DiscoveryJobReady") == ("True", "Ready")
    assert status["modelSources"] == [
        {"modelId": "Qwen/Qwen3-32B-FP8", "sourceUri": "hf://Qwen/Qwen3-32B-FP8", "size": "34467112550"}
    ]
    assert status["profile"]["metadata"] == {
        "engine": "vllm",
        "gpu": "MI300X",
        "gpuCount": 1,
        "metric": "throughput",
        "precision": "fp8",
        "type": "optimized",
    }
    assert status["profile"]["engine_args"]["no-enable-log-requests"] is None
    assert status["profile"]["originalDiscoveryOutput"]["script"] == "aim-runtime serve"
    assert status["resolvedHardware"]["gpu"] == {"requests": 1, "model": "MI300X", "resourceName": "amd.com/gpu"}
    assert status["hardwareSummary"] == "1 x MI300X"
    (term,) = status["resolvedNodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "amd.com/gpu.device-id", "operator": "In", "values": ["74a1", "74a9", "74b5", "74bd"]}
    ]
    assert status["discoveryJob"]["kind"] == "batch/v1/Job"
    assert set(status["discovery"]) == {"lastAttemptTime", "specHash"}
    assert status["observedGeneration"] == 1


@pytest.mark.spec("DI-155", "DI-156", "DI-196")
def test_the_model_is_ready_when_its_templates_are_ready_or_have_no_gpu() -> None:
    cluster = inspected()
    discover(cluster, LATENCY)
    discover(cluster, THROUGHPUT)
    (third,) = {obj["metadata"]["name"] for obj in cluster.all(TEMPLATES)} - {LATENCY, THROUGHPUT}
    cluster.settle(TEMPLATES, third)
    assert cluster.value(TEMPLATES, third) == "NotAvailable"
    assert cluster.condition(TEMPLATES, third, "GPUReady") == ("False", "GPUNotAvailable")
    cluster.settle(MODELS, "qwen-qwen3-32b")
    assert cluster.value(MODELS, "qwen-qwen3-32b") == "Ready"
    assert cluster.condition(MODELS, "qwen-qwen3-32b", "ServiceTemplatesReady") == ("True", "SomeTemplatesReady")


@pytest.mark.spec("DI-011", "DI-258", "DI-284", "DI-205", "DI-279", "AC-44", "DI-335")
def test_a_settled_cache_gives_the_same_plan_without_writes_and_effects() -> None:
    cluster = inspected()
    discover(cluster, LATENCY)
    (job,) = cluster.all(DISCOVERY_JOBS)
    cluster.remove(DISCOVERY_JOBS, job["metadata"]["name"])
    before = cluster.status(TEMPLATES, LATENCY)
    plan = cluster.settle(TEMPLATES, LATENCY)
    assert cluster.status(TEMPLATES, LATENCY) == before
    assert (plan.children, plan.deletes, plan.effects, plan.events) == ((), (), (), ())
    assert (plan.retry, plan.requeue_after) == (None, None)
    cluster.settle(MODELS, "qwen-qwen3-32b")
    plan = cluster.run(MODELS, "qwen-qwen3-32b")
    assert (plan.effects, plan.events, plan.retry) == ((), (), None)
    assert len(plan.children) == 3
