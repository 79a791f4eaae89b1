"""Which templates a model makes, and whether its flags let it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from aim_discovery.models.image_labels import CANONICAL_NAME, RECOMMENDED, VENDOR_PREFIX, label_called
from aim_domain import MAX_DEPLOYMENTS, AIMModelSpec, ImageMetadata, RecommendedDeployment, RuntimeConfigSpec
from aim_domain.component_names import NO_TEMPLATES_EXPECTED
from controller_runtime import Component, State, StatusValue


@dataclass(frozen=True, slots=True)
class DiscoveryFlags:
    """The effective flags.

    Attributes:
        extract: the labels of the image are read.
        create: templates are made of the recommended deployments.
        suppressed: the user refuses every template, explicit ones too (DI-060).
    """

    extract: bool
    create: bool
    suppressed: bool = False


def discovery_flags(spec: AIMModelSpec, config: RuntimeConfigSpec) -> DiscoveryFlags:
    """The spec decides when it says anything, else the runtime config, else yes (DI-057, DI-058)."""
    if spec.has("discovery"):
        wanted = spec.discovery
        create = wanted.create_service_templates
        return DiscoveryFlags(wanted.extract_metadata, create, suppressed=not create)
    automatic = config.model.auto_discovery if config.model is not None else None
    enabled = automatic is not False
    return DiscoveryFlags(enabled, enabled)


_BY_HAND: Final = "create a template whose spec.modelName is the model"


class Expectation(Enum):
    """Whether there will be templates."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def recommended(metadata: ImageMetadata | None) -> tuple[RecommendedDeployment, ...]:
    """The recommended deployments of the effective metadata that become templates: the first 64 (CC-341)."""
    return _all_recommended(metadata)[:MAX_DEPLOYMENTS]


def excess(metadata: ImageMetadata | None) -> str:
    """That there are more than become templates, in words; empty when there are not."""
    given = len(_all_recommended(metadata))
    return f"{given - MAX_DEPLOYMENTS} of {given} recommended deployments left out" if given > MAX_DEPLOYMENTS else ""


def within_bounds(metadata: ImageMetadata) -> ImageMetadata:
    """The metadata with the deployments that become templates only, as the definition admits it in the status."""
    if not excess(metadata) or metadata.model is None:
        return metadata
    kept = metadata.model.model_copy(update={"recommended_deployments": recommended(metadata)})
    return metadata.model_copy(update={"model": kept})


def _all_recommended(metadata: ImageMetadata | None) -> tuple[RecommendedDeployment, ...]:
    return metadata.model.recommended_deployments if metadata is not None and metadata.model is not None else ()


def expectation(spec: AIMModelSpec, flags: DiscoveryFlags, effective: ImageMetadata | None) -> Expectation:
    """The table of section 5.1, first match wins."""
    if flags.suppressed:
        return Expectation.NO
    if spec.model_sources or spec.custom_templates:
        return Expectation.YES
    if not flags.create:
        return Expectation.NO
    if effective is not None:
        return Expectation.YES if recommended(effective) else Expectation.NO
    return Expectation.UNKNOWN if flags.extract else Expectation.NO


def why_none(spec: AIMModelSpec, flags: DiscoveryFlags, effective: ImageMetadata | None, unusable: str = "") -> str:
    """Why no template is expected, and what to do, in words (DI-420); in the order of `expectation`.

    Args:
        unusable: the fault of recommended deployments of which none can be used (DI-421).
    """
    if flags.suppressed:
        return f"spec.discovery.createServiceTemplates is false; set it to true, or {_BY_HAND}"
    if not flags.create:
        wanted = "set spec.discovery.createServiceTemplates to true"
        return f"model.autoDiscovery of the runtime config is false; {wanted}, or {_BY_HAND}"
    if unusable:
        return f"{unusable}; correct the image, list templates in spec.customTemplates, or {_BY_HAND}"
    if spec.image_metadata is not None:
        return f"spec.imageMetadata.model.recommendedDeployments is empty; add deployments, or {_BY_HAND}"
    if effective is None:
        wanted = "set spec.discovery.extractMetadata to true"
        return f"the image's labels are not read, and spec.imageMetadata is not given; {wanted}, or {_BY_HAND}"
    return (
        f"image {spec.image} {_missing_labels(effective)}; push the image with label {VENDOR_PREFIX}{RECOMMENDED}, "
        f"list templates in spec.customTemplates, or {_BY_HAND}"
    )


def _missing_labels(read: ImageMetadata) -> str:
    if present := label_called(read, RECOMMENDED):
        return f"lists no deployment in label {present}"
    if label_called(read, CANONICAL_NAME):
        return f"has no label {VENDOR_PREFIX}{RECOMMENDED}"
    return f"has neither label {VENDOR_PREFIX}{CANONICAL_NAME} nor {VENDOR_PREFIX}{RECOMMENDED}"


_WITHOUT_TEMPLATES: Final = {
    Expectation.UNKNOWN: (State.PROGRESSING, "AwaitingMetadata", "Templates depend on the image's metadata"),
    Expectation.YES: (State.PROGRESSING, "CreatingTemplates", "Templates are being created"),
    Expectation.NO: (State.READY, NO_TEMPLATES_EXPECTED, "The model has no templates of its own"),
}
_BROKEN: Final = frozenset({StatusValue.DEGRADED, StatusValue.FAILED})
UNUSABLE: Final = _BROKEN | {StatusValue.NOT_AVAILABLE}
"""Of a template whose own words say why nothing can run with it."""
_NONE_USABLE: Final = frozenset({State.FAILED, State.NOT_AVAILABLE})
_UNDER_WAY: Final = frozenset({StatusValue.PROGRESSING, StatusValue.PENDING})


def templates_component(
    name: str, statuses: Sequence[StatusValue], expected: Expectation, why: str = "", first: str = ""
) -> Component:
    """The component of a model's templates (DI-156); an unset status reads as Pending (DI-157).

    Args:
        why: why none is expected (DI-420).
        first: what the first template says that none can be used of, where that is so of all.
    """
    if not statuses:
        state, reason, message = _WITHOUT_TEMPLATES[expected]
        reported = f"{message}: {why}" if why and expected is Expectation.NO else message
        return Component(name, state, reason, reported)
    state, reason = _verdict(frozenset(statuses))
    quoted = f"; {first}" if first and state in _NONE_USABLE else ""
    return Component(name, state, reason, f"{_summary(statuses)}{quoted}")


def _verdict(found: frozenset[StatusValue]) -> tuple[State, str]:
    if found == {StatusValue.READY}:
        return State.READY, "AllTemplatesReady"
    if found <= _BROKEN:
        return State.FAILED, "AllTemplatesFailed"
    if found == {StatusValue.NOT_AVAILABLE}:
        return State.NOT_AVAILABLE, "NoTemplatesAvailable"
    if found & _BROKEN:
        return State.DEGRADED, "SomeTemplatesDegraded"
    if not found & _UNDER_WAY and found == {StatusValue.READY, StatusValue.NOT_AVAILABLE}:
        return State.READY, "SomeTemplatesReady"
    return State.PROGRESSING, "TemplatesProgressing"


def _summary(statuses: Sequence[StatusValue]) -> str:
    """Counts of what is there to stay: those of templates under way would rewrite the status with each of them."""
    found = frozenset(statuses)
    reported = found & _BROKEN if found & _UNDER_WAY else found
    counts = [f"{statuses.count(status)} {status}" for status in sorted(reported)]
    unsettled = ["not all of them settled yet"] if found & _UNDER_WAY else []
    return f"{len(statuses)} template(s): {', '.join([*counts, *unsettled])}"
