"""Names of kinds and their paths at the API; what needs no model imports nothing heavy for them (FW-684, FW-735)."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class KindName:
    """How the API names a kind. The core group is the empty string."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The kind in lower case."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """Kind of a list of these objects (CC-006)."""
        return f"{self.kind}List"

    @property
    def resource(self) -> str:
        """`plural.group`, or the plural alone in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def words(self) -> frozenset[str]:
        """Every name by which a user may call it, in lower case."""
        return frozenset({self.singular, self.plural, *self.short_names, self.resource})

    def __str__(self) -> str:
        return self.kind


def collection_path(kind: KindName, namespace: str | None) -> str:
    """URL path of the kind's objects; all namespaces when none is given."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if namespace is None:
        return f"{root}/{kind.plural}"
    if not kind.namespaced:
        raise ValueError(f"{kind.kind} is cluster-scoped, but namespace {namespace!r} was given")
    return f"{root}/namespaces/{_segment(kind, 'namespace', namespace)}/{kind.plural}"


def object_path(kind: KindName, name: str, namespace: str | None, subresource: str | None = None) -> str:
    """URL path of one object or of its subresource.

    Raises:
        ValueError: the name is none, or the namespace does not fit the kind's scope. Without a name the path
            would address the whole collection, which for a delete is a catastrophe.
    """
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind.kind} {name}: a namespaced kind needs a namespace")
    path = f"{collection_path(kind, namespace)}/{_segment(kind, 'name', name)}"
    return f"{path}/{subresource}" if subresource else path


def _segment(kind: KindName, role: str, text: str) -> str:
    # Dots are removed from paths together with the segment before them, on our side as on that of any proxy.
    if text in {"", ".", ".."}:
        raise ValueError(f"{kind.kind}: {text!r} is not a {role}")
    return quote(text, safe="")


POD: Final = KindName("", "v1", "Pod", "pods", True, ("po",))
JOB: Final = KindName("batch", "v1", "Job", "jobs")
NODE: Final = KindName("", "v1", "Node", "nodes", False, ("no",))
PERSISTENT_VOLUME_CLAIM: Final = KindName("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, ("pvc",))
CONFIG_MAP: Final = KindName("", "v1", "ConfigMap", "configmaps", True, ("cm",))
NAMESPACE: Final = KindName("", "v1", "Namespace", "namespaces", False, ("ns",))
EVENT: Final = KindName("", "v1", "Event", "events", True, ("ev",))
SECRET: Final = KindName("", "v1", "Secret", "secrets")
ROLE_BINDING: Final = KindName("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
HORIZONTAL_POD_AUTOSCALER: Final = KindName(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, ("hpa",)
)
SERVICE_ACCOUNT: Final = KindName("", "v1", "ServiceAccount", "serviceaccounts")
CLUSTER_ROLE: Final = KindName("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False)
LEASE: Final = KindName("coordination.k8s.io", "v1", "Lease", "leases")
DEPLOYMENT: Final = KindName("apps", "v1", "Deployment", "deployments", True, ("deploy",))
STATEFUL_SET: Final = KindName("apps", "v1", "StatefulSet", "statefulsets", True, ("sts",))
DEFINITION: Final = KindName(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False
)
