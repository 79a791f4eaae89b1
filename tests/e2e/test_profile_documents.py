"""Objects of newer releases of the Go operator: served where they can be, and explained where not."""

import pytest
from support.stack import OWN, Platform, status_of

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

NEWER = OWN.replace("v1alpha1", "v1alpha2")
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
PIPELINE = "aim.eai.amd.com/reconciler-pipeline"


def written(kind: str, name: str, spec: JsonObject, pipeline: str = "") -> JsonObject:
    annotations = {PIPELINE: pipeline} if pipeline else {}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "aim.eai.amd.com/v1alpha2", "kind": kind, "metadata": metadata, "spec": spec}


def condition(obj: JsonObject, type_: str) -> JsonObject:
    [found] = [one for one in obj["status"]["conditions"] if one["type"] == type_]
    return dict(found)


@pytest.mark.spec("CC-350", "CC-352")
async def test_a_service_in_the_newer_version_runs_by_a_template(platform: Platform) -> None:
    team = "newer-version"
    await platform.namespace(team)
    path = f"namespaces/{team}/aimservices"
    await platform.api.created(f"{NEWER}/{path}", written("AIMService", "plain", {"model": {"image": IMAGE}}))
    await platform.running(f"{OWN}/{path}/plain")
    shown = (await platform.api.get(f"{NEWER}/{path}/plain")).body
    assert (shown["apiVersion"], status_of(shown)) == ("aim.eai.amd.com/v1alpha2", "Running")
    await platform.api.delete(f"{OWN}/{path}/plain")


@pytest.mark.spec("CC-352", "PR-010", "PR-011", "PR-047")
async def test_a_profile_that_is_not_there_is_reported_and_gives_way_to_a_template(platform: Platform) -> None:
    team = "asking-for-profiles"
    await platform.namespace(team)
    path = f"{OWN}/namespaces/{team}/aimservices"
    newer = path.replace(OWN, NEWER)
    by_profile = written("AIMService", "by-profile", {"profile": {"name": "qwen-mi300x"}})
    annotated = written("AIMService", "annotated", {"model": {"image": IMAGE}}, "profile")
    for body, found in (
        (by_profile, "neither AIMProfile asking-for-profiles/qwen-mi300x nor AIMClusterProfile qwen-mi300x exists"),
        (annotated, "set profiles.enabled in the chart, or ask for these: kubectl annotate aim"),
    ):
        name = body["metadata"]["name"]
        await platform.api.created(newer, body)
        failed = await platform.until(f"{path}/{name}", lambda one: status_of(one) == "Failed")
        profile = condition(failed, "ProfileReady")
        assert (profile["status"], profile["reason"]) == ("False", "ProfileNotFound")
        assert found in profile["message"]
        workloads = f"/apis/serving.kserve.io/v1beta1/namespaces/{team}/inferenceservices"
        assert (await platform.api.get(workloads)).body["items"] == []
    await platform.api.merge(f"{path}/by-profile", {"spec": {"model": {"image": IMAGE}}})
    for name in ("by-profile", "annotated"):
        await platform.api.merge(f"{path}/{name}", {"metadata": {"annotations": {PIPELINE: "template"}}})
        await platform.running(f"{path}/{name}")
        await platform.api.delete(f"{path}/{name}")


@pytest.mark.spec("CC-352")
@pytest.mark.parametrize("spec", [{"modelId": "org/model"}, {"profileCopy": {"selector": {"engine": "vllm"}}}])
async def test_a_model_that_cannot_be_derived_is_reported(platform: Platform, spec: JsonObject) -> None:
    team = f"models-{next(iter(spec)).lower()}"
    await platform.namespace(team)
    name = f"of-{next(iter(spec)).lower()}"
    path = f"{NEWER}/namespaces/{team}/aimmodels"
    await platform.api.created(path, written("AIMModel", name, spec))
    failed = await platform.until(f"{path}/{name}", lambda one: status_of(one) == "Failed")
    ready = condition(failed, "Ready")
    assert (ready["reason"], next(iter(spec)) in ready["message"]) == ("InvalidSpec", True)
    assert failed["spec"][next(iter(spec))] == spec[next(iter(spec))]
