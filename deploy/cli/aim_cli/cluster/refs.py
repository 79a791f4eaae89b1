"""Objects by kind and name, and what the API server refuses to say. Imports nothing heavy (FW-684, FW-735)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from aim_cli.errors import UnreachableError
from controller_runtime.kube.errors import ApiConnectionError, ApiError, KubeError

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


JsonObject: TypeAlias = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ref:
    """An object by its name; `namespace` is empty in the cluster's scope."""

    kind: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind.kind} {self.name}"

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        named = {"kind": self.kind.kind, "namespace": self.namespace, "name": self.name}
        return {key: value for key, value in named.items() if value}


def ref_of(kind: Resource, obj: JsonObject) -> Ref:
    """The name of an object that was read."""
    return Ref(kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


class Cluster(Protocol):
    """What is asked about objects."""

    @property
    def unasked(self) -> Mapping[str, str]:
        """What could not be read so far, and why."""

    def find(self, ref: Ref) -> JsonObject | None:
        """The object; ``None`` if there is none."""

    def search(
        self, kind: Resource, namespace: str = "", labels: str = "", fields: str = "", owner: str = ""
    ) -> list[JsonObject]:
        """Objects of a kind, in a namespace if one is given; none where the kind is unknown.

        Labels, fields and the UID of an owner leave out what need not be sent; more may come.
        """

    def each(self, kind: Resource, namespace: str, make: Callable[[Resource, JsonObject], T]) -> list[T]:
        """What a function makes of each object of a kind.

        It is given nothing else, so that what it made of a version may be kept.
        """


NO_SUCH_KIND: Final = "the cluster has no such kind"
_DISBELIEVED: Final = "CERTIFICATE_VERIFY_FAILED"
"""A word of OpenSSL."""
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_ROLE: Final = "ask for a role that may"
_NARROWER: Final = "name a namespace where you may (-n), or ask for a role that may everywhere"


def require(cluster: Cluster, *whats: str, everywhere: bool = False) -> None:
    """Go on where at least one of these could be read: of a kind by its plural, of an object by its name.

    Args:
        everywhere: they were looked for in all namespaces, and the command can look into one.

    Raises:
        UnreachableError: none could.
    """
    why = [cluster.unasked[what] for what in whats if what in cluster.unasked]
    if whats and len(why) == len(whats):
        remedy = "install what defines it" if why[0] == NO_SUCH_KIND else _NARROWER if everywhere else _ROLE
        raise UnreachableError(f"{whats[0]} cannot be read: {why[0]}; {remedy}")


def remarks(cluster: Cluster) -> tuple[str, ...]:
    """What could not be found out, for standard error."""
    return tuple(f"not known: {what}: {why}" for what, why in cluster.unasked.items())


def describe_error(server: str, error: KubeError) -> str:
    """An error of the API server."""
    if isinstance(error, ApiError) and error.code == _UNAUTHORIZED:
        return f"the API server {server} does not know you (401); renew the credentials of the kubeconfig"
    if isinstance(error, ApiError) and error.code == _FORBIDDEN:
        return f"the API server {server} refuses: {error.message}; ask for a role that may"
    if isinstance(error, ApiError) and error.code == _NOT_FOUND and not error.reason:
        return f"{server} is no API server: it has no {error.request.partition(' ')[2]}; check server in the kubeconfig"
    if isinstance(error, ApiConnectionError):
        return unanswered(error.host, error.failure.value, disbelieved=_DISBELIEVED in str(error))
    return str(error)


def unanswered(server: str, why: object, *, disbelieved: bool = False) -> str:
    """That a cluster does not answer, and why; perhaps because its certificate is not believed."""
    remedy = "check that it is reachable"
    if disbelieved or _DISBELIEVED in str(why):
        why = "its certificate is not believed"
        remedy = "check server and certificate-authority in the kubeconfig"
    return f"the cluster {server} does not answer: {why}; {remedy}"
