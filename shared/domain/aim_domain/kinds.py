"""Every kind that the platform handles, as a table (CC-050)."""

from __future__ import annotations

from typing import Any, Final

from aim_domain import kind_names
from aim_domain.api.artifact import AIMArtifact
from aim_domain.api.cluster_model_source import AIMClusterModelSource
from aim_domain.api.gateway_api import Gateway, HTTPRoute
from aim_domain.api.inference_service import InferenceService
from aim_domain.api.model import AIMClusterModel, AIMModel
from aim_domain.api.older_configs import AIMNamespaceConfig, KaiwoConfig
from aim_domain.api.profile import AIMClusterProfile, AIMProfile
from aim_domain.api.profile_cache import AIMProfileCache
from aim_domain.api.profile_set import AIMClusterProfileSet, AIMProfileSet
from aim_domain.api.runtime_config import AIMClusterRuntimeConfig, AIMRuntimeConfig
from aim_domain.api.service import AIMService
from aim_domain.api.service_template import AIMClusterServiceTemplate, AIMServiceTemplate
from aim_domain.api.template_cache import AIMTemplateCache
from controller_runtime import Kind as Kind
from controller_runtime import ResourceT
from controller_runtime.kinds import CONFIG_MAP as CONFIG_MAP
from controller_runtime.kinds import EVENT as EVENT
from controller_runtime.kinds import HORIZONTAL_POD_AUTOSCALER as HORIZONTAL_POD_AUTOSCALER
from controller_runtime.kinds import JOB as JOB
from controller_runtime.kinds import LEASE as LEASE
from controller_runtime.kinds import NAMESPACE as NAMESPACE
from controller_runtime.kinds import NODE as NODE
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM as PERSISTENT_VOLUME_CLAIM
from controller_runtime.kinds import POD as POD
from controller_runtime.kinds import ROLE_BINDING as ROLE_BINDING
from controller_runtime.kinds import SECRET as SECRET

AIM_SERVICE: Final = Kind.of(kind_names.AIM_SERVICE, AIMService)
AIM_MODEL: Final = Kind.of(kind_names.AIM_MODEL, AIMModel)
AIM_CLUSTER_MODEL: Final = Kind.of(kind_names.AIM_CLUSTER_MODEL, AIMClusterModel)
AIM_SERVICE_TEMPLATE: Final = Kind.of(kind_names.AIM_SERVICE_TEMPLATE, AIMServiceTemplate)
AIM_CLUSTER_SERVICE_TEMPLATE: Final = Kind.of(kind_names.AIM_CLUSTER_SERVICE_TEMPLATE, AIMClusterServiceTemplate)
AIM_RUNTIME_CONFIG: Final = Kind.of(kind_names.AIM_RUNTIME_CONFIG, AIMRuntimeConfig)
AIM_CLUSTER_RUNTIME_CONFIG: Final = Kind.of(kind_names.AIM_CLUSTER_RUNTIME_CONFIG, AIMClusterRuntimeConfig)
AIM_CLUSTER_MODEL_SOURCE: Final = Kind.of(kind_names.AIM_CLUSTER_MODEL_SOURCE, AIMClusterModelSource)
AIM_ARTIFACT: Final = Kind.of(kind_names.AIM_ARTIFACT, AIMArtifact)
AIM_TEMPLATE_CACHE: Final = Kind.of(kind_names.AIM_TEMPLATE_CACHE, AIMTemplateCache)
AIM_PROFILE: Final = Kind.of(kind_names.AIM_PROFILE, AIMProfile)
AIM_CLUSTER_PROFILE: Final = Kind.of(kind_names.AIM_CLUSTER_PROFILE, AIMClusterProfile)
AIM_PROFILE_SET: Final = Kind.of(kind_names.AIM_PROFILE_SET, AIMProfileSet)
AIM_CLUSTER_PROFILE_SET: Final = Kind.of(kind_names.AIM_CLUSTER_PROFILE_SET, AIMClusterProfileSet)
AIM_PROFILE_CACHE: Final = Kind.of(kind_names.AIM_PROFILE_CACHE, AIMProfileCache)
AIM_NAMESPACE_CONFIG: Final = Kind.of(kind_names.AIM_NAMESPACE_CONFIG, AIMNamespaceConfig)
KAIWO_CONFIG: Final = Kind.of(kind_names.KAIWO_CONFIG, KaiwoConfig)
INFERENCE_SERVICE: Final = Kind.of(kind_names.INFERENCE_SERVICE, InferenceService)
HTTP_ROUTE: Final = Kind.of(kind_names.HTTP_ROUTE, HTTPRoute)
GATEWAY: Final = Kind.of(kind_names.GATEWAY, Gateway)

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
    AIM_PROFILE,
    AIM_CLUSTER_PROFILE,
    AIM_PROFILE_SET,
    AIM_CLUSTER_PROFILE_SET,
    AIM_PROFILE_CACHE,
)
OLDER_KINDS: Final[tuple[Kind[Any], ...]] = (AIM_NAMESPACE_CONFIG, KAIWO_CONFIG)
"""Configurations of older documents: read, never written, and without a status (RC-149)."""
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
    GATEWAY,
    HORIZONTAL_POD_AUTOSCALER,
    LEASE,
)
KINDS: Final = OWN_KINDS + OLDER_KINDS + EXTERNAL_KINDS

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
