"""What follows within moments is told at once: a new InferenceService with its pods, readiness with all of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from aim_domain import InferenceService
from aim_domain.component_names import ComponentName
from controller_runtime import BRIEFLY, Component, ConditionStatus, Hold, State, StatusValue, find_condition

JUST_MADE: Final = timedelta(seconds=5)
"""How long nothing is told of an InferenceService whose pods say nothing yet."""
_NEW: Final = timedelta(minutes=1)
"""How old a service may be for that: of an older one each step is told, as it takes its time."""
_ON_THE_WAY: Final = frozenset({State.PENDING, State.PROGRESSING, State.STARTING})
_FOLLOWING: Final = frozenset({ComponentName.INFERENCE_SERVICE_PODS, ComponentName.HTTP_ROUTE})
_MADE: Final = frozenset({ComponentName.INFERENCE_SERVICE, ComponentName.INFERENCE_SERVICE_PODS})
_EARLY: Final = frozenset({None, StatusValue.PENDING, StatusValue.PROGRESSING, StatusValue.STARTING})


@dataclass(frozen=True, slots=True)
class Beginning:
    """How far a service has come.

    Attributes:
        created: when it was created.
        told: its status as it was told last.
        made: when its InferenceService was created; ``None`` = it is not there, and this pass does not create it.
    """

    created: datetime | None
    told: StatusValue | None
    made: datetime | None

    def is_early(self, now: datetime) -> bool:
        """Whether a new service has not come further than to begin."""
        return self.told in _EARLY and self.created is not None and now - self.created < _NEW


def together(
    components: Sequence[Component], workload: InferenceService | None, beginning: Beginning, now: datetime
) -> tuple[Component, ...]:
    """The components; the whole status is held for a moment while what they say will be overtaken at once."""
    ready = None if workload is None else find_condition(workload.status.conditions, "Ready")
    if ready is not None and ready.status is ConditionStatus.TRUE:
        return _with_readiness(components, ready.last_transition_time)
    return _with_first_pods(components, beginning.made) if beginning.is_early(now) else tuple(components)


def _with_readiness(components: Sequence[Component], since: datetime | None) -> tuple[Component, ...]:
    """Pods were ready before their InferenceService, and the gateway accepts the route as soon as there is a backend:
    both are only seen later (SV-299)."""
    lagging = any(one.name in _FOLLOWING and one.effective_state in _ON_THE_WAY for one in components)
    if since is None or not lagging:
        return tuple(components)
    return _held(components, _FOLLOWING, Hold(BRIEFLY, since, whole=True))


def _with_first_pods(components: Sequence[Component], made: datetime | None) -> tuple[Component, ...]:
    """Pods come a moment after their InferenceService, and until then there is nothing to say (SV-300)."""
    pods = next((one for one in components if one.name == ComponentName.INFERENCE_SERVICE_PODS), None)
    silent = pods is not None and (pods.effective_reason == "NoPods" or pods.hold is not None)
    if made is None or not silent:
        return tuple(components)
    return _held(components, _MADE, Hold(JUST_MADE, made, whole=True))


def _held(components: Sequence[Component], names: frozenset[ComponentName], hold: Hold) -> tuple[Component, ...]:
    return tuple(replace(one, hold=hold) if one.name in names else one for one in components)
