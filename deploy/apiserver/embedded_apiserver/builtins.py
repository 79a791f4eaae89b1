"""The built-in kinds that the server serves, and the columns that the real server prints for them, as tables."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from controller_runtime import JsonObject
from embedded_apiserver.objects.builtin import schema_for
from embedded_apiserver.resources import Column, Propagation, ResourceType, ScalePaths
from embedded_apiserver.values import UNKNOWN, age, dig

_NONE: Final = "<none>"


def _objects(obj: JsonObject, path: str) -> list[JsonObject]:
    found = dig(obj, path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _text(path: str, default: str = "") -> Callable[[JsonObject, float], object]:
    def value(obj: JsonObject, _now: float) -> object:
        found = dig(obj, path)
        return default if found is None or found == "" else str(found)

    return value


def _number(path: str) -> Callable[[JsonObject, float], object]:
    def value(obj: JsonObject, _now: float) -> object:
        found = dig(obj, path)
        return found if isinstance(found, int) else 0

    return value


def _count(path: str) -> Callable[[JsonObject, float], object]:
    def value(obj: JsonObject, _now: float) -> object:
        found = dig(obj, path)
        return len(found) if isinstance(found, (dict, list)) else 0

    return value


def _age_of(path: str) -> Callable[[JsonObject, float], object]:
    return lambda obj, now: age(dig(obj, path), now)


def _column(name: str, value: Callable[[JsonObject, float], object], kind: str = "string", priority: int = 0) -> Column:
    return Column(name, value, kind, "name" if name == "Name" else "", "", priority)


NAME: Final = _column("Name", _text("metadata.name"))
AGE: Final = _column("Age", _age_of("metadata.creationTimestamp"))


def _containers(obj: JsonObject, what: str) -> str:
    return ",".join(str(c.get(what, "")) for c in _objects(obj, "spec.template.spec.containers"))


def _containers_column(name: str, what: str) -> Column:
    return _column(name, lambda obj, _now: _containers(obj, what), priority=1)


def _selector(obj: JsonObject, _now: float) -> object:
    labels = dig(obj, "spec.selector.matchLabels")
    return ",".join(f"{k}={v}" for k, v in labels.items()) if isinstance(labels, dict) else _NONE


def _plain_selector(obj: JsonObject, _now: float) -> object:
    labels = dig(obj, "spec.selector")
    return ",".join(f"{k}={v}" for k, v in labels.items()) if isinstance(labels, dict) else _NONE


def _pod_ready(obj: JsonObject, _now: float) -> object:
    ready = sum(1 for status in _objects(obj, "status.containerStatuses") if status.get("ready"))
    return f"{ready}/{len(_objects(obj, 'spec.containers'))}"


def _pod_status(obj: JsonObject, _now: float) -> object:
    reason = str(dig(obj, "status.reason") or dig(obj, "status.phase") or "")
    for status in _objects(obj, "status.containerStatuses"):
        stopped = dig(status, "state.waiting") or dig(status, "state.terminated")
        if isinstance(stopped, dict) and stopped.get("reason"):
            reason = str(stopped["reason"])
    for number, status in enumerate(_objects(obj, "status.initContainerStatuses")):
        waiting = dig(status, "state.waiting.reason")
        failed = dig(status, "state.terminated")
        if isinstance(failed, dict) and failed.get("exitCode"):
            waiting = failed.get("reason") or f"ExitCode:{failed['exitCode']}"
        elif isinstance(failed, dict):
            continue
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{number}/{len(_objects(obj, 'spec.initContainers'))}"
    return "Terminating" if dig(obj, "metadata.deletionTimestamp") else reason


def _pod_restarts(obj: JsonObject, _now: float) -> object:
    return str(sum(int(status.get("restartCount", 0)) for status in _objects(obj, "status.containerStatuses")))


def _node_status(obj: JsonObject, _now: float) -> object:
    ready = [c for c in _objects(obj, "status.conditions") if c.get("type") == "Ready"]
    status = ("Ready" if ready[0].get("status") == "True" else "NotReady") if ready else "Unknown"
    return status + (",SchedulingDisabled" if dig(obj, "spec.unschedulable") else "")


def _node_roles(obj: JsonObject, _now: float) -> object:
    prefix = "node-role.kubernetes.io/"
    labels = dig(obj, "metadata.labels")
    roles = (
        sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))
        if isinstance(labels, dict)
        else []
    )
    return ",".join(roles) or _NONE


def _job_status(obj: JsonObject, _now: float) -> object:
    held = {c.get("type") for c in _objects(obj, "status.conditions") if c.get("status") == "True"}
    for kind, shown in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if kind in held:
            return shown
    return "Terminating" if dig(obj, "metadata.deletionTimestamp") else "Running"


def _job_completions(obj: JsonObject, _now: float) -> object:
    wanted = dig(obj, "spec.completions")
    return f"{dig(obj, 'status.succeeded') or 0}/{wanted if wanted is not None else 1}"


def _job_duration(obj: JsonObject, now: float) -> object:
    start, end = dig(obj, "status.startTime"), dig(obj, "status.completionTime")
    if not isinstance(start, str):
        return ""
    return age(start, datetime.fromisoformat(end).timestamp() if isinstance(end, str) else now)


def _ratio(ready: str, wanted: str) -> Callable[[JsonObject, float], object]:
    return lambda obj, _now: f"{dig(obj, ready) or 0}/{dig(obj, wanted) or 0}"


def _access_modes(obj: JsonObject, _now: float) -> object:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    modes = dig(obj, "status.accessModes") or (
        dig(obj, "spec.accessModes") if obj.get("kind") == "PersistentVolume" else []
    )
    return ",".join(short.get(str(mode), str(mode)) for mode in modes) if isinstance(modes, list) else ""


def _event_last_seen(obj: JsonObject, now: float) -> object:
    for path in (
        "series.lastObservedTime",
        "lastTimestamp",
        "deprecatedLastTimestamp",
        "eventTime",
        "metadata.creationTimestamp",
    ):
        found = dig(obj, path)
        if found:
            return age(found, now)
    return UNKNOWN


def _event_object(obj: JsonObject, _now: float) -> object:
    ref = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{str(ref.get('kind', '')).lower()}/{ref.get('name', '')}"


def _event_message(obj: JsonObject, _now: float) -> object:
    return str(obj.get("message") or obj.get("note") or "").strip()


def _event_count(obj: JsonObject, _now: float) -> object:
    return dig(obj, "series.count") or obj.get("count") or obj.get("deprecatedCount") or 1


def _service_ports(obj: JsonObject, _now: float) -> object:
    ports = [f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in _objects(obj, "spec.ports")]
    return ",".join(ports) or _NONE


def _hpa_reference(obj: JsonObject, _now: float) -> object:
    return f"{dig(obj, 'spec.scaleTargetRef.kind')}/{dig(obj, 'spec.scaleTargetRef.name')}"


def _role_ref(obj: JsonObject, _now: float) -> object:
    return f"{dig(obj, 'roleRef.kind')}/{dig(obj, 'roleRef.name')}"


_EVENT_COLUMNS: Final = (
    _column("Last Seen", _event_last_seen),
    _column("Type", _text("type")),
    _column("Reason", _text("reason")),
    _column("Object", _event_object),
    _column("Subobject", _text("involvedObject.fieldPath"), priority=1),
    _column("Source", _text("source.component"), priority=1),
    _column("Message", _event_message),
    _column("First Seen", _age_of("firstTimestamp"), priority=1),
    _column("Count", _event_count, priority=1),
    _column("Name", _text("metadata.name"), priority=1),
)

_PODS: Final = (
    NAME,
    _column("Ready", _pod_ready),
    _column("Status", _pod_status),
    _column("Restarts", _pod_restarts),
    AGE,
    _column("IP", _text("status.podIP", _NONE), priority=1),
    _column("Node", _text("spec.nodeName", _NONE), priority=1),
    _column("Nominated Node", _text("status.nominatedNodeName", _NONE), priority=1),
    _column("Readiness Gates", lambda _obj, _now: _NONE, priority=1),
)

_NODES: Final = (
    NAME,
    _column("Status", _node_status),
    _column("Roles", _node_roles),
    AGE,
    _column("Version", _text("status.nodeInfo.kubeletVersion")),
)

_JOBS: Final = (
    NAME,
    _column("Status", _job_status),
    _column("Completions", _job_completions),
    _column("Duration", _job_duration),
    AGE,
    _containers_column("Containers", "name"),
    _containers_column("Images", "image"),
    _column("Selector", _selector, priority=1),
)

_VOLUME_CLAIMS: Final = (
    NAME,
    _column("Status", _text("status.phase")),
    _column("Volume", _text("spec.volumeName")),
    _column("Capacity", _text("status.capacity.storage")),
    _column("Access Modes", _access_modes),
    _column("StorageClass", _text("spec.storageClassName")),
    _column("VolumeAttributesClass", _text("spec.volumeAttributesClassName", "<unset>")),
    AGE,
    _column("VolumeMode", _text("spec.volumeMode", "<unset>"), priority=1),
)

_VOLUMES: Final = (
    NAME,
    _column("Capacity", _text("spec.capacity.storage")),
    _column("Access Modes", _access_modes),
    _column("Reclaim Policy", _text("spec.persistentVolumeReclaimPolicy")),
    _column("Status", _text("status.phase")),
    _column(
        "Claim", lambda obj, _now: "/".join(str(dig(obj, f"spec.claimRef.{k}") or "") for k in ("namespace", "name"))
    ),
    _column("StorageClass", _text("spec.storageClassName")),
    AGE,
)

_DEPLOYMENTS: Final = (
    NAME,
    _column("Ready", _ratio("status.readyReplicas", "spec.replicas")),
    _column("Up-to-date", _number("status.updatedReplicas"), "integer"),
    _column("Available", _number("status.availableReplicas"), "integer"),
    AGE,
    _containers_column("Containers", "name"),
    _containers_column("Images", "image"),
    _column("Selector", _selector, priority=1),
)

_REPLICA_SETS: Final = (
    NAME,
    _column("Desired", _number("spec.replicas"), "integer"),
    _column("Current", _number("status.replicas"), "integer"),
    _column("Ready", _number("status.readyReplicas"), "integer"),
    AGE,
)

_SERVICES: Final = (
    NAME,
    _column("Type", _text("spec.type", "ClusterIP")),
    _column("Cluster-IP", _text("spec.clusterIP", _NONE)),
    _column("External-IP", _text("spec.externalName", _NONE)),
    _column("Port(s)", _service_ports),
    AGE,
    _column("Selector", _plain_selector, priority=1),
)

_AUTOSCALERS: Final = (
    NAME,
    _column("Reference", _hpa_reference),
    _column("Targets", lambda _obj, _now: UNKNOWN),
    _column("MinPods", _text("spec.minReplicas", "<unset>")),
    _column("MaxPods", _number("spec.maxReplicas"), "integer"),
    _column("Replicas", _number("status.currentReplicas"), "integer"),
    AGE,
)

_BINDINGS: Final = (NAME, _column("Role", _role_ref), AGE)

BUILTIN_COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "pods": _PODS,
    "nodes": _NODES,
    "namespaces": (NAME, _column("Status", _text("status.phase")), AGE),
    "configmaps": (NAME, _column("Data", _count("data")), AGE),
    "secrets": (NAME, _column("Type", _text("type")), _column("Data", _count("data")), AGE),
    "serviceaccounts": (NAME, _column("Secrets", _count("secrets")), AGE),
    "events": _EVENT_COLUMNS,
    "events.events.k8s.io": _EVENT_COLUMNS,
    "persistentvolumeclaims": _VOLUME_CLAIMS,
    "persistentvolumes": _VOLUMES,
    "services": _SERVICES,
    "jobs.batch": _JOBS,
    "deployments.apps": _DEPLOYMENTS,
    "replicasets.apps": _REPLICA_SETS,
    "statefulsets.apps": (NAME, _column("Ready", _ratio("status.readyReplicas", "spec.replicas")), AGE),
    "horizontalpodautoscalers.autoscaling": _AUTOSCALERS,
    "leases.coordination.k8s.io": (NAME, _column("Holder", _text("spec.holderIdentity")), AGE),
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "storageclasses.storage.k8s.io": (
        NAME,
        _column("Provisioner", _text("provisioner")),
        _column("ReclaimPolicy", _text("reclaimPolicy", "Delete")),
        _column("VolumeBindingMode", _text("volumeBindingMode", "Immediate")),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (NAME, _column("Value", _number("value"), "integer"), AGE),
    "customresourcedefinitions.apiextensions.k8s.io": (
        NAME,
        _column("Created At", _text("metadata.creationTimestamp")),
    ),
}


_SELECTOR: Final = ("spec", "selector")
_WORKLOAD_SCALE: Final = ScalePaths(selector=_SELECTOR)
_POD_FIELDS: Final = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
)
_EVENT_FIELDS: Final = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)

EVENT_TO_CORE: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_EVENT_FROM_CORE: Final = {core: new for new, core in EVENT_TO_CORE.items()}


def event_to_core(event: JsonObject) -> JsonObject:
    """An events.k8s.io/v1 Event as the core/v1 Event that is stored."""
    return {EVENT_TO_CORE.get(key, key): value for key, value in event.items()} | {"apiVersion": "v1"}


def event_from_core(event: JsonObject) -> JsonObject:
    """A stored core/v1 Event as events.k8s.io/v1 shows it."""
    renamed = {_EVENT_FROM_CORE.get(key, key): value for key, value in event.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}


def _type(
    group: str,
    version: str,
    kind: str,
    *,
    plural: str = "",
    namespaced: bool = True,
    short: str = "",
    status: bool = False,
    scale: ScalePaths | None = None,
    generation: bool = False,
    everything: bool = False,
    fields: tuple[str, ...] = (),
    extra: tuple[str, ...] = (),
    propagation: Propagation = Propagation.BACKGROUND,
    virtual: bool = False,
) -> ResourceType:
    plural = plural or kind.lower() + "s"
    return ResourceType(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        storage=f"{plural}.{group}" if group else plural,
        singular=kind.lower(),
        namespaced=namespaced,
        short_names=tuple(short.split()),
        categories=("all",) if everything else (),
        has_status=status,
        scale=scale,
        tracks_generation=generation,
        default_propagation=propagation,
        virtual=virtual,
        extra_subresources=extra,
        selectable_fields=fields,
        schema=None if virtual else schema_for(group, version, kind),
    )


def builtin_types() -> Iterator[ResourceType]:
    """All built-in types."""
    yield from _core_types()
    yield from _workload_types()
    yield from _policy_types()
    yield from _review_types()
    yield _events_view()


def _core_types() -> Iterator[ResourceType]:
    yield _type(
        "", "v1", "Namespace", namespaced=False, short="ns", status=True, fields=("status.phase",), extra=("finalize",)
    )
    yield _type("", "v1", "ConfigMap", short="cm")
    yield _type("", "v1", "Secret", fields=("type",))
    yield _type("", "v1", "ServiceAccount", short="sa")
    yield _type("", "v1", "Event", short="ev", fields=_EVENT_FIELDS)
    yield _type(
        "", "v1", "Pod", short="po", status=True, generation=True, everything=True, extra=("log", "binding"),
        fields=_POD_FIELDS,
    )  # fmt: skip
    yield _type("", "v1", "Node", namespaced=False, short="no", status=True, fields=("spec.unschedulable",))
    yield _type("", "v1", "PersistentVolumeClaim", short="pvc", status=True)
    yield _type("", "v1", "PersistentVolume", namespaced=False, short="pv", status=True)
    yield _type("", "v1", "Service", short="svc", status=True, everything=True, fields=("spec.clusterIP", "spec.type"))
    yield _type("", "v1", "Endpoints", plural="endpoints", short="ep")
    yield _type("", "v1", "ResourceQuota", short="quota", status=True)


def _workload_types() -> Iterator[ResourceType]:
    yield _type(
        "batch", "v1", "Job", status=True, generation=True, everything=True,
        fields=("status.successful",), propagation=Propagation.ORPHAN,
    )  # fmt: skip
    for kind, short in (("Deployment", "deploy"), ("ReplicaSet", "rs"), ("StatefulSet", "sts")):
        yield _type(
            "apps", "v1", kind, short=short, status=True, scale=_WORKLOAD_SCALE, generation=True, everything=True
        )
    yield _type("autoscaling", "v2", "HorizontalPodAutoscaler", short="hpa", status=True, everything=True)
    yield _type("coordination.k8s.io", "v1", "Lease")
    yield _type("discovery.k8s.io", "v1", "EndpointSlice")


def _policy_types() -> Iterator[ResourceType]:
    rbac = "rbac.authorization.k8s.io"
    yield _type(rbac, "v1", "Role")
    yield _type(rbac, "v1", "RoleBinding")
    yield _type(rbac, "v1", "ClusterRole", namespaced=False)
    yield _type(rbac, "v1", "ClusterRoleBinding", namespaced=False)
    yield _type("storage.k8s.io", "v1", "StorageClass", plural="storageclasses", namespaced=False, short="sc")
    yield _type("scheduling.k8s.io", "v1", "PriorityClass", plural="priorityclasses", namespaced=False, short="pc")
    # Stored, and not asked: no request of the simulated cluster is admitted by them.
    admission = "admissionregistration.k8s.io"
    yield _type(
        admission, "v1", "ValidatingAdmissionPolicy",
        plural="validatingadmissionpolicies", namespaced=False, status=True, generation=True,
    )  # fmt: skip
    yield _type(admission, "v1", "ValidatingAdmissionPolicyBinding", namespaced=False, generation=True)
    yield _type("networking.k8s.io", "v1", "NetworkPolicy", plural="networkpolicies", short="netpol", generation=True)
    yield _type("policy", "v1", "PodDisruptionBudget", short="pdb", status=True, generation=True)
    yield _type(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition",
        namespaced=False, short="crd crds", status=True, generation=True,
    )  # fmt: skip


def _review_types() -> Iterator[ResourceType]:
    for kind in ("SelfSubjectAccessReview", "SubjectAccessReview", "SelfSubjectRulesReview"):
        yield _type("authorization.k8s.io", "v1", kind, namespaced=False, virtual=True)
    yield _type("authentication.k8s.io", "v1", "TokenReview", namespaced=False, virtual=True)
    yield _type("authentication.k8s.io", "v1", "SelfSubjectReview", namespaced=False, virtual=True)


def _events_view() -> ResourceType:
    return ResourceType(
        group="events.k8s.io",
        version="v1",
        kind="Event",
        plural="events",
        storage="events",
        singular="event",
        short_names=("ev",),
        selectable_fields=_EVENT_FIELDS,
        schema=schema_for("events.k8s.io", "v1", "Event"),
        to_storage=event_to_core,
        from_storage=event_from_core,
    )
