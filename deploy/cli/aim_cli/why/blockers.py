"""What keeps an object from being ready, and the way from there to its cause. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from aim_cli.cluster.refs import Cluster, JsonObject, Ref, ref_of
from aim_domain import kind_names as resources
from aim_domain import labels
from aim_domain.kind_names import (
    EVENT,
    GATEWAY,
    HTTP_ROUTE,
    INFERENCE_SERVICE,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    KindName,
)
from aim_domain.naming import (
    check_size_job_name,
    claim_name,
    download_job_name,
    http_route_name,
    inference_service_name,
    optional_label_value,
)

if TYPE_CHECKING:
    from controller_runtime.core import Pod

_READY: Final = "Ready"
_SUMMARIES: Final = frozenset({_READY, "ConfigValid", "AuthValid", "DependenciesReachable"})
"""Conditions that repeat what another one says."""
_NO_CONTROLLER: Final = "NoController"
UNPULLED: Final = "FailedToRetrieveImagePullSecret"
"""The kubelet's Event on a pod that names a pull secret which does not exist."""
_MANAGERS: Final = "aim-"
"""How the label of who manages an object begins where the platform does."""
_KUBELET: Final = "kubelet"
_REPORTED_ABOVE: Final = frozenset({"PodFailed"})
"""Ends of a pod of which its owner says more, with what the container printed."""
_DRY_RUN: Final = "DryRun"
_UNBOUND: Final = re.compile(r"unbound immediate PersistentVolumeClaims|available persistent volumes to bind")
"""What the scheduler says of a pod whose claim has no volume."""


PIPELINE: Final = (
    "RuntimeConfigReady",
    "ModelReady",
    "TemplateReady",
    "ProfileReady",
    "CacheReady",
    "ProfileCacheReady",
    "InferenceServicePodsReady",
    "InferenceServiceReady",
    "HTTPRouteReady",
    "HPAReady",
)
"""Conditions of an AIMService in the order of its components (FW-080), which take long to import."""


@dataclass(frozen=True, slots=True)
class Search:
    """Objects that are found by what they say; in all namespaces where none is given.

    Attributes:
        labels: what the API server is to leave out; `matches` decides.
        fields: the same, by fields.
    """

    kind: KindName
    namespace: str
    matches: Callable[[JsonObject], bool]
    labels: str = ""
    fields: str = ""


Towards: TypeAlias = Ref | Search


@dataclass(frozen=True, slots=True)
class Blocker:
    """A condition that is not as it should be.

    Attributes:
        status: of the condition, ``False`` or ``Unknown``.
        since: as Kubernetes writes it; empty where unknown.
        who: the field manager that decided it; empty where unknown.
        towards: what it is about.
        subject: for a command, the object that it is about, where that is another one.
        derived: whether the object is made from another one, which decides what it holds.
        service: for a command, the AIMService that was asked about; empty where it was something else.
        chosen: for a command, the cache or artifact that was made with the storage class; empty without one.
        made: for a command, the nearest object above it that is made again when it is deleted; empty without one.
        decides: whether `Ready` of the object repeats it.
    """

    condition: str
    reason: str
    message: str
    status: str = "False"
    since: str = ""
    who: str = ""
    towards: tuple[Towards, ...] = ()
    subject: str = ""
    derived: bool = False
    service: str = ""
    chosen: str = ""
    made: str = ""
    decides: bool = False


def blockers_of(kind: KindName, obj: JsonObject) -> tuple[Blocker, ...]:
    """What keeps the object from being ready: first what `Ready` repeats, the rest in the order of the status."""
    own = _OF_KINDS.get(kind)
    if own is not None:
        return tuple(own(obj))
    untrue = [one for one in _conditions(obj) if one.get("status") != "True" and not _is_note(one)]
    telling = [one for one in untrue if one["type"] not in _SUMMARIES]
    # What a write was answered stands in a summary alone, and is why the component is not there yet.
    decides = _is_decisive(untrue)
    telling = [
        *_unrepeated(untrue, telling),
        *sorted(telling, key=lambda one: (not decides(one), _place(one))),
    ] or untrue
    if not untrue and not (obj.get("status") or {}).get("conditions") and kind in resources.OWN:
        return tuple(_held_up(obj)) or (Blocker("", "NoStatus", "no status reported yet"),)
    return (
        *(_held_up(obj) if telling or _is_deleting(obj) else ()),
        *(
            Blocker(
                one["type"],
                one.get("reason") or "",
                one.get("message") or "",
                one.get("status") or "Unknown",
                one.get("lastTransitionTime") or "",
                _manager_of(obj, one["type"]),
                tuple(_towards(kind, obj, one["type"])),
                derived=_is_derived(obj),
                decides=decides(one),
            )
            for one in telling
        ),
    )


def _is_derived(obj: JsonObject) -> bool:
    given = obj["metadata"].get("labels") or {}
    managed = str(given.get(labels.APP_MANAGED_BY) or "").startswith(_MANAGERS)
    return managed or given.get(labels.ORIGIN) == labels.ORIGIN_AUTO_GENERATED


def _is_decisive(untrue: list[JsonObject]) -> Callable[[JsonObject], bool]:
    """What `Ready` repeats, or what a write was answered, decides; the others may follow from it or wait for it."""
    ready = next((one for one in untrue if one["type"] == _READY), {})
    known = {ready.get("reason"), ready.get("message")} - {None, ""}
    return lambda one: one["type"] in _SUMMARIES or bool(known & {one.get("reason"), one.get("message")})


def _place(condition: JsonObject) -> int:
    return PIPELINE.index(condition["type"]) if condition["type"] in PIPELINE else 0


def _unrepeated(untrue: list[JsonObject], telling: list[JsonObject]) -> list[JsonObject]:
    words = [str(one.get("message") or "") for one in telling]
    summaries = [one for one in untrue if one["type"] in _SUMMARIES - {_READY}]
    return [one for one in summaries if not any(str(one.get("message") or "") in said for said in words)]


def _held_up(obj: JsonObject) -> Iterable[Blocker]:
    """What no component tells: that it is going, is paused, or is only planned."""
    metadata = obj["metadata"]
    if _is_deleting(obj):
        waits = ", ".join(metadata.get("finalizers") or ()) or "nothing more"
        yield Blocker(
            "", "Terminating", f"it is being deleted and waits for {waits}", since=metadata["deletionTimestamp"]
        )
    if (metadata.get("annotations") or {}).get(labels.ANNOTATION_PAUSED) == labels.TRUE:
        yield Blocker("", "Paused", f"nothing is decided about it while {labels.ANNOTATION_PAUSED} is true")
    ready = next((one for one in _conditions(obj) if one["type"] == _READY), {})
    if ready.get("reason") == _DRY_RUN:
        since = ready.get("lastTransitionTime") or ""
        yield Blocker(_READY, _DRY_RUN, ready.get("message") or "", since=since, who=_manager_of(obj, _READY))


def _is_deleting(obj: JsonObject) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def _is_note(condition: JsonObject) -> bool:
    """KServe states with `Stopped` whether a user wants it so, and marks what needs no attention."""
    return condition["type"] == "Stopped" or condition.get("severity") == "Info"


def _conditions(obj: JsonObject) -> list[JsonObject]:
    status = obj.get("status") or {}
    return list(status.get("conditions") or ())


def _manager_of(obj: JsonObject, condition: str) -> str:
    key = f'k:{{"type":"{condition}"}}'
    for entry in obj["metadata"].get("managedFields") or ():
        fields = (entry.get("fieldsV1") or {}).get("f:status") or {}
        if key in (fields.get("f:conditions") or {}):
            return str(entry.get("manager") or "")
    return ""


def _towards(kind: KindName, obj: JsonObject, condition: str) -> Iterable[Towards]:
    leads = _LEADS.get((kind.kind, condition))
    return leads(obj) if leads is not None else ()


def _namespace(obj: JsonObject) -> str:
    return obj["metadata"].get("namespace") or ""


def _key_of(obj: JsonObject) -> tuple[str, str]:
    return obj["metadata"]["name"], _namespace(obj)


def _resolved(obj: JsonObject, field: str, own: KindName, cluster: KindName) -> Iterable[Ref]:
    found = (obj.get("status") or {}).get(field)
    if found:
        yield Ref(cluster if found.get("scope") == "Cluster" else own, found.get("namespace") or "", found["name"])


def _model_of_service(obj: JsonObject) -> Iterable[Towards]:
    found: list[Towards] = list(_resolved(obj, "resolvedModel", resources.AIM_MODEL, resources.AIM_CLUSTER_MODEL))
    if found:
        return found
    wanted = obj["spec"].get("model") or {}
    if wanted.get("name"):
        return _by_name(obj, wanted["name"], resources.AIM_MODEL, resources.AIM_CLUSTER_MODEL)
    image, custom = wanted.get("image"), wanted.get("custom")
    if custom:
        return [Search(resources.AIM_MODEL, _namespace(obj), lambda model: _is_made_of(model, custom))]
    scopes = ((resources.AIM_MODEL, _namespace(obj)), (resources.AIM_CLUSTER_MODEL, ""))
    return [Search(kind, scope, lambda model: model["spec"].get("image") == image) for kind, scope in scopes if image]


def _by_name(obj: JsonObject, name: str, own: KindName, cluster: KindName) -> list[Towards]:
    """What the spec names in either scope; that there is none, the condition itself states."""

    def matches(other: JsonObject) -> bool:
        return bool(other["metadata"]["name"] == name)

    fields = f"metadata.name={name}"
    return [Search(kind, scope, matches, fields=fields) for kind, scope in ((own, _namespace(obj)), (cluster, ""))]


def _is_made_of(model: JsonObject, custom: JsonObject) -> bool:
    """Whether a service with a model of its own uses this one (SV-073)."""
    spec = model["spec"]
    if spec.get("image") != custom.get("baseImage") or not spec.get("custom"):
        return False
    return _sources(spec) == _sources(custom)


def _sources(spec: JsonObject) -> list[tuple[str, str]]:
    return [(one.get("modelId") or "", one.get("sourceUri") or "") for one in spec.get("modelSources") or ()]


def _template_of_service(obj: JsonObject) -> Iterable[Towards]:
    own, cluster = resources.AIM_SERVICE_TEMPLATE, resources.AIM_CLUSTER_SERVICE_TEMPLATE
    found: list[Towards] = list(_resolved(obj, "resolvedTemplate", own, cluster))
    name = (obj["spec"].get("template") or {}).get("name")
    return found or (_by_name(obj, name, own, cluster) if name else ())


def _profile_of_service(obj: JsonObject) -> Iterable[Towards]:
    own, cluster = resources.AIM_PROFILE, resources.AIM_CLUSTER_PROFILE
    profile = obj["spec"].get("profile") or {}
    found: list[Towards] = list(_resolved(obj, "resolvedProfile", own, cluster))
    if found:
        return found
    if profile.get("name"):
        return _by_name(obj, profile["name"], own, cluster)
    model = (profile.get("selector") or {}).get("modelRef") or {}
    return _by_name(obj, model["name"], resources.AIM_MODEL, resources.AIM_CLUSTER_MODEL) if model.get("name") else ()


def _profile_cache_of_service(obj: JsonObject) -> Iterable[Towards]:
    profile = ((obj.get("status") or {}).get("resolvedProfile") or {}).get("name")
    if profile:
        yield Search(
            resources.AIM_PROFILE_CACHE, _namespace(obj), lambda cache: cache["spec"].get("profileName") == profile
        )


def _cache_of_service(obj: JsonObject) -> Iterable[Towards]:
    template = ((obj.get("status") or {}).get("resolvedTemplate") or {}).get("name")
    if template:
        yield Search(
            resources.AIM_TEMPLATE_CACHE, _namespace(obj), lambda cache: cache["spec"].get("templateName") == template
        )


def _workload_of_service(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _key_of(obj)
    yield Ref(resources.INFERENCE_SERVICE, namespace, inference_service_name(name, namespace))


def _pods_of_service(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _key_of(obj)
    yield _labelled(namespace, labels.KSERVE_INFERENCE_SERVICE, inference_service_name(name, namespace))


def _pods_of_workload(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _key_of(obj)
    yield _labelled(namespace, labels.KSERVE_INFERENCE_SERVICE, name)


def _labelled(namespace: str, label: str, value: str, kind: KindName = POD) -> Search:
    def matches(obj: JsonObject) -> bool:
        return (obj["metadata"].get("labels") or {}).get(label) == value

    return Search(kind, namespace, matches, labels=f"{label}={value}")


def _route_of_service(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _key_of(obj)
    yield Ref(resources.HTTP_ROUTE, namespace, http_route_name(name, namespace))


def _template_of_cache(obj: JsonObject) -> Iterable[Towards]:
    if obj["spec"].get("templateScope") == "Cluster":
        yield Ref(resources.AIM_CLUSTER_SERVICE_TEMPLATE, "", obj["spec"]["templateName"])
    else:
        yield Ref(resources.AIM_SERVICE_TEMPLATE, _namespace(obj), obj["spec"]["templateName"])


def _artifacts_of_cache(obj: JsonObject) -> Iterable[Towards]:
    listed = ((obj.get("status") or {}).get("artifacts") or {}).values()
    return [Ref(resources.AIM_ARTIFACT, _namespace(obj), one["name"]) for one in listed if one.get("status") != _READY]


def _adapters_of_service(obj: JsonObject) -> Iterable[Towards]:
    """Adapters that no engine has yet, and the disk that the service made for them."""
    name, namespace = _key_of(obj)
    own = {labels.SERVICE_NAME: optional_label_value(name), labels.COMPONENT: labels.COMPONENT_ADAPTER_DISK}
    yield Search(
        resources.AIM_ARTIFACT, namespace, lambda one: own.items() <= (one["metadata"].get("labels") or {}).items()
    )
    for adapter in (obj.get("status") or {}).get("adapters") or ():
        if adapter.get("artifact") and adapter.get("state") not in {_READY, "Loading"}:
            yield Ref(resources.AIM_ARTIFACT, namespace, adapter["artifact"])


def _claim_of_artifact(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _key_of(obj)
    if disk := obj["spec"].get("disk"):
        yield Ref(resources.AIM_ARTIFACT, namespace, disk)
        return
    yield Ref(PERSISTENT_VOLUME_CLAIM, namespace, claim_name(name, obj["metadata"]["uid"]))


def _events_of_jobs(obj: JsonObject) -> Iterable[Towards]:
    """Warnings about the Jobs of an artifact, such as of a quota that refuses their pods."""
    name, namespace = _key_of(obj)
    uid = obj["metadata"]["uid"]
    for job in (check_size_job_name(name, uid), download_job_name(name, uid)):
        yield from _warnings(JOB, {"metadata": {"name": job, "namespace": namespace}})


def _pods_of_artifact(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _key_of(obj)
    yield _labelled(namespace, labels.CACHE_NAME, name)


def _model_of_template(obj: JsonObject) -> Iterable[Towards]:
    namespace = _namespace(obj)
    yield Ref(resources.AIM_MODEL if namespace else resources.AIM_CLUSTER_MODEL, namespace, obj["spec"]["modelName"])


def _discovery_of_template(obj: JsonObject) -> Iterable[Towards]:
    """A cluster template's Job runs in the namespace of the platform, wherever that is."""
    name, namespace = _key_of(obj)
    value = optional_label_value(name)
    if value is not None:
        yield _labelled(namespace, labels.TEMPLATE, value, JOB)


def _discovery_pods_of_template(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _key_of(obj)
    value = optional_label_value(name)
    if value is not None:
        yield _labelled(namespace, labels.TEMPLATE, value)


def _gateways_of_route(obj: JsonObject) -> Iterable[Towards]:
    for parent in obj["spec"].get("parentRefs") or ():
        if parent.get("kind", GATEWAY.kind) == GATEWAY.kind:
            yield Ref(GATEWAY, parent.get("namespace") or _namespace(obj), parent["name"])


def _templates_of_model(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _key_of(obj)
    kind = resources.AIM_SERVICE_TEMPLATE if namespace else resources.AIM_CLUSTER_SERVICE_TEMPLATE
    yield Search(kind, namespace, lambda template: template["spec"].get("modelName") == name)


_LEADS: Final[Mapping[tuple[str, str], Callable[[JsonObject], Iterable[Towards]]]] = MappingProxyType(
    {
        ("AIMService", "ModelReady"): _model_of_service,
        ("AIMService", "TemplateReady"): _template_of_service,
        ("AIMService", "CacheReady"): _cache_of_service,
        ("AIMService", "ProfileReady"): _profile_of_service,
        ("AIMService", "ProfileCacheReady"): _profile_cache_of_service,
        ("AIMService", "InferenceServiceReady"): _workload_of_service,
        ("AIMService", "InferenceServicePodsReady"): _pods_of_service,
        ("AIMService", "HTTPRouteReady"): _route_of_service,
        ("AIMService", "AdaptersReady"): _adapters_of_service,
        ("InferenceService", "PredictorReady"): _pods_of_workload,
        ("AIMTemplateCache", "ServiceTemplateReady"): _template_of_cache,
        ("AIMTemplateCache", "ArtifactsReady"): _artifacts_of_cache,
        ("AIMProfileCache", "ArtifactsReady"): _artifacts_of_cache,
        ("AIMArtifact", "CachePvcReady"): _claim_of_artifact,
        ("AIMArtifact", "CheckSizeJobReady"): _events_of_jobs,
        ("AIMArtifact", "DownloadJobReady"): _events_of_jobs,
        ("AIMArtifact", "CheckSizeJobPodsReady"): _pods_of_artifact,
        ("AIMArtifact", "DownloadJobPodsReady"): _pods_of_artifact,
        ("AIMServiceTemplate", "ModelReady"): _model_of_template,
        ("AIMServiceTemplate", "DiscoveryJobReady"): _discovery_of_template,
        ("AIMServiceTemplate", "DiscoveryPodsReady"): _discovery_pods_of_template,
        ("AIMClusterServiceTemplate", "ClusterModelReady"): _model_of_template,
        ("AIMClusterServiceTemplate", "DiscoveryJobReady"): _discovery_of_template,
        ("AIMClusterServiceTemplate", "DiscoveryPodsReady"): _discovery_pods_of_template,
        ("AIMModel", "ServiceTemplatesReady"): _templates_of_model,
        ("AIMClusterModel", "ClusterServiceTemplatesReady"): _templates_of_model,
    }
)
"""By kind and condition, what the condition is about."""


def _of_pod(raw: JsonObject) -> Iterable[Blocker]:
    """What the platform says of the pod in conditions, and what its Events add where that is little."""
    # Takes 90 ms to import, which most objects need not pay.
    from aim_domain.pods.inspect_pods import inspect_pods, is_forsaken  # noqa: PLC0415
    from controller_runtime import State  # noqa: PLC0415
    from controller_runtime.core import Pod  # noqa: PLC0415

    pod = Pod.model_validate(raw)
    health = inspect_pods(POD.kind, (pod,))
    conditions = {one.get("type"): one for one in _conditions(raw)}
    since = (conditions.get(_READY) or {}).get("lastTransitionTime") or ""
    pull_secret = tuple(_without_secret(raw))
    for error in health.errors:
        if error.reason not in _REPORTED_ABOVE:
            message = _without_name(error.message, pod.key)
            yield Blocker("", error.reason, message, since=since, who=_KUBELET, towards=pull_secret)
    if health.errors or health.state is State.READY:
        return
    message = _without_name(health.message or "", pod.key)
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        reason, message = scheduled.get("reason") or "", scheduled.get("message") or ""
        since, towards = scheduled.get("lastTransitionTime") or "", tuple(_claims_of_pod(pod, message))
        yield Blocker("PodScheduled", reason, message, since=since, who="scheduler", towards=towards)
    elif is_forsaken(pod):
        yield Blocker(_READY, health.reason or "", message, since=since, who="node controller")
    elif health.state is State.DEGRADED:
        yield Blocker("", health.reason or "", message, since=since, who=_KUBELET, towards=pull_secret)
    else:
        reason, message = _step_of(pod) or (health.reason or "", message)
        towards = (*pull_secret, *_warnings(POD, raw))
        yield Blocker("", reason, message, "Unknown", since, _KUBELET, towards)


def _step_of(pod: "Pod") -> tuple[str, str] | None:
    """Which container is not there yet, or has just ended."""
    for one in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting, ended = one.state.waiting, one.state.terminated
        if waiting is not None and waiting.reason:
            return waiting.reason, f"container {one.name} is being started"
        if ended is not None and ended.exit_code:
            return ended.reason or "Error", f"container {one.name} ended with code {ended.exit_code}"
    return None


def _without_name(message: str, key: object) -> str:
    return message.replace(f" of pod {key}", "").replace(f"pod {key} is ", "").replace(f"pod {key} ", "")


def _claims_of_pod(pod: "Pod", message: str) -> Iterable[Towards]:
    """Where the scheduler waits for volumes: why there is none, the claim and its Events say."""
    claims = [one.persistent_volume_claim for one in pod.spec.volumes if one.persistent_volume_claim]
    return [Ref(PERSISTENT_VOLUME_CLAIM, pod.namespace, one.claim_name) for one in claims if _UNBOUND.search(message)]


def _without_secret(pod: JsonObject) -> Iterable[Towards]:
    """What the kubelet reports of a pull secret that does not exist, before the registry refuses the image."""
    for warnings in _warnings(POD, pod):
        if isinstance(warnings, Search):

            def matches(event: JsonObject, found: Search = warnings) -> bool:
                return event.get("reason") == UNPULLED and found.matches(event)

            yield replace(warnings, matches=matches)


def _of_claim(claim: JsonObject) -> Iterable[Blocker]:
    phase = (claim.get("status") or {}).get("phase") or "Pending"
    if phase != "Bound":
        storage_class = claim["spec"].get("storageClassName") or "the default one"
        message = f"no volume is bound to it; its storage class is {storage_class}"
        yield Blocker("", phase, message, towards=tuple(_warnings(PERSISTENT_VOLUME_CLAIM, claim)))


def _of_job(job: JsonObject) -> Iterable[Blocker]:
    status = job.get("status") or {}
    ended = {one["type"]: one for one in status.get("conditions") or () if one.get("status") == "True"}
    if "Complete" in ended:
        return
    name, namespace = _key_of(job)
    towards = (_labelled(namespace, labels.JOB_NAME, name), *_warnings(JOB, job))
    if (failed := ended.get("Failed")) is not None:
        since = failed.get("lastTransitionTime") or ""
        reason, message = failed.get("reason") or "Failed", failed.get("message") or "it failed"
        yield Blocker("Failed", reason, message, "True", since, "job-controller", towards)
    else:
        since = status.get("startTime") or ""
        yield Blocker("", "Active", "it has not ended yet", "Unknown", since, towards=towards)


def _warnings(kind: KindName, obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _key_of(obj)
    uid = obj["metadata"].get("uid")

    def matches(event: JsonObject) -> bool:
        about = event.get("involvedObject") or {}
        whom = (about.get("kind"), about.get("name"))
        is_same = uid is None or (about.get("uid") or uid) == uid
        return event.get("type") == "Warning" and whom == (kind.kind, name) and is_same

    yield Search(EVENT, namespace, matches, fields=f"involvedObject.name={name}")


def _of_event(event: JsonObject) -> Iterable[Blocker]:
    about = event.get("involvedObject") or {}
    source = event.get("reportingComponent") or (event.get("source") or {}).get("component") or ""
    message = event.get("message") or ""
    subject = f"{about.get('kind', '').lower()} {about.get('name', '')} -n {about.get('namespace', '')}"
    yield Blocker("", event.get("reason") or "", message, since=last_seen(event), who=source, subject=subject)


def last_seen(event: JsonObject) -> str:
    """When an event last happened, whichever of the API's fields says so."""
    repeated = (event.get("series") or {}).get("lastObservedTime")
    first = event["metadata"].get("creationTimestamp")
    return repeated or event.get("lastTimestamp") or event.get("eventTime") or first or ""


def _of_route(route: JsonObject) -> Iterable[Blocker]:
    """Said by each gateway that it names; one that no gateway took in has none."""
    gateways = tuple(_gateways_of_route(route))
    reported = (route.get("status") or {}).get("parents") or ()
    if not reported and gateways:
        yield Blocker("", _NO_CONTROLLER, "no gateway has taken it in", "Unknown", towards=gateways)
    for parent in reported:
        for one in parent.get("conditions") or ():
            if one.get("status") != "True":
                since, who = one.get("lastTransitionTime") or "", parent.get("controllerName") or ""
                reason, message = one.get("reason") or "", one.get("message") or ""
                yield Blocker(one["type"], reason, message, one.get("status") or "Unknown", since, who, gateways)


def _of_gateway(gateway: JsonObject) -> Iterable[Blocker]:
    conditions = [one for one in _conditions(gateway) if not _is_of_definition(one)]
    if not conditions:
        class_name = gateway["spec"].get("gatewayClassName") or "none"
        yield Blocker("", _NO_CONTROLLER, f"no controller has taken it in; its class is {class_name}", "Unknown")
    for one in conditions:
        if one.get("status") != "True" and one["type"] in ("Accepted", "Programmed"):
            since, status = one.get("lastTransitionTime") or "", one.get("status") or "Unknown"
            yield Blocker(one["type"], one.get("reason") or "", one.get("message") or "", status, since)


def _is_of_definition(condition: JsonObject) -> bool:
    """Whether the definition of Gateways set it by default, as no controller has."""
    return condition.get("status") == "Unknown" and str(condition.get("lastTransitionTime")).startswith("1970-")


_OF_KINDS: Final[Mapping[KindName, Callable[[JsonObject], Iterable[Blocker]]]] = MappingProxyType(
    {
        POD: _of_pod,
        PERSISTENT_VOLUME_CLAIM: _of_claim,
        JOB: _of_job,
        EVENT: _of_event,
        HTTP_ROUTE: _of_route,
        GATEWAY: _of_gateway,
    }
)
"""Kinds that say in other ways than by conditions of our form what they wait for."""


_DEEPEST: Final = 10
"""Objects in a row; a chain of the platform has seven."""
_MOST: Final = 5
"""Objects of one search that are followed."""
_MADE: Final = frozenset({PERSISTENT_VOLUME_CLAIM, HTTP_ROUTE, INFERENCE_SERVICE})
"""What the platform makes by itself for an object."""


_ENDED: Final = frozenset({"PodFailurePolicy", "BackoffLimitExceeded"})
"""Of a Job: its pod has ended, of which the object that made the Job, or the pod, says why."""
_NO_BACKEND: Final = "BackendNotFound"
"""Of a route: KServe makes its Service once the InferenceService is there, of which another condition speaks."""
_ROOTS: Final = frozenset(
    {
        "GPUNotAvailable",
        "GPUNotSchedulable",
        "VRAMNotAvailable",
        "NodeNotReady",
        "ProvisioningFailed",
        "FailedCreate",
        UNPULLED,
    }
)
"""Reasons behind which there is no other."""


def rank(way: tuple["Link", ...]) -> tuple[bool, bool, int, bool, int]:
    """Sorts ways, the one to read first first (FW-605).

    Causes come before their consequences, then what decides `Ready`, then what an AIMService needs before what follows
    from it, then the longest.
    """
    last, first = way[-1].blocker, way[0].blocker
    is_consequence = last is not None and (bool(_UNBOUND.search(last.message)) or last.reason in {_NO_BACKEND, *_ENDED})
    place = PIPELINE.index(first.condition) if first and first.condition in PIPELINE else 0
    return is_consequence, not (first and first.decides), place, last is None or last.reason not in _ROOTS, -len(way)


@dataclass(frozen=True, slots=True)
class Link:
    """An object, and what keeps it from being ready; ``blocker`` is ``None`` where the object itself is missing."""

    ref: Ref
    blocker: Blocker | None


def causes(cluster: Cluster, start: Ref, obj: JsonObject) -> list[tuple[Link, ...]]:
    """The ways from the object to what is in the way at last, the longest first; none if nothing is."""
    found: list[tuple[Link, ...]] = []
    seen = {start}
    explained: set[Ref] = set()

    def follow(ref: Ref, current: JsonObject, before: tuple[Link, ...]) -> None:
        for blocker in blockers_of(ref.kind, current):
            way = (*before, Link(ref, _placed(blocker, ref, before)))
            went_on = False
            for further, there in _there(cluster, blocker.towards):
                if further in seen or len(way) >= _DEEPEST:
                    # Another way has led there, and goes on from there.
                    went_on = went_on or further in explained
                    continue
                seen.add(further)
                if there is None and further.kind in _MADE:
                    # Its maker says itself what it waits for; that it is missing is no cause.
                    continue
                if there is None:
                    found.append((*way, Link(further, None)))
                    explained.add(further)
                    went_on = True
                elif blockers_of(further.kind, there):
                    follow(further, there, way)
                    explained.add(further)
                    went_on = True
            if not went_on:
                found.append(way)

    follow(start, obj, ())
    return sorted(found, key=len, reverse=True)


_CHOOSE_CLASS: Final = frozenset({resources.AIM_TEMPLATE_CACHE, resources.AIM_PROFILE_CACHE, resources.AIM_ARTIFACT})
"""What was made with a storage class of a config keeps it."""


def in_command(ref: Ref) -> str:
    """The object as kubectl takes it."""
    return f"{ref.kind.singular} {ref.name}{f' -n {ref.namespace}' if ref.namespace else ''}"


def _placed(blocker: Blocker, ref: Ref, before: tuple[Link, ...]) -> Blocker:
    """With the objects that it is about: an edit of what was made from an AIMService is undone, or refused by it."""
    above = [one.blocker for one in before if one.blocker is not None]
    made = [one.ref for one in before if one.blocker is not None and one.blocker.derived]
    first = before[0].ref if before else ref
    # Of a pod without a place the service knows what it asks for, and what there is (SV-202).
    fuller = (one.message for one in above if blocker.message and one.message.startswith(blocker.message))
    return replace(
        blocker,
        message=next(fuller, blocker.message),
        service=in_command(first) if first.kind == resources.AIM_SERVICE else "",
        chosen=next((in_command(one) for one in made if one.kind in _CHOOSE_CLASS), ""),
        made=in_command(made[-1]) if made else "",
    )


def _there(cluster: Cluster, towards: Iterable[Towards]) -> list[tuple[Ref, JsonObject | None]]:
    found: list[tuple[Ref, JsonObject | None]] = []
    for one in towards:
        if isinstance(one, Search):
            some = cluster.search(one.kind, one.namespace, one.labels, one.fields)
            matching = [obj for obj in some if one.matches(obj)]
            if one.kind == EVENT:
                # What happened last is what is in the way now.
                matching = sorted(matching, key=last_seen)[-1:]
            found += [(ref_of(one.kind, obj), obj) for obj in matching[:_MOST]]
            continue
        there = cluster.find(one)
        # What may not be read is not known to be missing.
        if there is not None or str(one) not in cluster.unasked:
            found.append((one, there))
    return found
