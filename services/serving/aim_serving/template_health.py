"""Component ``Template`` of a service (SV-216, tables of serving.md 7.4 and 12.2)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from aim_domain import AIMServiceStatus, ResolvedReference
from aim_domain.component_names import ComponentName
from aim_serving.references import Template, described, named, own_words
from aim_serving.template_search import SETTLED, TEMPLATE_NOT_FOUND, TemplateResult, Unresolved
from controller_runtime import Component, Dependency, State, StatusValue, find_condition

NOT_READY: Final = "TemplateNotReady"
AFTER_WAIT: Final = "ResolvedAfterWait"

_WAITING: Final = (State.PROGRESSING, "is not ready yet")
_NOT_READY: Final[Mapping[StatusValue, tuple[State, str]]] = MappingProxyType(
    {
        StatusValue.PENDING: _WAITING,
        StatusValue.PROGRESSING: _WAITING,
        StatusValue.NOT_AVAILABLE: (State.NOT_AVAILABLE, "is not available: no node has a matching GPU"),
        StatusValue.FAILED: (State.FAILED, "has failed"),
        StatusValue.DEGRADED: (State.FAILED, "is degraded"),
    }
)
_UNRESOLVED: Final[Mapping[Unresolved, tuple[State, str]]] = MappingProxyType(
    {
        Unresolved.NO_MODEL: (State.PENDING, TEMPLATE_NOT_FOUND),
        Unresolved.NOTHING: (State.PENDING, TEMPLATE_NOT_FOUND),
        # Nothing that the service could wait for is going to happen (DI-422).
        Unresolved.NONE_EXPECTED: (State.FAILED, TEMPLATE_NOT_FOUND),
        Unresolved.NONE_READY: (State.PROGRESSING, NOT_READY),
        Unresolved.DERIVING: (State.PROGRESSING, NOT_READY),
        Unresolved.AMBIGUOUS: (State.FAILED, "TemplateSelectionAmbiguous"),
        Unresolved.UNDECIDED: (State.PROGRESSING, "TemplateSelectionPending"),
    }
)


def template_component(result: TemplateResult, before: AIMServiceStatus, *, running: bool) -> Component:
    """How the template is doing.

    Args:
        before: the stored status, with what an earlier pass resolved to.
        running: whether the InferenceService exists; it is left as it is then (SV-103).
    """
    if result.error is not None:
        error = result.error
        return _template(State.FAILED, error.reason, error.message, result)
    if result.template is not None and result.unmet:
        return _unmet(result.template, result)
    if result.template is not None:
        told = find_condition(before.conditions, ComponentName.TEMPLATE.condition)
        if result.kept and told is not None and told.reason == AFTER_WAIT:
            return _template(State.READY, told.reason, told.message)
        return _found(result.template, result.late)
    stored = before.resolved_template
    if running and stored is not None and result.unresolved is Unresolved.NO_MODEL:
        message = f"using template {stored.name} (scope {stored.scope}) as resolved before"
        return _template(State.READY, "Resolved", message)
    if running and stored is not None and result.unresolved in SETTLED:
        return _left_behind(stored, result)
    state, reason = _UNRESOLVED[result.unresolved]
    return _template(state, reason, result.message or "no template is resolved yet")


def _unmet(template: Template, result: TemplateResult) -> Component:
    """The stored template goes on, and what the spec asks for instead is reported as not done (SV-303)."""
    _, reason = _UNRESOLVED[result.unresolved]
    message = f"{described(template)} stays in use with all else that spec asks for: {result.unmet}"
    return _template(State.DEGRADED, reason, message)


def _left_behind(stored: ResolvedReference, result: TemplateResult) -> Component:
    """Without a template no InferenceService can be built, so the one that runs follows no change (SV-304)."""
    _, reason = _UNRESOLVED[result.unresolved]
    message = (
        f"template {stored.name} (scope {stored.scope}), of which the InferenceService is made, can no longer be used, "
        f"and {result.message or 'no other is resolved'}; the InferenceService stays as it is, and no change of spec "
        "reaches it until a template is found"
    )
    return _template(State.DEGRADED, reason, message)


def _found(template: Template, late: Sequence[Template]) -> Component:
    status = template.status.status
    if status is StatusValue.READY and late:
        message = (
            f"using {described(template)}; {named(late)} might have been preferred, but discovery did not end in time"
        )
        return _template(State.READY, AFTER_WAIT, f"{message}; name one in spec.template.name to use it")
    if status is StatusValue.READY:
        return _template(State.READY, "Resolved", f"using {described(template)}")
    state, words = _NOT_READY.get(status, (State.PROGRESSING, f"is {status.value}"))
    return _template(
        state, NOT_READY, f"{described(template)} {words}{own_words(template) if state is State.FAILED else ''}"
    )


def _template(state: State, reason: str, message: str, result: TemplateResult | None = None) -> Component:
    errors = () if result is None or result.error is None else (result.error,)
    return Component(ComponentName.TEMPLATE, state, reason, message, errors, Dependency.UPSTREAM)
