"""Kinds by their names in the API, without the models of their objects, whose import takes longer than an answer may
(FW-603). A test holds them equal to `aim_domain.kinds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_AIM: Final = "aim.eai.amd.com"


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind; the core group is the empty string."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """``group/version``, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The kind in lower case."""
        return self.kind.lower()

    @property
    def resource(self) -> str:
        """``plural.group``, or the plural alone in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def words(self) -> frozenset[str]:
        """Every name by which a user may call it, in lower case."""
        return frozenset({self.singular, self.plural, *self.short_names, self.resource})


def _own(kind: str, short_name: str, *, namespaced: bool = True) -> Resource:
    return Resource(_AIM, "v1alpha1", kind, f"{kind.lower()}s", namespaced, (short_name,))


AIM_SERVICE: Final = _own("AIMService", "aimsvc")
AIM_MODEL: Final = _own("AIMModel", "aimmdl")
AIM_CLUSTER_MODEL: Final = _own("AIMClusterModel", "aimclmdl", namespaced=False)
AIM_SERVICE_TEMPLATE: Final = _own("AIMServiceTemplate", "aimtpl")
AIM_CLUSTER_SERVICE_TEMPLATE: Final = _own("AIMClusterServiceTemplate", "aimcltpl", namespaced=False)
AIM_RUNTIME_CONFIG: Final = _own("AIMRuntimeConfig", "aimrc")
AIM_CLUSTER_RUNTIME_CONFIG: Final = _own("AIMClusterRuntimeConfig", "aimclrc", namespaced=False)
AIM_CLUSTER_MODEL_SOURCE: Final = _own("AIMClusterModelSource", "aimclsrc", namespaced=False)
AIM_ARTIFACT: Final = _own("AIMArtifact", "aimart")
AIM_TEMPLATE_CACHE: Final = _own("AIMTemplateCache", "aimtc")

INFERENCE_SERVICE: Final = Resource(
    "serving.kserve.io", "v1beta1", "InferenceService", "inferenceservices", True, ("isvc",)
)
HTTP_ROUTE: Final = Resource("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
GATEWAY: Final = Resource("gateway.networking.k8s.io", "v1", "Gateway", "gateways", True, ("gtw",))
POD: Final = Resource("", "v1", "Pod", "pods", True, ("po",))
JOB: Final = Resource("batch", "v1", "Job", "jobs")
NODE: Final = Resource("", "v1", "Node", "nodes", False, ("no",))
CLAIM: Final = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, ("pvc",))
ROLE_BINDING: Final = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CONFIG_MAP: Final = Resource("", "v1", "ConfigMap", "configmaps", True, ("cm",))
NAMESPACE: Final = Resource("", "v1", "Namespace", "namespaces", False, ("ns",))
EVENT: Final = Resource("", "v1", "Event", "events", True, ("ev",))
AUTOSCALER: Final = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, ("hpa",))
LEASE: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases")
DEPLOYMENT: Final = Resource("apps", "v1", "Deployment", "deployments", True, ("deploy",))
STATEFUL_SET: Final = Resource("apps", "v1", "StatefulSet", "statefulsets", True, ("sts",))
DEFINITION: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False
)

OWN: Final = (
    AIM_SERVICE,
    AIM_MODEL,
    AIM_CLUSTER_MODEL,
    AIM_SERVICE_TEMPLATE,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    AIM_RUNTIME_CONFIG,
    AIM_CLUSTER_RUNTIME_CONFIG,
    AIM_CLUSTER_MODEL_SOURCE,
    AIM_ARTIFACT,
    AIM_TEMPLATE_CACHE,
)
OLDER: Final = tuple(
    Resource("config.kaiwo.silogen.ai", "v1alpha1", kind, f"{kind.lower()}s", namespaced)
    for kind, namespaced in (("AIMNamespaceConfig", True), ("KaiwoConfig", False))
)
"""Of older documents, which only services read."""
KNOWN: Final = (
    *OWN,
    INFERENCE_SERVICE,
    HTTP_ROUTE,
    GATEWAY,
    POD,
    JOB,
    NODE,
    CLAIM,
    CONFIG_MAP,
    NAMESPACE,
    EVENT,
    AUTOSCALER,
    LEASE,
    DEPLOYMENT,
)
"""What a user may ask about."""
