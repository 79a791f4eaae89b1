"""The template cache of a service: which one it uses, whether it works, and its repair."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from aim_domain import (
    AIMArtifact,
    AIMService,
    AIMServiceTemplate,
    CacheMode,
    LabelPropagation,
    ResolutionScope,
    RuntimeConfigSpec,
    ServiceCacheStatus,
    TemplateScope,
    child_labels,
    labels,
)
from aim_domain.component_names import ComponentName
from aim_domain.kinds import AIM_PROFILE_CACHE, AIM_TEMPLATE_CACHE
from aim_domain.naming import (
    dedicated_cache_name,
    dedicated_profile_cache_name,
    optional_label_value,
    profile_cache_name,
    shared_cache_name,
    shared_cache_name_by_scope,
)
from aim_domain.parts import ARTIFACTS, PROFILE_CACHES, TEMPLATE_CACHES
from aim_serving.indexes import CACHES_BY_PROFILE, CACHES_BY_TEMPLATE
from aim_serving.references import Cache, Template, is_profile, scope_of
from aim_serving.volumes import lacks_volumes
from controller_runtime import (
    Child,
    ClassifiedError,
    Component,
    Condition,
    Delete,
    Index,
    JsonObject,
    Kind,
    Lookup,
    Part,
    Patch,
    State,
    StatusValue,
    View,
    WriteMode,
    canonical,
    find_condition,
    kind_of,
    scoped,
    to_json,
)
from controller_runtime.core import EnvVar


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of caches: that of templates, or that of profiles (PR-080).

    Attributes:
        what: the prefix of the fields that name what is cached.
        conditions: reasons that are another word in the component of this kind.
    """

    kind: Kind[Any]
    part: Part[Any]
    by_name: Index[Any]
    component: ComponentName
    what: str
    conditions: Mapping[str, str]

    def worded(self, component: Component) -> Component:
        """The component as this kind reports it."""
        reason = self.conditions.get(component.effective_reason, component.effective_reason)
        return replace(component, name=self.component, reason="" if component.errors else reason)

    def shared_name(self, owner: str, namespace: str, scope: ResolutionScope) -> str:
        """Usual name of a shared cache."""
        if self is TEMPLATE_FAMILY:
            return shared_cache_name(owner, namespace)
        return profile_cache_name(owner, scope.value if scope is ResolutionScope.CLUSTER else namespace)

    def dedicated_name(self, owner: str, service: AIMService, scope: ResolutionScope) -> str:
        """Name of the cache of one service alone."""
        if self is TEMPLATE_FAMILY:
            return dedicated_cache_name(owner, service.name, service.uid)
        return dedicated_profile_cache_name(owner, service.name, service.uid, scope.value)


TEMPLATE_FAMILY: Final = Family(
    AIM_TEMPLATE_CACHE, TEMPLATE_CACHES, CACHES_BY_TEMPLATE, ComponentName.CACHE, "template", MappingProxyType({})
)
PROFILE_FAMILY: Final = Family(
    AIM_PROFILE_CACHE,
    PROFILE_CACHES,
    CACHES_BY_PROFILE,
    ComponentName.PROFILE_CACHE,
    "profile",
    MappingProxyType(
        {
            "CacheReady": "ProfileCacheReady",
            "CacheNotReady": "ProfileCacheNotReady",
            "CacheCreating": "ProfileCacheNotReady",
        }
    ),
)


def family_of(template: Template) -> Family:
    """The kind of caches for a template, or for a profile that stands for one."""
    return PROFILE_FAMILY if is_profile(template) else TEMPLATE_FAMILY


@dataclass(frozen=True, slots=True)
class WantedCache:
    """Which template's weights a service wants, and how they are shared."""

    template: str
    scope: ResolutionScope
    mode: CacheMode


def mode_of(service: AIMService) -> CacheMode:
    """Shared unless the service wants its own (SV-116)."""
    return service.spec.caching.mode.effective if service.spec.caching else CacheMode.SHARED


def wanted_cache(service: AIMService, template: Template | None, family: Family) -> WantedCache | None:
    """The template of this pass, else the stored one; without either there is no cache (SV-120)."""
    if template is not None:
        return WantedCache(template.name, scope_of(template), mode_of(service))
    stored = service.status.resolved_template if family is TEMPLATE_FAMILY else service.status.resolved_profile
    if stored is None or not stored.name:
        return None
    return WantedCache(stored.name, stored.scope or ResolutionScope.NAMESPACE, mode_of(service))


# Finding


def find_cache(view: View, service: AIMService, template: Template | None, family: Family) -> Lookup[Cache]:
    """The cache to use: the stored one while it is Ready and usable, else the dedicated or the best shared one."""
    wanted = wanted_cache(service, template, family)
    stored = _stored_cache(view, service, family)
    if stored.error is not None:
        return stored
    resolved = wanted if template is not None else None
    if stored.value is not None and _is_ready(stored.value) and is_usable(stored.value, service, resolved):
        return stored
    if wanted is None:
        return Lookup()
    if wanted.mode is CacheMode.DEDICATED:
        name = family.dedicated_name(wanted.template, service, wanted.scope)
        found = view.get(family.part, service.namespace, name)
        usable = found.value is None or is_usable(found.value, service, wanted)
        return found if usable else Lookup()
    candidates = view.select(family.by_name, scoped(service.namespace, wanted.template))
    if candidates.error is not None:
        return Lookup(error=candidates.error)
    return Lookup(best_cache(candidates.items, wanted))


def _stored_cache(view: View, service: AIMService, family: Family) -> Lookup[Cache]:
    block = service.status.cache or ServiceCacheStatus()
    reference = block.template_cache_ref if family is TEMPLATE_FAMILY else block.profile_cache_ref
    if reference is None or not reference.name:
        return Lookup()
    return view.get(family.part, service.namespace, reference.name)


def _is_ready(cache: Cache) -> bool:
    return cache.status.status is StatusValue.READY


def is_usable(cache: Cache, service: AIMService, wanted: WantedCache | None) -> bool:
    """Whether mode, owner and, once it is known, template are the service's (SV-118, SV-119)."""
    mode = mode_of(service)
    owned = any(owner.uid == service.uid for owner in cache.metadata.owner_references)
    fits = wanted is None or cache.spec.template_name == wanted.template
    return cache.spec.mode is mode and fits and (mode is CacheMode.SHARED or owned)


def best_cache(caches: Iterable[Cache], wanted: WantedCache) -> Cache | None:
    """Of the shared caches for the template the one with the best status, then the smallest name."""
    shared = (cache for cache in caches if cache.spec.mode is CacheMode.SHARED and _is_for(cache, wanted))
    return min(shared, key=lambda cache: (-cache.status.status.priority, cache.name), default=None)


def _is_for(cache: Cache, wanted: WantedCache) -> bool:
    scope = cache.spec.template_scope
    unsaid = not scope or scope is TemplateScope.UNKNOWN
    return cache.spec.template_name == wanted.template and (unsaid or scope.value == wanted.scope.value)


# Making


def new_cache(view: View, service: AIMService, template: Template, config: RuntimeConfigSpec) -> Child | None:
    """The cache to make for a Ready template; nothing to cache without model sources (SV-122)."""
    if not template.status.model_sources:
        return None
    mode = mode_of(service)
    metadata: JsonObject = {
        "name": _free_name(view, service, template, mode),
        "namespace": service.namespace,
        "labels": _labels(service, config.label_propagation),
    }
    if annotations := _annotations(service):
        metadata["annotations"] = annotations
    family = family_of(template)
    body = kind_of({"metadata": metadata, "spec": _spec(service, template, config, mode)}, family.kind)
    return Child(family.part, body, owned=mode is CacheMode.DEDICATED, mode=WriteMode.CREATE)


def _free_name(view: View, service: AIMService, template: Template, mode: CacheMode) -> str:
    """The usual name, or that of SV-124 when the usual one belongs to another template's cache."""
    family, scope = family_of(template), scope_of(template)
    if mode is CacheMode.DEDICATED:
        return family.dedicated_name(template.name, service, scope)
    usual = family.shared_name(template.name, service.namespace, scope)
    holder = view.get(family.part, service.namespace, usual).value
    wanted = WantedCache(template.name, scope, mode)
    if holder is None or _is_for(holder, wanted):
        return usual
    return shared_cache_name_by_scope(template.name, service.namespace, wanted.scope.value)


def _labels(service: AIMService, propagation: LabelPropagation | None) -> dict[str, str]:
    name = optional_label_value(service.name)
    own = {labels.SERVICE: name} if name else {}
    return child_labels(own, parent=service, controller="service", propagation=propagation)


def _annotations(service: AIMService) -> dict[str, str]:
    """Service-level storage settings that a cache has no field for (SV-126)."""
    storage = service.spec.storage
    if storage is None:
        return {}
    annotations: dict[str, str] = {}
    if storage.pvc_headroom_percent is not None:
        annotations[labels.ANNOTATION_PVC_HEADROOM] = str(storage.pvc_headroom_percent)
    if storage.download_filter is not None:
        annotations[labels.ANNOTATION_DOWNLOAD_FILTER] = canonical(to_json(storage.download_filter)).decode()
    return annotations


def _spec(service: AIMService, template: Template, config: RuntimeConfigSpec, mode: CacheMode) -> JsonObject:
    storage_class = storage_class_of(service, config)
    optional: JsonObject = {
        "runtimeConfigName": service.spec.runtime_config_name,
        "env": [to_json(variable) for variable in cache_env(service, template)],
        # A profile cache has none: they are of the image of the downloader, which runs as it is configured.
        "imagePullSecrets": []
        if is_profile(template)
        else [to_json(secret) for secret in service.spec.image_pull_secrets],
    }
    what = family_of(template).what
    return {
        f"{what}Name": template.name,
        f"{what}Scope": scope_of(template).value,
        "mode": mode.value,
        **({} if storage_class is None else {"storageClassName": storage_class}),
        **{name: value for name, value in optional.items() if value},
    }


def storage_class_of(service: AIMService, config: RuntimeConfigSpec) -> str | None:
    """The service's class even when it is empty, which stands for the cluster's default (SV-127)."""
    own = service.spec.storage.default_storage_class_name if service.spec.storage else None
    if own is not None:
        return own
    return config.storage.default_storage_class_name if config.storage else None


def cache_env(service: AIMService, template: Template) -> tuple[EnvVar, ...]:
    """Variables for the download: template, its caching block, service; no JSON is merged here (SV-128, SV-038)."""
    caching: Sequence[EnvVar] = ()
    if isinstance(template, AIMServiceTemplate) and template.spec.caching is not None:
        caching = template.spec.caching.env
    merged: dict[str, EnvVar] = {}
    for level in (template.spec.env, caching, service.spec.env):
        merged.update({variable.name: variable for variable in level})
    return tuple(merged.values())


_MADE_BY_CACHES: Final = frozenset({labels.TEMPLATE_CACHE_NAME, labels.PROFILE_CACHE_NAME})
CREATING: Final = "CacheCreating"
RETRYING: Final = "CacheRetrying"
FAILED: Final = "CacheFailed"

_BEING_CREATED: Final = "the {what} cache is created once the {what} is resolved; it has not reported yet"
"""Said until the cache's own controller has reported: that it exists by now is no news worth a write."""


@dataclass(frozen=True, slots=True)
class CacheState:
    """The cache of a service as a pass sees it.

    Attributes:
        cache: the cache in use.
        error: why it is not known whether there is one.
        artifacts: those that the cache lists and that exist (SV-135).
        mode: how the service shares weights.
        mounted: whether the InferenceService mounts claims of this cache.
        cacheable: whether the template names weights at all (SV-133).
        retries: ``status.cache.retryAttempts``.
        repaired: whether this pass gives the cache another env (SV-269).
        moving_from: the template that the InferenceService goes on with until this cache is Ready (SV-171).
        lost: claims that its pods mount and that are gone or being deleted (SV-324).
        what: that is cached: a template, or a profile.
    """

    cache: Cache | None
    error: ClassifiedError | None
    artifacts: tuple[AIMArtifact, ...]
    mode: CacheMode
    mounted: bool
    cacheable: bool
    retries: int
    repaired: bool = False
    moving_from: str = ""
    lost: tuple[str, ...] = ()
    what: str = "template"


@dataclass(frozen=True, slots=True)
class CacheVerdict:
    """The component, and what the retry asks for.

    Attributes:
        deletes: failed artifacts that the retry removes.
        retries: the counter after this pass, if its deletes may be carried out.
    """

    component: Component
    deletes: tuple[Delete, ...] = ()
    retries: int = 0


def judge_cache(state: CacheState) -> CacheVerdict:
    """How the cache is doing, and what goes on meanwhile."""
    verdict = _judge(state)
    if state.lost and verdict.component.effective_state is not State.FAILED and not verdict.component.errors:
        return replace(verdict, component=_deleted(state.lost, verdict.component))
    component = verdict.component
    if not state.moving_from or component.effective_state is State.READY:
        return verdict
    message = (
        f"{component.effective_message}; until it is ready the InferenceService keeps template {state.moving_from}"
    )
    return replace(verdict, component=replace(component, message=message))


def _deleted(claims: Iterable[str], component: Component) -> Component:
    """The artifacts of a running service were deleted: its pods go when the weights are there again."""
    message = (
        f"PersistentVolumeClaim {', '.join(claims)} deleted while pods of the InferenceService mount it: the weights "
        "are downloaded again, and then the pods are replaced; delete the AIMService before its AIMArtifacts. "
        f"{component.effective_message}"
    )
    return _cache(State.DEGRADED, "WeightsDeleted", message)


def _judge(state: CacheState) -> CacheVerdict:
    if state.error is not None:
        errors = (state.error,)
        component = Component(ComponentName.CACHE, errors=errors, is_input=True)
        return CacheVerdict(component, retries=state.retries)
    cache = state.cache
    if cache is None:
        return CacheVerdict(_absent(state), retries=state.retries)
    if cache.status.status is StatusValue.FAILED:
        return _failed(cache, state)
    return CacheVerdict(_present(cache, state.what), retries=state.retries)


def _absent(state: CacheState) -> Component:
    if not state.mounted:
        message = _BEING_CREATED.format(what=state.what)
        if not state.cacheable:
            message = "the template has no model sources, so that nothing can be cached; see the template's discovery"
        return _cache(State.PROGRESSING, CREATING, message)
    message = (
        f"the {state.what} cache is missing while the InferenceService still refers to its volumes; it is created again"
    )
    return _cache(State.DEGRADED, CREATING if state.mode is CacheMode.DEDICATED else "CacheLost", message)


def _present(cache: Cache, what: str) -> Component:
    status = cache.status.status
    lacking = lacks_volumes(cache)
    if status is StatusValue.READY and lacking:
        volumes = f"the volume of {', '.join(lacking)} is missing; it is created again"
        message = f"{cache.kind} {cache.key} is ready, but {volumes}"
        return _cache(State.PROGRESSING, "CacheNotReady", message)
    if status is StatusValue.READY:
        return _cache(State.READY, "CacheReady", f"{cache.kind} {cache.key} is ready")
    if status is StatusValue.PROGRESSING:
        return _cache(State.PROGRESSING, "CacheNotReady", f"{cache.kind} {cache.key} is being filled")
    artifacts = find_condition(cache.status.conditions, "ArtifactsReady")
    if artifacts is None and status is StatusValue.PENDING:
        return _cache(State.PROGRESSING, CREATING, _BEING_CREATED.format(what=what))
    why = f": {artifacts.message}" if artifacts and artifacts.message else ""
    return _cache(State.PROGRESSING, CREATING, f"{cache.kind} {cache.key} is {status.value}{why}")


# A failed cache


def _failed(cache: Cache, state: CacheState) -> CacheVerdict:
    """Retried once if artifacts are to blame; never counted back (SV-134…SV-139)."""
    if state.repaired or _is_outdated(cache.metadata.generation, cache.status.observed_generation):
        # What failed is about to be tried with other variables, which is no retry of ours.
        return CacheVerdict(_repaired(cache), retries=state.retries)
    failed = [one for one in state.artifacts if has_failed(one)]
    if state.retries == 0:
        if _listed_as_failed(cache) - {one.name for one in failed}:
            # The cache was heard of before its artifact: their changes come in any order, the retry takes both.
            return CacheVerdict(_retrying(cache))
        if not failed:
            message = f"{cache.kind} {cache.key} has failed: {_cause(cache)}"
            return CacheVerdict(_cache(State.FAILED, FAILED, message))
        deletes = tuple(_delete(one) for one in failed if _MADE_BY_CACHES & one.metadata.labels.keys())
        return CacheVerdict(_retrying(cache), deletes, retries=1)
    if not failed:
        return CacheVerdict(_retrying(cache), retries=state.retries)
    names = ", ".join(one.name for one in failed)
    message = (
        f"{cache.kind} {cache.key} has failed again after one retry (artifacts {names}); "
        f"once the cause is gone, delete the cache to have it tried again. {_cause(cache)}"
    )
    return CacheVerdict(_cache(State.DEGRADED, FAILED, message), retries=state.retries)


def has_failed(artifact: AIMArtifact) -> bool:
    """Whether an artifact has failed with the spec it has now, and is there to stay."""
    status = artifact.status
    outdated = _is_outdated(artifact.metadata.generation, status.observed_generation)
    return status.status is StatusValue.FAILED and not artifact.deleting and not outdated


def _is_outdated(generation: int, observed: int | None) -> bool:
    return observed is not None and observed < generation


def _repaired(cache: Cache) -> Component:
    message = f"artifacts of {cache.kind} {cache.key} failed; they are downloaded again with the changed env"
    return _cache(State.PROGRESSING, RETRYING, message)


def _listed_as_failed(cache: Cache) -> set[str]:
    return {one.name for one in cache.status.artifacts.values() if one.status is StatusValue.FAILED}


def _retrying(cache: Cache) -> Component:
    message = f"artifacts of {cache.kind} {cache.key} failed; they are deleted and downloaded once more"
    return _cache(State.PROGRESSING, RETRYING, message)


def _delete(artifact: AIMArtifact) -> Delete:
    return Delete(ARTIFACTS, artifact.namespace, artifact.name, artifact.uid, "single retry of a failed cache")


def _cause(cache: Cache) -> str:
    conditions: Iterable[Condition | None] = (
        find_condition(cache.status.conditions, type_) for type_ in ("ArtifactsReady", "Ready")
    )
    return next((one.message or one.reason for one in conditions if one is not None), "see its conditions")


def _cache(state: State, reason: str, message: str) -> Component:
    return Component(ComponentName.CACHE, state, reason, message)


def env_patches(service: AIMService, template: Template | None, cache: Cache | None) -> tuple[Patch, ...]:
    """The patch of a cache that the service made, if its env is another by now; a Ready cache stays (SV-129)."""
    if template is None or cache is None or not _is_unfinished_of(cache, service):
        return ()
    env = cache_env(service, template)
    if env == tuple(cache.spec.env):
        return ()
    body = {"spec": {"env": [to_json(variable) for variable in env] or None}}
    version = cache.metadata.resource_version
    part = family_of(template).part
    return (Patch(part, cache.namespace, cache.name, version, body, "the env of its downloads changed"),)


def _is_unfinished_of(cache: Cache, service: AIMService) -> bool:
    maker = cache.metadata.labels.get(labels.SERVICE)
    made = maker is not None and maker == optional_label_value(service.name)
    return made and not cache.deleting and cache.status.status is not StatusValue.READY
