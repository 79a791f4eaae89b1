"""How many profiles a model or a set has, and how they are (PR-116, PR-117)."""

from collections.abc import Sequence
from typing import Final

from aim_domain import AIMClusterProfileSet, AIMProfileSet, AnyProfile, ProfileRole, role_of
from controller_runtime import Component, JsonObject, State, StatusValue, find_condition

READY: Final = "ManagedProfilesReady"
PARTLY: Final = "ManagedProfilesPartiallyReady"
NOT_AVAILABLE: Final = "ManagedProfilesNotAvailable"
CREATING: Final = "Creating"
NONE_MATCH: Final = "NoMatchingProfiles"

_UNDER_WAY: Final = frozenset({StatusValue.PENDING, StatusValue.PROGRESSING})


def counts_of(profiles: Sequence[AnyProfile]) -> JsonObject:
    """``status.managedProfiles``; zeros are written, too."""
    ready = [one for one in profiles if one.status.status is StatusValue.READY]
    deployable = [one for one in profiles if role_of(one) is ProfileRole.DEPLOYABLE]
    return {
        "total": len(profiles),
        "ready": len(ready),
        "notAvailable": sum(1 for one in profiles if one.status.status is StatusValue.NOT_AVAILABLE),
        "deployable": len(deployable),
        "base": len(profiles) - len(deployable),
    }


def managed_component(
    name: str, profiles: Sequence[AnyProfile], *, of_set: AIMProfileSet | AIMClusterProfileSet | None = None
) -> Component:
    """How the profiles are, as one.

    Args:
        of_set: the set whose members they are, which knows why there are none.
    """
    if not profiles:
        said = find_condition(of_set.status.conditions, "DerivationReady") if of_set is not None else None
        if said is None:
            return Component(name, State.PROGRESSING, CREATING, "the profiles are being created")
        state = of_set.status.status if of_set is not None else StatusValue.PENDING
        return Component(name, State(state) if state.known else State.PENDING, said.reason, said.message)
    statuses = [one.status.status for one in profiles]
    ready = statuses.count(StatusValue.READY)
    if ready == len(statuses):
        return Component(name, State.READY, READY, f"all {ready} profile(s) are ready")
    if any(status in _UNDER_WAY for status in statuses):
        return Component(name, State.PROGRESSING, CREATING, f"{len(statuses)} profile(s), not all of them settled yet")
    first = min((one for one in profiles if one.status.status is not StatusValue.READY), key=lambda one: one.name)
    said = find_condition(first.status.conditions, "Ready")
    why = f"; {first.kind} {first.key}: {said.message}" if said is not None and said.message else ""
    if ready:
        return Component(name, State.DEGRADED, PARTLY, f"{ready} of {len(statuses)} profiles are ready{why}")
    return Component(name, State.NOT_AVAILABLE, NOT_AVAILABLE, f"none of {len(statuses)} profiles is ready{why}")
