"""Disks for LoRA adapters, and the adapters on them (LA-010 to LA-027)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from aim_artifacts.claim import is_controlled_by, stated_size
from aim_artifacts.conditions import Annotation
from aim_artifacts.indexes import ADAPTERS_BY_DISK
from aim_artifacts.stage import Stage
from aim_domain import AIMArtifact, ArtifactType, PodFacts, inspect_pvc, labels
from aim_domain.component_names import ComponentName
from aim_domain.naming import adapter_folder, claim_name
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACTS
from controller_runtime import (
    Component,
    Dependency,
    Lookup,
    State,
    View,
    quantity,
    scoped,
    timestamp,
)
from controller_runtime.core import EnvVar, PersistentVolumeClaim

FOLDERS: Final = "AIM_ADAPTER_FOLDERS"
PLANNED: Final = "AIM_ADAPTER_PLANNED_AT"
_CLAIM: Final = ComponentName.CACHE_PVC
_UNBOUND: Final = "PvcPending"


def is_adapter(artifact: AIMArtifact) -> bool:
    """Whether it lies on a disk of others, and has no claim of its own."""
    return artifact.spec.type is ArtifactType.ADAPTER


def is_disk(artifact: AIMArtifact) -> bool:
    """Whether nothing is downloaded to it but adapters."""
    return artifact.spec.type is ArtifactType.ADAPTER_DISK


def disk_of(artifact: AIMArtifact, view: View) -> Lookup[AIMArtifact]:
    """The disk that an adapter is for; nothing where what has that name is none (LA-022)."""
    found = view.get(ARTIFACTS, artifact.namespace, artifact.spec.disk or "")
    return found if found.value is None or is_disk(found.value) else Lookup()


def claim_of_disk(disk: Lookup[AIMArtifact], view: View) -> Lookup[PersistentVolumeClaim]:
    """The claim of a disk; nothing while there is none that a pod could mount."""
    if disk.value is None:
        return Lookup(error=disk.error)
    found = view.get(ARTIFACT_CLAIMS, disk.value.namespace, claim_name(disk.value.name, disk.value.uid))
    claim = found.value
    usable = claim is None or (is_controlled_by(claim, disk.value) and not claim.deleting)
    return found if usable else Lookup()


def disk_stage(artifact: AIMArtifact, claim: PersistentVolumeClaim, facts: PodFacts) -> Stage:
    """A disk is Ready with its claim; one that waits for its first pod would wait for ever otherwise (LA-010)."""
    what = f"PersistentVolumeClaim {claim.name}"
    volume = inspect_pvc(_CLAIM, claim, what=what, events=facts.events_about(claim))
    unbound = volume.effective_reason == _UNBOUND
    return Stage(
        (Component(_CLAIM, State.READY) if unbound else volume,),
        effects=facts.due_events_about(claim) if unbound else (),
        size=stated_size(artifact),
    )


def waiting_for_disk(artifact: AIMArtifact, disk: Lookup[AIMArtifact], claim: Lookup[PersistentVolumeClaim]) -> Stage:
    """Why an adapter cannot be downloaded yet (LA-022)."""
    errors = tuple(one for one in (disk.error, claim.error) if one is not None)
    if errors:
        return Stage((Component(_CLAIM, errors=errors),))
    where = f"AIMArtifact {artifact.namespace}/{artifact.spec.disk}"
    if disk.value is None:
        message = f"{where} of type {ArtifactType.ADAPTER_DISK} not found; create it, or name another in spec.disk"
        return Stage((_waiting("AdapterDiskNotFound", message),))
    message = f"{where} has no volume yet: kubectl describe aimartifact {artifact.spec.disk} -n {artifact.namespace}"
    return Stage((_waiting("AdapterDiskNotReady", message),))


def without_room(artifact: AIMArtifact, disk: AIMArtifact, size: int, view: View) -> Stage | None:
    """The stage of an adapter for which its disk is too small, by those before it; ``None`` where it fits (LA-023)."""
    room = stated_size(disk)
    before = [one for one in adapters_on(disk, view) if not one.deleting and _order(one) < _order(artifact)]
    taken = sum(stated_size(one) or one.status.discovered_size_bytes or 0 for one in before)
    if room is None or taken + size <= room:
        return None
    message = (
        f"AIMArtifact {disk.key} is full: the adapter has {quantity.human_size(size)}, others take "
        f"{quantity.human_size(taken)} of {quantity.human_size(room)}; delete some of them, or name a larger disk"
    )
    return Stage((_waiting("AdapterDiskFull", message),), size=size)


def adapters_on(disk: AIMArtifact, view: View) -> Sequence[AIMArtifact]:
    """All adapters that name the disk."""
    return view.select(ADAPTERS_BY_DISK, scoped(disk.namespace, disk.name)).items


def is_verified_on(artifact: AIMArtifact, claim: PersistentVolumeClaim) -> bool:
    """Whether the adapter was downloaded to this very claim (LA-024)."""
    return artifact.metadata.annotations.get(labels.ANNOTATION_ADAPTER_VERIFIED) == claim.uid


def verified_on(claim: PersistentVolumeClaim) -> Annotation:
    """The mark of a verified download."""
    return Annotation(labels.ANNOTATION_ADAPTER_VERIFIED, claim.uid, "the download is verified")


def environment(artifact: AIMArtifact, disk: AIMArtifact, view: View, now: datetime) -> tuple[EnvVar, ...]:
    """Where the adapter goes, and which folders of the disk belong to an adapter (LA-021, LA-026)."""
    folders = sorted(adapter_folder(one.name, one.uid) for one in (*adapters_on(disk, view), artifact))
    return (
        EnvVar(name="TARGET_DIR", value=f"/cache/{adapter_folder(artifact.name, artifact.uid)}"),
        EnvVar(name=FOLDERS, value=",".join(dict.fromkeys(folders))),
        EnvVar(name=PLANNED, value=timestamp(now)),
    )


def _waiting(reason: str, message: str) -> Component:
    return Component(_CLAIM, State.PENDING, reason, message, dependency=Dependency.UPSTREAM)


def _order(artifact: AIMArtifact) -> tuple[str, str]:
    created = artifact.metadata.creation_timestamp
    return ("" if created is None else timestamp(created), artifact.name)
