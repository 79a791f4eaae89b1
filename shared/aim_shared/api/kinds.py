"""Every kind that the platform handles, as a table (CC-050)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from aim_shared.api.artifact import AIMArtifact
from aim_shared.api.cluster_model import AIMClusterModel
from aim_shared.api.cluster_model_source import AIMClusterModelSource
from aim_shared.api.cluster_runtime_config import AIMClusterRuntimeConfig
from aim_shared.api.cluster_service_template import AIMClusterServiceTemplate
from aim_shared.api.external.config_map import ConfigMap
from aim_shared.api.external.event import Event
from aim_shared.api.external.horizontal_pod_autoscaler import HorizontalPodAutoscaler
from aim_shared.api.external.http_route import HTTPRoute
from aim_shared.api.external.inference_service import InferenceService
from aim_shared.api.external.job import Job
from aim_shared.api.external.lease import Lease
from aim_shared.api.external.namespace import Namespace
from aim_shared.api.external.node import Node
from aim_shared.api.external.persistent_volume_claim import PersistentVolumeClaim
from aim_shared.api.external.pod import Pod
from aim_shared.api.external.role_binding import RoleBinding
from aim_shared.api.external.secret import Secret
from aim_shared.api.meta import GROUP, VERSION, Resource
from aim_shared.api.model import AIMModel
from aim_shared.api.runtime_config import AIMRuntimeConfig
from aim_shared.api.service import AIMService
from aim_shared.api.service_template import AIMServiceTemplate
from aim_shared.api.template_cache import AIMTemplateCache
from aim_shared.json import JsonObject

ResourceT = TypeVar("ResourceT", bound=Resource)


@dataclass(frozen=True, slots=True)
class Kind(Generic[ResourceT]):
    """One kind: how the API names it and which model decodes it. The core group is the empty string."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    model: type[ResourceT]
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

    def decode(self, data: JsonObject) -> ResourceT:
        """The typed object.

        Raises:
            pydantic.ValidationError: a member has another JSON type than the API gives it.
        """
        return self.model.model_validate(data)

    def __str__(self) -> str:
        return self.kind


def _own(
    model: type[ResourceT], kind: str, plural: str, short_name: str, *, namespaced: bool = True
) -> Kind[ResourceT]:
    return Kind(GROUP, VERSION, kind, plural, namespaced, model, (short_name,))


AIM_SERVICE: Final = _own(AIMService, "AIMService", "aimservices", "aimsvc")
AIM_MODEL: Final = _own(AIMModel, "AIMModel", "aimmodels", "aimmdl")
AIM_CLUSTER_MODEL: Final = _own(AIMClusterModel, "AIMClusterModel", "aimclustermodels", "aimclmdl", namespaced=False)
AIM_SERVICE_TEMPLATE: Final = _own(AIMServiceTemplate, "AIMServiceTemplate", "aimservicetemplates", "aimtpl")
AIM_CLUSTER_SERVICE_TEMPLATE: Final = _own(
    AIMClusterServiceTemplate,
    "AIMClusterServiceTemplate",
    "aimclusterservicetemplates",
    "aimcltpl",
    namespaced=False,
)
AIM_RUNTIME_CONFIG: Final = _own(AIMRuntimeConfig, "AIMRuntimeConfig", "aimruntimeconfigs", "aimrc")
AIM_CLUSTER_RUNTIME_CONFIG: Final = _own(
    AIMClusterRuntimeConfig, "AIMClusterRuntimeConfig", "aimclusterruntimeconfigs", "aimclrc", namespaced=False
)
AIM_CLUSTER_MODEL_SOURCE: Final = _own(
    AIMClusterModelSource, "AIMClusterModelSource", "aimclustermodelsources", "aimclsrc", namespaced=False
)
AIM_ARTIFACT: Final = _own(AIMArtifact, "AIMArtifact", "aimartifacts", "aimart")
AIM_TEMPLATE_CACHE: Final = _own(AIMTemplateCache, "AIMTemplateCache", "aimtemplatecaches", "aimtc")

POD: Final = Kind("", "v1", "Pod", "pods", True, Pod, ("po",))
JOB: Final = Kind("batch", "v1", "Job", "jobs", True, Job)
NODE: Final = Kind("", "v1", "Node", "nodes", False, Node, ("no",))
PERSISTENT_VOLUME_CLAIM: Final = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, PersistentVolumeClaim, ("pvc",)
)
CONFIG_MAP: Final = Kind("", "v1", "ConfigMap", "configmaps", True, ConfigMap, ("cm",))
NAMESPACE: Final = Kind("", "v1", "Namespace", "namespaces", False, Namespace, ("ns",))
EVENT: Final = Kind("", "v1", "Event", "events", True, Event, ("ev",))
SECRET: Final = Kind("", "v1", "Secret", "secrets", True, Secret)
ROLE_BINDING: Final = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", True, RoleBinding)
INFERENCE_SERVICE: Final = Kind(
    "serving.kserve.io", "v1beta1", "InferenceService", "inferenceservices", True, InferenceService, ("isvc",)
)
HTTP_ROUTE: Final = Kind("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes", True, HTTPRoute)
HORIZONTAL_POD_AUTOSCALER: Final = Kind(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    True,
    HorizontalPodAutoscaler,
    ("hpa",),
)
LEASE: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, Lease)

OWN_KINDS: Final[tuple[Kind[Any], ...]] = (
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
EXTERNAL_KINDS: Final[tuple[Kind[Any], ...]] = (
    POD,
    JOB,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    CONFIG_MAP,
    NAMESPACE,
    EVENT,
    SECRET,
    ROLE_BINDING,
    INFERENCE_SERVICE,
    HTTP_ROUTE,
    HORIZONTAL_POD_AUTOSCALER,
    LEASE,
)
KINDS: Final = OWN_KINDS + EXTERNAL_KINDS

_BY_NAME: Final = {(kind.api_version, kind.kind): kind for kind in KINDS}
_BY_MODEL: Final = {kind.model: kind for kind in KINDS}


def kind_of(api_version: str, kind: str) -> Kind[Any] | None:
    """The kind of that API version and name, None when the platform does not handle it."""
    return _BY_NAME.get((api_version, kind))


def kind_for_model(model: type[ResourceT]) -> Kind[ResourceT]:
    """The kind that a model class decodes.

    Raises:
        KeyError: the class is no model of a kind.
    """
    return _BY_MODEL[model]
