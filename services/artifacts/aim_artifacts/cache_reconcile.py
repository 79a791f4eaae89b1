"""One pass over an AIMTemplateCache (artifacts.md section 13)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from aim_artifacts.artifact_blueprint import build_artifact, hand_on_env, promote
from aim_artifacts.artifact_matching import match_artifact, promotable_artifact
from aim_artifacts.cache_status import Match, artifacts_component, artifacts_status
from aim_artifacts.claim import is_controlled_by
from aim_artifacts.conditions import DUPLICATE_MODEL_SOURCE
from aim_artifacts.indexes import ARTIFACTS_BY_CACHE, ARTIFACTS_BY_SOURCE, CACHES_BY_ARTIFACT, CLAIMS_BY_OWNER
from aim_artifacts.limits.demand import is_demanded
from aim_artifacts.limits.evicted_sources import evicted_sources, forget_evicted, still_evicted
from aim_artifacts.model_sources import IndexedSource, sources_to_keep
from aim_artifacts.template_resolution import ResolvedTemplate, resolve_template
from aim_domain import AIMArtifact, AIMTemplateCache, ResolvedConfig, cache_errors, resolve_config
from aim_domain.component_names import COMPONENT_ORDER
from aim_domain.naming import label_value
from aim_domain.parts import ARTIFACTS, NAMESPACES
from controller_runtime import (
    Child,
    ClassifiedError,
    Delete,
    Event,
    EventType,
    JsonObject,
    Patch,
    Plan,
    Selection,
    StatusValue,
    View,
    assemble,
    evaluate,
    namespace_terminating,
    scoped,
    status_json,
)

_REQUEUE_AFTER = 1.0
"""Seconds until a clean-up looks whether the artifacts are gone, should no change tell it."""


def reconcile_cache(cache: AIMTemplateCache, view: View, now: datetime) -> Plan:
    """Make sure that every model source of the template has an artifact, and say how they are."""
    config = resolve_config(view, cache.namespace, cache.spec.runtime_config_name)
    template = resolve_template(cache, view)
    kept = sources_to_keep(cache.spec.model_sources, template.sources)
    errors: list[ClassifiedError] = []
    matches = [_match(cache, entry, view, errors) for entry in kept.sources]
    evicted = _evicted(cache, matches, view)
    matches = [replace(match, evicted=match.entry.source.source_uri in evicted) for match in matches]
    evaluation = evaluate(
        COMPONENT_ORDER["AIMTemplateCache"],
        (config.component(), template.component, artifacts_component(matches)),
        generation=cache.metadata.generation,
        stored=cache.status.conditions,
        stored_status=cache.status.status,
        now=now,
        errors=(*errors, *cache_errors(cache.spec)),
        failure=view.failure,
        created=cache.metadata.creation_timestamp,
    )
    patches, children = _wanted(cache, config, template, matches, view)
    return assemble(
        evaluation,
        status=status_json(evaluation, _fields(cache, config, template, matches)),
        patches=(*forget_evicted(cache, evicted), *patches, *_changed_env(cache, matches)),
        children=children,
        events=_duplicates(cache, kept.duplicates),
    )


def clean_up_cache(cache: AIMTemplateCache, view: View, _: datetime) -> Plan | None:
    """Delete artifacts that never became Ready; ``None`` once nothing is left to do (AR-586, AR-589, AR-590)."""
    terminating = namespace_terminating(cache.namespace, view.get(NAMESPACES, None, cache.namespace))
    if isinstance(terminating, ClassifiedError):
        return Plan(retry=terminating)
    if terminating:
        return None
    found = view.select(ARTIFACTS_BY_CACHE, scoped(cache.namespace, label_value(cache.name)))
    if found.error is not None:
        return Plan(retry=found.error)
    deletes = tuple(_removal(one) for one in found.items if _is_left_over(one, cache, view))
    return Plan(deletes=deletes, requeue_after=_REQUEUE_AFTER) if deletes else None


def _match(cache: AIMTemplateCache, entry: IndexedSource, view: View, errors: list[ClassifiedError]) -> Match:
    found = _candidates(cache, entry, view)
    if found.error is not None:
        errors.append(found.error)
    artifact = match_artifact(cache, entry.source, found.items)
    return Match(entry) if artifact is None else Match(entry, artifact, _claim_of(artifact, view))


def _evicted(cache: AIMTemplateCache, matches: Iterable[Match], view: View) -> Mapping[str, str]:
    """The sources that stay without an artifact; who wants the cache is looked up only where there are some."""
    if not evicted_sources(cache):
        return {}
    artifacts = {match.entry.source.source_uri: match.artifact for match in matches}
    return still_evicted(cache, artifacts, demanded=is_demanded(cache, view, in_doubt=False))


def _candidates(cache: AIMTemplateCache, entry: IndexedSource, view: View) -> Selection[AIMArtifact]:
    return view.select(ARTIFACTS_BY_SOURCE, scoped(cache.namespace, entry.source.source_uri))


def _claim_of(artifact: AIMArtifact, view: View) -> str | None:
    """The claim by ownership, not by the artifact's status, which download pods can write (AR-575)."""
    claims = view.select(CLAIMS_BY_OWNER, scoped(artifact.namespace, artifact.uid)).items
    return next((claim.name for claim in claims if is_controlled_by(claim, artifact)), None)


def _wanted(
    cache: AIMTemplateCache, config: ResolvedConfig, template: ResolvedTemplate, matches: Iterable[Match], view: View
) -> tuple[list[Patch], list[Child]]:
    """Promotions and new artifacts; none unless the template is Ready (AR-535)."""
    promotions: list[Patch] = []
    children: list[Child] = []
    if not template.is_ready:
        return promotions, children
    for match in matches:
        if match.artifact is not None or match.evicted:
            continue
        owned = promotable_artifact(cache, match.entry.source, _candidates(cache, match.entry, view).items)
        if owned is not None:
            promotions.append(promote(cache, owned))
        else:
            children.append(build_artifact(cache, match.entry, config.spec))
    return promotions, children


def _changed_env(cache: AIMTemplateCache, matches: Iterable[Match]) -> list[Patch]:
    """What brings a changed env to the artifacts that may be waiting for it."""
    patches = (hand_on_env(cache, match.entry, match.artifact) for match in matches if match.artifact is not None)
    return [patch for patch in patches if patch is not None]


def _fields(
    cache: AIMTemplateCache, config: ResolvedConfig, template: ResolvedTemplate, matches: list[Match]
) -> JsonObject:
    artifacts = artifacts_status(matches)
    return {
        "resolvedRuntimeConfig": config.reference_json(cache.status.resolved_runtime_config),
        "resolvedTemplateKind": None if template.template is None else template.template.kind,
        "artifacts": dict(artifacts) if artifacts else None,
    }


def _duplicates(cache: AIMTemplateCache, models: Iterable[str]) -> tuple[Event, ...]:
    """One warning per generation and model (AR-537)."""
    if cache.status.observed_generation == cache.metadata.generation:
        return ()
    return tuple(
        Event(
            EventType.WARNING,
            DUPLICATE_MODEL_SOURCE,
            f"model {model} has more than one source; only the first is kept, remove the others",
        )
        for model in models
    )


def _is_left_over(artifact: AIMArtifact, cache: AIMTemplateCache, view: View) -> bool:
    if artifact.deleting or artifact.status.status is StatusValue.READY:
        return False
    users = view.select(CACHES_BY_ARTIFACT, artifact.uid).items
    return not any(user.uid != cache.uid and not user.deleting for user in users)


def _removal(artifact: AIMArtifact) -> Delete:
    why = "its cache is deleted before it became Ready"
    return Delete(ARTIFACTS, artifact.namespace, artifact.name, artifact.uid, why)
