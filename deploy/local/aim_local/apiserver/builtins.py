"""The built-in kinds that the server serves, as one table."""

from collections.abc import Iterator
from typing import Final

from aim_local.apiserver.objects.builtin import schema_for
from aim_local.apiserver.resources import Propagation, ResourceType, ScalePaths
from controller_runtime import JsonObject

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
