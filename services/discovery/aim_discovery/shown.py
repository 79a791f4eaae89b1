"""What models and templates look at in other objects; a change of the rest wakes none of them (section 18)."""

from typing import Final

from aim_discovery.scopes import Model, Template
from aim_domain import SHOWN_OF_OLDER_CONFIGS, shown_of_config, shown_of_pod
from aim_domain.parts import (
    CLUSTER_MODELS,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    DISCOVERY_PODS,
    MODELS,
    NAMESPACES,
    RUNTIME_CONFIGS,
    TEMPLATES,
)
from controller_runtime import Shown
from controller_runtime.core import Namespace


def _of_model(model: Model) -> tuple[object, ...]:
    conditions = [(one.type, one.status, one.reason) for one in model.status.conditions]
    return (model.spec, model.status.status, conditions)


def _of_template(template: Template) -> tuple[object, ...]:
    metadata = template.metadata
    return (template.spec, template.status.status, metadata.labels, metadata.owner_references)


def _of_namespace(namespace: Namespace) -> bool:
    """Whether children may be made in it (DI-010)."""
    return namespace.deleting


SHOWN: Final = (
    Shown(MODELS, _of_model),
    Shown(CLUSTER_MODELS, _of_model),
    Shown(TEMPLATES, _of_template),
    Shown(CLUSTER_TEMPLATES, _of_template),
    Shown(RUNTIME_CONFIGS, shown_of_config),
    Shown(CLUSTER_RUNTIME_CONFIGS, shown_of_config),
    *SHOWN_OF_OLDER_CONFIGS,
    Shown(DISCOVERY_PODS, shown_of_pod),
    Shown(NAMESPACES, _of_namespace),
)
