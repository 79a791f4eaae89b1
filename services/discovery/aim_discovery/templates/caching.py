"""The template cache that a namespaced template asks for (DI-344…DI-353)."""

from dataclasses import dataclass
from typing import Final

from aim_discovery.scopes import NAMESPACED_TEMPLATE, Template
from aim_domain import (
    API_VERSION,
    AIMServiceTemplate,
    AIMTemplateCache,
    LabelPropagation,
    ResolutionScope,
    ResolvedReference,
    TemplateScope,
    child_labels,
)
from aim_domain.kinds import AIM_TEMPLATE_CACHE
from aim_domain.parts import TEMPLATE_CACHES
from controller_runtime import (
    Child,
    Desired,
    Event,
    EventType,
    JsonObject,
    StatusValue,
    View,
    WriteMode,
    condition,
    kind_of,
    owner_index,
    scoped,
    to_json,
)

CACHES_BY_OWNER: Final = owner_index(TEMPLATE_CACHES)
CACHE_READY: Final = "CacheReady"

_REASONS: Final = {
    StatusValue.READY: "Ready",
    StatusValue.DEGRADED: "CacheDegraded",
    StatusValue.NOT_AVAILABLE: "CacheDegraded",
    StatusValue.FAILED: "CacheFailed",
}


@dataclass(frozen=True, slots=True)
class CachingState:
    """What a template's cache is and needs.

    Attributes:
        condition: ``CacheReady``; takes no part in the status (DI-352).
        children, events: for when everything that a cache waits for is there (DI-344).
    """

    condition: Desired | None = None
    reference: ResolvedReference | None = None
    children: tuple[Child, ...] = ()
    events: tuple[Event, ...] = ()


def caching_of(template: Template, view: View, propagation: LabelPropagation | None) -> CachingState:
    """Judge the owned cache, and plan one if there is none; cluster templates never have one (DI-350)."""
    if not isinstance(template, AIMServiceTemplate):
        return CachingState()
    found = view.select(CACHES_BY_OWNER, scoped(template.namespace, template.uid))
    owned = next((cache for cache in found.items if not cache.deleting), None)
    reference = None if owned is None else _reference(owned)
    caching = template.spec.caching
    if caching is None or not caching.enabled:
        return CachingState(reference=reference)
    state = CachingState(_condition(owned), reference)
    if owned is not None or found.error is not None:
        return state
    stranger = view.get(TEMPLATE_CACHES, template.namespace, template.name)
    if stranger.value is not None:
        message = (
            f"AIMTemplateCache {stranger.value.key} exists and is not controlled by the template; delete or rename it"
        )
        event = Event(EventType.WARNING, "TemplateCacheNameConflict", message, standing=True)
        return CachingState(state.condition, reference, events=(event,))
    if stranger.error is not None:
        return state
    return CachingState(state.condition, reference, children=(_cache(template, propagation),))


def _condition(cache: AIMTemplateCache | None) -> Desired:
    status = None if cache is None else cache.status.status
    reason = "WaitingForCache" if status is None else _REASONS.get(status, "WaitingForCache")
    message = "No cache exists yet" if cache is None else f"AIMTemplateCache {cache.key} is {status}"
    return condition(CACHE_READY, status == StatusValue.READY, reason, message)


def _reference(cache: AIMTemplateCache) -> ResolvedReference:
    return ResolvedReference(
        name=cache.name,
        namespace=cache.namespace,
        kind=f"{API_VERSION}/AIMTemplateCache",
        uid=cache.uid,
        scope=ResolutionScope.NAMESPACE,
    )


def _cache(template: AIMServiceTemplate, propagation: LabelPropagation | None) -> Child:
    """Only what the template says; the rest is left to defaults (DI-345)."""
    spec, caching = template.spec, template.spec.caching
    env = (caching.env if caching is not None else ()) or spec.env
    body: JsonObject = {
        "metadata": {
            "name": template.name,
            "namespace": template.namespace,
            "labels": child_labels(
                {}, parent=template, controller=NAMESPACED_TEMPLATE.controller, propagation=propagation
            ),
        },
        "spec": {
            "templateName": template.name,
            "templateScope": TemplateScope.NAMESPACE.value,
            **({"runtimeConfigName": spec.runtime_config_name} if spec.runtime_config_name else {}),
            **({"env": [to_json(variable) for variable in env]} if env else {}),
        },
    }
    return Child(TEMPLATE_CACHES, kind_of(body, AIM_TEMPLATE_CACHE), mode=WriteMode.CREATE)
