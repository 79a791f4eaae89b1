"""Finding and making the template cache of a service (SV-116…SV-129)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aim_domain import (
    AIMService,
    AIMServiceTemplate,
    AIMTemplateCache,
    CacheMode,
    LabelPropagation,
    ResolutionScope,
    RuntimeConfigSpec,
    TemplateScope,
    child_labels,
    labels,
)
from aim_domain.kinds import AIM_TEMPLATE_CACHE
from aim_domain.naming import dedicated_cache_name, optional_label_value, shared_cache_name, shared_cache_name_by_scope
from aim_domain.parts import TEMPLATE_CACHES
from aim_serving.indexes import CACHES_BY_TEMPLATE
from aim_serving.references import Template, scope_of
from controller_runtime import (
    Child,
    JsonObject,
    Lookup,
    StatusValue,
    View,
    WriteMode,
    canonical,
    kind_of,
    scoped,
    to_json,
)
from controller_runtime.core import EnvVar


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which template's weights a service wants, and how they are shared."""

    template: str
    scope: ResolutionScope
    mode: CacheMode


def mode_of(service: AIMService) -> CacheMode:
    """Shared unless the service wants its own (SV-116)."""
    return service.spec.caching.mode.effective if service.spec.caching else CacheMode.SHARED


def wanted_cache(service: AIMService, template: Template | None) -> Wanted | None:
    """The template of this pass, else the stored one; without either there is no cache (SV-120)."""
    if template is not None:
        return Wanted(template.name, scope_of(template), mode_of(service))
    stored = service.status.resolved_template
    if stored is None or not stored.name:
        return None
    return Wanted(stored.name, stored.scope or ResolutionScope.NAMESPACE, mode_of(service))


# Finding


def find_cache(view: View, service: AIMService, template: Template | None) -> Lookup[AIMTemplateCache]:
    """The cache to use: the stored one while it is Ready and usable, else the dedicated or the best shared one."""
    wanted = wanted_cache(service, template)
    stored = _stored(view, service)
    if stored.error is not None:
        return stored
    resolved = wanted if template is not None else None
    if stored.value is not None and _is_ready(stored.value) and is_usable(stored.value, service, resolved):
        return stored
    if wanted is None:
        return Lookup()
    if wanted.mode is CacheMode.DEDICATED:
        name = dedicated_cache_name(wanted.template, service.name, service.uid)
        found = view.get(TEMPLATE_CACHES, service.namespace, name)
        usable = found.value is None or is_usable(found.value, service, wanted)
        return found if usable else Lookup()
    candidates = view.select(CACHES_BY_TEMPLATE, scoped(service.namespace, wanted.template))
    if candidates.error is not None:
        return Lookup(error=candidates.error)
    return Lookup(best_cache(candidates.items, wanted))


def _stored(view: View, service: AIMService) -> Lookup[AIMTemplateCache]:
    reference = service.status.cache.template_cache_ref if service.status.cache else None
    if reference is None or not reference.name:
        return Lookup()
    return view.get(TEMPLATE_CACHES, service.namespace, reference.name)


def _is_ready(cache: AIMTemplateCache) -> bool:
    return cache.status.status is StatusValue.READY


def is_usable(cache: AIMTemplateCache, service: AIMService, wanted: Wanted | None) -> bool:
    """Whether mode, owner and, once it is known, template are the service's (SV-118, SV-119)."""
    mode = mode_of(service)
    owned = any(owner.uid == service.uid for owner in cache.metadata.owner_references)
    fits = wanted is None or cache.spec.template_name == wanted.template
    return cache.spec.mode is mode and fits and (mode is CacheMode.SHARED or owned)


def best_cache(caches: Iterable[AIMTemplateCache], wanted: Wanted) -> AIMTemplateCache | None:
    """Of the shared caches for the template the one with the best status, then the smallest name."""
    shared = (cache for cache in caches if cache.spec.mode is CacheMode.SHARED and _is_for(cache, wanted))
    return min(shared, key=lambda cache: (-cache.status.status.priority, cache.name), default=None)


def _is_for(cache: AIMTemplateCache, wanted: Wanted) -> bool:
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
    body = kind_of({"metadata": metadata, "spec": _spec(service, template, config, mode)}, AIM_TEMPLATE_CACHE)
    return Child(TEMPLATE_CACHES, body, owned=mode is CacheMode.DEDICATED, mode=WriteMode.CREATE)


def _free_name(view: View, service: AIMService, template: Template, mode: CacheMode) -> str:
    """The usual name, or that of SV-124 when the usual one belongs to another template's cache."""
    if mode is CacheMode.DEDICATED:
        return dedicated_cache_name(template.name, service.name, service.uid)
    usual = shared_cache_name(template.name, service.namespace)
    holder = view.get(TEMPLATE_CACHES, service.namespace, usual).value
    wanted = Wanted(template.name, scope_of(template), mode)
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
    storage_class = _storage_class(service, config)
    optional: JsonObject = {
        "runtimeConfigName": service.spec.runtime_config_name,
        "env": [to_json(variable) for variable in cache_env(service, template)],
        "imagePullSecrets": [to_json(secret) for secret in service.spec.image_pull_secrets],
    }
    return {
        "templateName": template.name,
        "templateScope": scope_of(template).value,
        "mode": mode.value,
        **({} if storage_class is None else {"storageClassName": storage_class}),
        **{name: value for name, value in optional.items() if value},
    }


def _storage_class(service: AIMService, config: RuntimeConfigSpec) -> str | None:
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
