"""Whom room for a volume concerns: a line that no single decision sees (AR-472)."""

from collections.abc import Iterable
from typing import Final

from aim_artifacts.admission import admissible, admissible_after
from aim_artifacts.indexes import is_waiting
from aim_domain import DEFAULT_NAME, AIMArtifact, AIMClusterRuntimeConfig, labels
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACTS, CLUSTER_RUNTIME_CONFIGS, NAMESPACES
from controller_runtime import Change, Key, View, Wake, WakeBy, is_paused
from controller_runtime.core import Namespace, PersistentVolumeClaim


def _after_claim(change: Change[PersistentVolumeClaim], view: View) -> Iterable[Key]:
    return admissible_after(view, change.key.namespace) if change.new is None else []


def _after_artifact(change: Change[AIMArtifact], view: View) -> Iterable[Key]:
    """One that stood before others and has given up its place."""
    given_up = _wants_volume(change.before) and not _wants_volume(change.after)
    left = change.after is None or change.after.deleting or is_paused(change.after)
    return admissible_after(view, change.key.namespace) if given_up and left else []


def _wants_volume(artifact: AIMArtifact | None) -> bool:
    return artifact is not None and is_waiting(artifact) and not artifact.deleting and not is_paused(artifact)


def _after_config(change: Change[AIMClusterRuntimeConfig], view: View) -> Iterable[Key]:
    quotas = [None if one is None else one.spec.artifact_storage_quota for one in (change.before, change.after)]
    return admissible(view, None) if change.key.name == DEFAULT_NAME and quotas[0] != quotas[1] else []


def _after_namespace(change: Change[Namespace], view: View) -> Iterable[Key]:
    limits = [
        None if one is None else one.metadata.annotations.get(labels.ANNOTATION_STORAGE_QUOTA)
        for one in (change.before, change.after)
    ]
    return admissible(view, change.key.name) if limits[0] != limits[1] else []


ARTIFACT_WAKES: Final[tuple[Wake, ...]] = (
    WakeBy(ARTIFACT_CLAIMS, _after_claim),
    WakeBy(ARTIFACTS, _after_artifact),
    WakeBy(CLUSTER_RUNTIME_CONFIGS, _after_config),
    WakeBy(NAMESPACES, _after_namespace),
)
