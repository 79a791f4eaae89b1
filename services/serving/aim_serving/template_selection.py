"""Selection of a template among candidates by the overrides of the service, and its report (SV-090 to SV-115)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from aim_domain import DEFAULT_GPU_RESOURCE, GpuRequirements, Overrides, Precision, Profile, ProfileMetadata, gpu_rank
from aim_serving.containers import CanonicalHardware, canonical_hardware
from aim_serving.references import Template, is_ready, name_of
from controller_runtime import ParentCondition, StatusValue, find_condition, ready_words


@dataclass(frozen=True, slots=True)
class Traits:
    """Plain values; unknown ones are empty or zero.

    Attributes:
        since: when it became Ready; of one that is not, when it was created.
    """

    name: str
    namespaced: bool
    status: StatusValue
    type: str = ""
    metric: str = ""
    precision: str = ""
    gpu_model: str = ""
    gpu_count: int = 0
    since: datetime | None = None


def traits_of(template: Template) -> Traits:
    """Metric and precision as discovered, else as specified; type and GPU as specified, else as discovered."""
    spec, found = template.spec, metadata_of(template.status.profile)
    gpu = spec.hardware.gpu if spec.hardware else None
    return Traits(
        name=template.name,
        namespaced=bool(template.namespace),
        status=template.status.status,
        type=(spec.type or found.type or ""),
        metric=(found.metric or spec.metric or ""),
        precision=(found.precision or spec.precision or ""),
        gpu_model=((gpu.model if gpu else None) or (found.gpu or "").strip()),
        gpu_count=((gpu.requests if gpu else None) or found.gpu_count or 0),
        since=_since(template),
    )


def _since(template: Template) -> datetime | None:
    ready = find_condition(template.status.conditions, ParentCondition.READY)
    if is_ready(template) and ready is not None and ready.last_transition_time is not None:
        return ready.last_transition_time
    return template.metadata.creation_timestamp


def metadata_of(profile: Profile | None) -> ProfileMetadata:
    """What the discovered profile is made for; empty before discovery."""
    return (profile.metadata if profile else None) or ProfileMetadata()


Normalise: TypeAlias = Callable[[str], str]


def effective_overrides(overrides: Overrides | None, *, selecting: bool = False) -> Overrides | None:
    """The overrides, or nothing when they ask for nothing (SV-107).

    Args:
        selecting: whether the template is selected, where precision ``auto`` is no preference (SV-310); of a named
            template it is the precision of the derived one.
    """
    if overrides is None:
        return None
    if selecting and overrides.precision is Precision.AUTO:
        overrides = overrides.model_copy(update={"precision": None})
    hardware = overrides.hardware
    says_hardware = hardware is not None and (hardware.cpu is not None or _asks(hardware.gpu))
    return overrides if overrides.metric or overrides.precision or says_hardware else None


def _asks(gpu: GpuRequirements | None) -> bool:
    if gpu is None:
        return False
    return bool(gpu.requests or gpu.model or gpu.min_vram) or gpu.resource_name not in ("", DEFAULT_GPU_RESOURCE)


def passes(traits: Traits, overrides: Overrides, normalise: Normalise) -> bool:
    """Whether a candidate does not contradict the overrides; unknown GPU model or count does not (SV-097)."""
    gpu = overrides.hardware.gpu if overrides.hardware else None
    return (
        (not overrides.metric or traits.metric.lower() == overrides.metric.lower())
        and (not overrides.precision or traits.precision.lower() == overrides.precision.lower())
        and _passes_gpu(traits, gpu, normalise)
    )


def _passes_gpu(traits: Traits, gpu: GpuRequirements | None, normalise: Normalise) -> bool:
    if gpu is None:
        return True
    model = not gpu.model or not traits.gpu_model or normalise(gpu.model) == normalise(traits.gpu_model)
    return model and (not gpu.requests or not traits.gpu_count or gpu.requests == traits.gpu_count)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a template declares, to be held against overrides."""

    traits: Traits
    hardware: CanonicalHardware


def declares(declared: Declared, overrides: Overrides, normalise: Normalise) -> bool:
    """Whether the template itself has every overridden attribute with the wanted value (SV-106)."""
    if not passes(declared.traits, overrides, normalise):
        return False
    wanted = canonical_hardware(overrides.hardware)
    gpu, own_gpu = wanted.get("gpu", {}), declared.hardware.get("gpu", {})
    if gpu.get("model") and not declared.traits.gpu_model:
        return False
    if gpu.get("requests") and not declared.traits.gpu_count:
        return False
    if "minVram" in gpu and gpu["minVram"] != own_gpu.get("minVram"):
        return False
    other_resource = gpu.get("resourceName", DEFAULT_GPU_RESOURCE) not in (
        DEFAULT_GPU_RESOURCE,
        own_gpu.get("resourceName"),
    )
    return not other_resource and ("cpu" not in wanted or wanted["cpu"] == declared.hardware.get("cpu"))


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
    """The stages that can leave no candidate."""

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
_TYPES: Final = ("optimized", "general", "preview", "unoptimized")
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
    reported = Choice(usable=tuple(remaining), rejected=tuple(rejected))
    return replace(reported, chosen=winners[0]) if len(winners) == 1 else replace(reported, best=tuple(winners))


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


MOST: Final = 8
"""Candidates that a message lists; a condition is read by people."""
LONGEST: Final = 240
"""Characters of what is said of one candidate."""
_FURTHEST_FIRST: Final = (Rejection.RANK, Rejection.GPU, Rejection.OVERRIDES, Rejection.UNOPTIMIZED)
_WITH_OWN_WORDS: Final = frozenset({Rejection.NOT_AVAILABLE, Rejection.DEGRADED, Rejection.FAILED})


def report(choice: Choice, candidates: Mapping[Traits, Template], criteria: Criteria) -> str:
    """One clause per candidate with why it was refused, those first that came furthest."""
    ordered = sorted(choice.rejected, key=lambda pair: _place(pair[1]))
    said = [
        *(f"{name_of(candidates[one])}: {_like(one)}" for one in choice.best),
        *(_refusal(candidates[one], one, why, criteria) for one, why in ordered),
    ]
    more = len(said) - MOST
    return "; ".join(said[:MOST]) + (f"; and {more} more" if more > 0 else "")


def _place(why: Rejection) -> int:
    return _FURTHEST_FIRST.index(why) if why in _FURTHEST_FIRST else len(_FURTHEST_FIRST)


def _refusal(template: Template, traits: Traits, why: Rejection, criteria: Criteria) -> str:
    text = f"{name_of(template)}: {_reason(template, traits, why, criteria)}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _reason(template: Template, traits: Traits, why: Rejection, criteria: Criteria) -> str:
    if why is Rejection.UNOPTIMIZED:
        return f"its profile is {traits.type or 'of no known type'}, not optimized"
    if why is Rejection.OVERRIDES and criteria.overrides is not None:
        return f"is for {', '.join(_contradictions(traits, criteria.overrides, criteria)) or 'something else'}"
    if why is Rejection.GPU:
        return f"needs {_gpus(traits)}, which no node has"
    if why is Rejection.RANK:
        return f"comes after the others ({_like(traits)})"
    status = str(traits.status) or "without status"
    return f"is {status}{ready_words(template.status.conditions) if why in _WITH_OWN_WORDS else ''}"


def _contradictions(traits: Traits, wanted: Overrides, criteria: Criteria) -> Iterable[str]:
    gpu = wanted.hardware.gpu if wanted.hardware else None
    if wanted.metric and traits.metric.lower() != wanted.metric.lower():
        yield f"{traits.metric or 'no metric'} instead of {wanted.metric.value}"
    if wanted.precision and traits.precision.lower() != wanted.precision.lower():
        yield f"{traits.precision or 'no precision'} instead of {wanted.precision.value}"
    if gpu and gpu.model and traits.gpu_model and criteria.normalise(gpu.model) != criteria.normalise(traits.gpu_model):
        yield f"{traits.gpu_model} instead of {gpu.model}"
    if gpu and gpu.requests and traits.gpu_count and gpu.requests != traits.gpu_count:
        yield f"{traits.gpu_count} GPUs instead of {gpu.requests}"


def _like(traits: Traits) -> str:
    known: Sequence[str] = (traits.type, _gpus(traits), traits.metric, traits.precision)
    return ", ".join(one for one in known if one)


def _gpus(traits: Traits) -> str:
    if not traits.gpu_model:
        return ""
    return f"{traits.gpu_count} x {traits.gpu_model}" if traits.gpu_count else traits.gpu_model
