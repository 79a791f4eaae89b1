"""Specs of models, templates, services and runtime configs in today's form (RC-120…RC-125, RC-132…RC-148)."""

import re
from dataclasses import dataclass
from typing import Final, final

from aim_cli.migration.draft import Draft, Json, Weight
from aim_domain import CacheMode
from controller_runtime import JsonObject

_OTHER_GPUS: Final = "nvidia.com/gpu"


def map_model(draft: Draft) -> None:
    """AIMModel and AIMClusterModel."""
    enabled = draft.take("discovery", "enabled")
    templates = draft.take("discovery", "autoCreateTemplates")
    if enabled is not None:
        draft.put(enabled, "discovery", "extractMetadata")
    if enabled is False:
        draft.put(False, "discovery", "createServiceTemplates")
    elif templates is not None:
        draft.put(templates, "discovery", "createServiceTemplates")
    report_other_gpus(draft)


def map_template(draft: Draft) -> None:
    """AIMServiceTemplate and AIMClusterServiceTemplate."""
    draft.move(["aimImageName"], ["modelName"])
    map_gpu_selector(draft)
    for source in draft.items("modelSources"):
        _rename(source, "name", "modelId")
        _rename(source, "source", "sourceUri")
        _rename(source, "sizeBytes", "size")
    report_other_gpus(draft)


def map_gpu_selector(draft: Draft, *path: str) -> None:
    """``gpuSelector`` of a template or of a service's overrides, which is a part of ``hardware`` today."""
    for old, new in (("count", "requests"), ("model", "model"), ("resourceName", "resourceName")):
        draft.move([*path, "gpuSelector", old], [*path, "hardware", "gpu", new])


def report_other_gpus(draft: Draft) -> None:
    """Resources are copied as they are, but only AMD's GPUs are looked for on the nodes."""
    for side in ("limits", "requests"):
        if _OTHER_GPUS in draft.block("resources", side):
            draft.report(
                Weight.CHANGED,
                f"spec.resources.{side}[{_OTHER_GPUS}]",
                "copied, but availability is known of amd.com/gpu only: name the resource of your nodes",
            )


def _rename(item: JsonObject, old: str, new: str) -> None:
    if old in item:
        item.setdefault(new, item.pop(old))


_CANONICAL: Final = {"Always": CacheMode.SHARED, "Auto": CacheMode.SHARED, "Never": CacheMode.DEDICATED}
_OLD_MODEL: Final = re.compile(r"\.spec\.(?:aimImageName|model\.ref)(?![\w.])")
_OLD_TEMPLATE: Final = re.compile(r"\.spec\.templateRef(?![\w.])")
_RESOLVED_MODEL: Final = ".status.resolvedModel.name"


def map_service(draft: Draft) -> None:
    """AIMService."""
    draft.move(["aimImageName"], ["model", "name"])
    draft.move(["model", "ref"], ["model", "name"])
    draft.move(["templateRef"], ["template", "name"])
    draft.move(["routingAnnotations"], ["routing", "annotations"])
    _map_caching(draft)
    map_gpu_selector(draft, "overrides")
    report_other_gpus(draft)
    by_name = bool(draft.block("model").get("name"))
    map_path_template(draft, ".spec.model.name" if by_name else _RESOLVED_MODEL)


def _map_caching(draft: Draft) -> None:
    asked = draft.take("cacheModel")
    if isinstance(asked, bool):
        draft.put((CacheMode.SHARED if asked else CacheMode.DEDICATED).value, "caching", "mode")
    caching = draft.block("caching")
    mode = caching.get("mode")
    if mode in _CANONICAL:
        caching["mode"] = _CANONICAL[mode].value


def map_path_template(draft: Draft, model: str = _RESOLVED_MODEL) -> None:
    """Name the fields that a path template refers to as they are called today.

    Args:
        model: today's field with the name of the model. A config does not know how its services name theirs.
    """
    routing = draft.block("routing")
    old = routing.get("pathTemplate")
    if not isinstance(old, str):
        return
    new = _OLD_TEMPLATE.sub(".spec.template.name", _OLD_MODEL.sub(model, old))
    if new != old:
        routing["pathTemplate"] = new
        draft.report(Weight.CHANGED, "spec.routing.pathTemplate", f"rewritten from {old} to {new}: check the paths")


_NO_PULL_SECRETS: Final = (
    "runtime configs have no pull secrets; name them in images.imagePullSecrets of an AIMNamespaceConfig, which works "
    "as it is, or on the models and services"
)
_WORKS_AS_IT_IS: Final = "runtime configs have no such field; keep the KaiwoConfig, which works as it is"


def map_runtime_config(draft: Draft) -> None:
    """AIMRuntimeConfig and AIMClusterRuntimeConfig."""
    if draft.take("imagePullSecrets"):
        draft.lose("spec.imagePullSecrets", _NO_PULL_SECRETS)
    if draft.take("serviceAccountName"):
        draft.lose(
            "spec.serviceAccountName",
            "runtime configs have no service account; name it on the models, templates and services",
        )
    if draft.take("model", "creationScope") == "Cluster":
        draft.lose(
            "spec.model.creationScope",
            "models that a service creates live in its namespace; create an AIMClusterModel to share one",
        )
    draft.move(["defaultStorageClassName"], ["storage", "defaultStorageClassName"], overruled=True)
    draft.move(["pvcHeadroomPercent"], ["storage", "pvcHeadroomPercent"], overruled=True)
    map_path_template(draft)


def map_namespace_config(draft: Draft) -> None:
    """AIMNamespaceConfig, which becomes the AIMRuntimeConfig ``default`` of its namespace."""
    old, draft.spec = draft.spec, {}
    source = Draft(draft.origin, old)
    gateway = {name: value for name in ("name", "namespace") if (value := source.take("gateway", name))}
    if gateway.get("name"):
        draft.put(True, "routing", "enabled")
        draft.put(gateway, "routing", "gatewayRef")
    elif gateway:
        draft.lose("spec.gateway.namespace", "a gateway needs a name as well")
    env = _hugging_face(draft, source) + _s3(draft, source)
    if env:
        draft.put(env, "env")
    for provider in ("gcs", "azureBlob"):
        if source.take("credentials", provider):
            draft.lose(f"spec.credentials.{provider}", "weights come from hf:// and s3:// only")
    if source.take("images", "imagePullSecrets"):
        draft.lose("spec.images.imagePullSecrets", _NO_PULL_SECRETS)
    for name, rest in source.spec.items():
        if rest:
            draft.lose(f"spec.{name}", "the kind has no such field")


def _hugging_face(draft: Draft, source: Draft) -> list[Json]:
    token = source.take("credentials", "huggingFaceToken")
    return [] if token is None else _secret_env(draft, "spec.credentials.huggingFaceToken", HF_TOKEN=token)


def _s3(draft: Draft, source: Draft) -> list[Json]:
    endpoints = source.items("credentials", "s3")
    source.take("credentials", "s3")
    for number, other in enumerate(endpoints[1:], 1):
        draft.lose(
            f"spec.credentials.s3[{number}]",
            f"the environment of a namespace knows one endpoint; keep the AIMNamespaceConfig, which works as it is, or "
            f"name {other.get('endpointUrl')} in env of the model sources or AIMArtifacts that use it",
        )
    if not endpoints:
        return []
    first = endpoints[0]
    url = first.get("endpointUrl")
    return [
        *([{"name": "AWS_ENDPOINT_URL", "value": url}] if url else []),
        *_secret_env(
            draft,
            "spec.credentials.s3[0]",
            AWS_ACCESS_KEY_ID=first.get("accessKeyId"),
            AWS_SECRET_ACCESS_KEY=first.get("secretAccessKey"),
        ),
    ]


def _secret_env(draft: Draft, field: str, **references: object) -> list[Json]:
    env: list[Json] = []
    for name, reference in references.items():
        secret = reference if isinstance(reference, dict) else {}
        if secret.get("secretName") and secret.get("secretKey"):
            key_ref: JsonObject = {"name": secret["secretName"], "key": secret["secretKey"]}
            env.append({"name": name, "valueFrom": {"secretKeyRef": key_ref}})
        else:
            draft.lose(field, f"no secretName and secretKey for {name}")
    return env


@final
@dataclass(frozen=True, slots=True)
class _Rule:
    """What becomes of one field of KaiwoConfig, if it says anything else than its default.

    Attributes:
        reason: where it went, or why it goes nowhere.
        lost: whether users may have relied on it, so that it has to be read.
    """

    default: object
    reason: str
    lost: bool = False


_NO_RAY: Final = "there is no Ray here"
_KAIWO_JOBS: Final = "concerns Kaiwo's own workloads only"
_KAIWO_FIELDS: Final[dict[tuple[str, ...], _Rule]] = {
    ("ray", "defaultRayImage"): _Rule("ghcr.io/silogen/rocm-ray:6.4", _NO_RAY),
    ("ray", "headPodMemory"): _Rule("16Gi", _NO_RAY),
    ("storage", "defaultDataMountPath"): _Rule("/workload", "weights are always mounted below /workspace/cache"),
    ("storage", "defaultHfMountPath"): _Rule("/hf_cache", _WORKS_AS_IT_IS, lost=True),
    ("nodes", "defaultGpuResourceKey"): _Rule("amd.com/gpu", _WORKS_AS_IT_IS, lost=True),
    ("nodes", "defaultGpuTaintKey"): _Rule("kaiwo.silogen.ai/gpu", _WORKS_AS_IT_IS, lost=True),
    ("nodes", "excludeMasterNodesFromNodePools"): _Rule(False, "there are no node pools here"),
    ("nodes", "addTaintsToGpuNodes"): _Rule(False, _WORKS_AS_IT_IS, lost=True),
    ("scheduling", "kubeSchedulerName"): _Rule("kaiwo-scheduler", _WORKS_AS_IT_IS, lost=True),
    ("scheduling", "pendingThresholdForPreemption"): _Rule("5m", "spec.priorityClassName of the AIMService is nearest"),
    ("resourceMonitoring", "lowUtilizationThreshold"): _Rule(1, _KAIWO_JOBS),
    ("resourceMonitoring", "targetNamespaces"): _Rule([], _KAIWO_JOBS),
    ("resourceMonitoring", "profile"): _Rule("gpu", _KAIWO_JOBS),
    ("resourceMonitoring", "terminateUnderutilized"): _Rule(
        False, "nothing here ends underutilised workloads", lost=True
    ),
    ("resourceMonitoring", "terminateUnderutilizedAfter"): _Rule("24h", _KAIWO_JOBS),
    ("defaultClusterQueueName",): _Rule("kaiwo", _WORKS_AS_IT_IS, lost=True),
    ("defaultClusterQueueCohortName",): _Rule("kaiwo", "queues are not managed here"),
    ("dynamicallyUpdateDefaultClusterQueue",): _Rule(False, "queues are not managed here"),
}


def map_kaiwo_config(draft: Draft) -> None:
    """KaiwoConfig, of which the default storage class becomes that of the AIMClusterRuntimeConfig ``default``."""
    old, draft.spec = draft.spec, {}
    source = Draft(draft.origin, old)
    storage_class = source.take("storage", "defaultStorageClass")
    if storage_class:
        draft.put(storage_class, "storage", "defaultStorageClassName")
    for path, rule in _KAIWO_FIELDS.items():
        value = source.take(*path)
        if value not in (None, rule.default):
            draft.report(Weight.LOST if rule.lost else Weight.IGNORED, f"spec.{'.'.join(path)}", rule.reason)
    for name, rest in source.spec.items():
        if rest:
            draft.lose(f"spec.{name}", "the kind has no such field")
