"""Which weights the predictor mounts, and when it waits for them."""

from collections.abc import Iterable

import pytest
from support.builders import make
from support.predictors import USUAL
from support.serving import (
    ARTIFACT,
    CLAIM,
    IMAGE,
    TEAM,
    aim_service,
    children_of,
    cluster_model,
    condition_of,
    message_of,
    model,
    node,
    overall,
    plan_for,
    predictor_pod,
    serving_cache,
    template,
    template_cache,
    workload,
)

from aim_domain import kinds, labels
from aim_domain.parts import ARTIFACT_CLAIMS
from controller_runtime import JsonObject
from controller_runtime.testing import NOW


@pytest.mark.spec("SV-168", "AR-618")
def test_unfinished_artifacts_are_not_mounted() -> None:
    half = template_cache(USUAL)
    half["status"]["artifacts"] = {
        "a": {"name": "x.y", "model": "../../etc", "status": "Ready", "persistentVolumeClaim": "p1"},
        "c": {"name": "not-ready", "model": "m", "status": "Progressing", "persistentVolumeClaim": "p2"},
        "d": {"name": "dots", "model": "..", "status": "Ready", "persistentVolumeClaim": "p3"},
        "e": {"name": "z", "model": "m", "status": "Ready", "persistentVolumeClaim": "p4", "mountPoint": "/elsewhere"},
    }
    cache = serving_cache(aim_service(), template(), model(), node(), half)
    (body,) = children_of(plan_for(cache), "InferenceService")
    mounts = {one["name"]: one["mountPath"] for one in body["spec"]["predictor"]["containers"][0]["volumeMounts"]}
    assert list(mounts.items())[1:] == [
        ("dots", "/workspace/cache/dots"),
        ("x-y", "/workspace/cache/etc"),
        ("z", "/elsewhere"),
    ]


@pytest.mark.spec("SV-142", "SV-171", "SV-172", "SV-132", "SV-130", "FW-113", "AR-619", "AR-620", "SC-109")
def test_a_running_workload_keeps_its_volumes() -> None:
    service = aim_service()
    cache = serving_cache(service, template(), model(), node(), workload(service))
    plan = plan_for(cache)
    (body,) = children_of(plan, "InferenceService")
    assert [one["name"] for one in body["spec"]["predictor"]["volumes"]] == ["dshm", "weights"]
    assert [one["name"] for one in body["spec"]["predictor"]["containers"][0]["volumeMounts"]] == ["dshm", "weights"]
    assert condition_of(plan, "CacheReady") == ("False", "CacheLost")
    assert len(children_of(plan, "AIMTemplateCache")) == 1
    bare = serving_cache(service, template(), model(), node(), workload(service, containers=[]))
    (body,) = children_of(plan_for(bare), "InferenceService")
    assert [one["name"] for one in body["spec"]["predictor"]["volumes"]] == ["dshm"]


@pytest.mark.spec("SV-173", "SV-P22", "AR-619", "AR-P26")
def test_volumes_follow_a_rebuilt_cache_once_the_old_claim_is_gone() -> None:
    service = aim_service()
    rebuilt = template_cache(USUAL)
    rebuilt["status"]["artifacts"]["Qwen/Qwen3-32B"]["persistentVolumeClaim"] = "new-claim"
    objects = [service, template(), model(), node(), rebuilt, workload(service)]
    claim = make(kinds.PERSISTENT_VOLUME_CLAIM, CLAIM, namespace=TEAM, labels={"aim.eai.amd.com/cache.name": "x"})

    def claims(*more: JsonObject) -> list[str]:
        cache = serving_cache(*objects, *more)
        (body,) = children_of(plan_for(cache), "InferenceService")
        volumes = body["spec"]["predictor"]["volumes"]
        return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]

    assert claims(claim) == [CLAIM]
    assert claims() == ["new-claim"]
    stale = serving_cache(*objects)
    stale.make_stale(ARTIFACT_CLAIMS)
    (body,) = children_of(plan_for(stale), "InferenceService")
    assert body["spec"]["predictor"]["volumes"][1]["name"] == "weights"


@pytest.mark.spec("SV-324")
def test_weights_that_are_deleted_in_use_are_spoken_of() -> None:
    service = aim_service()
    emptied = template_cache(USUAL, status="Progressing")
    emptied["status"]["artifacts"]["Qwen/Qwen3-32B"]["persistentVolumeClaim"] = None
    named = {"aim.eai.amd.com/cache.name": "x"}
    claim = make(kinds.PERSISTENT_VOLUME_CLAIM, CLAIM, namespace=TEAM, labels=named)
    leaving = make(
        kinds.PERSISTENT_VOLUME_CLAIM,
        CLAIM,
        namespace=TEAM,
        labels=named,
        deleting=NOW,
        finalizers=["kubernetes.io/pvc-protection"],
    )
    around = (service, template(), model(), node(), workload(service, ready=True), predictor_pod("Running", ready=True))
    for objects in ((emptied,), (template_cache(USUAL), leaving), (emptied, leaving)):
        plan = plan_for(serving_cache(*around, *objects))
        assert condition_of(plan, "CacheReady") == ("False", "WeightsDeleted")
        assert CLAIM in message_of(plan, "CacheReady")
        assert overall(plan) == "Degraded"
        assert {one.type.value for one in plan.events if one.reason == "WeightsDeleted"} == {"Warning"}
    for objects in ((template_cache(USUAL), claim), (template_cache(USUAL),)):
        assert condition_of(plan_for(serving_cache(*around, *objects)), "CacheReady") == ("True", "CacheReady")


@pytest.mark.spec("SV-171", "SV-142", "SV-118", "AT-162")
def test_a_service_that_changes_template_waits_for_the_new_weights() -> None:
    service = aim_service(template={"name": "thr"})
    running = workload(service, ready=True)
    running["metadata"]["labels"] = {labels.TEMPLATE: "qwen3-lat"}
    old = template_cache(USUAL)
    objects = [service, template(), template("thr", metric="throughput"), model(), node(), running, old]
    pod = predictor_pod("Running", ready=True)

    first = plan_for(serving_cache(*objects, pod))
    assert [child.body["kind"] for child in first.children] == ["AIMTemplateCache"]
    assert children_of(first, "AIMTemplateCache")[0]["spec"]["templateName"] == "thr"
    assert (condition_of(first, "CacheReady"), overall(first)) == (("False", "CacheCreating"), "Starting")
    assert "keeps template qwen3-lat" in message_of(first, "CacheReady")

    loading = plan_for(serving_cache(*objects, pod, template_cache("thr-cache", "thr", status="Progressing")))
    assert (loading.children, condition_of(loading, "CacheReady")) == ((), ("False", "CacheNotReady"))
    assert "keeps template qwen3-lat" in message_of(loading, "CacheReady")

    new = template_cache("thr-cache", "thr")
    new["status"]["artifacts"]["Qwen/Qwen3-32B"]["persistentVolumeClaim"] = "new-claim"
    moved = plan_for(serving_cache(*objects, pod, new))
    (body,) = children_of(moved, "InferenceService")
    assert body["metadata"]["labels"][labels.TEMPLATE] == "thr"
    assert body["spec"]["predictor"]["volumes"][1]["persistentVolumeClaim"] == {"claimName": "new-claim"}
    assert overall(moved) == "Running"


@pytest.mark.spec("SV-171", "SV-174")
def test_two_mounts_at_one_path_are_never_asked_for() -> None:
    own = aim_service(template={"name": "qwen3-lat"})
    mounts = [{"name": "edited", "mountPath": "/dev/shm"}, {"name": "weights", "mountPath": "/weights"}]
    edited = workload(own, containers=[{"name": "kserve-container", "image": IMAGE, "volumeMounts": mounts}])
    (body,) = children_of(plan_for(serving_cache(own, template(), model(), edited)), "InferenceService")
    (container,) = body["spec"]["predictor"]["containers"]
    assert [(one["name"], one["mountPath"]) for one in container["volumeMounts"]] == [
        ("dshm", "/dev/shm"),
        ("weights", "/weights"),
    ]


def _mounts_with_hf_home(*mounts: JsonObject, volumes: Iterable[JsonObject] = ()) -> list[tuple[str, str]]:
    own = aim_service(template={"name": "qwen3-lat"})
    there = workload(
        own, containers=[{"name": "kserve-container", "image": IMAGE, "volumeMounts": mounts}], volumes=list(volumes)
    )
    kaiwo = make(kinds.KAIWO_CONFIG, "kaiwo", spec={"storage": {"defaultHfMountPath": "/hf_cache"}})
    (body,) = children_of(plan_for(serving_cache(own, template(), model(), there, kaiwo)), "InferenceService")
    (container,) = body["spec"]["predictor"]["containers"]
    return [(one["name"], one["mountPath"]) for one in container["volumeMounts"]]


@pytest.mark.spec("SV-174", "RC-156")
def test_the_directory_of_hugging_face_takes_the_place_of_a_mount_that_somebody_edited() -> None:
    mounts = _mounts_with_hf_home({"name": "edited", "mountPath": "/hf_cache"})
    assert mounts == [("dshm", "/dev/shm"), ("hf-home", "/hf_cache")]


@pytest.mark.spec("SV-174", "RC-156")
def test_weights_keep_their_place_where_the_directory_of_hugging_face_would_be() -> None:
    weights = {"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}
    mounts = _mounts_with_hf_home({"name": "weights", "mountPath": "/hf_cache"}, volumes=[weights])
    assert mounts == [("dshm", "/dev/shm"), ("weights", "/hf_cache")]


@pytest.mark.spec("SV-141", "SV-171")
def test_a_ready_cache_whose_volume_is_gone_is_waited_for() -> None:
    going = template_cache(USUAL)
    going["status"]["artifacts"]["Qwen/Qwen3-32B"]["persistentVolumeClaim"] = None
    service = aim_service()
    plan = plan_for(serving_cache(service, template(), model(), node(), going))
    assert children_of(plan, "InferenceService") == []
    assert (condition_of(plan, "CacheReady"), overall(plan)) == (("False", "CacheNotReady"), "Starting")
    assert ARTIFACT in message_of(plan, "CacheReady")

    again = plan_for(serving_cache(service, template(), model(), node(), template_cache(USUAL)))
    (body,) = children_of(again, "InferenceService")
    assert [one["name"] for one in body["spec"]["predictor"]["volumes"]] == ["dshm", ARTIFACT]


@pytest.mark.spec("SV-140", "SV-141", "SV-142", "AT-080", "AT-082", "AR-617")
@pytest.mark.parametrize(
    ("objects", "made"),
    [
        ([template(), model(), template_cache(USUAL)], True),
        ([template(), cluster_model(), template_cache(USUAL)], True),
        ([template(), model(), template_cache(USUAL, status="Progressing")], False),
        ([template(), model()], False),
        ([template(), model(status="Progressing"), template_cache(USUAL)], False),
        ([template(status="Progressing"), model(), template_cache(USUAL)], False),
    ],
)
def test_the_gate(objects: list[JsonObject], made: bool) -> None:
    service = aim_service(model={"name": "qwen"}, template={"name": "qwen3-lat"})
    plan = plan_for(serving_cache(service, *objects))
    assert bool(children_of(plan, "InferenceService")) is made
    ready_template = objects[0]["status"]["status"] == "Ready"
    running = plan_for(serving_cache(service, workload(service), *objects))
    assert bool(children_of(running, "InferenceService")) is ready_template
