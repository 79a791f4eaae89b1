"""Services that are served by profiles: discovered, written by hand, laid over, derived (docs/spec/profiles.md)."""

import asyncio
from collections.abc import Mapping

import pytest
from support.stack import OWN, Platform, status_of
from support.written_profiles import BASE, MINE, PIPELINE, profiles_of

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

NEWER = "/apis/aim.eai.amd.com/v1alpha2"
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.4"


async def create(
    platform: Platform,
    kind: str,
    plural: str,
    team: str,
    name: str,
    *,
    annotations: Mapping[str, str] | None = None,
    **body: object,
) -> str:
    version = NEWER if "profile" in plural else OWN
    metadata = {"name": name, "namespace": team, "annotations": dict(annotations or {})}
    path = f"{version}/namespaces/{team}/{plural}"
    await platform.api.created(
        path, {"apiVersion": version.removeprefix("/apis/"), "kind": kind, "metadata": metadata, **body}
    )
    return f"{path}/{name}"


async def model(platform: Platform, team: str, name: str = "qwen", image: str = IMAGE) -> str:
    return await create(platform, "AIMModel", "aimmodels", team, name, annotations=PIPELINE, spec={"image": image})


async def profiles(platform: Platform, team: str) -> dict[str, JsonObject]:
    found = (await platform.api.get(f"{NEWER}/namespaces/{team}/aimprofiles")).body["items"]
    named: dict[str, JsonObject] = {one["metadata"]["name"]: one for one in found}
    return named


def reason_of(obj: JsonObject, type_: str) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((one["reason"] for one in conditions if one["type"] == type_), "")


def container(workload: JsonObject) -> JsonObject:
    found: JsonObject = workload["spec"]["predictor"]["containers"][0]
    return found


def environment(workload: JsonObject) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container(workload)["env"]}


async def workload(platform: Platform, team: str) -> JsonObject:
    found = (await platform.api.get(f"/apis/serving.kserve.io/v1beta1/namespaces/{team}/inferenceservices")).body
    [one] = found["items"]
    return dict(one)


@pytest.mark.spec("PR-010", "PR-040", "PR-053", "PR-070", "PR-071", "PR-072", "PR-080", "PR-090", "PR-095", "PR-098")
async def test_a_service_of_a_model_is_served_by_a_profile_of_its_image(platform: Platform) -> None:
    team = "profiled"
    await platform.namespace(team)
    of_model = await model(platform, team)
    read = await platform.until(of_model, lambda one: bool((one.get("status") or {}).get("discoveredProfiles")))
    assert read["status"]["discoveredProfiles"]["total"] == 3
    assert read["status"]["discoveredProfiles"]["supported"] == 2, "no node has an MI325X"
    assert sorted(await profiles(platform, team)) == sorted(await profiles(platform, team))
    path = await platform.service(
        team, "chat", profile={"selector": {"modelRef": {"name": "qwen"}, "metric": "throughput"}}
    )
    done = await platform.running(path)
    resolved = done["status"]["resolvedProfile"]
    assert resolved["name"].startswith("qwen-vllm-mi300x-fp8-tp1-throughput")
    assert "resolvedTemplate" not in done["status"]
    assert reason_of(done, "ProfileReady") == "ProfileResolved"
    assert reason_of(done, "ProfileCacheReady") == "ProfileCacheReady"
    made = await workload(platform, team)
    env = environment(made)
    assert env["AIM_ID"] == ""
    assert env["AIM_MODEL_ID"] == "Qwen/Qwen3-32B-FP8"
    assert env["AIM_PROFILE_ID"] == "custom/Qwen/Qwen3-32B/vllm-mi300x-fp8-tp1-throughput"
    assert container(made)["image"] == IMAGE
    assert container(made)["resources"]["limits"]["amd.com/gpu"] == "1"
    caches = (await platform.api.get(f"{NEWER}/namespaces/{team}/aimprofilecaches")).body["items"]
    assert [one["spec"]["profileName"] for one in caches] == [resolved["name"]]
    [artifact] = (await platform.api.get(f"{OWN}/namespaces/{team}/aimartifacts")).body["items"]
    assert artifact["metadata"]["labels"]["aim.eai.amd.com/profile.name"] == resolved["name"]
    templates = (await platform.api.get(f"{OWN}/namespaces/{team}/aimservicetemplates")).body["items"]
    assert len(templates) == 3, "they are made as before"
    await platform.api.delete(path)


@pytest.mark.spec("PR-060", "PR-061", "PR-064")
async def test_overrides_are_laid_over_the_profile_and_go_with_it(platform: Platform) -> None:
    team = "overlaid"
    await platform.namespace(team)
    await model(platform, team)
    selector = {"modelRef": {"name": "qwen"}, "metric": "latency"}
    overrides = {"engineArgs": {"max-model-len": 4096}, "containerEnv": [{"name": "A", "value": "1"}]}
    path = await platform.service(team, "chat", profile={"selector": selector}, profileOverrides=overrides)
    done = await platform.running(path)
    overlay = (await profiles(platform, team))[done["status"]["resolvedProfile"]["name"]]
    assert overlay["spec"]["engineArgs"]["max-model-len"] == 4096
    assert overlay["spec"]["engineArgs"]["tensor-parallel-size"] == 1
    assert environment(await workload(platform, team))["A"] == "1"
    [file] = [
        one
        for one in (await platform.api.get(f"/api/v1/namespaces/{team}/configmaps")).body["items"]
        if one["metadata"].get("labels", {}).get("aim.eai.amd.com/component") == "custom-profile"
    ]
    assert "max-model-len: 4096" in next(iter(file["data"].values()))
    await platform.api.merge(path, {"spec": {"profileOverrides": None}})
    await platform.until(
        path, lambda one: one["status"].get("resolvedProfile", {}).get("name") != overlay["metadata"]["name"]
    )
    for _ in range(300):
        if overlay["metadata"]["name"] not in await profiles(platform, team):
            break
        await asyncio.sleep(0.1)
    else:
        pytest.fail("the overlay stays")
    await platform.running(path)
    assert "A" not in environment(await workload(platform, team))
    await platform.api.delete(path)


@pytest.mark.spec("PR-110", "PR-113", "PR-115", "PR-062")
async def test_a_model_is_derived_from_the_profiles_of_a_base_image(platform: Platform) -> None:
    team = "derived"
    await platform.namespace(team)
    await model(platform, team, "base", BASE)
    tuned = await create(platform, "AIMModel", "aimmodels", team, "tuned", spec={"profiles": profiles_of("base")})
    done = await platform.until(tuned, lambda one: status_of(one) == "Ready")
    assert done["status"]["managedProfiles"] == {
        "total": 1,
        "ready": 1,
        "notAvailable": 0,
        "deployable": 1,
        "base": 0,
    }
    path = await platform.service(
        team, "chat", profile={"selector": {"modelRef": {"name": "tuned"}, "minimumType": "any"}}
    )
    await platform.running(path)
    assert environment(await workload(platform, team))["AIM_MODEL_ID"] == "team/tuned-7b"
    assert container(await workload(platform, team))["image"] == BASE
    await platform.api.delete(path)


@pytest.mark.spec("PR-003", "PR-049", "PR-053")
async def test_a_profile_that_a_person_wrote_serves_and_a_running_service_outlives_it(platform: Platform) -> None:
    team = "authored"
    await platform.namespace(team)
    await create(platform, "AIMProfile", "aimprofiles", team, "mine", spec=MINE)
    path = await platform.service(team, "chat", profile={"name": "mine"})
    await platform.running(path)
    await platform.api.delete(f"{NEWER}/namespaces/{team}/aimprofiles/mine")
    lost = await platform.until(path, lambda one: reason_of(one, "ProfileReady") == "ProfileNotFound")
    assert status_of(lost) == "Degraded"
    assert await workload(platform, team)
    await platform.api.delete(path)


@pytest.mark.spec("PR-010", "PR-013", "PR-053", "PR-080")
async def test_a_service_moves_to_a_profile_and_back_and_shares_its_weights(platform: Platform) -> None:
    team = "moving"
    await platform.namespace(team)
    await model(platform, team)
    path = await platform.service(team, "chat", model={"name": "qwen"})
    before = await platform.running(path)
    former = (await workload(platform, team))["metadata"]
    asked = {"aim.eai.amd.com/dry-run": "plan", **PIPELINE}
    await platform.api.merge(path, {"metadata": {"annotations": asked}})
    plan = f"/api/v1/namespaces/{team}/configmaps/chat-plan"
    await platform.until(plan, lambda one: "create AIMProfileCache" in one.get("data", {}).get("plan", ""))
    assert (await workload(platform, team))["metadata"]["generation"] == former["generation"], "only planned"
    await platform.api.merge(path, {"metadata": {"annotations": {"aim.eai.amd.com/dry-run": None}}})
    moved = await platform.until(path, lambda one: "resolvedProfile" in one["status"] and status_of(one) == "Running")
    assert "resolvedTemplate" not in moved["status"]
    now = (await workload(platform, team))["metadata"]
    assert (now["name"], now["uid"]) == (former["name"], former["uid"]), "its address stays"
    assert moved["status"]["routing"] == before["status"]["routing"]
    await platform.api.merge(path, {"metadata": {"annotations": {"aim.eai.amd.com/reconciler-pipeline": "template"}}})
    back = await platform.until(path, lambda one: "resolvedTemplate" in one["status"] and status_of(one) == "Running")
    assert "resolvedProfile" not in back["status"]
    artifacts = (await platform.api.get(f"{OWN}/namespaces/{team}/aimartifacts")).body["items"]
    sources = [one["spec"]["sourceUri"] for one in artifacts]
    assert len(sources) == len(set(sources)), "a template and a profile with one source share its download"
    await platform.api.delete(path)
