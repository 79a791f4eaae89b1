"""Component ``Template`` of a service (SV-216, tables of serving.md 7.4 and 12.2)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aim_domain import ResolvedReference
from aim_domain.component_names import ComponentName
from aim_serving.references import Template, described, own_words
from aim_serving.template_search import TEMPLATE_NOT_FOUND, TemplateResult, Unresolved
from controller_runtime import Component, Dependency, State, StatusValue

NOT_READY: Final = "TemplateNotReady"

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
        Unresolved.NOTHING: (State.PENDING, TEMPLATE_NOT_FOUND),
        Unresolved.NONE_READY: (State.PROGRESSING, NOT_READY),
        Unresolved.DERIVING: (State.PROGRESSING, NOT_READY),
        Unresolved.AMBIGUOUS: (State.FAILED, "TemplateSelectionAmbiguous"),
    }
)
_KEPT: Final = frozenset({Unresolved.NOTHING, Unresolved.AMBIGUOUS})
"""Outcomes that a running service outlives with its stored template (SV-103)."""


def template_component(result: TemplateResult, stored: ResolvedReference | None, *, running: bool) -> Component:
    """How the template is doing.

    Args:
        stored: what an earlier pass resolved to.
        running: whether the InferenceService exists; it is left as it is then (SV-103).
    """
    if result.error is not None:
        error = result.error
        return _template(State.FAILED, error.reason, error.message, result)
    if result.template is not None:
        return _found(result.template)
    if running and stored is not None and result.unresolved in _KEPT:
        message = f"using template {stored.name} (scope {stored.scope}) as resolved before"
        return _template(State.READY, "Resolved", message)
    state, reason = _UNRESOLVED[result.unresolved]
    return _template(state, reason, result.message or "no template is resolved yet")


def _found(template: Template) -> Component:
    status = template.status.status
    if status is StatusValue.READY:
        return _template(State.READY, "Resolved", f"using {described(template)}")
    state, words = _NOT_READY.get(status, (State.PROGRESSING, f"is {status.value}"))
    return _template(
        state, NOT_READY, f"{described(template)} {words}{own_words(template) if state is State.FAILED else ''}"
    )


def _template(state: State, reason: str, message: str, result: TemplateResult | None = None) -> Component:
    errors = () if result is None or result.error is None else (result.error,)
    return Component(ComponentName.TEMPLATE, state, reason, message, errors, Dependency.UPSTREAM)
