"""The reconcile of an AIMArtifact: its stages in order, who uses it, and the binding by which pods report progress."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from aim_artifacts import SERVICE_NAME
from aim_artifacts.adapters import (
    claim_of_disk,
    disk_of,
    disk_stage,
    environment,
    is_adapter,
    is_disk,
    is_verified_on,
    waiting_for_disk,
    without_room,
)
from aim_artifacts.claim import (
    display_size,
    headroom_annotation,
    headroom_percent,
    is_controlled_by,
    is_verified,
    stated_size,
)
from aim_artifacts.conditions import (
    DOWNLOAD_COMPLETE,
    DOWNLOAD_FILTER_IGNORED,
    INVALID_QUOTA_ANNOTATION,
    MODEL_ID_KNOWN,
    MODEL_ID_MISSING,
    Annotation,
    annotate,
)
from aim_artifacts.download_stage import download, provision, settled_stage
from aim_artifacts.indexes import AS_CREATED, PODS_BY_JOB, USES_OF_CLAIM, ClaimUse, has_weights
from aim_artifacts.jobs import filter_to_pin, is_filter_ignored
from aim_artifacts.limits.admission import Admission, in_effect, judge
from aim_artifacts.progress import DownloadOutcome, download_complete, progress_fields
from aim_artifacts.settings import STATUS_UPDATER, ArtifactsSettings
from aim_artifacts.size_stage import discover_size
from aim_artifacts.source import effective_model_id, pinned_revision
from aim_artifacts.stage import JobSeen, SeenArtifact, Stage
from aim_domain import AIMArtifact, CacheMode, PodFacts, artifact_errors, labels, resolve_config
from aim_domain.naming import check_size_job_name, claim_name, download_job_name
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_JOBS, STATUS_UPDATER_BINDINGS
from aim_domain.storage_limits import storage_request
from controller_runtime import (
    ApiModel,
    Category,
    Child,
    ClassifiedError,
    Desired,
    Evaluation,
    Event,
    EventType,
    JsonObject,
    Lookup,
    Observability,
    Patch,
    Plan,
    State,
    StatusValue,
    Time,
    View,
    WriteMode,
    assemble,
    canonical,
    condition,
    evaluate,
    find_condition,
    kind_of,
    loads,
    scoped,
    soonest,
    status_json,
    timestamp,
    to_json,
)
from controller_runtime.core import PersistentVolumeClaim, RoleBinding, Subject
from controller_runtime.kinds import ROLE_BINDING

_RBAC = "rbac.authorization.k8s.io"


def build_binding(namespace: str, settings: ArtifactsSettings) -> Child:
    """The binding of one namespace: shared by its artifacts, hence without owner, and never deleted."""
    body = {
        "metadata": {"name": STATUS_UPDATER, "namespace": namespace},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": settings.artifact_status_clusterrole},
        "subjects": [_downloader(namespace, settings)],
    }
    return Child(STATUS_UPDATER_BINDINGS, kind_of(body, ROLE_BINDING), owned=False, mode=WriteMode.CREATE)


def move_binding(binding: RoleBinding, settings: ArtifactsSettings) -> tuple[Patch, ...]:
    """Give the account of downloads what former releases gave to ``default``, and take it from there (AR-813).

    Subjects that other clients have added stay. A binding of another role does not belong to the platform.
    """
    if binding.role_ref.name != settings.artifact_status_clusterrole:
        return ()
    wanted = Subject.model_validate(_downloader(binding.namespace, settings))
    others = tuple(one for one in binding.subjects if one != wanted and not _is_default(one, binding.namespace))
    if len(others) + 1 == len(binding.subjects) and wanted in binding.subjects:
        return ()
    metadata = binding.metadata
    return (
        Patch(
            STATUS_UPDATER_BINDINGS,
            metadata.namespace,
            metadata.name,
            metadata.resource_version,
            {"subjects": [to_json(one) for one in (*others, wanted)]},
            "download pods have an account of their own",
        ),
    )


def _downloader(namespace: str, settings: ArtifactsSettings) -> JsonObject:
    return {"kind": "ServiceAccount", "name": settings.artifact_service_account, "namespace": namespace}


def _is_default(subject: Subject, namespace: str) -> bool:
    return (subject.kind, subject.name, subject.namespace) == ("ServiceAccount", "default", namespace)


class SeenWorkload(ApiModel):
    """A generation that an InferenceService was changed to, and when that was seen."""

    generation: int = AS_CREATED
    seen: Time | None = None


@dataclass(frozen=True, slots=True)
class LastUse:
    """When an artifact was last used, and what to write down so that a change is seen only once."""

    moment: datetime | None
    annotations: tuple[Annotation, ...] = ()


def last_use(artifact: AIMArtifact, uses: Iterable[ClaimUse], now: datetime | None) -> LastUse:
    """The latest creation or change of an InferenceService that mounts the artifact; never before what is stored.

    The generations stand in an annotation with their moments: written before the status, and enough to write it again.

    Args:
        now: ``None`` while nothing can be written down: then a change is seen later, lest every pass see it again.
    """
    known, present = _known_workloads(artifact), list(uses)
    seen = {use.uid: _seen_workload(use, known.get(use.uid), now) for use in present if use.uid}
    changed = {uid: one for uid, one in seen.items() if one.generation != AS_CREATED}
    moments = [artifact.status.last_used, *(one.seen for one in changed.values())]
    moments += [use.created for use in present]
    moment = max((one for one in moments if one is not None), default=None)
    # Of workloads that are gone nothing is remembered, but forgetting alone is no reason to write.
    is_news = any(known.get(uid) != one for uid, one in changed.items())
    return LastUse(moment, (_annotation(changed),) if is_news else ())


def _seen_workload(use: ClaimUse, known: SeenWorkload | None, now: datetime | None) -> SeenWorkload:
    known = known or SeenWorkload()
    if now is None or known.generation == use.generation:
        return known
    # Whole seconds, as they are stored: what is read back is what was decided with.
    return SeenWorkload(generation=use.generation, seen=now.astimezone(UTC).replace(microsecond=0))


def _known_workloads(artifact: AIMArtifact) -> Mapping[str, SeenWorkload]:
    text = artifact.metadata.annotations.get(labels.ANNOTATION_WORKLOAD_GENERATIONS)
    try:
        return {} if text is None else {uid: SeenWorkload.model_validate(one) for uid, one in loads(text).items()}
    except (ValueError, AttributeError):
        return {}


def _annotation(seen: Mapping[str, SeenWorkload]) -> Annotation:
    text = canonical({uid: to_json(one) for uid, one in seen.items()}).decode()
    return Annotation(labels.ANNOTATION_WORKLOAD_GENERATIONS, text, "a workload that mounts it has changed")


REQUEUE_AFTER: Final = 10.0
"""Seconds after which a progressing artifact is looked at again (AR-103)."""

REQUEUE_BLOCKED_AFTER: Final = 60.0
"""Seconds after which an artifact without storage is looked at again (AR-472)."""


def reconcile_artifact(settings: ArtifactsSettings, artifact: AIMArtifact, view: View, now: datetime) -> Plan:
    """Bring the artifact one step closer to a verified volume."""
    seen = _observe(artifact, view)
    stage = _stage(seen, view, settings, now)
    evaluation = evaluate(
        AIMArtifact.components,
        (seen.config.component(), *stage.components),
        generation=artifact.metadata.generation,
        stored=artifact.status.conditions,
        stored_status=artifact.status.status,
        now=now,
        errors=(*_unreadable(seen.binding), *artifact_errors(artifact.spec)),
        extra=(*_download_complete(artifact, stage), *_model_id(artifact)),
        failure=view.failure,
        progressing=stage.progressing or _held_up(stage),
        # What the download reports is shown beside the status from then on.
        created=None if _downloads(stage) else artifact.metadata.creation_timestamp,
    )
    used = last_use(artifact, _uses(seen, view), now if evaluation.may_apply else None)
    annotations = (*_pin_filter(seen, stage), *stage.annotations, *used.annotations)
    return assemble(
        evaluation,
        status=_status(seen, stage, evaluation, used),
        patches=(*_move(seen, settings), *annotate(artifact, annotations), *stage.patches),
        deletes=stage.deletes,
        children=(*_binding(seen, settings), *stage.children),
        events=(*_events(artifact, stage), *stage.events),
        effects=stage.effects,
        requeue_after=_requeue_after(evaluation, stage),
    )


def _requeue_after(evaluation: Evaluation, stage: Stage) -> float | None:
    if stage.progressing is not None:
        return REQUEUE_BLOCKED_AFTER
    general = REQUEUE_AFTER if evaluation.status is StatusValue.PROGRESSING else None
    return soonest((general, stage.requeue_after))


# What there is


def _observe(artifact: AIMArtifact, view: View) -> SeenArtifact:
    disk = disk_of(artifact, view) if is_adapter(artifact) else None
    return SeenArtifact(
        artifact,
        resolve_config(view, artifact.namespace, artifact.spec.runtime_config_name),
        _own_claim(artifact, view) if disk is None else claim_of_disk(disk, view),
        view.get(STATUS_UPDATER_BINDINGS, artifact.namespace, STATUS_UPDATER),
        _job(view, artifact.namespace, check_size_job_name(artifact.name, artifact.uid)),
        _job(view, artifact.namespace, download_job_name(artifact.name, artifact.uid)),
        disk,
    )


def _own_claim(artifact: AIMArtifact, view: View) -> Lookup[PersistentVolumeClaim]:
    found = view.get(ARTIFACT_CLAIMS, artifact.namespace, claim_name(artifact.name, artifact.uid))
    if found.value is None or is_controlled_by(found.value, artifact):
        return found
    message = (
        f"PersistentVolumeClaim {found.value.key} exists and does not belong to AIMArtifact {artifact.key}; "
        "delete one of the two"
    )
    return Lookup(error=ClassifiedError(Category.INVALID_SPEC, "AlreadyExists", message))


def _job(view: View, namespace: str, name: str) -> JobSeen:
    lookup = view.get(ARTIFACT_JOBS, namespace, name)
    pods = () if lookup.value is None else view.select(PODS_BY_JOB, scoped(namespace, lookup.value.uid)).items
    return JobSeen(f"{namespace}/{name}", lookup, pods)


def _unreadable(binding: Lookup[RoleBinding]) -> tuple[ClassifiedError, ...]:
    return () if binding.error is None else (binding.error,)


# What to do


def _stage(seen: SeenArtifact, view: View, settings: ArtifactsSettings, now: datetime) -> Stage:
    facts = PodFacts(view, SERVICE_NAME, seen.artifact.uid, now)
    size = stated_size(seen.artifact) or seen.artifact.status.discovered_size_bytes
    if size is None and is_disk(seen.artifact):
        # The spec lacks its size, which its own error says.
        return Stage()
    if size is None:
        discovery = discover_size(seen, facts, settings, now)
        if discovery.size is None:
            return discovery
        size = discovery.size
    if seen.disk is not None:
        return _adapter(seen, seen.disk, size, facts=facts, settings=settings, now=now)
    claim = seen.claim.value
    if claim is None or claim.deleting:
        admission = judge(seen.artifact, seen.config.spec, size, view, now)
        return _admitted(provision(seen, size, admission), admission)
    if is_disk(seen.artifact):
        stage = disk_stage(seen.artifact, claim, facts)
    elif is_verified(claim, seen.artifact):
        stage = settled_stage(seen, claim, size, now)
    else:
        stage = replace(download(seen, claim, size, facts=facts, settings=settings, now=now), size=size)
    return _admitted(stage, in_effect(seen.artifact, view))


def _adapter(
    seen: SeenArtifact,
    disk: Lookup[AIMArtifact],
    size: int,
    *,
    facts: PodFacts,
    settings: ArtifactsSettings,
    now: datetime,
) -> Stage:
    """The stages of an adapter, which has a folder on the disk and no volume of its own (LA-021 to LA-024)."""
    claim = seen.claim.value
    if disk.value is None or claim is None:
        return waiting_for_disk(seen.artifact, disk, seen.claim)
    if is_verified_on(seen.artifact, claim):
        return settled_stage(seen, claim, size, now)
    if seen.download_job.lookup.value is None:
        full = without_room(seen.artifact, disk.value, size, facts.view)
        if full is not None:
            return full
    fixed = environment(seen.artifact, disk.value, facts.view, now)
    return replace(download(seen, claim, size, facts=facts, settings=settings, now=now, fixed=fixed), size=size)


def _admitted(stage: Stage, admission: Admission) -> Stage:
    done = admission.eviction
    stage = replace(
        stage,
        limits=admission.limits,
        patches=(*stage.patches, *done.patches),
        deletes=(*stage.deletes, *done.deletes),
        effects=(*stage.effects, *done.effects),
        events=done.events,
        annotations=done.annotations,
    )
    return stage if admission.component is None else stage.with_components(admission.component)


def _binding(seen: SeenArtifact, settings: ArtifactsSettings) -> tuple[Child, ...]:
    if seen.binding.value is not None:
        return ()
    return (build_binding(seen.artifact.namespace, settings),)


def _move(seen: SeenArtifact, settings: ArtifactsSettings) -> tuple[Patch, ...]:
    return () if seen.binding.value is None else move_binding(seen.binding.value, settings)


def _pin_filter(seen: SeenArtifact, stage: Stage) -> tuple[Annotation, ...]:
    """Pin the effective filter together with the first Job, so that estimate and download agree (AR-407)."""
    if not any(child.part is ARTIFACT_JOBS for child in stage.children):
        return ()
    pinned = filter_to_pin(seen.artifact, seen.config.spec)
    if pinned is None:
        return ()
    return (Annotation(labels.ANNOTATION_RESOLVED_DOWNLOAD_FILTER, pinned, "pin the download filter"),)


# What to say


def _download_complete(artifact: AIMArtifact, stage: Stage) -> Sequence[Desired]:
    """The condition exists once a download Job has existed (AR-310)."""
    existed = find_condition(artifact.status.conditions, DOWNLOAD_COMPLETE) is not None
    if stage.outcome is None and not existed:
        return ()
    return (download_complete(artifact.status, stage.outcome or DownloadOutcome()),)


def _model_id(artifact: AIMArtifact) -> Sequence[Desired]:
    """That the name under which containers look for the weights is not known; nothing where it is (AR-829)."""
    spec = artifact.spec
    # A spec that cannot be carried out says one thing (FW-474).
    if not has_weights(artifact) or artifact_errors(spec) or effective_model_id(spec.model_id, spec.source_uri):
        return ()
    message = (
        f"no modelId is given for {spec.source_uri} and none can be derived; "
        f"inference containers will find the weights under the artifact's name, {artifact.name}; set spec.modelId"
    )
    # Silent: the Event of AR-113 reports it once.
    return (condition(MODEL_ID_KNOWN, False, MODEL_ID_MISSING, message, Observability.SILENT),)


_UNEXPLAINED: Final = frozenset({"PodsPending", "PvcPending"})
"""What waits, and does not say for what."""


def _held_up(stage: Stage) -> tuple[str, str] | None:
    """Reason and message of what refuses a pod or a volume: caches quote it (AR-846)."""
    order = AIMArtifact.components
    waiting = [
        part
        for part in stage.components
        if part.effective_state is State.PENDING and part.hold is None and part.effective_reason not in _UNEXPLAINED
    ]
    first = min(waiting, key=lambda part: order.index(part.name), default=None)
    return None if first is None else (first.effective_reason, first.effective_message)


def _downloads(stage: Stage) -> bool:
    return stage.outcome is not None and stage.outcome.running


def _status(seen: SeenArtifact, stage: Stage, evaluation: Evaluation, used: LastUse) -> JsonObject:
    artifact = seen.artifact
    stored = artifact.status.discovered_size_bytes
    discovered = stored if stored is not None or stated_size(artifact) is not None else stage.size
    progress = {} if stage.outcome is None else progress_fields(artifact.status, stage.outcome, stage.size)
    return status_json(
        evaluation,
        {
            "mode": (CacheMode.DEDICATED if artifact.metadata.owner_references else CacheMode.SHARED).value,
            "displaySize": display_size(artifact, discovered),
            "discoveredSizeBytes": discovered,
            "revision": pinned_revision(artifact.spec.source_uri) or None,
            "lastUsed": None if used.moment is None else timestamp(used.moment),
            **_volume_fields(seen),
            **progress,
        },
    )


def _uses(seen: SeenArtifact, view: View) -> Sequence[ClaimUse]:
    claim = seen.claim.value if seen.disk is None else None
    return () if claim is None else view.summary(USES_OF_CLAIM, scoped(claim.namespace, claim.name)).items


def _volume_fields(seen: SeenArtifact) -> JsonObject:
    """Name, size and headroom of the volume, as they stand on the claim itself (AR-204, AR-205, AR-214)."""
    claim = seen.claim.value
    if claim is None or seen.disk is not None:
        return {}
    applied = headroom_annotation(claim.metadata.annotations.get(labels.ANNOTATION_HEADROOM))
    return {
        "persistentVolumeClaim": claim.name,
        "allocatedSize": storage_request(claim),
        "headroomPercent": headroom_percent(seen.artifact, seen.config.spec) if applied is None else applied,
    }


def _events(artifact: AIMArtifact, stage: Stage) -> tuple[Event, ...]:
    """Warnings about the spec, once per object: with its first status (AR-113, AR-405, AR-444)."""
    # A spec that cannot be carried out says one thing (FW-474).
    if artifact.status.observed_generation is not None or artifact_errors(artifact.spec):
        return ()
    events = [Event(EventType.WARNING, one.reason, one.message) for one in _model_id(artifact)]
    if is_filter_ignored(artifact):
        message = "downloadFilter concerns hf:// sources only; everything below the S3 key is downloaded"
        events.append(Event(EventType.WARNING, DOWNLOAD_FILTER_IGNORED, message))
    if stage.limits.bad_annotation is not None:
        message = (
            f"annotation {labels.ANNOTATION_STORAGE_QUOTA} of namespace {artifact.namespace} is "
            f"{stage.limits.bad_annotation!r}, which is not a quantity; the cluster's default applies"
        )
        events.append(Event(EventType.WARNING, INVALID_QUOTA_ANNOTATION, message))
    return tuple(events)
