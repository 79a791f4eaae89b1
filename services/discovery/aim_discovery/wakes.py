"""What wakes models and templates (section 18, FW-115, FW-170)."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, TypeVar

from aim_discovery.scopes import CLUSTER_TEMPLATES_BY_MODEL, TEMPLATES_BY_MODEL, Model, Template
from aim_discovery.templates.slots import joined, next_in_line, occupies_slot
from aim_shared.api import (
    AIMClusterModel,
    AIMClusterRuntimeConfig,
    AIMModel,
    AIMRuntimeConfig,
    Job,
    Namespace,
    Pod,
    Resource,
    labels,
)
from aim_shared.bus.entry import Change
from aim_shared.bus.part import Index, Key, Part, scoped
from aim_shared.bus.parts import (
    CLUSTER_MODELS,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    CUSTOM_PROFILES,
    DISCOVERY_JOBS,
    DISCOVERY_PODS,
    MODELS,
    NAMESPACES,
    RUNTIME_CONFIGS,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from aim_shared.bus.view import View
from aim_shared.reconcile.changes import differs
from aim_shared.reconcile.pod_changes import is_significant as is_significant_pod
from aim_shared.reconcile.reconciler import Wake, WakeBy
from aim_shared.runtimeconfig.changes import is_significant as is_significant_config
from aim_shared.runtimeconfig.resolve import effective_name

R = TypeVar("R", bound=Resource)
M = TypeVar("M", AIMModel, AIMClusterModel)
Reader = AIMModel | AIMClusterModel | Template
"""What reads a runtime config."""


def _config_index(part: Part[R], read: Callable[[R], str | None]) -> Index[R]:
    """By namespace and effective config name (DI-361)."""
    return Index(part, "config", lambda obj: [scoped(obj.namespace, effective_name(read(obj)))], of_status=False)


def _shared_config_index(part: Part[R], read: Callable[[R], str | None]) -> Index[R]:
    """By effective config name, whatever the namespace."""
    return Index(part, "shared-config", lambda obj: [effective_name(read(obj))], of_status=False)


def _config_name(obj: Reader) -> str | None:
    return obj.spec.runtime_config_name


MODELS_BY_CONFIG: Final = _config_index(MODELS, _config_name)
MODELS_BY_SHARED_CONFIG: Final = _shared_config_index(MODELS, _config_name)
CLUSTER_MODELS_BY_CONFIG: Final = _shared_config_index(CLUSTER_MODELS, _config_name)
TEMPLATES_BY_CONFIG: Final = _config_index(TEMPLATES, _config_name)
TEMPLATES_BY_SHARED_CONFIG: Final = _shared_config_index(TEMPLATES, _config_name)
CLUSTER_TEMPLATES_BY_CONFIG: Final = _shared_config_index(CLUSTER_TEMPLATES, _config_name)


TEMPLATES_BY_SHARED_MODEL: Final = Index(TEMPLATES, "model-name", lambda template: [template.spec.model_name])
"""Namespaced templates by model name alone, for cluster models they fall back to (DI-162)."""
MODELS_BY_NAMESPACE: Final = Index(MODELS, "namespace", lambda model: [model.namespace], of_status=False)
TEMPLATES_BY_NAMESPACE: Final = Index(TEMPLATES, "namespace", lambda template: [template.namespace])

INDEXES: Final = (
    MODELS_BY_CONFIG,
    MODELS_BY_SHARED_CONFIG,
    CLUSTER_MODELS_BY_CONFIG,
    TEMPLATES_BY_CONFIG,
    TEMPLATES_BY_SHARED_CONFIG,
    CLUSTER_TEMPLATES_BY_CONFIG,
    TEMPLATES_BY_SHARED_MODEL,
    MODELS_BY_NAMESPACE,
    TEMPLATES_BY_NAMESPACE,
)


def _keys(view: View, index: Index[R], value: str) -> list[Key]:
    return [obj.key for obj in view.select(index, value).items]


# Runtime configs


def _by_config(index: Index[R]) -> Wake:
    def find(change: Change[AIMRuntimeConfig], view: View) -> Iterable[Key]:
        changed = is_significant_config(change)
        return _keys(view, index, scoped(change.key.namespace, change.key.name)) if changed else ()

    return WakeBy(RUNTIME_CONFIGS, find)


def _by_shared_config(index: Index[R]) -> Wake:
    def find(change: Change[AIMClusterRuntimeConfig], view: View) -> Iterable[Key]:
        changed = is_significant_config(change)
        return _keys(view, index, change.key.name) if changed else ()

    return WakeBy(CLUSTER_RUNTIME_CONFIGS, find)


# Namespaces


def _by_namespace(index: Index[R]) -> Wake:
    """Everything in a namespace that appears or begins to go away (DI-010)."""

    def find(change: Change[Namespace], view: View) -> Iterable[Key]:
        news = differs(change, lambda namespace: namespace.deleting)
        return _keys(view, index, change.key.name) if news else ()

    return WakeBy(NAMESPACES, find)


# Models and templates


def _models_of(change: Change[R], _: View) -> Iterable[Key]:
    """The model that a template names, before and after the change."""
    before, after = _template(change.before), _template(change.after)
    if before is not None and after is not None and _read_by_model(before) == _read_by_model(after):
        return ()
    return {Key(change.key.namespace, one.spec.model_name) for one in (before, after) if one is not None}


def _template(obj: Resource | None) -> Template | None:
    return obj if isinstance(obj, Template) else None


def _read_by_model(template: Template) -> tuple[object, ...]:
    metadata = template.metadata
    return (template.uid, template.spec, template.status.status, metadata.labels, metadata.owner_references)


def _templates_of_model(change: Change[AIMModel], view: View) -> Iterable[Key]:
    news = differs(change, _read_by_template)
    return _keys(view, TEMPLATES_BY_MODEL, scoped(change.key.namespace, change.key.name)) if news else ()


def _templates_of_cluster_model(change: Change[AIMClusterModel], view: View) -> Iterable[Key]:
    """Namespaced templates that fall back to it; those with a model of their own do not care."""
    if not differs(change, _read_by_template):
        return ()
    found = view.select(TEMPLATES_BY_SHARED_MODEL, change.key.name).items
    return [one.key for one in found if view.get(MODELS, one.namespace, change.key.name).value is None]


def _cluster_templates_of_model(change: Change[AIMClusterModel], view: View) -> Iterable[Key]:
    news = differs(change, _read_by_template)
    return _keys(view, CLUSTER_TEMPLATES_BY_MODEL, scoped(None, change.key.name)) if news else ()


def _read_by_template(model: Model) -> tuple[object, ...]:
    conditions = [(one.type, one.status, one.reason) for one in model.status.conditions]
    return (model.uid, model.spec, model.status.status, conditions)


# Jobs and pods


def _owner_of(resource: Resource | None, kind: str, namespaced: bool) -> Iterable[Key]:
    owners = resource.metadata.owner_references if resource is not None else ()
    namespace = resource.namespace if resource is not None and namespaced else ""
    return [Key(namespace, owner.name) for owner in owners if owner.kind == kind]


def _by_job(kind: str, namespaced: bool) -> Wake:
    return WakeBy(DISCOVERY_JOBS, lambda change, _: _owner_of(change.either, kind, namespaced))


# The line for discovery Jobs: whoever may have come up. Each of these wakes both kinds of templates.


def _by_line(namespaced: bool, limit: int) -> tuple[Wake, ...]:
    def turn(view: View) -> Iterable[Key]:
        return [one.key for one in next_in_line(view, limit) if bool(one.namespace) is namespaced]

    def of_job(change: Change[Job], view: View) -> Iterable[Key]:
        before, after = change.before, change.after
        freed = before is not None and occupies_slot(before) and not (after is not None and occupies_slot(after))
        return turn(view) if freed else ()

    def of_template(change: Change[R], view: View) -> Iterable[Key]:
        left = _since(change.before)
        stands = _since(change.after)
        return turn(view) if left is not None and (stands is None or stands > left) else ()

    def of_namespace(change: Change[Namespace], view: View) -> Iterable[Key]:
        gone = change.after is None or change.after.deleting
        return turn(view) if gone and change.before is not None and not change.before.deleting else ()

    return (
        WakeBy(DISCOVERY_JOBS, of_job),
        WakeBy(TEMPLATES, of_template),
        WakeBy(CLUSTER_TEMPLATES, of_template),
        WakeBy(NAMESPACES, of_namespace),
    )


def _since(obj: Resource | None) -> datetime | None:
    template = _template(obj)
    return None if template is None else joined(template)


def _by_pod(kind: str, namespaced: bool) -> Wake:
    def find(change: Change[Pod], view: View) -> Iterable[Key]:
        pod = change.either
        if pod is None or not is_significant_pod(change):
            return ()
        job = view.get(DISCOVERY_JOBS, pod.namespace, pod.metadata.labels.get(labels.JOB_NAME, "")).value
        return _owner_of(job, kind, namespaced)

    return WakeBy(DISCOVERY_PODS, find)


def _by_owned(part: Part[R], kind: str, namespaced: bool) -> Wake:
    """The template that owns what changed."""
    return WakeBy(part, lambda change, _: _owner_of(change.either, kind, namespaced))


MODEL_WAKES: Final[tuple[Wake, ...]] = (
    WakeBy(TEMPLATES, _models_of),
    _by_config(MODELS_BY_CONFIG),
    _by_shared_config(MODELS_BY_SHARED_CONFIG),
    _by_namespace(MODELS_BY_NAMESPACE),
)
CLUSTER_MODEL_WAKES: Final[tuple[Wake, ...]] = (
    WakeBy(CLUSTER_TEMPLATES, _models_of),
    _by_shared_config(CLUSTER_MODELS_BY_CONFIG),
)


def template_wakes(limit: int) -> tuple[Wake, ...]:
    """What wakes namespaced templates.

    Args:
        limit: on active discovery Jobs.
    """
    return (
        WakeBy(MODELS, _templates_of_model),
        WakeBy(CLUSTER_MODELS, _templates_of_cluster_model),
        _by_config(TEMPLATES_BY_CONFIG),
        _by_shared_config(TEMPLATES_BY_SHARED_CONFIG),
        _by_job("AIMServiceTemplate", True),
        *_by_line(True, limit),
        _by_pod("AIMServiceTemplate", True),
        _by_namespace(TEMPLATES_BY_NAMESPACE),
        _by_owned(CUSTOM_PROFILES, "AIMServiceTemplate", True),
        _by_owned(TEMPLATE_CACHES, "AIMServiceTemplate", True),
    )


def cluster_template_wakes(limit: int) -> tuple[Wake, ...]:
    """What wakes cluster-scoped templates.

    Args:
        limit: on active discovery Jobs.
    """
    return (
        WakeBy(CLUSTER_MODELS, _cluster_templates_of_model),
        _by_shared_config(CLUSTER_TEMPLATES_BY_CONFIG),
        _by_job("AIMClusterServiceTemplate", False),
        *_by_line(False, limit),
        _by_pod("AIMClusterServiceTemplate", False),
        _by_owned(CUSTOM_PROFILES, "AIMClusterServiceTemplate", False),
    )
