"""What discovery publishes, consumes and reconciles, and which changes of other objects concern it."""

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from aim_discovery import SERVICE_NAME
from aim_discovery.image_effects import IMAGE_INSPECTION, PULL_SECRETS, open_clients
from aim_discovery.models.expectation import UNUSABLE
from aim_discovery.models.inspection import RetrySchedule
from aim_discovery.models.reconcile import ModelReconcile
from aim_discovery.node_taint import NODE_TAINT, reconcile_node
from aim_discovery.profiles.discovery import PROFILE_LOG
from aim_discovery.profiles.hardware import ACCELERATORS
from aim_discovery.profiles.of_model import CLUSTER_PROFILES_BY_OWNER, PROFILES_BY_OWNER
from aim_discovery.profiles.reconcile import CLUSTER_PROFILE, PROFILE, ProfileSet
from aim_discovery.profiles.sets import COPYABLE, COPYABLE_OF_CLUSTER, cluster_profile_set, profile_set
from aim_discovery.scopes import (
    CLUSTER_MODEL,
    CLUSTER_TEMPLATE,
    CLUSTER_TEMPLATES_BY_MODEL,
    NAMESPACED_MODEL,
    NAMESPACED_TEMPLATE,
    TEMPLATES_BY_MODEL,
    Model,
    ModelScope,
    Template,
    TemplateScope,
)
from aim_discovery.settings import DiscoverySettings
from aim_discovery.templates.caching import CACHES_BY_OWNER
from aim_discovery.templates.discovery import JOBS_BY_OWNER, PODS_BY_JOB
from aim_discovery.templates.job_log import JOB_LOG
from aim_discovery.templates.reconcile import TemplateReconcile
from aim_discovery.templates.slots import (
    ACTIVE_JOBS,
    CLUSTER_WAIT_QUEUE,
    WAIT_QUEUE,
    joined,
    next_waiting,
    occupies_slot,
    readings,
)
from aim_domain import (
    CONFIG_PREDICATES,
    GPUS,
    NAMESPACE_CONFIGS_BY_NAMESPACE,
    POD_EFFECTS,
    AnyProfile,
    pod_predicate,
)
from aim_domain.parts import (
    CLUSTER_MODELS,
    CLUSTER_PROFILE_SETS,
    CLUSTER_PROFILES,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    CUSTOM_PROFILES,
    DISCOVERY_JOBS,
    DISCOVERY_PODS,
    KAIWO_CONFIGS,
    MODELS,
    NAMESPACE_CONFIGS,
    NAMESPACES,
    NODES,
    PROFILE_CACHES,
    PROFILE_CATALOGUES,
    PROFILE_SETS,
    PROFILES,
    RUNTIME_CONFIGS,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from controller_runtime import (
    FACTS,
    Change,
    Key,
    MappingBy,
    Predicate,
    Reconciler,
    Resource,
    ServiceDefinition,
    Verb,
    View,
    WatchMapping,
    ready_words,
    writes,
)
from controller_runtime.core import Job, Namespace


def _of_model(model: Model) -> tuple[object, ...]:
    conditions = [(one.type, one.status, one.reason) for one in model.status.conditions]
    return (model.spec, model.status.status, conditions)


def _of_template(template: Template) -> tuple[object, ...]:
    metadata, status = template.metadata, template.status
    quoted = ready_words(status.conditions) if status.status in UNUSABLE else ""
    return (template.spec, status.status, quoted, metadata.labels, metadata.owner_references)


def _of_profile(profile: AnyProfile) -> tuple[object, ...]:
    metadata, status = profile.metadata, profile.status
    own = (profile.spec, metadata.annotations, metadata.owner_references, profile.deleting)
    return (*own, status.status, status.source_model, status.base_image, status.version, status.origin)


def _of_set(found: ProfileSet) -> tuple[object, ...]:
    conditions = [(one.type, one.status, one.reason, one.message) for one in found.status.conditions]
    return (found.metadata.owner_references, found.status.status, conditions)


def _of_namespace(namespace: Namespace) -> bool:
    """Whether children may be made in it (DI-010)."""
    return namespace.deleting


PREDICATES: Final = (
    Predicate(MODELS, _of_model),
    Predicate(CLUSTER_MODELS, _of_model),
    Predicate(TEMPLATES, _of_template),
    Predicate(CLUSTER_TEMPLATES, _of_template),
    Predicate(PROFILES, _of_profile),
    Predicate(CLUSTER_PROFILES, _of_profile),
    Predicate(PROFILE_SETS, _of_set),
    Predicate(CLUSTER_PROFILE_SETS, _of_set),
    *CONFIG_PREDICATES,
    Predicate(DISCOVERY_PODS, pod_predicate),
    Predicate(NAMESPACES, _of_namespace),
)


R = TypeVar("R", bound=Resource)


def mappings_of_queue(namespaced: bool, limit: int) -> tuple[WatchMapping, ...]:
    """What frees a place in the line; each of these enqueues both kinds of templates.

    Args:
        namespaced: the kind.
        limit: on active discovery Jobs.
    """

    def turn(view: View) -> Iterable[Key]:
        return [one.key for one in next_waiting(view, limit) if bool(one.namespace) is namespaced]

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
        MappingBy(DISCOVERY_JOBS, of_job),
        MappingBy(TEMPLATES, of_template),
        MappingBy(CLUSTER_TEMPLATES, of_template),
        MappingBy(NAMESPACES, of_namespace),
    )


def _since(obj: Resource | None) -> datetime | None:
    template = obj if isinstance(obj, Template) else None
    return None if template is None else joined(template)


_PUBLISHED = (
    MODELS,
    CLUSTER_MODELS,
    TEMPLATES,
    CLUSTER_TEMPLATES,
    DISCOVERY_JOBS,
    DISCOVERY_PODS,
    NODES,
    CUSTOM_PROFILES,
    PROFILES,
    CLUSTER_PROFILES,
    PROFILE_SETS,
    CLUSTER_PROFILE_SETS,
    PROFILE_CATALOGUES,
)


SETTINGS: Final = DiscoverySettings
"""The class of the settings that `definition` takes."""


def definition(settings: DiscoverySettings) -> ServiceDefinition:
    """The declaration of the discovery service."""
    return ServiceDefinition(
        name=SERVICE_NAME,
        publishes=_PUBLISHED,
        consumes=(
            *_PUBLISHED,
            RUNTIME_CONFIGS,
            CLUSTER_RUNTIME_CONFIGS,
            NAMESPACE_CONFIGS,
            KAIWO_CONFIGS,
            NAMESPACES,
            TEMPLATE_CACHES,
            PROFILE_CACHES,
            FACTS,
        ),
        indexes=(
            TEMPLATES_BY_MODEL,
            CLUSTER_TEMPLATES_BY_MODEL,
            JOBS_BY_OWNER,
            PODS_BY_JOB,
            GPUS,
            ACCELERATORS,
            PROFILES_BY_OWNER,
            CLUSTER_PROFILES_BY_OWNER,
            COPYABLE,
            COPYABLE_OF_CLUSTER,
            ACTIVE_JOBS,
            WAIT_QUEUE,
            CLUSTER_WAIT_QUEUE,
            CACHES_BY_OWNER,
            NAMESPACE_CONFIGS_BY_NAMESPACE,
        ),
        predicates=PREDICATES,
        reconcilers=(
            _models(NAMESPACED_MODEL, settings),
            _models(CLUSTER_MODEL, settings),
            _templates(NAMESPACED_TEMPLATE, settings),
            _templates(CLUSTER_TEMPLATE, settings),
            *(
                Reconciler(controller=one.controller, part=one.part, reconcile=one)
                for one in (
                    PROFILE,
                    CLUSTER_PROFILE,
                    profile_set(settings.system_namespace),
                    cluster_profile_set(settings.system_namespace),
                )
            ),
            Reconciler(controller="gpu-node", part=NODES, reconcile=reconcile_node),
        ),
        effects=(*POD_EFFECTS, PULL_SECRETS, IMAGE_INSPECTION, JOB_LOG, PROFILE_LOG, NODE_TAINT),
        clients=partial(open_clients, settings),
        writes=(
            writes(TEMPLATES, Verb.APPLY),
            writes(CLUSTER_TEMPLATES, Verb.APPLY),
            writes(TEMPLATE_CACHES, Verb.CREATE),
            writes(DISCOVERY_JOBS, Verb.CREATE, Verb.DELETE),
            writes(CUSTOM_PROFILES, Verb.APPLY, Verb.DELETE),
            writes(PROFILES, Verb.APPLY, Verb.DELETE),
            writes(CLUSTER_PROFILES, Verb.APPLY, Verb.DELETE),
            writes(PROFILE_SETS, Verb.APPLY),
            writes(CLUSTER_PROFILE_SETS, Verb.APPLY),
            writes(PROFILE_CATALOGUES, Verb.APPLY),
            writes(PROFILE_CACHES, Verb.CREATE),
        ),
        readings=readings,
    )


def _models(scope: ModelScope, settings: DiscoverySettings) -> Reconciler[Any]:
    schedule = RetrySchedule(settings.extraction_retry_initial, settings.extraction_retry_max)
    reconcile = ModelReconcile(scope, settings, schedule)
    return Reconciler(controller=scope.controller, part=scope.part, reconcile=reconcile)


def _templates(scope: TemplateScope, settings: DiscoverySettings) -> Reconciler[Any]:
    reconcile = TemplateReconcile(scope, settings)
    mappings = mappings_of_queue(scope.part.kind.namespaced, settings.max_discovery_jobs)
    return Reconciler(controller=scope.controller, part=scope.part, reconcile=reconcile, mappings=mappings)
