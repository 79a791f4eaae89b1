"""The reconcile of a cache: its template or profile, the artifacts that it needs or shares, and its status."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeAlias

from aim_artifacts.claim import is_controlled_by
from aim_artifacts.conditions import (
    ALL_CACHES_READY,
    CACHES_NOT_READY,
    CREATING_CACHES,
    DUPLICATE_MODEL_SOURCE,
    EVICTED,
    NO_CACHES,
)
from aim_artifacts.downloader_contract import filter_text
from aim_artifacts.indexes import (
    ARTIFACTS_BY_CACHE,
    ARTIFACTS_BY_PROFILE_CACHE,
    ARTIFACTS_BY_SOURCE,
    CLAIMS_BY_OWNER,
    Cache,
    caches_with,
    is_of_profile,
    maker_label,
)
from aim_artifacts.jobs import parse_filter, same_filter
from aim_artifacts.limits.evicting import evicted_sources, forget_evicted, still_evicted
from aim_artifacts.limits.storage import is_demanded
from aim_artifacts.source import effective_model_id, mount_point
from aim_domain import (
    GROUP,
    AIMArtifact,
    AIMClusterServiceTemplate,
    AIMProfileCache,
    AIMServiceTemplate,
    AnyProfile,
    CacheMode,
    ModelSource,
    ResolvedConfig,
    RuntimeConfigSpec,
    TemplateScope,
    cache_errors,
    child_labels,
    labels,
    merge_env,
    resolve_config,
)
from aim_domain.component_names import ComponentName
from aim_domain.kinds import AIM_ARTIFACT
from aim_domain.naming import HashSource, Structured, derive_name, label_value
from aim_domain.parts import (
    ARTIFACTS,
    CLUSTER_PROFILES,
    CLUSTER_TEMPLATES,
    NAMESPACES,
    PROFILES,
    TEMPLATES,
)
from controller_runtime import (
    Category,
    Child,
    ClassifiedError,
    Component,
    ConditionStatus,
    Delete,
    Desired,
    Event,
    EventType,
    JsonObject,
    Lookup,
    Observability,
    ParentCondition,
    Patch,
    Plan,
    Selection,
    State,
    StatusValue,
    View,
    WriteMode,
    assemble,
    condition,
    evaluate,
    find_condition,
    kind_of,
    loads,
    namespace_terminating,
    scoped,
    status_json,
    to_json,
    upstream,
    worst_status,
)
from controller_runtime.core import EnvVar


@dataclass(frozen=True, slots=True)
class IndexedSource:
    """A model source and its position in the full list."""

    index: int
    source: ModelSource


@dataclass(frozen=True, slots=True)
class SourceList:
    """Sources to keep, and model ids that were given more than once."""

    sources: tuple[IndexedSource, ...]
    duplicates: tuple[str, ...]


def sources_to_keep(of_cache: Sequence[ModelSource], of_template: Sequence[ModelSource]) -> SourceList:
    """The cache's own list wins over the template's; of several entries for one model the first counts."""
    first: dict[str, IndexedSource] = {}
    duplicates: dict[str, None] = {}
    for index, source in enumerate(of_cache or of_template):
        if source.model_id in first:
            duplicates[source.model_id] = None
        else:
            first[source.model_id] = IndexedSource(index, source)
    return SourceList(tuple(first.values()), tuple(duplicates))


Template: TypeAlias = AIMServiceTemplate | AIMClusterServiceTemplate

_FOUND = "ResourceFound"


@dataclass(frozen=True, slots=True)
class ResolvedTemplate:
    """The template or the profile that a cache belongs to, if there is one, and its component.

    Attributes:
        profile: of the cache of a profile; whether a node has its hardware makes no difference to its weights (PR-083).
        extra: a condition besides.
    """

    template: Template | None
    component: Component
    profile: AnyProfile | None = None
    extra: tuple[Desired, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether artifacts may be created for it (AR-535)."""
        ready = self.template is not None and self.template.status.status is StatusValue.READY
        return ready or self.profile is not None

    @property
    def sources(self) -> tuple[ModelSource, ...]:
        """Model sources that the template came with or discovered."""
        if self.profile is not None:
            return self.profile.spec.model_sources
        return () if self.template is None else self.template.status.model_sources


PROFILE_FOUND: Final = "ProfileFound"


def _resolve_profile(cache: AIMProfileCache, view: View) -> ResolvedTemplate:
    """The profile of the scope that the cache says (PR-083)."""
    name = cache.spec.profile_name
    if cache.spec.profile_scope == TemplateScope.CLUSTER:
        shared = view.get(CLUSTER_PROFILES, None, name)
        found: Lookup[AnyProfile] = Lookup(shared.value, shared.error)
        what = f"AIMClusterProfile {name}"
    else:
        local = view.get(PROFILES, cache.namespace, name)
        found, what = Lookup(local.value, local.error), f"AIMProfile {cache.namespace}/{name}"
    profile = found.value
    if profile is not None:
        component = Component(ComponentName.PROFILE, State.READY, "ProfileResolved", f"{what} is found")
    elif found.error is not None:
        component = Component(ComponentName.PROFILE, errors=(found.error,), is_input=True)
    else:
        message = f"{what} does not exist; create it or delete the cache"
        missing = ClassifiedError(Category.MISSING_UPSTREAM, "ProfileNotFound", message)
        component = Component(ComponentName.PROFILE, State.FAILED, missing.reason, message, (missing,))
    reason, message = component.effective_reason, component.effective_message
    # `ProfileReady` has the same Event.
    said = condition(PROFILE_FOUND, profile is not None, reason, message, Observability.SILENT)
    return ResolvedTemplate(None, component, profile, (said,))


def resolve_template(cache: Cache, view: View) -> ResolvedTemplate:
    """Look only where the cache's scope allows (AR-530)."""
    if isinstance(cache, AIMProfileCache):
        return _resolve_profile(cache, view)
    name, scope = cache.spec.template_name, cache.spec.template_scope
    if scope != TemplateScope.CLUSTER:
        local = view.get(TEMPLATES, cache.namespace, name)
        if local.value is not None or local.error is not None or scope == TemplateScope.NAMESPACE:
            return _resolved(local.value, local, f"AIMServiceTemplate {cache.namespace}/{name}")
    shared = view.get(CLUSTER_TEMPLATES, None, name)
    both = "AIMServiceTemplate or " if scope != TemplateScope.CLUSTER else ""
    return _resolved(shared.value, shared, f"{both}AIMClusterServiceTemplate {name}")


def _resolved(
    template: Template | None, lookup: Lookup[AIMServiceTemplate] | Lookup[AIMClusterServiceTemplate], what: str
) -> ResolvedTemplate:
    found: Lookup[AIMServiceTemplate | AIMClusterServiceTemplate] = Lookup(template, lookup.error)
    return ResolvedTemplate(template, upstream(ComponentName.SERVICE_TEMPLATE, found, inspect_template, what=what))


def inspect_template(template: Template) -> Component:
    """Health of the template as the cache sees it (AR-534)."""
    status = template.status
    ready = find_condition(status.conditions, ParentCondition.READY)
    if ready is None:
        # A template without a status counts as Ready only by accident (AR-P05).
        given = status.status if status.has("status") and status.status.known else State.PENDING
        return Component("", given, _FOUND, f"{template.kind} {template.key} is {given.value}")
    # The condition repeats the template's reason: its message says whose it is, lest it be taken for the cache's own.
    message = f"{template.kind} {template.key}: {ready.message or ready.reason}"
    if ready.status is ConditionStatus.TRUE:
        return Component("", State.READY, ready.reason, message)
    state = status.status if ready.status is ConditionStatus.FALSE and status.status.known else State.PENDING
    if state in {State.READY, State.RUNNING}:
        # The condition is newer than the value; what it denies cannot be Ready.
        state = State.PENDING
    return Component("", state, ready.reason, message)


_PROMOTABLE = frozenset({StatusValue.READY, StatusValue.PROGRESSING, StatusValue.PENDING})


def match_artifact(cache: Cache, source: ModelSource, candidates: Iterable[AIMArtifact]) -> AIMArtifact | None:
    """The artifact to use: of several the one with the best status, then the first by name (AR-547)."""
    return _best(one for one in candidates if _fits(one, cache, source) and _belongs(one, cache))


def promotable_artifact(cache: Cache, source: ModelSource, candidates: Iterable[AIMArtifact]) -> AIMArtifact | None:
    """The owned artifact that a Shared cache makes shared, when no unowned one matches (AR-551)."""
    if cache.spec.mode == CacheMode.DEDICATED:
        return None
    return _best(one for one in candidates if _fits(one, cache, source) and _is_promotable(one))


def promoted_from(artifact: AIMArtifact) -> tuple[str, ...]:
    """UIDs of owners that the artifact had before (AR-556)."""
    text = artifact.metadata.annotations.get(labels.ANNOTATION_PROMOTED_FROM, "")
    return tuple(uid for part in text.split(",") if (uid := part.strip()))


def _fits(artifact: AIMArtifact, cache: Cache, source: ModelSource) -> bool:
    seen = not artifact.deleting and artifact.status.has("status")
    return (
        seen
        and artifact.spec.source_uri == source.source_uri
        and _class_fits(artifact, cache)
        and (_filter_fits(artifact, cache))
    )


def _class_fits(artifact: AIMArtifact, cache: Cache) -> bool:
    wanted = cache.spec.storage_class_name
    return not wanted or artifact.spec.storage_class_name == wanted


def _filter_fits(artifact: AIMArtifact, cache: Cache) -> bool:
    override = parse_filter(cache.metadata.annotations.get(labels.ANNOTATION_DOWNLOAD_FILTER))
    return override is None or same_filter(artifact.spec.download_filter, override)


def _belongs(artifact: AIMArtifact, cache: Cache) -> bool:
    owners = artifact.metadata.owner_references
    if cache.spec.mode == CacheMode.DEDICATED:
        return any(owner.uid == cache.uid for owner in owners) or cache.uid in promoted_from(artifact)
    return not owners


def _is_promotable(artifact: AIMArtifact) -> bool:
    owners = artifact.metadata.owner_references
    ours = all(owner.api_version.partition("/")[0] == GROUP for owner in owners)
    return bool(owners) and ours and artifact.status.status in _PROMOTABLE


def _best(artifacts: Iterable[AIMArtifact]) -> AIMArtifact | None:
    return min(artifacts, key=lambda one: (-one.status.status.priority, one.name), default=None)


CONTROLLER: Final = "template-cache"
PROFILE_CONTROLLER: Final = "profile-cache"
"""Names of the cache controllers (FW-201)."""
_HASH_LENGTH: Final = 10
_DEDICATED: Final = "dedicated"


def build_artifact(cache: Cache, entry: IndexedSource, config: RuntimeConfigSpec) -> Child:
    """The artifact for one source; owned by a Dedicated cache, without an owner for a Shared one (AR-563)."""
    override = parse_filter(cache.metadata.annotations.get(labels.ANNOTATION_DOWNLOAD_FILTER))
    metadata: JsonObject = {
        "name": artifact_name(cache, entry),
        "namespace": cache.namespace,
        "labels": child_labels(
            _labels(cache, entry),
            parent=cache,
            controller=PROFILE_CONTROLLER if is_of_profile(cache) else CONTROLLER,
            propagation=config.label_propagation,
        ),
    }
    headroom = cache.metadata.annotations.get(labels.ANNOTATION_PVC_HEADROOM)
    if headroom is not None:
        metadata["annotations"] = {labels.ANNOTATION_PVC_HEADROOM: headroom}
    spec = _spec(cache, entry) | ({} if override is None else {"downloadFilter": override})
    body = kind_of({"metadata": metadata, "spec": spec}, AIM_ARTIFACT)
    return Child(ARTIFACTS, body, owned=cache.spec.mode == CacheMode.DEDICATED, mode=WriteMode.CREATE)


def artifact_name(cache: Cache, entry: IndexedSource) -> str:
    """Name of the artifact, equal to that of the existing Go operator (AR-023, AR-025)."""
    uri = entry.source.source_uri
    hashed: list[HashSource] = [uri, _env(cache, entry), cache.spec.storage_class_name or ""]
    if cache.spec.mode == CacheMode.DEDICATED:
        hashed += [_DEDICATED, cache.name]
    override = parse_filter(cache.metadata.annotations.get(labels.ANNOTATION_DOWNLOAD_FILTER))
    if override is not None:
        hashed.append(Structured({"downloadFilter": loads(filter_text(override))}))
    return derive_name([uri.replace(".", "-")], hashed, hash_length=_HASH_LENGTH)


def promote(cache: Cache, artifact: AIMArtifact) -> Patch:
    """Make an owned artifact shared: one guarded patch, nothing is downloaded again (AR-553, AR-556)."""
    metadata = artifact.metadata
    former = dict.fromkeys((*promoted_from(artifact), *(owner.uid for owner in metadata.owner_references)))
    body = {
        "metadata": {
            "ownerReferences": None,
            "labels": {maker_label(cache): label_value(cache.name)},
            "annotations": {labels.ANNOTATION_PROMOTED_FROM: ",".join(former)},
        }
    }
    why = f"share the artifact, because shared cache {cache.name} uses it"
    return Patch(ARTIFACTS, metadata.namespace, metadata.name, metadata.resource_version, body, why)


def hand_on_env(cache: Cache, entry: IndexedSource, artifact: AIMArtifact) -> Patch | None:
    """Give an artifact of the cache that is not Ready the env that the cache has now (AR-566).

    The name stands for the env that an artifact was made with. Once another env was handed on, the annotation says
    which name that would give, so that a correction in the artifact itself lasts until the cache changes again.
    """
    metadata, env = artifact.metadata, _env(cache, entry)
    is_ours = metadata.labels.get(maker_label(cache)) == label_value(cache.name)
    if not is_ours or artifact.status.status is StatusValue.READY or artifact.spec.env == env:
        return None
    wanted = artifact_name(cache, entry)
    if metadata.annotations.get(labels.ANNOTATION_ENV_AS_OF, artifact.name) == wanted:
        return None
    body = {
        "metadata": {"annotations": {labels.ANNOTATION_ENV_AS_OF: wanted}},
        "spec": {"env": [to_json(variable) for variable in env]},
    }
    why = f"the env of cache {cache.name} has changed"
    return Patch(ARTIFACTS, metadata.namespace, metadata.name, metadata.resource_version, body, why)


def _labels(cache: Cache, entry: IndexedSource) -> dict[str, str]:
    if is_of_profile(cache):
        return {
            labels.PROFILE_NAME: label_value(cache.spec.template_name),
            labels.PROFILE_SCOPE: cache.spec.template_scope.value,
            labels.PROFILE_INDEX: str(entry.index),
            labels.PROFILE_CACHE_NAME: label_value(cache.name),
        }
    return {
        labels.TEMPLATE_CREATED: labels.TRUE,
        labels.TEMPLATE_NAME: label_value(cache.spec.template_name),
        labels.TEMPLATE_SCOPE: cache.spec.template_scope.value,
        labels.TEMPLATE_INDEX: str(entry.index),
        labels.TEMPLATE_CACHE_NAME: label_value(cache.name),
    }


def _env(cache: Cache, entry: IndexedSource) -> tuple[EnvVar, ...]:
    return merge_env(cache.spec.env, entry.source.env)


def _spec(cache: Cache, entry: IndexedSource) -> JsonObject:
    given, source = cache.spec, entry.source
    env, secrets = _env(cache, entry), given.image_pull_secrets
    optional = {
        "modelId": source.model_id,
        "size": source.size,
        "runtimeConfigName": given.runtime_config_name,
        "modelDownloadImage": given.download_image,
        "env": [to_json(variable) for variable in env],
        "imagePullSecrets": [to_json(secret) for secret in secrets],
    }
    # An empty class is the cluster's default, an absent one that of the runtime config (AR-211).
    chosen = {} if given.storage_class_name is None else {"storageClassName": given.storage_class_name}
    return {"sourceUri": source.source_uri, **chosen, **{name: value for name, value in optional.items() if value}}


@dataclass(frozen=True, slots=True)
class Match:
    """A source and the artifact that serves it, if there is one already.

    Attributes:
        claim: name of the claim that the artifact controls, if it exists (AR-575).
        evicted: no artifact is made now, because it was evicted and has no user (AR-490).
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


_REQUEUE_AFTER = 1.0
"""Seconds until a clean-up looks whether the artifacts are gone, should no change tell it."""


def reconcile_cache(cache: Cache, view: View, now: datetime) -> Plan:
    """Make sure that every model source of the template has an artifact, and say how they are."""
    config = resolve_config(view, cache.namespace, cache.spec.runtime_config_name)
    template = resolve_template(cache, view)
    kept = sources_to_keep(cache.spec.model_sources, template.sources)
    errors: list[ClassifiedError] = []
    matches = [_match(cache, entry, view, errors) for entry in kept.sources]
    evicted = _evicted(cache, matches, view)
    matches = [replace(match, evicted=match.entry.source.source_uri in evicted) for match in matches]
    evaluation = evaluate(
        type(cache).components,
        (config.component(), template.component, artifacts_component(matches)),
        generation=cache.metadata.generation,
        stored=cache.status.conditions,
        stored_status=cache.status.status,
        now=now,
        errors=(*errors, *(() if isinstance(cache, AIMProfileCache) else cache_errors(cache.spec))),
        extra=template.extra,
        failure=view.failure,
        created=cache.metadata.creation_timestamp,
    )
    patches, children = _wanted_artifacts(cache, config, template, matches, view)
    return assemble(
        evaluation,
        status=status_json(evaluation, _fields(cache, config, template, matches)),
        patches=(*forget_evicted(cache, evicted), *patches, *_changed_env(cache, matches)),
        children=children,
        events=_duplicates(cache, kept.duplicates),
    )


def clean_up_cache(cache: Cache, view: View, _: datetime) -> Plan | None:
    """Delete artifacts that never became Ready; ``None`` once nothing is left to do (AR-586, AR-589, AR-590)."""
    terminating = namespace_terminating(cache.namespace, view.get(NAMESPACES, None, cache.namespace))
    if isinstance(terminating, ClassifiedError):
        return Plan(retry=terminating)
    if terminating:
        return None
    index = ARTIFACTS_BY_PROFILE_CACHE if is_of_profile(cache) else ARTIFACTS_BY_CACHE
    found = view.select(index, scoped(cache.namespace, label_value(cache.name)))
    if found.error is not None:
        return Plan(retry=found.error)
    deletes = tuple(_removal(one) for one in found.items if _is_left_over(one, cache, view))
    return Plan(deletes=deletes, requeue_after=_REQUEUE_AFTER) if deletes else None


def _match(cache: Cache, entry: IndexedSource, view: View, errors: list[ClassifiedError]) -> Match:
    found = _candidates(cache, entry, view)
    if found.error is not None:
        errors.append(found.error)
    artifact = match_artifact(cache, entry.source, found.items)
    return Match(entry) if artifact is None else Match(entry, artifact, _claim_of(artifact, view))


def _evicted(cache: Cache, matches: Iterable[Match], view: View) -> Mapping[str, str]:
    """The sources that stay without an artifact; who wants the cache is looked up only where there are some."""
    if not evicted_sources(cache):
        return {}
    artifacts = {match.entry.source.source_uri: match.artifact for match in matches}
    return still_evicted(cache, artifacts, demanded=is_demanded(cache, view, when_unknown=False))


def _candidates(cache: Cache, entry: IndexedSource, view: View) -> Selection[AIMArtifact]:
    return view.select(ARTIFACTS_BY_SOURCE, scoped(cache.namespace, entry.source.source_uri))


def _claim_of(artifact: AIMArtifact, view: View) -> str | None:
    """The claim by ownership, not by the artifact's status, which download pods can write (AR-575)."""
    claims = view.select(CLAIMS_BY_OWNER, scoped(artifact.namespace, artifact.uid)).items
    return next((claim.name for claim in claims if is_controlled_by(claim, artifact)), None)


def _wanted_artifacts(
    cache: Cache, config: ResolvedConfig, template: ResolvedTemplate, matches: Iterable[Match], view: View
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


def _changed_env(cache: Cache, matches: Iterable[Match]) -> list[Patch]:
    """What brings a changed env to the artifacts that may be waiting for it."""
    patches = (hand_on_env(cache, match.entry, match.artifact) for match in matches if match.artifact is not None)
    return [patch for patch in patches if patch is not None]


def _fields(cache: Cache, config: ResolvedConfig, template: ResolvedTemplate, matches: list[Match]) -> JsonObject:
    artifacts = artifacts_status(matches)
    kind = None if template.template is None else template.template.kind
    return {
        "resolvedRuntimeConfig": config.reference_json(cache.status.resolved_runtime_config),
        **({} if is_of_profile(cache) else {"resolvedTemplateKind": kind}),
        "artifacts": dict(artifacts) if artifacts else None,
    }


def _duplicates(cache: Cache, models: Iterable[str]) -> tuple[Event, ...]:
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


def _is_left_over(artifact: AIMArtifact, cache: Cache, view: View) -> bool:
    if artifact.deleting or artifact.status.status is StatusValue.READY:
        return False
    users = caches_with(view, artifact.uid).items
    return not any(user.uid != cache.uid and not user.deleting for user in users)


def _removal(artifact: AIMArtifact) -> Delete:
    why = "its cache is deleted before it became Ready"
    return Delete(ARTIFACTS, artifact.namespace, artifact.name, artifact.uid, why)
