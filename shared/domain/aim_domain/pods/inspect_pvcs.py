"""Health of a PersistentVolumeClaim (FW-165)."""

from collections.abc import Sequence

from aim_domain.pods.refusals import refused_volume, words_of
from controller_runtime import (
    Category,
    ClaimPhase,
    ClassifiedError,
    Component,
    ConditionStatus,
    State,
    find_condition,
)
from controller_runtime.core import Event, PersistentVolumeClaim


def inspect_pvc(
    name: str, claim: PersistentVolumeClaim | None, *, what: str, events: Sequence[Event] = ()
) -> Component:
    """Component of a claim.

    Args:
        what: kind and name for messages, needed where the claim is missing.
        events: of the claim, in which the provisioner says why there is no volume (AR-845).
    """
    error = _error(claim, what)
    if error is not None:
        return Component(name, errors=(error,))
    if claim is not None and claim.status.phase == ClaimPhase.BOUND:
        return Component(name, State.READY)
    refused = None if claim is None else refused_volume(events, claim)
    if claim is not None and refused is not None:
        return Component(name, State.PENDING, refused.reason, _refusal(claim, what, words_of(refused)))
    message = f"{what} waits for a volume"
    return Component(name, State.PROGRESSING, "PvcPending", message)


def _refusal(claim: PersistentVolumeClaim, what: str, words: str) -> str:
    wanted = f"storage class {claim.spec.storage_class_name or 'the default one'}"
    modes = ", ".join(claim.spec.access_modes) or "no access mode"
    return (
        f"{what} ({wanted}, {modes}) gets no volume: {words}; name a storage class that exists and provides {modes} "
        "in spec.storageClassName or storage.defaultStorageClassName of the runtime config, and delete the claim"
    )


def _error(claim: PersistentVolumeClaim | None, what: str) -> ClassifiedError | None:
    if claim is None:
        return ClassifiedError(Category.MISSING_DOWNSTREAM, "PvcNotFound", f"{what} does not exist")
    if claim.status.phase == ClaimPhase.BOUND:
        return None
    if claim.status.phase == ClaimPhase.LOST:
        return ClassifiedError(Category.INFRASTRUCTURE, "PvcLost", f"{what} has lost its volume")
    resizing = find_condition(claim.status.conditions, "Resizing")
    if resizing is not None and resizing.status == ConditionStatus.FALSE and resizing.reason == "ProvisioningFailed":
        return ClassifiedError(
            Category.INFRASTRUCTURE, "PvcProvisioningFailed", f"{what} could not be provisioned: {resizing.message}"
        )
    return None
