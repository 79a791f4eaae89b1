"""What keeps an object from being ready, and which objects that points to. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from aim_domain import kinds, labels
from aim_domain.naming import claim_name, http_route_name, inference_service_name
from controller_runtime import JsonObject, Kind
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM, POD

_READY: Final = "Ready"
_SUMMARIES: Final = frozenset({_READY, "ConfigValid", "AuthValid", "DependenciesReachable"})
"""Conditions that repeat what another one says."""
_TOLD_ABOVE: Final = frozenset({"Completed", "Error", "ContainerCreating", "PodInitializing"})
"""Ends of a container of which whoever made the pod says more."""


@dataclass(frozen=True, slots=True)
class Ref:
    """An object by its name; `namespace` is empty in the cluster's scope."""

    kind: Kind[Any]
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Search:
    """Objects of a namespace that can only be found by looking at all of them."""

    kind: Kind[Any]
    namespace: str
    matches: Callable[[JsonObject], bool]


Towards: TypeAlias = Ref | Search


@dataclass(frozen=True, slots=True)
class Blocker:
    """A condition that is not as it should be.

    Attributes:
        status: of the condition, ``False`` or ``Unknown``.
        since: as Kubernetes writes it; empty where nobody says.
        who: the field manager that decided it; empty where nobody says.
        towards: what it is about.
    """

    condition: str
    reason: str
    message: str
    status: str = "False"
    since: str = ""
    who: str = ""
    towards: tuple[Towards, ...] = ()


def blockers_of(kind: Kind[Any], obj: JsonObject) -> tuple[Blocker, ...]:
    """Everything that keeps the object from being ready, in the order in which it says so."""
    if kind is POD:
        return tuple(_of_pod(obj))
    if kind is PERSISTENT_VOLUME_CLAIM:
        return tuple(_of_claim(obj))
    untrue = [one for one in _conditions(kind, obj) if one.get("status") != "True" and not _is_note(one)]
    telling = [one for one in untrue if one["type"] not in _SUMMARIES] or untrue
    if not untrue and not (obj.get("status") or {}).get("conditions") and kind in kinds.OWN_KINDS:
        return (Blocker("", "NoStatus", "nothing has been told of it yet"),)
    return tuple(
        Blocker(
            one["type"],
            one.get("reason") or "",
            one.get("message") or "",
            one.get("status") or "Unknown",
            one.get("lastTransitionTime") or "",
            _manager_of(obj, one["type"]),
            tuple(_towards(kind, obj, one["type"])),
        )
        for one in telling
    )


def _is_note(condition: JsonObject) -> bool:
    """KServe tells with `Stopped` whether somebody wants it so, and marks what nobody has to look at."""
    return condition["type"] == "Stopped" or condition.get("severity") == "Info"


def _conditions(kind: Kind[Any], obj: JsonObject) -> list[JsonObject]:
    status = obj.get("status") or {}
    if kind is kinds.HTTP_ROUTE:
        return [one for parent in status.get("parents") or () for one in parent.get("conditions") or ()]
    return list(status.get("conditions") or ())


def _manager_of(obj: JsonObject, condition: str) -> str:
    key = f'k:{{"type":"{condition}"}}'
    for entry in obj["metadata"].get("managedFields") or ():
        fields = (entry.get("fieldsV1") or {}).get("f:status") or {}
        if key in (fields.get("f:conditions") or {}):
            return str(entry.get("manager") or "")
    return ""


def _towards(kind: Kind[Any], obj: JsonObject, condition: str) -> Iterable[Towards]:
    leads = _LEADS.get((kind.kind, condition))
    return leads(obj) if leads is not None else ()


def _namespace(obj: JsonObject) -> str:
    return obj["metadata"].get("namespace") or ""


def _named(obj: JsonObject) -> tuple[str, str]:
    return obj["metadata"]["name"], _namespace(obj)


def _resolved(obj: JsonObject, field: str, own: Kind[Any], cluster: Kind[Any]) -> Iterable[Ref]:
    found = (obj.get("status") or {}).get(field)
    if found:
        yield Ref(cluster if found.get("scope") == "Cluster" else own, found.get("namespace") or "", found["name"])


def _model_of_service(obj: JsonObject) -> Iterable[Towards]:
    found = list(_resolved(obj, "resolvedModel", kinds.AIM_MODEL, kinds.AIM_CLUSTER_MODEL))
    name = (obj["spec"].get("model") or {}).get("name")
    return found or ([Ref(kinds.AIM_MODEL, _namespace(obj), name)] if name else [])


def _template_of_service(obj: JsonObject) -> Iterable[Towards]:
    return _resolved(obj, "resolvedTemplate", kinds.AIM_SERVICE_TEMPLATE, kinds.AIM_CLUSTER_SERVICE_TEMPLATE)


def _cache_of_service(obj: JsonObject) -> Iterable[Towards]:
    template = ((obj.get("status") or {}).get("resolvedTemplate") or {}).get("name")
    if template:
        yield Search(
            kinds.AIM_TEMPLATE_CACHE, _namespace(obj), lambda cache: cache["spec"].get("templateName") == template
        )


def _workload_of_service(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _named(obj)
    yield Ref(kinds.INFERENCE_SERVICE, namespace, inference_service_name(name, namespace))


def _pods_of_service(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _named(obj)
    yield _labelled(namespace, labels.KSERVE_INFERENCE_SERVICE, inference_service_name(name, namespace))


def _labelled(namespace: str, label: str, value: str) -> Search:
    return Search(POD, namespace, lambda pod: (pod["metadata"].get("labels") or {}).get(label) == value)


def _route_of_service(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _named(obj)
    yield Ref(kinds.HTTP_ROUTE, namespace, http_route_name(name, namespace))


def _template_of_cache(obj: JsonObject) -> Iterable[Towards]:
    if obj["spec"].get("templateScope") == "Cluster":
        yield Ref(kinds.AIM_CLUSTER_SERVICE_TEMPLATE, "", obj["spec"]["templateName"])
    else:
        yield Ref(kinds.AIM_SERVICE_TEMPLATE, _namespace(obj), obj["spec"]["templateName"])


def _artifacts_of_cache(obj: JsonObject) -> Iterable[Towards]:
    listed = ((obj.get("status") or {}).get("artifacts") or {}).values()
    return [Ref(kinds.AIM_ARTIFACT, _namespace(obj), one["name"]) for one in listed if one.get("status") != _READY]


def _claim_of_artifact(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _named(obj)
    yield Ref(PERSISTENT_VOLUME_CLAIM, namespace, claim_name(name, obj["metadata"]["uid"]))


def _pods_of_artifact(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _named(obj)
    yield _labelled(namespace, labels.CACHE_NAME, name)


def _model_of_template(obj: JsonObject) -> Iterable[Towards]:
    namespace = _namespace(obj)
    yield Ref(kinds.AIM_MODEL if namespace else kinds.AIM_CLUSTER_MODEL, namespace, obj["spec"]["modelName"])


def _templates_of_model(obj: JsonObject) -> Iterable[Towards]:
    name, namespace = _named(obj)
    kind = kinds.AIM_SERVICE_TEMPLATE if namespace else kinds.AIM_CLUSTER_SERVICE_TEMPLATE
    yield Search(kind, namespace, lambda template: template["spec"].get("modelName") == name)


_LEADS: Final[Mapping[tuple[str, str], Callable[[JsonObject], Iterable[Towards]]]] = MappingProxyType(
    {
        ("AIMService", "ModelReady"): _model_of_service,
        ("AIMService", "TemplateReady"): _template_of_service,
        ("AIMService", "CacheReady"): _cache_of_service,
        ("AIMService", "InferenceServiceReady"): _workload_of_service,
        ("AIMService", "InferenceServicePodsReady"): _pods_of_service,
        ("AIMService", "HTTPRouteReady"): _route_of_service,
        ("AIMTemplateCache", "ServiceTemplateReady"): _template_of_cache,
        ("AIMTemplateCache", "ArtifactsReady"): _artifacts_of_cache,
        ("AIMArtifact", "CachePvcReady"): _claim_of_artifact,
        ("AIMArtifact", "CheckSizeJobPodsReady"): _pods_of_artifact,
        ("AIMArtifact", "DownloadJobPodsReady"): _pods_of_artifact,
        ("AIMServiceTemplate", "ModelReady"): _model_of_template,
        ("AIMClusterServiceTemplate", "ModelReady"): _model_of_template,
        ("AIMModel", "ServiceTemplatesReady"): _templates_of_model,
        ("AIMClusterModel", "ServiceTemplatesReady"): _templates_of_model,
    }
)
"""By kind and condition, what the condition is about."""


def _of_pod(pod: JsonObject) -> Iterable[Blocker]:
    status = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        return
    for one in status.get("containerStatuses") or ():
        state = one.get("state") or {}
        stopped = state.get("waiting") or state.get("terminated")
        if stopped and stopped.get("reason") not in _TOLD_ABOVE:
            said = stopped.get("message") or f"container {one['name']} {_ending(stopped)}"
            since = stopped.get("finishedAt") or ""
            yield Blocker("", stopped.get("reason") or "Stopped", said, since=since, who="kubelet")
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            since = one.get("lastTransitionTime") or ""
            reason, message = one.get("reason") or "", one.get("message") or ""
            yield Blocker("PodScheduled", reason, message, since=since, who="scheduler")


def _ending(stopped: JsonObject) -> str:
    return f"ended with code {stopped['exitCode']}" if "exitCode" in stopped else "waits"


def _of_claim(claim: JsonObject) -> Iterable[Blocker]:
    phase = (claim.get("status") or {}).get("phase") or "Pending"
    if phase != "Bound":
        storage_class = claim["spec"].get("storageClassName") or "the default one"
        yield Blocker("", phase, f"no volume is bound to it; its storage class is {storage_class}")
