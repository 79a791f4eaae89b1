"""Objects for the pages of the console: a cluster in use, a service that fails, and one that is abused."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from support.builders import condition, make, owner, ready_status

from aim_domain import kinds, labels
from controller_runtime import JsonObject

EVIL: Final = "<img src=/evil onerror=alert(1)><script>alert(2)</script>\x1b[2J\u202e"
"""Markup, a terminal's escape and a turn of the direction of writing."""
TEAMS: Final = 10
FAILING: Final = ("team-0", "broken")
STORIED: Final = ("team-5", "storied")
ABUSED: Final = ("team-0", "abused")
_FAMILIES: Final = ("llama-3-70b", "mixtral-8x22b", "qwen3-32b", "deepseek-r1-distill-70b")
_PRECISIONS: Final = ("fp8", "fp16")
_WHY: Final = (
    "the download of hf://mistralai/Mixtral-8x22B-Instruct-v0.1 was refused: 401 Unauthorized; the token in Secret "
    "hf-token may not read this gated repository"
)


def cluster(services: int, extra: int = 0) -> Iterator[JsonObject]:
    """Everything, oldest first.

    Args:
        services: that there are in ten namespaces, besides the failing and the abused one.
        extra: artifacts that nobody looks at.
    """
    now = datetime.now(UTC)
    yield from (make(kinds.NAMESPACE, f"team-{one}", created=now) for one in range(TEAMS))
    yield from map(_node, range(8))
    for place, family in enumerate(_FAMILIES):
        yield from _model(family, place)
    yield from _failing(now)
    yield _abused(now)
    yield from (_service(number, now) for number in range(services))
    yield from (_artifact(f"weights-{number}", f"team-{number % TEAMS}", "Ready", now) for number in range(extra))


def _node(number: int) -> JsonObject:
    reported = {"amd.com/gpu.device-id": "74a1", "kubernetes.io/hostname": f"gpu-{number}"}
    return make(kinds.NODE, f"gpu-{number}", labels=reported, spec={}, status={"allocatable": {"amd.com/gpu": "8"}})


def _model(family: str, place: int) -> Iterator[JsonObject]:
    image = f"docker.io/amdenterpriseai/aim-{family}:0.9.{place}"
    yield make(kinds.AIM_CLUSTER_MODEL, family, spec={"image": image}, status=ready_status())
    for precision in _PRECISIONS:
        for gpu in ("MI300X", "MI355X"):
            profile = {"gpu": gpu, "gpuCount": 4, "metric": "latency", "precision": precision, "type": "optimized"}
            fits = gpu == "MI300X"
            why = f"no node has {gpu}; there are MI300X"
            lacking = {"status": "NotAvailable", "conditions": [condition("GpuAvailable", False, "NoSuchGpu", why)]}
            reported = {**(ready_status() if fits else lacking), "profile": {"metadata": profile}}
            name = f"{family}-{gpu.lower()}-{precision}-latency"
            yield make(kinds.AIM_CLUSTER_SERVICE_TEMPLATE, name, spec={"modelName": family}, status=reported)


def _resolved(family: str) -> JsonObject:
    template = f"{family}-mi300x-fp8-latency"
    return {
        "resolvedModel": {"name": family, "scope": "Cluster", "kind": "aim.eai.amd.com/v1alpha1/AIMClusterModel"},
        "resolvedTemplate": {
            "name": template,
            "scope": "Cluster",
            "kind": "aim.eai.amd.com/v1alpha1/AIMClusterServiceTemplate",
        },
    }


def _service(number: int, now: datetime) -> JsonObject:
    family, team, name = _FAMILIES[number % len(_FAMILIES)], f"team-{number % TEAMS}", f"chat-{number:03}"
    state = "Starting" if number % 50 == 7 else "Running"
    since = now - timedelta(minutes=3 + 7 * number)
    ready = condition(
        "InferenceServicePodsReady", state == "Running", "Waiting" if state == "Starting" else "Running",
        "1 of 2 pods is ready" if state == "Starting" else "", since,
    )  # fmt: skip
    reported = {
        "status": state,
        "conditions": [ready],
        "runtime": {"replicas": "2"},
        "routing": {"path": f"/{team}/{name}"},
    }
    return make(
        kinds.AIM_SERVICE, name, namespace=team, created=since,
        spec={"model": {"name": family}}, status={**reported, **_resolved(family)},
    )  # fmt: skip


def story() -> Iterator[JsonObject]:
    """Versions of a service and of what belongs to it, in the order in which they come: it waits, fails and runs."""
    namespace, name = STORIED
    now = datetime.now(UTC)
    spec = {"model": {"name": "mixtral-8x22b"}}

    def reported(state: str, *conditions: JsonObject, **more: Any) -> JsonObject:
        status = {"status": state, "conditions": list(conditions), **more}
        return make(kinds.AIM_SERVICE, name, namespace=namespace, created=now, spec=spec, status=status)

    resolved = _resolved("mixtral-8x22b")
    cache_ref = {"name": "storied-cache", "namespace": namespace, "kind": "aim.eai.amd.com/v1alpha1/AIMTemplateCache"}
    lacking = condition("CacheReady", False, "ArtifactsFailed", "the cache storied-cache is Degraded", now)
    yield reported("Pending", condition("ModelReady", False, "ModelNotReady", "it is being looked for", now))
    failed = condition("DownloadComplete", False, "AuthError", _WHY, now)
    artifact = _artifact("storied-weights", namespace, "Failed", now, conditions=[failed])
    yield artifact
    cache = {"templateName": resolved["resolvedTemplate"]["name"], "templateScope": "Cluster"}
    artifacts = {"artifacts": {"weights": {"name": artifact["metadata"]["name"]}}}
    some = condition("ArtifactsReady", False, "ArtifactsFailed", "1 of 1 artifacts failed", now)
    degraded = {"status": "Degraded", "conditions": [some], **artifacts}
    yield make(kinds.AIM_TEMPLATE_CACHE, "storied-cache", namespace=namespace, created=now, spec=cache, status=degraded)
    yield reported("Degraded", lacking, cache={"templateCacheRef": cache_ref}, **resolved)
    yield _artifact("storied-weights", namespace, "Ready", now)
    yield make(
        kinds.AIM_TEMPLATE_CACHE, "storied-cache", namespace=namespace, created=now, spec=cache,
        status=ready_status(**artifacts),
    )  # fmt: skip
    running = reported(
        "Running", condition("Ready", True, "Running", "", now), cache={"templateCacheRef": cache_ref}, **resolved
    )
    yield running
    yield from family(running)


def family(obj: JsonObject) -> Iterator[JsonObject]:
    """What would be made for a service of `cluster` that runs; of anything else nothing."""
    if obj["kind"] != kinds.AIM_SERVICE.kind or (obj["status"] or {}).get("status") != "Running":
        return
    metadata = obj["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    since = datetime.fromisoformat(metadata["creationTimestamp"])
    predictor = make(
        kinds.INFERENCE_SERVICE, name, namespace=namespace, created=since, owners=[owner(obj)],
        spec={"predictor": {"model": {"runtime": name}}},
        status={"conditions": [condition(one, True, "", "", since) for one in ("PredictorReady", "Ready")]},
    )  # fmt: skip
    yield predictor
    parents = [{"name": "inference", "namespace": "gateways"}]
    accepted = {"parentRef": parents[0], "conditions": [condition("Accepted", True, "Accepted", "", since)]}
    yield make(
        kinds.HTTP_ROUTE, name, namespace=namespace, created=since, owners=[owner(obj)],
        spec={"parentRefs": parents}, status={"parents": [accepted]},
    )  # fmt: skip
    reported = {labels.KSERVE_INFERENCE_SERVICE: name}
    gpus = {"resources": {"requests": {"amd.com/gpu": "4", "memory": "256Gi", "cpu": "16"}}}
    for number in range(2):
        spec = {
            "nodeName": f"gpu-{number}",
            "containers": [{"name": "kserve-container", **gpus}],
            "volumes": [{"name": "weights", "persistentVolumeClaim": {"claimName": f"{name}-weights-cache"}}],
        }
        status = {"phase": "Running", "conditions": [condition("Ready", True, "", "", since)]}
        yield make(
            kinds.POD, f"{name}-predictor-{number}", namespace=namespace, created=since, labels=reported, spec=spec,
            status=status,
        )  # fmt: skip
    artifact = _artifact(
        f"{name}-weights", namespace, "Ready", since,
        lastUsed=metadata["creationTimestamp"], discoveredSizeBytes=270 << 30,
    )  # fmt: skip
    yield artifact
    yield _claim(artifact, since)


def _claim(artifact: JsonObject, since: datetime) -> JsonObject:
    name = artifact["metadata"]["name"]
    return make(
        kinds.PERSISTENT_VOLUME_CLAIM, f"{name}-cache", namespace=artifact["metadata"]["namespace"], created=since,
        labels={labels.CACHE_NAME: name}, owners=[owner(artifact)],
        spec={"resources": {"requests": {"storage": "300Gi"}}}, status={"phase": "Bound"},
    )  # fmt: skip


def service(namespace: str, name: str, status: str = "Running") -> JsonObject:
    """One more."""
    reported = {"status": status, "conditions": [condition("Ready", status == "Running", "Because", "it is so")]}
    return make(kinds.AIM_SERVICE, name, namespace=namespace, spec={"model": {"name": "llama-3-70b"}}, status=reported)


def _artifact(name: str, namespace: str, state: str, now: datetime, **more: Any) -> JsonObject:
    spec = {"sourceUri": "hf://mistralai/Mixtral-8x22B-Instruct-v0.1", "size": "270Gi"}
    return make(kinds.AIM_ARTIFACT, name, namespace=namespace, created=now, spec=spec, status={"status": state, **more})


def _failing(now: datetime) -> Iterator[JsonObject]:
    """A service whose weights cannot be had, with all that was made for it."""
    (namespace, name), since = FAILING, now - timedelta(minutes=42)
    resolved = _resolved("mixtral-8x22b")
    template = resolved["resolvedTemplate"]["name"]
    artifact = _artifact(
        "mixtral-8x22b-weights", namespace, "Failed", since,
        conditions=[condition("DownloadComplete", False, "AuthError", _WHY, since)],
    )  # fmt: skip
    cache = make(
        kinds.AIM_TEMPLATE_CACHE, f"{template}-cache", namespace=namespace, created=since,
        spec={"templateName": template, "templateScope": "Cluster"},
        status={
            "status": "Degraded",
            "conditions": [condition("ArtifactsReady", False, "ArtifactsFailed", "1 of 1 artifacts failed", since)],
            "artifacts": {"weights": {"name": artifact["metadata"]["name"], "status": "Failed"}},
        },
    )  # fmt: skip
    reported = {
        "status": "Degraded",
        "conditions": [
            condition("ModelReady", True, "Ready", "", since),
            condition("TemplateReady", True, "Ready", "", since),
            condition("CacheReady", False, "ArtifactsFailed", f"the cache {template}-cache is Degraded", since),
            condition("InferenceServiceReady", "Unknown", "Waiting", "it is made when the cache is ready", since),
        ],
        "cache": {
            "templateCacheRef": {
                "name": cache["metadata"]["name"],
                "namespace": namespace,
                "kind": "aim.eai.amd.com/v1alpha1/AIMTemplateCache",
            }
        },
        **resolved,
    }
    yield artifact
    yield _claim(artifact, since)
    yield cache
    yield make(
        kinds.AIM_SERVICE, name, namespace=namespace, created=since,
        spec={"model": {"name": "mixtral-8x22b"}}, status=reported,
    )  # fmt: skip


def _abused(now: datetime) -> JsonObject:
    """What users may write, wherever they may."""
    namespace, name = ABUSED
    since = now - timedelta(hours=5)
    reported = {
        "status": "Failed",
        "conditions": [condition("ModelReady", False, EVIL, f"{EVIL} " + "x" * 300, since)],
        "routing": {"path": f"/{EVIL}"},
    }
    return make(
        kinds.AIM_SERVICE, name, namespace=namespace, created=since,
        annotations={"note": EVIL}, spec={"model": {"image": EVIL}}, status=reported,
    )  # fmt: skip
