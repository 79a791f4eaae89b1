"""What becomes ready with the InferenceService is told with it (SV-299)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aim_domain import InferenceService
from aim_domain.component_names import ComponentName
from controller_runtime import BRIEFLY, Component, ConditionStatus, Hold, State, find_condition

_ON_THE_WAY: Final = frozenset({State.PENDING, State.PROGRESSING, State.STARTING})
_FOLLOWING: Final = frozenset({ComponentName.INFERENCE_SERVICE_PODS, ComponentName.HTTP_ROUTE})


def together(components: Sequence[Component], workload: InferenceService | None) -> tuple[Component, ...]:
    """The components; nothing is told for a moment when the InferenceService is ready and others lag behind.

    Its pods were ready before it, and the gateway accepts the route as soon as there is a backend: both are only seen
    later.
    """
    ready = None if workload is None else find_condition(workload.status.conditions, "Ready")
    since = ready.last_transition_time if ready is not None and ready.status is ConditionStatus.TRUE else None
    lagging = any(one.name in _FOLLOWING and one.effective_state in _ON_THE_WAY for one in components)
    if since is None or not lagging:
        return tuple(components)
    hold = Hold(BRIEFLY, since, whole=True)
    return tuple(replace(one, hold=hold) if one.name in _FOLLOWING else one for one in components)
