"""Health of a PersistentVolumeClaim (FW-165)."""

from controller_runtime import (
    Category,
    ClaimPhase,
    ClassifiedError,
    Component,
    ConditionStatus,
    State,
    find_condition,
)
from controller_runtime.core import PersistentVolumeClaim


def inspect_pvc(name: str, claim: PersistentVolumeClaim | None, *, what: str) -> Component:
    """Component of a claim.

    Args:
        what: kind and name for messages, needed where the claim is missing.
    """
    error = _error(claim, what)
    if error is not None:
        return Component(name, errors=(error,))
    if claim is not None and claim.status.phase == ClaimPhase.BOUND:
        return Component(name, State.READY)
    message = f"{what} waits for a volume"
    return Component(name, State.PROGRESSING, "PvcPending", message)


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
