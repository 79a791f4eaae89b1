"""Automatic selection of a template: six stages of elimination (SV-090…SV-104)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from aim_domain import Overrides, gpu_rank
from aim_serving.overrides import Normalise, passes
from aim_serving.template_traits import Traits
from controller_runtime import StatusValue


class Rejection(StrEnum):
    """Why a candidate was dropped."""

    PENDING = "TemplatePending"
    PROGRESSING = "TemplateProgressing"
    NOT_AVAILABLE = "TemplateNotAvailable"
    DEGRADED = "TemplateDegraded"
    FAILED = "TemplateFailed"
    NOT_READY = "TemplateNotReady"
    UNOPTIMIZED = "UnoptimizedTemplateFiltered"
    OVERRIDES = "ServiceOverridesNotMatched"
    GPU = "RequiredGPUNotInCluster"
    RANK = "LowerPreferenceRank"


class Stage(Enum):
    """The stages that can leave nobody."""

    AVAILABILITY = 1
    OPTIMISATION = 2
    OVERRIDES = 3
    GPU = 4


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a service asks of its template, and what the cluster has.

    Attributes:
        gpu_present: whether some node carries this GPU model, by any spelling (SV-042, SV-043).
        normalise: the spelling under which GPU models are compared (SV-041).
    """

    allow_unoptimized: bool
    overrides: Overrides | None
    gpu_present: Callable[[str], bool]
    normalise: Normalise


@dataclass(frozen=True, slots=True)
class Choice:
    """Outcome of a selection.

    Attributes:
        chosen: name and scope of the winner.
        emptied_by: the stage that dropped the last candidates.
        before: how many reached that stage.
        usable: the candidates that passed all filters, before scope and preference.
        best: those that share the best score, when they are more than one (SV-100).
        rejected: every dropped candidate and why, in the order of the stages (SV-104, SV-282).
    """

    chosen: Traits | None = None
    emptied_by: Stage | None = None
    before: int = 0
    usable: tuple[Traits, ...] = ()
    best: tuple[Traits, ...] = ()
    rejected: tuple[tuple[Traits, Rejection], ...] = ()

    @property
    def tied(self) -> int:
        return len(self.best)


_OF_STATUS: Final[Mapping[StatusValue, Rejection]] = MappingProxyType(
    {
        StatusValue.PENDING: Rejection.PENDING,
        StatusValue.PROGRESSING: Rejection.PROGRESSING,
        StatusValue.NOT_AVAILABLE: Rejection.NOT_AVAILABLE,
        StatusValue.DEGRADED: Rejection.DEGRADED,
        StatusValue.FAILED: Rejection.FAILED,
    }
)
_TYPES: Final = ("optimized", "preview", "unoptimized")
_METRICS: Final = ("latency", "throughput")
_PRECISIONS: Final = ("fp4", "int4", "fp8", "int8", "fp16", "bf16", "fp32")

BEST_TYPE: Final = _TYPES[0]
BEST_METRIC: Final = _METRICS[0]
BEST_PRECISION: Final = _PRECISIONS[0]

_Check: TypeAlias = Callable[[Traits], Rejection | None]


def select_template(candidates: Sequence[Traits], criteria: Criteria) -> Choice:
    """The one best candidate, or why there is none. The order of the candidates does not matter."""
    remaining = sorted(candidates, key=lambda one: (not one.namespaced, one.name))
    rejected: list[tuple[Traits, Rejection]] = []
    for stage, check in _stages(criteria):
        verdicts = [(one, check(one)) for one in remaining]
        rejected += [(one, why) for one, why in verdicts if why is not None]
        survivors = [one for one, why in verdicts if why is None]
        if not survivors:
            return Choice(emptied_by=stage, before=len(remaining), rejected=tuple(rejected))
        remaining = survivors
    preferred = [one for one in remaining if one.namespaced] or remaining
    best = min(_score(one, criteria.normalise) for one in preferred)
    winners = [one for one in preferred if _score(one, criteria.normalise) == best]
    rejected += [(one, Rejection.RANK) for one in remaining if one not in winners]
    told = Choice(usable=tuple(remaining), rejected=tuple(rejected))
    return replace(told, chosen=winners[0]) if len(winners) == 1 else replace(told, best=tuple(winners))


def _stages(criteria: Criteria) -> tuple[tuple[Stage, _Check], ...]:
    return (
        (Stage.AVAILABILITY, _unavailable),
        (Stage.OPTIMISATION, lambda one: None if _is_optimised(one, criteria) else Rejection.UNOPTIMIZED),
        (Stage.OVERRIDES, lambda one: None if _fits(one, criteria) else Rejection.OVERRIDES),
        (Stage.GPU, lambda one: None if _has_gpu(one, criteria) else Rejection.GPU),
    )


def _unavailable(one: Traits) -> Rejection | None:
    return None if one.status is StatusValue.READY else _OF_STATUS.get(one.status, Rejection.NOT_READY)


def _is_optimised(one: Traits, criteria: Criteria) -> bool:
    return criteria.allow_unoptimized or one.type == _TYPES[0]


def _fits(one: Traits, criteria: Criteria) -> bool:
    return criteria.overrides is None or passes(one, criteria.overrides, criteria.normalise)


def _has_gpu(one: Traits, criteria: Criteria) -> bool:
    return not one.gpu_model or criteria.gpu_present(one.gpu_model)


def _score(one: Traits, normalise: Normalise) -> tuple[int, tuple[int, int], int, int]:
    """Smaller is better; unknown values come after all known ones and tie (SV-098)."""
    return (
        _rank(_TYPES, one.type.lower()),
        gpu_rank(normalise(one.gpu_model)),
        _rank(_METRICS, one.metric.lower()),
        _rank(_PRECISIONS, one.precision.lower()),
    )


def _rank(order: Sequence[str], value: str) -> int:
    return order.index(value) if value in order else len(order)
