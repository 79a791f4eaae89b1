"""What the services seldom do, on a platform of its own, so that the audit log shows it (FW-506).

The end-to-end tests show the rest; `make used-permissions` puts both together.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from support.controlplane import Reply
from support.nats import eventually
from support.replicas import DIVIDED
from support.scaling import reason_of, spec_for
from support.stack import OWN, Platform, started_platform
from support.used_permissions import Permission, granted, of_logs, table_of_roles, unused
from support.written_profiles import BASE, MINE, PIPELINE, profiles_of

from aim_domain import labels
from aim_domain.naming import predictor_name
from aim_domain.services import SERVICES
from aim_local.stack import ClusterKind
from controller_runtime import MOST_SHARDS, JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE: Final = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
NEWER: Final = "/apis/aim.eai.amd.com/v1alpha2"
EAGER: Final = {"AIM_LEADER_ELECT": "true", "AIM_NATS_HEARTBEAT": "1s"}
"""Leases are used, and a broker that is away is noticed within seconds."""
CONFIGS: Final = "/apis/config.kaiwo.silogen.ai/v1alpha1/kaiwoconfigs"
ROUTES: Final = "/apis/gateway.networking.k8s.io/v1"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OPTIONAL: Final = ("kaiwoconfigs.config.kaiwo.silogen.ai", "aimnamespaceconfigs.config.kaiwo.silogen.ai")
OLD_CONDITION: Final = {
    "type": "Old", "status": "True", "reason": "Old", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip


def of_kind(namespace: str, plural: str) -> str:
    return f"{OWN}/namespaces/{namespace}/{plural}"


async def some(platform: Platform, path: str) -> list[JsonObject]:
    """The objects of a collection, once there are any."""
    return list((await platform.api.until(path, lambda reply: bool(reply.body.get("items")))).body["items"])


async def none(platform: Platform, path: str) -> None:
    """Wait until a collection is empty."""
    await platform.api.until(path, lambda reply: not reply.body["items"])


async def template(platform: Platform, namespace: str, **spec: object) -> str:
    """A template of the image for a profile of its own; returns its path."""
    body = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMModel",
        "metadata": {"name": "ours", "namespace": namespace},
        "spec": {"image": IMAGE},
    }
    await platform.api.created(of_kind(namespace, "aimmodels"), body)
    known = {
        "modelName": "ours",
        "metric": "latency",
        "precision": "fp16",
        "hardware": {"gpu": {"model": "MI300X", "requests": 1}},
    }
    own = {**body, "kind": "AIMServiceTemplate", "spec": known | spec}
    await platform.api.created(of_kind(namespace, "aimservicetemplates"), own)
    return f"{of_kind(namespace, 'aimservicetemplates')}/ours"


async def a_profile_and_a_cache_of_a_template(platform: Platform) -> None:
    await platform.namespace("profiled")
    profile = {"customProfile": {"engineArgs": {"dtype": "float16"}}, "aimId": "a/b", "modelId": "a/b"}
    path = await template(platform, "profiled", caching={"enabled": True}, **profile)
    maps = "/api/v1/namespaces/profiled/configmaps?labelSelector=aim.eai.amd.com/component=custom-profile"
    await some(platform, maps)
    await platform.api.merge(path, {"spec": {"customProfile": None}})
    await none(platform, maps)
    await some(platform, of_kind("profiled", "aimtemplatecaches"))


async def a_discovery_whose_inputs_change(platform: Platform) -> None:
    await platform.namespace("changed", **{"local.aim/fail": "discovery=hang"})
    path = await template(platform, "changed")
    jobs = "/apis/batch/v1/namespaces/changed/jobs"
    [first] = await some(platform, jobs)
    await platform.api.merge(path, {"spec": {"env": [{"name": "X", "value": "1"}]}})
    gone = f"{jobs}/{first['metadata']['name']}"
    await platform.api.until(gone, lambda reply: reply.status == 404 or "deletionTimestamp" in reply.body["metadata"])


async def a_dry_run(platform: Platform) -> None:
    await platform.namespace("planned")
    body = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMService",
        "metadata": {"name": "chat", "namespace": "planned", "annotations": {labels.ANNOTATION_DRY_RUN: "plan"}},
        "spec": {"model": {"image": IMAGE}},
    }
    await platform.api.created(of_kind("planned", "aimservices"), body)
    path = f"{of_kind('planned', 'aimservices')}/chat"
    plan = "/api/v1/namespaces/planned/configmaps/chat-plan"
    await platform.api.until(plan, lambda reply: reply.status == 200)
    await platform.api.merge(path, {"metadata": {"annotations": {labels.ANNOTATION_DRY_RUN: None}}})
    await platform.api.until(plan, lambda reply: reply.status == 404)


async def a_route_that_is_not_wanted_any_more(platform: Platform) -> None:
    await platform.namespace("unrouted")
    path = await platform.service("unrouted", "chat", model={"image": IMAGE})
    routes = f"{ROUTES}/namespaces/unrouted/httproutes"
    await some(platform, routes)
    await platform.api.merge(path, {"spec": {"routing": {"enabled": False}}})
    await none(platform, routes)


async def a_derived_template_that_two_share(platform: Platform) -> None:
    await platform.namespace("derived")
    await template(platform, "derived")
    wanted = {"model": {"name": "ours"}, "template": {"name": "ours"}, "overrides": {"precision": "int4"}}
    for name in ("one", "two"):
        await platform.service("derived", name, **wanted)

    def shared(reply: Reply) -> bool:
        return any(len(one["metadata"].get("ownerReferences", ())) == 2 for one in reply.body["items"])

    await platform.api.until(of_kind("derived", "aimservicetemplates"), shared)


async def a_download_that_crashes(platform: Platform) -> None:
    await platform.namespace("crashing", **{"local.aim/fail": "download=crash"})
    path = await platform.service("crashing", "chat", model={"image": IMAGE})
    await platform.until(path, lambda obj: reason_of(obj, "CacheReady") == "CacheFailed")


async def what_kserve_made_for_keda(platform: Platform) -> None:
    """A collector of metrics, which KServe leaves behind where KEDA scales no more (SV-272)."""
    await platform.namespace("unscaled")
    path = await platform.service("unscaled", "chat", model={"image": IMAGE}, **spec_for("keda"))
    [workload] = await some(platform, "/apis/serving.kserve.io/v1beta1/namespaces/unscaled/inferenceservices")
    name, uid = workload["metadata"]["name"], workload["metadata"]["uid"]
    owner = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": name, "uid": uid}
    body = {
        "apiVersion": "opentelemetry.io/v1beta1",
        "kind": "OpenTelemetryCollector",
        "metadata": {"name": predictor_name(name), "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"config": {}},
    }
    collection = "/apis/opentelemetry.io/v1beta1/namespaces/unscaled/opentelemetrycollectors"
    await platform.api.created(collection, body)
    await platform.api.merge(path, {"spec": spec_for("fixed")})
    await none(platform, collection)


async def a_service_deleted_while_it_downloads(platform: Platform) -> None:
    await platform.namespace("hasty", **{"local.aim/fail": "download=hang"})
    path = await platform.service("hasty", "chat", model={"image": IMAGE})
    await some(platform, of_kind("hasty", "aimtemplatecaches"))
    await some(platform, "/apis/batch/v1/namespaces/hasty/jobs?labelSelector=aim.eai.amd.com/component=download")
    await platform.api.delete(path)
    await none(platform, of_kind("hasty", "aimtemplatecaches"))


async def profiles_that_come_and_go(platform: Platform) -> None:
    """Of an image, and derived from them, in both scopes; they go when the set derives others."""
    await platform.namespace("profiles")
    for kind, models, profiles in (
        ("AIMClusterModel", f"{OWN}/aimclustermodels", f"{NEWER}/aimclusterprofiles"),
        ("AIMModel", of_kind("profiles", "aimmodels"), f"{NEWER}/namespaces/profiles/aimprofiles"),
    ):
        bodies: dict[str, JsonObject] = {
            "perm-base": {"image": BASE},
            "perm-tuned": {"profiles": profiles_of("perm-base")},
        }
        for name, spec in bodies.items():
            metadata = {"name": name, "annotations": PIPELINE}
            body = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
            await platform.api.created(models, body)
        await platform.api.until(profiles, derives)
        other = {"spec": {"profiles": {"derivedFrom": {"selector": {"engine": "another"}}}}}
        await platform.api.merge(f"{models}/perm-tuned", other)
        await platform.api.until(profiles, lambda reply: not derives(reply))


def derives(reply: Reply) -> bool:
    return any(one["spec"].get("aimId") == "team/tuned" for one in reply.body["items"])


async def caches_of_profiles(platform: Platform) -> None:
    """One that a profile asks for, and one whose downloads get another environment before they end."""
    await platform.namespace("weights", **{"local.aim/fail": "download=hang"})
    collection, caches = (f"{NEWER}/namespaces/weights/{plural}" for plural in ("aimprofiles", "aimprofilecaches"))
    for name, cached in (("asks", True), ("waits", False)):
        spec = {**MINE, **({"caching": {"enabled": True}} if cached else {})}
        body = {
            "apiVersion": NEWER.removeprefix("/apis/"),
            "kind": "AIMProfile",
            "metadata": {"name": name},
            "spec": spec,
        }
        await platform.api.created(collection, body)

    def of(name: str) -> Callable[[Reply], bool]:
        return lambda reply: any(one["spec"]["profileName"] == name for one in reply.body["items"])

    await platform.api.until(caches, of("asks"))
    path = await platform.service("weights", "chat", profile={"name": "waits"})
    await platform.api.until(caches, of("waits"))
    await platform.api.merge(path, {"spec": {"env": [{"name": "HF_HOME", "value": "/tmp"}]}})
    await platform.api.until(caches, lambda reply: "HF_HOME" in str(reply.body["items"]))


async def a_tainted_node(platform: Platform) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "idle", "labels": {labels.GPU_DEVICE_ID: "74a1"}}}
    config = {"apiVersion": "config.kaiwo.silogen.ai/v1alpha1", "kind": "KaiwoConfig", "metadata": {"name": "kaiwo"}}
    await platform.api.created("/api/v1/nodes", node)
    await platform.api.created(CONFIGS, {**config, "spec": {"nodes": {"addTaintsToGpuNodes": True}}})
    key = "kaiwo.silogen.ai/gpu"
    await platform.api.until("/api/v1/nodes/idle", lambda reply: key in str(reply.body["spec"].get("taints")))
    await platform.api.delete(f"{CONFIGS}/kaiwo")
    await platform.api.until("/api/v1/nodes/idle", lambda reply: key not in str(reply.body["spec"].get("taints")))


async def statuses_of_the_existing_operator(platform: Platform) -> None:
    """What that one owned is taken over, for each kind whose status a service writes (FW-209)."""
    await platform.namespace("taken-over")
    path = await template(platform, "taken-over")
    cluster = (await some(platform, f"{OWN}/aimclustermodels"))[0]["metadata"]["name"]
    source = f"{OWN}/aimclustermodelsources/amd-catalogue"
    for one in (path, f"{of_kind('taken-over', 'aimmodels')}/ours", f"{OWN}/aimclustermodels/{cluster}", source):
        await platform.api.until(one, lambda reply: bool(reply.body.get("status")))
        before = {"status": {"conditions": [OLD_CONDITION]}}
        reply = await platform.api.merge(f"{one}/status", before, fieldManager="manager")
        assert reply.status == 200, reply.body
    # A source is looked at when its time has come, or its spec has changed.
    await platform.api.merge(source, {"spec": {"syncInterval": "29m"}})
    for one in (path, f"{of_kind('taken-over', 'aimmodels')}/ours", f"{OWN}/aimclustermodels/{cluster}", source):
        await platform.api.until(one, is_ours)


def is_ours(reply: Reply) -> bool:
    return "manager" not in [owner["manager"] for owner in reply.body["metadata"]["managedFields"]]


async def all_is_read(folder: Path, *, definitions: bool) -> None:
    """Wait until Leases were used and all was read that is read past the broker.

    Args:
        definitions: whether also the definitions of kinds that are not there.
    """

    def missing() -> list[Permission]:
        roles = (one for one in granted(table_of_roles()) if one.service in SERVICES)
        left = unused(roles, of_logs(folder))
        seldom = [one for one in left if one.resource == "leases" or one.verb in ("list", "watch")]
        return [one for one in seldom if definitions or one.resource != "customresourcedefinitions"]

    async def done() -> bool:
        return not await asyncio.to_thread(missing)

    await eventually(done, "every service has read the API server past the broker", interval=1)


@pytest.mark.spec("FW-506")
async def test_what_is_seldom_done_is_done_with_the_roles_of_the_chart(tmp_path: Path) -> None:
    # As many shards as there may be, so that each Lease of the roles is held.
    divided = {**EAGER, "AIM_SHARDS": str(MOST_SHARDS)}
    settings = {name: divided if name in DIVIDED else EAGER for name in SERVICES}
    async with started_platform(tmp_path, service_env=settings, cluster=ClusterKind.REAL) as platform:
        await asyncio.gather(
            a_profile_and_a_cache_of_a_template(platform),
            a_discovery_whose_inputs_change(platform),
            a_dry_run(platform),
            a_route_that_is_not_wanted_any_more(platform),
            a_derived_template_that_two_share(platform),
            a_download_that_crashes(platform),
            what_kserve_made_for_keda(platform),
            a_service_deleted_while_it_downloads(platform),
            profiles_that_come_and_go(platform),
            caches_of_profiles(platform),
            a_tainted_node(platform),
            statuses_of_the_existing_operator(platform),
        )
        await platform.stack["nats"].stop()
        await all_is_read(tmp_path, definitions=False)
        for name in OPTIONAL:
            await platform.api.delete(f"{DEFINITIONS}/{name}")
        await all_is_read(tmp_path, definitions=True)
