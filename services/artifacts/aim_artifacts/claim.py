"""The claim of an artifact, and how large it has to be."""

from datetime import datetime
from typing import Final

from aim_artifacts.conditions import DOWNLOAD_COMPLETE, VERIFIED
from aim_artifacts.indexes import CLAIMS_BY_NAMESPACE, EVERYWHERE
from aim_artifacts.source import without_scheme
from aim_domain import DEFAULT_HEADROOM_PERCENT, AIMArtifact, RuntimeConfigSpec, child_labels, labels
from aim_domain.naming import claim_name, label_value, optional_label_value
from aim_domain.parts import ARTIFACT_CLAIMS
from aim_domain.storage_limits import StorageLimits, counted_bytes, whole_bytes
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
    quantity,
    timestamp,
    volume_size,
)
from controller_runtime.core import PersistentVolumeClaim
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM

LARGEST_SOURCE: Final = 1 << 50
"""Largest size in bytes that a size discovery may report (AR-157)."""


def stated_size(artifact: AIMArtifact) -> int | None:
    """Bytes of ``spec.size``; ``None`` when it is absent, zero or unusable (AR-150, AR-203)."""
    given = whole_bytes(artifact.spec.size)
    return given if given > 0 else None


def headroom_percent(artifact: AIMArtifact, config: RuntimeConfigSpec) -> int:
    """Headroom for a volume that is yet to be made (AR-201)."""
    override = headroom_annotation(artifact.metadata.annotations.get(labels.ANNOTATION_PVC_HEADROOM))
    if override is not None:
        return override
    configured = config.storage.pvc_headroom_percent if config.storage else None
    return DEFAULT_HEADROOM_PERCENT if configured is None else configured


def headroom_annotation(text: str | None) -> int | None:
    """A percentage stored in an annotation; ``None`` when it is absent or no number."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None


def display_size(artifact: AIMArtifact, discovered: int | None) -> str | None:
    """``status.displaySize``: of the spec if it says a size, else of the discovery (AR-421)."""
    stated = stated_size(artifact)
    try:
        if stated is not None:
            return quantity.human_size(stated)
        return None if discovered is None else quantity.human_size(discovered)
    except quantity.QuantityError:
        return str(artifact.spec.size) if stated is not None else None


CONTROLLER: Final = "artifact"
"""Name of the artifact controller (FW-201)."""


def build_claim(artifact: AIMArtifact, config: RuntimeConfigSpec, size: int, limits: StorageLimits) -> Child:
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


def is_verified(claim: PersistentVolumeClaim, artifact: AIMArtifact) -> bool:
    """Whether the volume's content was verified (AR-104), be it by the existing Go operator (AR-105)."""
    return is_marked_verified(claim) or _was_verified_before(claim, artifact)


def is_marked_verified(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim carries the mark of a verified content."""
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
    """Write the mark onto the claim."""
    body = {"metadata": {"annotations": {labels.ANNOTATION_DOWNLOAD_VERIFIED: timestamp(now)}}}
    metadata = claim.metadata
    why = "the download is verified"
    return Patch(ARTIFACT_CLAIMS, metadata.namespace, metadata.name, metadata.resource_version, body, why)
