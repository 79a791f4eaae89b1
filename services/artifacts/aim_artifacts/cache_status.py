"""What a cache says about its artifacts (AR-570…AR-576)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aim_artifacts.conditions import ALL_CACHES_READY, CACHES_NOT_READY, CREATING_CACHES, EVICTED, NO_CACHES
from aim_artifacts.model_sources import IndexedSource
from aim_artifacts.source import effective_model_id, mount_point
from aim_domain import AIMArtifact
from aim_domain.component_names import ComponentName
from controller_runtime import (
    Component,
    JsonObject,
    ParentCondition,
    State,
    StatusValue,
    find_condition,
    worst_status,
)


@dataclass(frozen=True, slots=True)
class Match:
    """A source and the artifact that serves it, if there is one already.

    Attributes:
        claim: name of the claim that the artifact controls, if it exists (AR-575).
        evicted: no artifact is made now, because it was evicted and nobody wants it (AR-490).
    """

    entry: IndexedSource
    artifact: AIMArtifact | None = None
    claim: str | None = None
    evicted: bool = False


def artifacts_component(matches: Sequence[Match]) -> Component:
    """Component ``Artifacts`` (AR-570, AR-571)."""
    found = [match.artifact for match in matches if match.artifact is not None]
    evicted = [match.entry.source.source_uri for match in matches if match.artifact is None and match.evicted]
    missing = [match.entry.source.source_uri for match in matches if match.artifact is None and not match.evicted]
    if not matches:
        return _component(State.PROGRESSING, NO_CACHES, "There are no model sources to cache")
    states = [_state(artifact) for artifact in found] + ([State.PROGRESSING] if missing else [])
    states += [State.PENDING] if evicted else []
    worst = worst_status(states) or State.PROGRESSING
    if missing:
        return _component(worst, CREATING_CACHES, f"Artifacts are being created for {', '.join(missing)}")
    if evicted and worst is State.PENDING:
        message = f"Evicted to make room, and made again when a service wants the cache: {', '.join(evicted)}"
        return _component(worst, EVICTED, message)
    if worst is State.READY:
        return _component(worst, ALL_CACHES_READY, f"All {len(found)} artifacts are ready")
    culprit = min(found, key=lambda artifact: (_state(artifact).priority, artifact.name))
    return _blaming(culprit, worst)


def artifacts_status(matches: Sequence[Match]) -> Mapping[str, JsonObject]:
    """``status.artifacts``, by model id (AR-574…AR-576)."""
    return {
        match.entry.source.model_id: _entry(match, match.artifact) for match in matches if match.artifact is not None
    }


def _blaming(artifact: AIMArtifact, state: State) -> Component:
    ready = find_condition(artifact.status.conditions, ParentCondition.READY)
    reason = ready.reason if ready is not None else CACHES_NOT_READY
    detail = f": {ready.message}" if ready is not None and ready.message else f" is {artifact.status.status.value}"
    return _component(state, reason, f"One or more caches are not ready: AIMArtifact {artifact.key}{detail}")


def _entry(match: Match, artifact: AIMArtifact) -> JsonObject:
    model = match.entry.source.model_id
    directory = effective_model_id(model, match.entry.source.source_uri)
    return {
        "uid": artifact.uid,
        "name": artifact.name,
        "model": model,
        "status": artifact.status.status.value,
        "persistentVolumeClaim": match.claim,
        "mountPoint": mount_point(directory, artifact.name),
    }


def _state(artifact: AIMArtifact) -> StatusValue:
    # A value of another release says nothing that could be acted upon.
    return artifact.status.status if artifact.status.status.known else State.PROGRESSING


def _component(state: State, reason: str, message: str) -> Component:
    return Component(ComponentName.ARTIFACTS, state, reason, message)
