"""The status of a service from its components."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from aim_domain import (
    AIMService,
    AnyProfile,
    InferenceService,
    ResolvedConfig,
    ResolvedReference,
    RuntimeStatus,
    ServiceCacheStatus,
    uses_profile,
)
from aim_domain.component_names import ComponentName
from aim_serving.references import Cache, Model, Template, reference_to
from controller_runtime import (
    BRIEFLY,
    Category,
    ClassifiedError,
    Component,
    Condition,
    ConditionStatus,
    Hold,
    JsonObject,
    State,
    StatusValue,
    find_condition,
    to_json,
)

_MAPPED: Final[Mapping[StatusValue, StatusValue]] = MappingProxyType(
    {
        StatusValue.PROGRESSING: StatusValue.STARTING,
        StatusValue.READY: StatusValue.RUNNING,
    }
)


def service_status(value: StatusValue, *, workload_exists: bool) -> StatusValue:
    """The framework's value in the words of an AIMService (FW-023, FW-024, SV-220)."""
    if value is StatusValue.NOT_AVAILABLE:
        return StatusValue.DEGRADED if workload_exists else StatusValue.PENDING
    return _MAPPED.get(value, value)


def references_json(
    service: AIMService,
    config: ResolvedConfig,
    model: Model | None,
    template: Template | None,
    profile: AnyProfile | None,
) -> JsonObject:
    """References to what is Ready; what was written stays until another Ready object takes its place (SV-230).

    A service that is served by a profile has no template, and one of a template no profile (PR-053).
    """
    before = service.status
    config_reference = {"resolvedRuntimeConfig": config.reference_json(before.resolved_runtime_config)}
    if not uses_profile(service):
        found_template = _reference(template, before.resolved_template)
        return {
            **config_reference,
            "resolvedModel": _reference(model, before.resolved_model),
            "resolvedTemplate": found_template,
            # Until there is a template, it can go back to what it had.
            "resolvedProfile": None if found_template else _former(before.resolved_profile),
        }
    found = profile if template is not None else None
    found_profile = _reference(found, before.resolved_profile)
    by_id = {"name": profile.spec.model_id} if profile is not None and profile.spec.model_id else None
    of_model = bool(service.spec.model.name or service.spec.model.image)
    return {
        **config_reference,
        "resolvedModel": _reference(model, before.resolved_model)
        if of_model
        else by_id or _former(before.resolved_model),
        "resolvedProfile": found_profile,
        "resolvedTemplate": None if found_profile else _former(before.resolved_template),
    }


def _former(before: ResolvedReference | None) -> JsonObject | None:
    return None if before is None else to_json(before)


def _reference(found: Model | Template | AnyProfile | None, before: ResolvedReference | None) -> JsonObject | None:
    if found is not None and found.status.status is StatusValue.READY:
        return to_json(reference_to(found))
    return _former(before)


def cache_json(
    service: AIMService, cache: Cache | None, retries: int, *, of_profile: bool = False
) -> JsonObject | None:
    """``status.cache``; the counter outlives any change of the reference (SV-139, SV-229)."""
    stored = service.status.cache or ServiceCacheStatus()
    before = stored.profile_cache_ref if of_profile else stored.template_cache_ref
    ready = cache is not None and cache.status.status is StatusValue.READY
    reference = reference_to(cache) if cache is not None and ready else before
    block: JsonObject = {
        **({} if reference is None else {f"{'profile' if of_profile else 'template'}CacheRef": to_json(reference)}),
        **({"retryAttempts": retries} if retries else {}),
    }
    return block or None


def runtime_json(runtime: RuntimeStatus) -> JsonObject:
    """``status.runtime`` (SV-213)."""
    return to_json(runtime)


JUST_MADE: Final = timedelta(seconds=5)
"""How long nothing is reported of an InferenceService whose pods say nothing yet."""
_NEW: Final = timedelta(minutes=1)
"""How old a service may be for that: of an older one each step is reported, as it takes its time."""
_ON_THE_WAY: Final = frozenset({State.PENDING, State.PROGRESSING, State.STARTING})
_FOLLOWING: Final = frozenset({ComponentName.INFERENCE_SERVICE_PODS, ComponentName.HTTP_ROUTE})
_MADE: Final = frozenset({ComponentName.INFERENCE_SERVICE, ComponentName.INFERENCE_SERVICE_PODS})
_EARLY: Final = frozenset({None, StatusValue.PENDING, StatusValue.PROGRESSING, StatusValue.STARTING})


@dataclass(frozen=True, slots=True)
class Beginning:
    """How far a service has come.

    Attributes:
        created: when it was created.
        reported: its status as it was written last.
        made: when its InferenceService was created; ``None`` = it is not there, and this pass does not create it.
    """

    created: datetime | None
    reported: StatusValue | None
    made: datetime | None

    def is_early(self, now: datetime) -> bool:
        """Whether a new service has not come further than to begin."""
        return self.reported in _EARLY and self.created is not None and now - self.created < _NEW


def together(
    components: Sequence[Component], workload: InferenceService | None, beginning: Beginning, now: datetime
) -> tuple[Component, ...]:
    """The components; the whole status is held for a moment while what they say will be overtaken at once."""
    ready = None if workload is None else find_condition(workload.status.conditions, "Ready")
    if ready is not None and ready.status is ConditionStatus.TRUE:
        return _with_readiness(components, ready.last_transition_time)
    return _with_first_pods(components, beginning.made) if beginning.is_early(now) else tuple(components)


def _with_readiness(components: Sequence[Component], since: datetime | None) -> tuple[Component, ...]:
    """Pods were ready before their InferenceService, and the gateway accepts the route as soon as there is a backend:
    both are only seen later (SV-299)."""
    lagging = any(one.name in _FOLLOWING and one.effective_state in _ON_THE_WAY for one in components)
    if since is None or not lagging:
        return tuple(components)
    return _hold(components, _FOLLOWING, Hold(BRIEFLY, since, whole=True))


def _with_first_pods(components: Sequence[Component], made: datetime | None) -> tuple[Component, ...]:
    """Pods come a moment after their InferenceService, and until then there is nothing to say (SV-300)."""
    pods = next((one for one in components if one.name == ComponentName.INFERENCE_SERVICE_PODS), None)
    silent = pods is not None and (pods.effective_reason == "NoPods" or pods.hold is not None)
    if made is None or not silent:
        return tuple(components)
    return _hold(components, _MADE, Hold(JUST_MADE, made, whole=True))


def _hold(components: Sequence[Component], names: frozenset[ComponentName], hold: Hold) -> tuple[Component, ...]:
    return tuple(replace(one, hold=hold) if one.name in names else one for one in components)


_BACKEND_MISSING: Final = (State.PROGRESSING, Category.MISSING_DOWNSTREAM)
_REJECTED: Final = (State.FAILED, Category.INVALID_SPEC)
_BY_REASON: Final[Mapping[str, tuple[State, Category | None]]] = MappingProxyType(
    {
        "HTTPRouteCreating": (State.PROGRESSING, None),
        "HTTPRoutePending": (State.PROGRESSING, None),
        "GatewayNotProgrammed": (State.PROGRESSING, None),
        "BackendNotFound": _BACKEND_MISSING,
        "RefNotPermitted": _BACKEND_MISSING,
        "InvalidKind": _BACKEND_MISSING,
        "UnsupportedProtocol": _BACKEND_MISSING,
        "RouteRefsUnresolved": _BACKEND_MISSING,
        "PathTemplateInvalid": (State.DEGRADED, None),
        "PathConflict": (State.DEGRADED, None),
        "PathReserved": (State.DEGRADED, None),
        "HTTPRouteFetchError": (State.DEGRADED, None),
    }
)
"""State and category of an untrue condition; what is not listed is a rejection."""


def route_component(condition: Condition | None, fault: ClassifiedError | None) -> Component:
    """How the route is doing, for a service with routing enabled.

    Args:
        condition: the stored ``HTTPRouteReady``.
        fault: of the routing configuration, which serving finds out itself and which blocks (FW-092).
    """
    if fault is not None:
        return _route(State.FAILED, fault.reason, fault.message, fault, is_input=True)
    if condition is None:
        return _route(State.PROGRESSING, "HTTPRouteCreating", "routing has not reported yet")
    if condition.status is ConditionStatus.TRUE:
        return _route(State.READY, condition.reason, condition.message)
    state, category = _BY_REASON.get(condition.reason, _REJECTED)
    error = None if category is None else ClassifiedError(category, condition.reason, condition.message)
    return _route(state, condition.reason, condition.message, error)


def _route(
    state: State, reason: str, message: str, error: ClassifiedError | None = None, *, is_input: bool = False
) -> Component:
    return Component(
        ComponentName.HTTP_ROUTE,
        state,
        reason,
        message,
        () if error is None else (error,),
        is_input=is_input,
        counted_only=True,
    )
