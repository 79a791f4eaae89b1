"""What a selection that chose nobody says of each candidate (SV-282)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aim_domain import Overrides
from aim_serving.references import Template, described, own_words
from aim_serving.template_selection import Choice, Criteria, Rejection
from aim_serving.template_traits import Traits

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
        *(f"{described(candidates[one])}: {_like(one)}" for one in choice.best),
        *(_refused(candidates[one], one, why, criteria) for one, why in ordered),
    ]
    more = len(said) - MOST
    return "; ".join(said[:MOST]) + (f"; and {more} more" if more > 0 else "")


def _place(why: Rejection) -> int:
    return _FURTHEST_FIRST.index(why) if why in _FURTHEST_FIRST else len(_FURTHEST_FIRST)


def _refused(template: Template, traits: Traits, why: Rejection, criteria: Criteria) -> str:
    text = f"{described(template)}: {_reason(template, traits, why, criteria)}"
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
    return f"is {status}{own_words(template) if why in _WITH_OWN_WORDS else ''}"


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
