"""A template with a custom profile, as the pods see it (AT-145)."""

import pytest
from support.builders import owner
from support.serving import (
    TEAM,
    aim_service,
    children_of,
    condition_of,
    living,
    model,
    overall,
    plan_for,
    run,
    serving_cache,
    template,
    template_cache,
    workload,
)

from aim_domain.parts import SERVICES
from controller_runtime import JsonObject

AIM_ID = "meta-llama/Llama-3-8B"
FOLDER = f"/workspace/aim-runtime/profiles/custom/{AIM_ID}"


def custom(*, cluster: bool = False, **profile: object) -> JsonObject:
    made = template(
        cluster=cluster,
        aimId=AIM_ID,
        modelId=AIM_ID,
        hardware={"gpu": {"model": "MI300X", "requests": 1}},
        customProfile={"engineArgs": {"dtype": "float16"}, "envVars": {"HIP_FORCE_DEV_KERNARG": "1"}, **profile},
        modelSources=[{"modelId": AIM_ID, "sourceUri": f"hf://{AIM_ID}"}],
    )
    made["spec"] |= {"metric": "latency", "precision": "fp16"}
    return made


def service() -> JsonObject:
    return aim_service(template={"name": "qwen3-lat"}, env=[{"name": "AIM_ID", "value": "mine"}])


@pytest.mark.spec("SV-156", "SV-158", "SV-176", "SV-268", "SV-011", "AT-145", "DI-255", "DI-254")
@pytest.mark.parametrize("cluster", [False, True])
def test_the_profile_is_mounted(cluster: bool) -> None:
    ready = template_cache("c", scope="Cluster" if cluster else "Namespace")
    cache = living(service(), custom(cluster=cluster), model(), ready)
    plan = plan_for(cache)
    (body,) = children_of(plan, "InferenceService")
    predictor = body["spec"]["predictor"]
    env = {one["name"]: one["value"] for one in predictor["containers"][0]["env"]}
    assert env["AIM_ID"] == AIM_ID
    assert env["AIM_PROFILE_ID"] == f"custom/{AIM_ID}/vllm-mi300x-fp16-tp1-latency"
    assert not {"AIM_MODEL_ID", "HIP_FORCE_DEV_KERNARG"} & set(env)
    mount = {"name": "custom-profile", "mountPath": FOLDER, "readOnly": True}
    assert predictor["containers"][0]["volumeMounts"][-1] == mount
    volume = predictor["volumes"][-1]
    assert len(predictor["annotations"]["aim.eai.amd.com/profile-hash"]) == 16
    copies = children_of(plan, "ConfigMap")
    if not cluster:
        assert copies == []
        return
    assert volume["configMap"]["name"] == "qwen-chat-custom-profile-8a837eb7"
    assert [one["metadata"]["name"] for one in copies] == ["qwen-chat-custom-profile-8a837eb7"]
    assert copies[0]["metadata"]["namespace"] == TEAM
    assert [child.owned for child in plan.children if child.body["kind"] == "ConfigMap"] == [True]
    assert list(copies[0]["data"]) == ["vllm-mi300x-fp16-tp1-latency.yaml"]
    run(cache)
    assert children_of(plan_for(cache), "InferenceService") == [body]


@pytest.mark.spec("SV-174")
def test_the_volume_is_never_taken_over() -> None:
    own = service()
    former = {"name": "custom-profile", "configMap": {"name": "former"}}
    mounts = [{"name": "custom-profile", "mountPath": "/former"}]
    running = workload(
        own, volumes=[former], containers=[{"name": "kserve-container", "image": "i", "volumeMounts": mounts}]
    )
    assert running["metadata"]["ownerReferences"] == [owner(own)]
    (body,) = children_of(plan_for(serving_cache(own, template(), model(), running)), "InferenceService")
    assert [one["name"] for one in body["spec"]["predictor"]["volumes"]] == ["dshm"]


@pytest.mark.spec("SV-176", "SV-214")
def test_a_profile_that_can_not_be_used() -> None:
    plan = plan_for(serving_cache(service(), custom(engineArgs={"model": "x"}), model(), template_cache("c")))
    assert condition_of(plan, "InferenceServiceReady") == ("False", "InvalidCustomProfile")
    assert overall(plan) == "Failed"
    assert children_of(plan, "InferenceService") == []


@pytest.mark.spec("SV-340", "SV-268")
def test_a_profile_stays_under_the_pods_that_a_rollout_keeps() -> None:
    def kept(*env: JsonObject, status: JsonObject | None = None) -> JsonObject:
        steps = {"steps": [{"weight": 10}]}
        return aim_service(template={"name": "qwen3-lat"}, rollout=steps, env=list(env), status=status)

    cache = living(kept(), custom(cluster=True), model(), template_cache("c", scope="Cluster"))
    run(cache)
    first = plan_for(cache)
    cache.put(SERVICES, kept({"name": "A", "value": "1"}, status=first.status))
    plan = plan_for(cache)
    assert [one.body["kind"] for one in plan.children] == ["AIMService"]
