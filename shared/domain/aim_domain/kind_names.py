"""Names of the kinds that the platform handles, for what needs no model of them. Imports nothing heavy (FW-684)."""

from typing import Final

from controller_runtime.kind_names import CONFIG_MAP as CONFIG_MAP
from controller_runtime.kind_names import DEFINITION as DEFINITION
from controller_runtime.kind_names import DEPLOYMENT as DEPLOYMENT
from controller_runtime.kind_names import EVENT as EVENT
from controller_runtime.kind_names import HORIZONTAL_POD_AUTOSCALER as HORIZONTAL_POD_AUTOSCALER
from controller_runtime.kind_names import JOB as JOB
from controller_runtime.kind_names import LEASE as LEASE
from controller_runtime.kind_names import NAMESPACE as NAMESPACE
from controller_runtime.kind_names import NODE as NODE
from controller_runtime.kind_names import PERSISTENT_VOLUME_CLAIM as PERSISTENT_VOLUME_CLAIM
from controller_runtime.kind_names import POD as POD
from controller_runtime.kind_names import ROLE_BINDING as ROLE_BINDING
from controller_runtime.kind_names import SECRET as SECRET
from controller_runtime.kind_names import STATEFUL_SET as STATEFUL_SET
from controller_runtime.kind_names import KindName as KindName
from controller_runtime_names import DOMAIN

GROUP: Final = DOMAIN
VERSION: Final = "v1alpha1"
NEWER_VERSION: Final = "v1alpha2"
"""Of the profile kinds; and of those in `SHARED`, served as well: newer Go operators store them as it (CC-350)."""


def _own(kind: str, short_name: str, *, namespaced: bool = True, version: str = VERSION) -> KindName:
    return KindName(GROUP, version, kind, f"{kind.lower()}s", namespaced, (short_name,))


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
AIM_PROFILE: Final = _own("AIMProfile", "aimprf", version=NEWER_VERSION)
AIM_CLUSTER_PROFILE: Final = _own("AIMClusterProfile", "aimclprf", namespaced=False, version=NEWER_VERSION)
AIM_PROFILE_SET: Final = _own("AIMProfileSet", "aimprfset", version=NEWER_VERSION)
AIM_CLUSTER_PROFILE_SET: Final = _own("AIMClusterProfileSet", "aimclprfset", namespaced=False, version=NEWER_VERSION)
AIM_PROFILE_CACHE: Final = _own("AIMProfileCache", "aimpc", version=NEWER_VERSION)
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
    AIM_PROFILE,
    AIM_CLUSTER_PROFILE,
    AIM_PROFILE_SET,
    AIM_CLUSTER_PROFILE_SET,
    AIM_PROFILE_CACHE,
)

SHARED: Final = (AIM_SERVICE, AIM_MODEL, AIM_CLUSTER_MODEL)
"""Kinds that have one schema in two versions."""

_CONFIG_GROUP: Final = "config.kaiwo.silogen.ai"
AIM_NAMESPACE_CONFIG: Final = KindName(_CONFIG_GROUP, VERSION, "AIMNamespaceConfig", "aimnamespaceconfigs")
KAIWO_CONFIG: Final = KindName(_CONFIG_GROUP, VERSION, "KaiwoConfig", "kaiwoconfigs", False)
OLDER: Final = (AIM_NAMESPACE_CONFIG, KAIWO_CONFIG)
"""Configurations of older documents: read, never written, and without a status (RC-149)."""

_GATEWAY_GROUP: Final = "gateway.networking.k8s.io"
INFERENCE_SERVICE: Final = KindName(
    "serving.kserve.io", "v1beta1", "InferenceService", "inferenceservices", True, ("isvc",)
)
HTTP_ROUTE: Final = KindName(_GATEWAY_GROUP, "v1", "HTTPRoute", "httproutes")
GATEWAY: Final = KindName(_GATEWAY_GROUP, "v1", "Gateway", "gateways", True, ("gtw",))
