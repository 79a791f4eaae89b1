"""Health of a PersistentVolumeClaim, and what refuses a pod or a volume before there is one (AR-844, FW-165)."""

from collections.abc import Iterable, Sequence
from typing import Final

from controller_runtime import (
    Category,
    ClaimPhase,
    ClassifiedError,
    Component,
    ConditionStatus,
    EventType,
    Resource,
    State,
    find_condition,
)
from controller_runtime.core import Event, PersistentVolumeClaim

FAILED_CREATE: Final = "FailedCreate"
_CREATED: Final = frozenset({"SuccessfulCreate", "Resumed"})
_HELD: Final = frozenset({FAILED_CREATE, "Suspended"})
_COMBINED: Final = "(combined from similar events): "
_PODS: Final = 'pods "'
_SUFFIX: Final = 5
"""Characters that Kubernetes adds to the name of a pod."""
_REMEDY: Final = "correct what it names, or set {block} of the runtime config"


def refused_pods(events: Iterable[Event], owner: Resource) -> Event | None:
    """The Event that says why the owner makes no pod; `None` where it has made one since, or none says so."""
    return _newest(events, owner.uid, _HELD, _CREATED)


def refused_volume(events: Iterable[Event], claim: Resource) -> Event | None:
    """The Warning of the provisioner or the volume binder why a claim has no volume."""
    own = [event for event in events if event.involved_object.uid == claim.uid]
    troubles = {event.reason for event in own if event.type is EventType.WARNING}
    return _newest(own, claim.uid, troubles, {"ProvisioningSucceeded"})


def _newest(events: Iterable[Event], uid: str, wanted: Iterable[str], ending: Iterable[str]) -> Event | None:
    reasons, ends = frozenset(wanted), frozenset(ending)
    own = [event for event in events if event.involved_object.uid == uid and event.reason in reasons | ends]
    last = max(own, key=lambda event: (str(event.last_seen or ""), event.reason in reasons), default=None)
    return last if last is not None and last.reason in reasons else None


def refused_component(name: str, what: str, event: Event, *, block: str) -> Component:
    """A component that waits for what the Event names.

    Args:
        what: kind and name of what makes the pod.
        block: of the runtime config, with the settings of such pods.
    """
    held = "is suspended" if event.reason == "Suspended" else "cannot create a pod"
    message = f"{what} {held}: {words_of(event)}; {_REMEDY.format(block=block)}"
    return Component(name, State.PENDING, event.reason, message)


def words_of(event: Event) -> str:
    """The message, without what differs from attempt to attempt: each would be another status."""
    text = event.message.strip().removeprefix(_COMBINED)
    before, found, after = text.partition(_PODS)
    name, quote, rest = after.partition('"')
    if not found or not quote:
        return text
    stem, dash, suffix = name.rpartition("-")
    is_made = bool(dash) and len(suffix) == _SUFFIX and suffix.isalnum()
    return f"{before}{found}{stem if is_made else name}{quote}{rest}"


def newest_refusal(events: Sequence[Event], prefix: str) -> Event | None:
    """The newest `FailedCreate` of those ReplicaSets whose names begin so (SV-321)."""
    own = [event for event in events if event.reason == FAILED_CREATE and event.involved_object.name.startswith(prefix)]
    return max(own, key=lambda event: str(event.last_seen or ""), default=None)


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
