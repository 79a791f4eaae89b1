"""A living cluster of the Go operator: its models go on running when our services come in its place (FW-209)."""

import pytest
from support.stack import OWN, Platform

from aim_domain import labels
from aim_domain.naming import inference_service_name
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
TEAM = "left-by-go"
ISVCS = f"/apis/serving.kserve.io/v1beta1/namespaces/{TEAM}/inferenceservices"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
GO = "aim-service-controller"
OURS = (labels.ANNOTATION_APPLIED_HASH, labels.ANNOTATION_TRACEPARENT)


def as_go_writes(ours: JsonObject, name: str, service: JsonObject) -> JsonObject:
    """The InferenceService that the Go operator makes for a service: as ours, without what only we put there."""
    metadata = ours["metadata"]
    owner = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMService", "controller": True}
    predictor = ours["spec"]["predictor"]
    container = predictor["containers"][0]
    env = [one for one in container["env"] if one["name"].startswith("AIM_")]
    own = service["metadata"]
    return {
        "apiVersion": ours["apiVersion"],
        "kind": ours["kind"],
        "metadata": {
            "name": name,
            "labels": {**metadata["labels"], labels.SERVICE: own["name"], labels.SERVICE_NAME: own["name"]},
            "annotations": {key: value for key, value in metadata["annotations"].items() if key not in OURS},
            "ownerReferences": [{**owner, "name": own["name"], "uid": own["uid"]}],
        },
        "spec": {"predictor": {**predictor, "containers": [{**container, "env": env}]}},
    }


async def predictors(platform: Platform, workload: str) -> list[JsonObject]:
    found = await platform.api.get(PODS, labelSelector=f"serving.kserve.io/inferenceservice={workload}")
    return list(found.body["items"])


@pytest.mark.spec("FW-209", "SV-302")
async def test_a_model_that_the_go_operator_runs_goes_on_when_our_services_take_over(platform: Platform) -> None:
    await platform.namespace(TEAM)
    await platform.running(await platform.service(TEAM, "ours", model={"image": IMAGE}))
    made = (await platform.api.get(f"{ISVCS}/{inference_service_name('ours', TEAM)}")).body
    await platform.stack["serving"].kill()
    path = await platform.service(TEAM, "left", model={"image": IMAGE})
    workload = inference_service_name("left", TEAM)
    service = (await platform.api.get(path)).body
    body = as_go_writes(made, workload, service)
    assert (await platform.api.apply(f"{ISVCS}/{workload}", body, GO)).status == 201
    ready = await platform.until(f"{ISVCS}/{workload}", is_ready)
    pods = await predictors(platform, workload)
    assert pods, "the model runs before our service does"

    await platform.stack["serving"].start()
    await platform.running(path)

    live = (await platform.api.get(f"{ISVCS}/{workload}")).body
    assert live["metadata"]["generation"] == ready["metadata"]["generation"]
    assert live["spec"] == ready["spec"]
    assert [pod["metadata"]["uid"] for pod in await predictors(platform, workload)] == [
        pod["metadata"]["uid"] for pod in pods
    ]

    # Whoever asks for something else gets it, and with it all that the others have.
    asked = {"spec": {"env": [{"name": "ASKED", "value": "yes"}]}}
    assert (await platform.api.merge(f"{OWN}/namespaces/{TEAM}/aimservices/left", asked)).status == 200
    changed = await platform.until(f"{ISVCS}/{workload}", lambda obj: "ASKED" in str(obj["spec"]))
    assert GO not in {one["manager"] for one in changed["metadata"]["managedFields"]}
    assert labels.ANNOTATION_APPLIED_HASH in changed["metadata"]["annotations"]


def is_ready(workload: JsonObject) -> bool:
    found = (workload.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found)
