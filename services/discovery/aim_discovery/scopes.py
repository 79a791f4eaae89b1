"""The two scopes of models and templates, and the namespaces that they work in."""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aim_domain import AIMClusterModel, AIMClusterServiceTemplate, AIMModel, AIMServiceTemplate
from aim_domain.component_names import ComponentName
from aim_domain.kinds import AIM_CLUSTER_SERVICE_TEMPLATE, AIM_SERVICE_TEMPLATE
from aim_domain.parts import CLUSTER_MODELS, CLUSTER_TEMPLATES, MODELS, NAMESPACES, TEMPLATES
from controller_runtime import ClassifiedError, Dependency, Index, Kind, Part, View, scoped

Model: TypeAlias = AIMModel | AIMClusterModel
Template: TypeAlias = AIMServiceTemplate | AIMClusterServiceTemplate

TEMPLATES_BY_MODEL: Final = Index(
    TEMPLATES, "model", lambda template: [scoped(template.namespace, template.spec.model_name)]
)
CLUSTER_TEMPLATES_BY_MODEL: Final = Index(
    CLUSTER_TEMPLATES, "model", lambda template: [scoped(None, template.spec.model_name)]
)


@dataclass(frozen=True, slots=True)
class ModelScope:
    """A model kind.

    Attributes:
        controller: name of FW-201.
        templates: kind and part of the templates it creates.
        missing_config: reason for a runtime config that does not exist (RC-061).
        dependency: of its components (DI-045).
    """

    kind: str
    controller: str
    part: Part[Any]
    templates: Part[Any]
    template_kind: Kind[Any]
    templates_by_model: Index[Any]
    component: ComponentName
    missing_config: str
    dependency: Dependency


NAMESPACED_MODEL: Final = ModelScope(
    "AIMModel",
    "model",
    MODELS,
    TEMPLATES,
    AIM_SERVICE_TEMPLATE,
    TEMPLATES_BY_MODEL,
    ComponentName.SERVICE_TEMPLATES,
    "ConfigNotFound",
    Dependency.DOWNSTREAM,
)
CLUSTER_MODEL: Final = ModelScope(
    "AIMClusterModel",
    "cluster-model",
    CLUSTER_MODELS,
    CLUSTER_TEMPLATES,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    CLUSTER_TEMPLATES_BY_MODEL,
    ComponentName.CLUSTER_SERVICE_TEMPLATES,
    "ReferenceNotFound",
    Dependency.UPSTREAM,
)


@dataclass(frozen=True, slots=True)
class TemplateScope:
    """A template kind."""

    kind: str
    controller: str
    part: Part[Any]
    model_component: ComponentName


NAMESPACED_TEMPLATE: Final = TemplateScope("AIMServiceTemplate", "service-template", TEMPLATES, ComponentName.MODEL)
CLUSTER_TEMPLATE: Final = TemplateScope(
    "AIMClusterServiceTemplate", "cluster-service-template", CLUSTER_TEMPLATES, ComponentName.CLUSTER_MODEL
)


@dataclass(frozen=True, slots=True)
class WorkNamespace:
    """The namespace that children go to.

    Attributes:
        usable: it exists and is not going away.
        errors: why that is not known.
    """

    usable: bool
    errors: tuple[ClassifiedError, ...] = ()


def work_namespace(view: View, namespace: str) -> WorkNamespace:
    """State of a namespace; the empty one stands for the cluster."""
    if not namespace:
        return WorkNamespace(usable=True)
    found = view.get(NAMESPACES, None, namespace)
    if found.error is not None:
        return WorkNamespace(usable=False, errors=(found.error,))
    return WorkNamespace(found.value is not None and not found.value.deleting)
