"""Deletion: preconditions, finalizers, propagation policies and the grace period of pods."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aim_local.apiserver import status
from aim_local.apiserver.resources import Key, Propagation, ResourceType
from aim_local.apiserver.store import Store, Version
from aim_local.apiserver.values import timestamp
from aim_local.apiserver.writing import is_released
from controller_runtime import JsonObject

FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"
_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
_DEFAULT_GRACE: Final = 30


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """metav1.DeleteOptions as far as it matters here."""

    propagation: Propagation | None = None
    grace_seconds: int | None = None
    uid: str = ""
    revision: str = ""
    dry_run: bool = False


class Deleter:
    """Deletes objects, or marks them as being deleted while something still holds them."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def delete(self, resource: ResourceType, key: Key, options: DeleteOptions) -> tuple[Version, bool]:
        """Delete one object; the flag tells whether it is gone now.

        Raises:
            ApiError: 404, 409 for a failed precondition, 403 for a namespace that has to stay.
        """
        live = self._store.get(resource.storage, key)
        if live is None:
            raise status.not_found(resource, key[1])
        self._check(resource, live, options)
        marked = self._mark(resource, live, options)
        if options.dry_run:
            return Version(key, marked, live.revision), is_released(marked)
        if is_released(marked):
            return self._store.remove(resource.storage, key), True
        if marked == live.obj:
            return live, False
        return self._store.put(resource.storage, key, marked), False

    def _check(self, resource: ResourceType, live: Version, options: DeleteOptions) -> None:
        if resource.qualified == "namespaces" and live.key[1] in _IMMORTAL:
            raise status.forbidden(resource, live.key[1], "this namespace may not be deleted")
        if options.uid and options.uid != live.uid:
            why = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({live.uid}). "
                "The object might have been deleted and then recreated"
            )
            raise status.precondition_failed(resource, live.key[1], why)
        if options.revision and options.revision != str(live.revision):
            why = (
                f"the ResourceVersion in the precondition ({options.revision}) does not match "
                f"the ResourceVersion in record ({live.revision}). The object might have been modified"
            )
            raise status.precondition_failed(resource, live.key[1], why)

    def _mark(self, resource: ResourceType, live: Version, options: DeleteOptions) -> JsonObject:
        obj = live.copy()
        metadata = obj["metadata"]
        finalizers = _finalizers(resource, metadata.get("finalizers") or [], options.propagation)
        metadata["finalizers"] = finalizers
        if not finalizers:
            del metadata["finalizers"]
        grace = _grace(resource, obj, options)
        if not metadata.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = timestamp(self._clock() + grace)
            metadata["deletionGracePeriodSeconds"] = grace
            if metadata.get("generation"):
                metadata["generation"] += 1
        elif grace < metadata.get("deletionGracePeriodSeconds", 0):
            metadata["deletionTimestamp"] = timestamp(self._clock() + grace)
            metadata["deletionGracePeriodSeconds"] = grace
        if resource.qualified == "namespaces":
            obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
        return obj


def _finalizers(resource: ResourceType, present: list[str], asked: Propagation | None) -> list[str]:
    """The finalizers with the one of the propagation policy; without a policy, one that is set already stands."""
    if asked is None and {FOREGROUND_FINALIZER, ORPHAN_FINALIZER} & set(present):
        return present
    policy = asked or resource.default_propagation
    kept = [name for name in present if name not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    if policy is Propagation.FOREGROUND:
        return [*kept, FOREGROUND_FINALIZER]
    return [*kept, ORPHAN_FINALIZER] if policy is Propagation.ORPHAN else kept


def _grace(resource: ResourceType, obj: JsonObject, options: DeleteOptions) -> int:
    """Seconds that the kubelet has to stop a pod; 0 for everything that no kubelet runs."""
    if resource.qualified != "pods" or not obj.get("spec", {}).get("nodeName"):
        return 0
    if obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_seconds is not None:
        return options.grace_seconds
    return int(obj["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE))
