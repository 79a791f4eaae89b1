"""Component ``Cache``, and the single retry of a failed cache (SV-130…SV-139, SV-206)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from aim_domain import AIMArtifact, AIMTemplateCache, CacheMode, labels
from aim_domain.component_names import ComponentName
from aim_domain.parts import ARTIFACTS
from aim_serving.cache_volumes import lacks_volumes
from controller_runtime import ClassifiedError, Component, Condition, Delete, State, StatusValue, find_condition

CREATING: Final = "CacheCreating"
RETRYING: Final = "CacheRetrying"
FAILED: Final = "CacheFailed"

_BEING_CREATED: Final = "the template cache is created once the template is resolved; it has not reported yet"
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
    """

    cache: AIMTemplateCache | None
    error: ClassifiedError | None
    artifacts: tuple[AIMArtifact, ...]
    mode: CacheMode
    mounted: bool
    cacheable: bool
    retries: int
    repaired: bool = False
    moving_from: str = ""
    lost: tuple[str, ...] = ()


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
    """Somebody has deleted the artifacts of a service that runs: its pods go when the weights are there again."""
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
    return CacheVerdict(_present(cache), retries=state.retries)


def _absent(state: CacheState) -> Component:
    if not state.mounted:
        message = _BEING_CREATED
        if not state.cacheable:
            message = "the template has no model sources, so that nothing can be cached; see the template's discovery"
        return _cache(State.PROGRESSING, CREATING, message)
    message = (
        "the template cache is missing while the InferenceService still refers to its volumes; it is created again"
    )
    return _cache(State.DEGRADED, CREATING if state.mode is CacheMode.DEDICATED else "CacheLost", message)


def _present(cache: AIMTemplateCache) -> Component:
    status = cache.status.status
    lacking = lacks_volumes(cache)
    if status is StatusValue.READY and lacking:
        volumes = f"the volume of {', '.join(lacking)} is missing; it is created again"
        message = f"AIMTemplateCache {cache.key} is ready, but {volumes}"
        return _cache(State.PROGRESSING, "CacheNotReady", message)
    if status is StatusValue.READY:
        return _cache(State.READY, "CacheReady", f"AIMTemplateCache {cache.key} is ready")
    if status is StatusValue.PROGRESSING:
        return _cache(State.PROGRESSING, "CacheNotReady", f"AIMTemplateCache {cache.key} is being filled")
    artifacts = find_condition(cache.status.conditions, "ArtifactsReady")
    if artifacts is None and status is StatusValue.PENDING:
        return _cache(State.PROGRESSING, CREATING, _BEING_CREATED)
    why = f": {artifacts.message}" if artifacts and artifacts.message else ""
    return _cache(State.PROGRESSING, CREATING, f"AIMTemplateCache {cache.key} is {status.value}{why}")


# A failed cache


def _failed(cache: AIMTemplateCache, state: CacheState) -> CacheVerdict:
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
            message = f"AIMTemplateCache {cache.key} has failed: {_cause(cache)}"
            return CacheVerdict(_cache(State.FAILED, FAILED, message))
        deletes = tuple(_delete(one) for one in failed if labels.TEMPLATE_CACHE_NAME in one.metadata.labels)
        return CacheVerdict(_retrying(cache), deletes, retries=1)
    if not failed:
        return CacheVerdict(_retrying(cache), retries=state.retries)
    names = ", ".join(one.name for one in failed)
    message = (
        f"AIMTemplateCache {cache.key} has failed again after one retry (artifacts {names}); "
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


def _repaired(cache: AIMTemplateCache) -> Component:
    message = f"artifacts of AIMTemplateCache {cache.key} failed; they are downloaded again with the changed env"
    return _cache(State.PROGRESSING, RETRYING, message)


def _listed_as_failed(cache: AIMTemplateCache) -> set[str]:
    return {one.name for one in cache.status.artifacts.values() if one.status is StatusValue.FAILED}


def _retrying(cache: AIMTemplateCache) -> Component:
    message = f"artifacts of AIMTemplateCache {cache.key} failed; they are deleted and downloaded once more"
    return _cache(State.PROGRESSING, RETRYING, message)


def _delete(artifact: AIMArtifact) -> Delete:
    return Delete(ARTIFACTS, artifact.namespace, artifact.name, artifact.uid, "single retry of a failed cache")


def _cause(cache: AIMTemplateCache) -> str:
    conditions: Iterable[Condition | None] = (
        find_condition(cache.status.conditions, type_) for type_ in ("ArtifactsReady", "Ready")
    )
    return next((one.message or one.reason for one in conditions if one is not None), "see its conditions")


def _cache(state: State, reason: str, message: str) -> Component:
    return Component(ComponentName.CACHE, state, reason, message)
