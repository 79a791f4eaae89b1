"""What a deleted service takes along: caches that are not Ready and that no other service wants (SV-234…SV-240)."""

from datetime import datetime
from typing import Any, Final

from aim_domain import AIMProfileCache, AIMService, CacheMode, ResolutionScope, TemplateScope, uses_profile
from aim_domain.naming import optional_label_value
from aim_domain.parts import NAMESPACES, PROFILE_CACHES, TEMPLATE_CACHES
from aim_serving.indexes import (
    CACHES_BY_SERVICE,
    PROFILE_CACHES_BY_SERVICE,
    SERVICES_BY_STORED_PROFILE,
    SERVICES_BY_STORED_TEMPLATE,
)
from aim_serving.references import Cache
from aim_serving.template_cache import mode_of
from controller_runtime import ClassifiedError, Delete, Index, Plan, StatusValue, View, namespace_terminating, scoped

_REQUEUE_AFTER: Final = 2.0
"""Seconds after which clean-up goes on even if no report of the caches' deletion arrives."""


def finalize(service: AIMService, view: View, now: datetime) -> Plan | None:  # noqa: ARG001 - shape of the reconciler
    """The clean-up plan; ``None`` when nothing is left to do and the finalizer can go."""
    terminating = namespace_terminating(service.namespace, view.get(NAMESPACES, None, service.namespace))
    if isinstance(terminating, ClassifiedError):
        return Plan(retry=terminating)
    name = optional_label_value(service.name)
    if terminating or name is None:
        return None
    key = scoped(service.namespace, name)
    of_templates, of_profiles = view.select(CACHES_BY_SERVICE, key), view.select(PROFILE_CACHES_BY_SERVICE, key)
    error = of_templates.error or of_profiles.error
    if error is not None:
        return Plan(retry=error)
    every: tuple[Cache, ...] = (*of_templates.items, *of_profiles.items)
    doomed = [cache for cache in every if not cache.deleting and is_doomed(view, service, cache)]
    return Plan(deletes=tuple(map(_delete, doomed)), requeue_after=_REQUEUE_AFTER) if doomed else None


def cleans_up(service: AIMService, view: View, plan: Plan) -> bool:
    """Whether the service makes a cache, or has one that is not Ready: only those go with it (SV-233)."""
    index: Index[Any] = PROFILE_CACHES_BY_SERVICE if uses_profile(service) else CACHES_BY_SERVICE
    if any(child.part in (TEMPLATE_CACHES, PROFILE_CACHES) for child in plan.children):
        return True
    name = optional_label_value(service.name)
    caches = view.select(index, scoped(service.namespace, name)) if name is not None else None
    return caches is not None and any(cache.status.status is not StatusValue.READY for cache in caches.items)


def is_doomed(view: View, service: AIMService, cache: Cache) -> bool:
    """Whether a cache labelled with the service goes with it (SV-234)."""
    if cache.status.status is StatusValue.READY:
        return False
    if cache.spec.mode is CacheMode.DEDICATED:
        owners = cache.metadata.owner_references
        return not any(owner.kind == service.kind and owner.uid != service.uid for owner in owners)
    index = SERVICES_BY_STORED_PROFILE if isinstance(cache, AIMProfileCache) else SERVICES_BY_STORED_TEMPLATE
    users = view.select(index, scoped(service.namespace, cache.spec.template_name)).items
    return not any(other.uid != service.uid and demands(other, cache) for other in users)


def demands(service: AIMService, cache: Cache) -> bool:
    """Whether a live service wants a shared cache: it has resolved to the cache's template (AR-464, AR-637)."""
    of_profile = isinstance(cache, AIMProfileCache)
    template = service.status.resolved_profile if of_profile else service.status.resolved_template
    if service.deleting or template is None or mode_of(service) is not CacheMode.SHARED:
        return False
    wanted = TemplateScope.CLUSTER if template.scope is ResolutionScope.CLUSTER else TemplateScope.NAMESPACE
    return template.name == cache.spec.template_name and cache.spec.template_scope is wanted


def _delete(cache: Cache) -> Delete:
    part = PROFILE_CACHES if isinstance(cache, AIMProfileCache) else TEMPLATE_CACHES
    return Delete(part, cache.namespace, cache.name, cache.uid, "its service is deleted")
