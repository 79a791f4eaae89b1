"""Component ``Model`` of a service (SV-216, table of serving.md 12.2)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aim_domain import ResolvedReference
from aim_domain.component_names import ComponentName
from aim_serving.model_search import MODEL_NOT_FOUND, ModelResult
from aim_serving.references import Model, described, own_words
from controller_runtime import Component, Dependency, State, StatusValue

_NOT_READY: Final[Mapping[StatusValue, tuple[State, str]]] = MappingProxyType(
    {
        StatusValue.PENDING: (State.PROGRESSING, "is not ready yet"),
        StatusValue.PROGRESSING: (State.PROGRESSING, "is not ready yet"),
        StatusValue.FAILED: (State.FAILED, "has failed"),
        StatusValue.DEGRADED: (State.FAILED, "is degraded"),
    }
)


def model_component(result: ModelResult, stored: ResolvedReference | None, *, running: bool) -> Component:
    """How the model is doing.

    Args:
        stored: what an earlier pass resolved to.
        running: whether the InferenceService exists.
    """
    if result.error is not None:
        return _model(State.FAILED, result.error.reason, result.error.message, result)
    if result.create is not None:
        message = f"AIMModel {result.create.name} is being created for {result.wanted}"
        return Component(ComponentName.MODEL, State.PENDING, "CreatingModel", message)
    if result.model is not None:
        return _found(result.model)
    if running and stored is not None:
        message = f"using {_kind(stored)} {stored.name} as resolved before"
        return _model(State.READY, "ModelResolved", message)
    return _model(State.PENDING, MODEL_NOT_FOUND, "no model is resolved yet")


def _found(model: Model) -> Component:
    status = model.status.status
    if status is StatusValue.READY:
        return _model(State.READY, "ModelResolved", f"using {described(model)}")
    state, words = _NOT_READY.get(status, (State.PROGRESSING, f"is {status.value}"))
    return _model(
        state, "ModelNotReady", f"{described(model)} {words}{own_words(model) if state is State.FAILED else ''}"
    )


def _model(state: State, reason: str, message: str, result: ModelResult | None = None) -> Component:
    errors = () if result is None or result.error is None else (result.error,)
    return Component(ComponentName.MODEL, state, reason, message, errors, Dependency.UPSTREAM)


def _kind(reference: ResolvedReference) -> str:
    return (reference.kind or "model").rsplit("/", 1)[-1]
