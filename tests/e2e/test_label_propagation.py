"""Labels of an AIMService on everything that is made for it, down to volumes and pods."""

from functools import partial

import pytest
from support.nats import eventually
from support.stack import OWN, Platform

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
TEAM = "labelled"
CHILDREN = {
    "template cache": f"{OWN}/namespaces/{TEAM}/aimtemplatecaches",
    "artifact": f"{OWN}/namespaces/{TEAM}/aimartifacts",
    "volume claim": f"/api/v1/namespaces/{TEAM}/persistentvolumeclaims",
    "download Job": f"/apis/batch/v1/namespaces/{TEAM}/jobs",
    "InferenceService": f"/apis/serving.kserve.io/v1beta1/namespaces/{TEAM}/inferenceservices",
    "route": f"/apis/gateway.networking.k8s.io/v1/namespaces/{TEAM}/httproutes",
    "pods": f"/api/v1/namespaces/{TEAM}/pods",
}
WANTED = {"team-alpha": "frontend", "cost-center": "cc-12345"}
GIVEN = {**WANTED, "env": "test"}


def labels_of(obj: JsonObject) -> dict[str, str]:
    """Those that a user could have given."""
    return {name: value for name, value in obj["metadata"].get("labels", {}).items() if name in GIVEN}


@pytest.mark.spec(
    "AT-103",
    "RC-S18",
    "RC-S21",
    "RC-099",
    "RC-100",
    "RC-101",
    "RC-090",
    "FW-S41",
    "FW-220",
    "FW-222",
    "AR-042",
    "SC-110",
)
async def test_labels_reach_everything_that_is_made_for_a_service(platform: Platform) -> None:
    await platform.namespace(TEAM)
    config = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMRuntimeConfig",
        "metadata": {"name": "default", "namespace": TEAM},
        "spec": {"labelPropagation": {"enabled": True, "match": ["team-*", "cost-center"]}},
    }
    await platform.api.created(f"{OWN}/namespaces/{TEAM}/aimruntimeconfigs", config)
    service = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMService",
        "metadata": {"name": "chat", "namespace": TEAM, "labels": GIVEN},
        "spec": {"model": {"image": IMAGE}, "caching": {"mode": "Shared"}},
    }
    # What has come to its end may be cleaned up before the service runs.
    seen: dict[str, dict[str, JsonObject]] = {what: {} for what in CHILDREN}
    await platform.api.created(f"{OWN}/namespaces/{TEAM}/aimservices", service)

    async def runs() -> bool:
        for what, path in CHILDREN.items():
            found = (await platform.api.get(path)).body["items"]
            seen[what].update({one["metadata"]["uid"]: one for one in found})
        live = (await platform.api.get(f"{OWN}/namespaces/{TEAM}/aimservices/chat")).body
        return bool((live.get("status") or {}).get("status") == "Running")

    await eventually(runs, "the service runs")
    # What came between the look at its kind and the one at the service.
    assert await runs()
    for what, found in seen.items():
        assert found, f"no {what} was seen"
        assert {one["metadata"]["name"]: labels_of(one) for one in found.values()} == {
            one["metadata"]["name"]: WANTED for one in found.values()
        }, what
    for job in seen["download Job"].values():
        assert labels_of(job["spec"]["template"]) == WANTED
    (cache,) = seen["template cache"].values()
    assert cache["metadata"]["labels"]["aim.eai.amd.com/service.name"] == "chat"


@pytest.mark.spec("RC-103", "RC-104")
async def test_changed_labels_reach_what_is_applied_again_and_nothing_else(platform: Platform) -> None:
    team = "relabelled"
    children = {what: path.replace(TEAM, team) for what, path in CHILDREN.items()}
    await platform.namespace(team)
    config = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMRuntimeConfig",
        "metadata": {"name": "default", "namespace": team},
        "spec": {"labelPropagation": {"enabled": True, "match": ["team-*", "cost-center"]}},
    }
    configs, services = f"{OWN}/namespaces/{team}/aimruntimeconfigs", f"{OWN}/namespaces/{team}/aimservices"
    await platform.api.created(configs, config)
    service = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMService",
        "metadata": {"name": "chat", "namespace": team, "labels": GIVEN},
        "spec": {"model": {"image": IMAGE}, "caching": {"mode": "Shared"}},
    }
    await platform.api.created(services, service)
    await platform.running(f"{services}/chat")

    async def labels(what: str) -> list[dict[str, str]]:
        return [labels_of(one) for one in (await platform.api.get(children[what])).body["items"]]

    async def carries(what: str, wanted: dict[str, str]) -> bool:
        found = await labels(what)
        return bool(found) and all(one == wanted for one in found)

    async def applied_again(wanted: dict[str, str]) -> None:
        for what in ("InferenceService", "route"):
            await eventually(partial(carries, what, wanted), f"{what}: {wanted}")

    changed = {"team-alpha": "backend", "cost-center": None}
    assert (await platform.api.merge(f"{services}/chat", {"metadata": {"labels": changed}})).status == 200
    await applied_again({"team-alpha": "backend"})
    spec = {"labelPropagation": {"match": ["env"]}}
    assert (await platform.api.merge(f"{configs}/default", {"spec": spec})).status == 200
    await applied_again({"env": "test"})
    for what in ("template cache", "artifact", "volume claim"):
        assert await carries(what, WANTED), what
    await platform.api.delete(f"/api/v1/namespaces/{team}")
