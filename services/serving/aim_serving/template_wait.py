"""Whether a selection waits for candidates whose discovery goes on (SV-277…SV-279).

Discovery Jobs of one model end in any order. Whoever selected as soon as one template is Ready would get the template
whose Job happened to end first, and keep it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from aim_domain import GPUS_BY_PREFERENCE
from aim_serving.template_selection import BEST_METRIC, BEST_PRECISION, BEST_TYPE, Choice, Criteria
from aim_serving.template_selection import select_template as selected
from aim_serving.template_traits import Traits
from controller_runtime import StatusValue

PATIENCE: Final = timedelta(seconds=600)
"""How long a candidate is waited for while another one could be used (SV-278)."""

_UNDER_WAY: Final = frozenset({StatusValue.PENDING, StatusValue.PROGRESSING})
_TO_BE_FOUND: Final = frozenset({"", "auto"})


@dataclass(frozen=True, slots=True)
class Wait:
    """Candidates with which the selection could still end otherwise.

    Attributes:
        awaited: those that are waited for; nothing is selected while there are any.
        late: those that were waited for long enough.
        until: when the first of ``awaited`` is late; ``None`` when there are none.
    """

    awaited: tuple[Traits, ...] = ()
    late: tuple[Traits, ...] = ()
    until: datetime | None = None


def wait_for(candidates: Sequence[Traits], criteria: Criteria, choice: Choice, now: datetime) -> Wait:
    """Whom ``choice``, made among the candidates that are Ready, should wait for."""
    if not choice.usable:
        return Wait()
    ready = [one for one in candidates if one.status is StatusValue.READY]
    known = [one.since for one in choice.usable if one.since is not None]
    first_usable = min(known, default=None)
    deadlines: dict[Traits, datetime] = {}
    late: list[Traits] = []
    for one in candidates:
        if one.status not in _UNDER_WAY or not _matters(one, ready, criteria, choice):
            continue
        since = max((moment for moment in (first_usable, one.since) if moment is not None), default=None)
        # A clock that is far behind must not make the wait longer.
        if since is not None and abs(now - since) < PATIENCE:
            deadlines[one] = since + PATIENCE
        else:
            late.append(one)
    return Wait(tuple(deadlines), tuple(late), min(deadlines.values(), default=None))


def _matters(one: Traits, ready: Sequence[Traits], criteria: Criteria, choice: Choice) -> bool:
    """Whether the selection would end otherwise with the candidate: the selection itself says so."""
    return selected([*ready, _at_best(one, criteria)], criteria).chosen != choice.chosen


def _at_best(one: Traits, criteria: Criteria) -> Traits:
    """The candidate once it is Ready, with the best that discovery could find where nothing is known yet."""
    wanted = criteria.overrides
    gpu = wanted.hardware.gpu if wanted is not None and wanted.hardware is not None else None
    return replace(
        one,
        status=StatusValue.READY,
        type=one.type or BEST_TYPE,
        metric=one.metric or (wanted.metric if wanted else None) or BEST_METRIC,
        precision=one.precision
        if one.precision not in _TO_BE_FOUND
        else ((wanted.precision if wanted else None) or BEST_PRECISION),
        gpu_model=one.gpu_model or (gpu.model if gpu else None) or _best_gpu(criteria),
    )


def _best_gpu(criteria: Criteria) -> str:
    return next((model for model in GPUS_BY_PREFERENCE if criteria.gpu_present(model)), "")
