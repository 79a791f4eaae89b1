"""The PersistentVolumeClaim of an artifact (AR-104, AR-105, AR-210…AR-214)."""

from datetime import datetime
from typing import Final

from aim_artifacts.conditions import DOWNLOAD_COMPLETE, VERIFIED
from aim_artifacts.indexes import CLAIMS_BY_NAMESPACE, EVERYWHERE, owning_artifacts
from aim_artifacts.limits.quota import Limits
from aim_artifacts.sizing import headroom_percent, whole_bytes
from aim_artifacts.source import without_scheme
from aim_domain import AIMArtifact, RuntimeConfigSpec, child_labels, labels
from aim_domain.naming import claim_name, label_value, optional_label_value
from aim_domain.parts import ARTIFACT_CLAIMS
from controller_runtime import (
    Child,
    ConditionStatus,
    JsonObject,
    Patch,
    Quota,
    Resource,
    StatusValue,
    WriteMode,
    find_condition,
    kind_of,
    timestamp,
    volume_size,
)
from controller_runtime.core import PersistentVolumeClaim
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM

CONTROLLER: Final = "artifact"
"""Name of the artifact controller (FW-201)."""


def build_claim(artifact: AIMArtifact, config: RuntimeConfigSpec, size: int, limits: Limits) -> Child:
    """The claim for weights of ``size`` bytes; created once, never updated (AR-213), within the limits (AR-447)."""
    headroom = headroom_percent(artifact, config)
    metadata: JsonObject = {
        "name": claim_name(artifact.name, artifact.uid),
        "namespace": artifact.namespace,
        "labels": child_labels(
            _labels(artifact), parent=artifact, controller=CONTROLLER, propagation=config.label_propagation
        ),
        "annotations": {labels.ANNOTATION_HEADROOM: str(headroom)},
    }
    spec: JsonObject = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": volume_size(size, headroom)}},
    }
    storage_class = _storage_class(artifact, config)
    if storage_class:
        spec["storageClassName"] = storage_class
    body = kind_of({"metadata": metadata, "spec": spec}, PERSISTENT_VOLUME_CLAIM)
    takes = claimed_bytes(artifact, config, size)
    scopes = ((artifact.namespace, limits.namespace), (EVERYWHERE, limits.cluster))
    quotas = (
        Quota(CLAIMS_BY_NAMESPACE, scope, limit, takes, counted_bytes) for scope, limit in scopes if limit is not None
    )
    return Child(ARTIFACT_CLAIMS, body, mode=WriteMode.CREATE, quotas=tuple(quotas))


def claimed_bytes(artifact: AIMArtifact, config: RuntimeConfigSpec, size: int) -> int:
    """What a claim for weights of ``size`` bytes takes of the limits."""
    return whole_bytes(volume_size(size, headroom_percent(artifact, config)))


def _labels(artifact: AIMArtifact) -> dict[str, str]:
    name = label_value(artifact.name)
    source = optional_label_value(without_scheme(artifact.spec.source_uri))
    from_cache = artifact.metadata.labels.get(labels.TEMPLATE_CREATED) == labels.TRUE
    return {
        labels.CACHE_NAME: name,
        labels.ARTIFACT: name,
        **({labels.CACHE_TYPE: labels.CACHE_TYPE_TEMPLATE_CACHE} if from_cache else {}),
        **({labels.SOURCE_MODEL: source} if source else {}),
    }


def _storage_class(artifact: AIMArtifact, config: RuntimeConfigSpec) -> str | None:
    configured = config.storage.default_storage_class_name if config.storage else None
    own = artifact.spec.storage_class_name
    return configured if own is None else own


def is_controlled_by(child: Resource, owner: Resource) -> bool:
    """Whether an object was made for exactly this owner."""
    return any(reference.uid == owner.uid and reference.controller for reference in child.metadata.owner_references)


def storage_request(claim: PersistentVolumeClaim) -> int | str | None:
    """The storage that the claim asks for."""
    return claim.spec.resources.requests.get("storage")


def counted_bytes(claim: PersistentVolumeClaim) -> int:
    """What the claim takes of the storage limits, in every phase; nothing if no artifact owns it (AR-446)."""
    return whole_bytes(storage_request(claim)) if owning_artifacts(claim) else 0


def is_verified(claim: PersistentVolumeClaim, artifact: AIMArtifact) -> bool:
    """Whether the volume's content was verified (AR-104), be it by the existing Go operator (AR-105)."""
    return has_marker(claim) or _was_verified_before(claim, artifact)


def has_marker(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim carries the marker of a verified content."""
    return labels.ANNOTATION_DOWNLOAD_VERIFIED in claim.metadata.annotations


def _was_verified_before(claim: PersistentVolumeClaim, artifact: AIMArtifact) -> bool:
    complete = find_condition(artifact.status.conditions, DOWNLOAD_COMPLETE)
    if complete is None or complete.status is not ConditionStatus.TRUE or complete.reason != VERIFIED:
        return False
    since, created = complete.last_transition_time, claim.metadata.creation_timestamp
    # A claim made after the verification is another volume, whatever the status still says (AR-P07).
    older = since is not None and created is not None and created <= since
    return older and artifact.status.status is StatusValue.READY


def mark_verified(claim: PersistentVolumeClaim, now: datetime) -> Patch:
    """Write the marker onto the claim."""
    body = {"metadata": {"annotations": {labels.ANNOTATION_DOWNLOAD_VERIFIED: timestamp(now)}}}
    metadata = claim.metadata
    why = "the download is verified"
    return Patch(ARTIFACT_CLAIMS, metadata.namespace, metadata.name, metadata.resource_version, body, why)
