"""What a deleted service takes along: caches that are not Ready and that no other service wants (SV-234…SV-240)."""

from datetime import datetime
from typing import Final

from aim_domain import AIMService, AIMTemplateCache, CacheMode, ResolutionScope, TemplateScope
from aim_domain.naming import optional_label_value
from aim_domain.parts import NAMESPACES, TEMPLATE_CACHES
from aim_serving.indexes import CACHES_BY_SERVICE, SERVICES_BY_STORED_TEMPLATE
from aim_serving.template_cache import mode_of
from controller_runtime import ClassifiedError, Delete, Plan, StatusValue, View, namespace_terminating, scoped

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
    caches = view.select(CACHES_BY_SERVICE, scoped(service.namespace, name))
    if caches.error is not None:
        return Plan(retry=caches.error)
    doomed = [cache for cache in caches.items if not cache.deleting and is_doomed(view, service, cache)]
    return Plan(deletes=tuple(map(_delete, doomed)), requeue_after=_REQUEUE_AFTER) if doomed else None


def cleans_up(service: AIMService, view: View, plan: Plan) -> bool:
    """Whether the service makes a cache, or has one that is not Ready: only those go with it (SV-233)."""
    if any(child.part is TEMPLATE_CACHES for child in plan.children):
        return True
    name = optional_label_value(service.name)
    caches = view.select(CACHES_BY_SERVICE, scoped(service.namespace, name)) if name is not None else None
    return caches is not None and any(cache.status.status is not StatusValue.READY for cache in caches.items)


def is_doomed(view: View, service: AIMService, cache: AIMTemplateCache) -> bool:
    """Whether a cache labelled with the service goes with it (SV-234)."""
    if cache.status.status is StatusValue.READY:
        return False
    if cache.spec.mode is CacheMode.DEDICATED:
        owners = cache.metadata.owner_references
        return not any(owner.kind == service.kind and owner.uid != service.uid for owner in owners)
    users = view.select(SERVICES_BY_STORED_TEMPLATE, scoped(service.namespace, cache.spec.template_name)).items
    return not any(other.uid != service.uid and demands(other, cache) for other in users)


def demands(service: AIMService, cache: AIMTemplateCache) -> bool:
    """Whether a live service wants a shared cache: it has resolved to the cache's template (AR-464, AR-637)."""
    template = service.status.resolved_template
    if service.deleting or template is None or mode_of(service) is not CacheMode.SHARED:
        return False
    wanted = TemplateScope.CLUSTER if template.scope is ResolutionScope.CLUSTER else TemplateScope.NAMESPACE
    return template.name == cache.spec.template_name and cache.spec.template_scope is wanted


def _delete(cache: AIMTemplateCache) -> Delete:
    return Delete(TEMPLATE_CACHES, cache.namespace, cache.name, cache.uid, "its service is deleted")
