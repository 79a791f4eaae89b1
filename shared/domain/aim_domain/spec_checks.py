"""What the API server cannot refuse in a spec, because its rules know no quantities (CC-301, CC-310, CC-312).

Each problem names the field, what it holds and what it takes. Zero sizes and memories mean "not given".
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from aim_domain import labels
from aim_domain.api.aim_shapes import Hardware, ModelSource
from aim_domain.api.artifact import AIMArtifactSpec
from aim_domain.api.enums import ArtifactType
from aim_domain.api.model import AIMModelSpec
from aim_domain.api.profile import ClusterProfileSpec
from aim_domain.api.profile_set import ProfileSetSpec
from aim_domain.api.profile_shapes import ServiceProfileOverrides
from aim_domain.api.service import AIMService, AIMServiceSpec
from aim_domain.api.service_template import TemplateSpec
from aim_domain.api.template_cache import AIMTemplateCacheSpec
from aim_domain.hub_sources import split_revision
from aim_domain.storage_limits import whole_bytes
from controller_runtime import Category, ClassifiedError, quantity
from controller_runtime.core import ResourceRequirements
from controller_runtime.quantity import QuantityText

_RESOURCE: Final = re.compile(
    r"cpu|memory|ephemeral-storage|hugepages-[A-Za-z0-9.]{1,53}"
    r"|(?=.{1,253}/)[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
"""What a container can ask for: Kubernetes' own resources, and extended ones with a domain."""
PIPELINE_PROFILE: Final = "profile"
PIPELINE_TEMPLATE: Final = "template"
"""Values of the annotation that says what a service is served by (PR-010)."""
_QUOTED: Final = 80
"""Characters of a name in a message."""


def artifact_errors(spec: AIMArtifactSpec) -> tuple[ClassifiedError, ...]:
    """What is wrong with the spec of an artifact."""

    def problems() -> Iterator[str]:
        if spec.type is ArtifactType.ADAPTER and not spec.disk:
            yield "spec.disk is missing; name the AIMArtifact of type adapterDisk that the adapter goes to"
        if spec.type is not ArtifactType.ADAPTER_DISK:
            yield from _source_uri(spec.source_uri, "spec.sourceUri")
        yield from _amount(spec.size, "spec.size")
        if spec.type is ArtifactType.ADAPTER_DISK and not whole_bytes(spec.size):
            yield "spec.size is missing; say how large the disk is"

    return _errors(problems())


def cache_errors(spec: AIMTemplateCacheSpec) -> tuple[ClassifiedError, ...]:
    """What is wrong with the sources of a template cache."""
    return _errors(_sources(spec.model_sources, "spec.modelSources"))


def model_errors(spec: AIMModelSpec) -> tuple[ClassifiedError, ...]:
    """What is wrong with the spec of a model of either scope."""
    for field, value in (
        ("profileCopy", spec.profile_copy),
        ("derivedFrom", spec.derived_from),
        ("modelId", None if spec.image else spec.model_id),
    ):
        if value is not None:
            return (_unsupported(f"spec.{field}", "write spec.profiles, or create a model with spec.image"),)

    def problems() -> Iterator[str]:
        yield from _sources(spec.model_sources, "spec.modelSources")
        yield from _hardware(spec.custom.hardware if spec.custom else None, "spec.custom.hardware")
        for place, template in enumerate(spec.custom_templates):
            yield from _hardware(template.hardware, f"spec.customTemplates[{place}].hardware")
        if spec.profiles is not None:
            yield from _of_overrides(spec.profiles.overrides, "spec.profiles.overrides")
        yield from resource_problems(spec.resources)

    return _errors(problems())


def uses_profile(service: AIMService) -> bool:
    """Whether a profile serves it, and no template: by its annotation, else by its shape (PR-010)."""
    pipeline = service.metadata.annotations.get(labels.ANNOTATION_PIPELINE)
    return pipeline == PIPELINE_PROFILE or (pipeline != PIPELINE_TEMPLATE and service.spec.profile is not None)


def pipeline_errors(service: AIMService) -> tuple[ClassifiedError, ...]:
    """What a service says that its way of being served has no place for (PR-011)."""
    spec, annotation = service.spec, labels.ANNOTATION_PIPELINE
    # With it, what is said of profiles is ignored as it asks.
    by_annotation = service.metadata.annotations.get(annotation) == PIPELINE_TEMPLATE

    def problems() -> Iterator[str]:
        if uses_profile(service):
            if spec.model.custom is not None:
                yield "spec.model.custom has no profile; derive one with spec.profileOverrides.modelSources"
            if spec.overrides is not None:
                yield "spec.overrides is of templates; use spec.profileOverrides with a profile"
            if spec.template is not None:
                remedy = f"remove one, or set annotation {annotation}={PIPELINE_TEMPLATE}"
                yield f"spec.template and {_how(spec, annotation)} exclude each other; {remedy}"
            selector = spec.profile.selector if spec.profile is not None else None
            named = spec.model.name or spec.model.image or spec.model.custom
            if selector is not None and not named and selector.aim_id is None and selector.model_ref is None:
                yield "spec.profile.selector says neither aimId nor modelRef, and there is no spec.model; set one"
        elif spec.profile_overrides is not None and not by_annotation:
            yield "spec.profileOverrides needs a profile; set spec.profile or remove it"

    return _errors(problems())


def _how(spec: AIMServiceSpec, annotation: str) -> str:
    """What of a service asks for a profile."""
    if spec.profile is None:
        return f"annotation {annotation}"
    return "spec.profile.name" if spec.profile.name else "spec.profile.selector"


def service_errors(spec: AIMServiceSpec) -> tuple[ClassifiedError, ...]:
    """What is wrong with the hardware, the resources and the sources of a service."""

    def problems() -> Iterator[str]:
        custom = spec.model.custom
        if custom is not None:
            yield from _sources(custom.model_sources, "spec.model.custom.modelSources")
            yield from _hardware(custom.hardware, "spec.model.custom.hardware")
        if spec.overrides is not None:
            yield from _hardware(spec.overrides.hardware, "spec.overrides.hardware")
        yield from resource_problems(spec.resources)
        yield from _of_overrides(spec.profile_overrides, "spec.profileOverrides")

    return _errors(problems())


def template_errors(spec: TemplateSpec) -> tuple[ClassifiedError, ...]:
    """What is wrong with the spec of a template of either scope."""

    def problems() -> Iterator[str]:
        yield from _hardware(spec.hardware, "spec.hardware")
        yield from _sources(spec.model_sources, "spec.modelSources")
        yield from resource_problems(spec.resources)

    return _errors(problems())


def profile_errors(spec: ClusterProfileSpec) -> tuple[ClassifiedError, ...]:
    """What is wrong with the weights and the resources of a profile of either scope."""

    def problems() -> Iterator[str]:
        yield from _sources(spec.model_sources, "spec.modelSources")
        yield from resource_problems(spec.resources)

    return _errors(problems())


def set_errors(spec: ProfileSetSpec) -> tuple[ClassifiedError, ...]:
    """What is wrong with the weights that a set of either scope derives profiles for."""
    return _errors(_of_overrides(spec.overrides, "spec.overrides"))


def _of_overrides(overrides: ServiceProfileOverrides | None, path: str) -> Iterator[str]:
    if overrides is not None:
        yield from _sources(overrides.model_sources, f"{path}.modelSources")


def _unsupported(what: str, remedy: str) -> ClassifiedError:
    message = f"{what} is a spelling of profiles that this release does not read; {remedy}"
    return ClassifiedError(Category.INVALID_SPEC, "InvalidSpec", message)


def _errors(problems: Iterable[str]) -> tuple[ClassifiedError, ...]:
    found = tuple(problems)
    return (ClassifiedError(Category.INVALID_SPEC, "InvalidSpec", "; ".join(found)),) if found else ()


def _hardware(hardware: Hardware | None, path: str) -> Iterator[str]:
    if hardware is None:
        return
    if hardware.gpu is not None:
        yield from _amount(hardware.gpu.min_vram, f"{path}.gpu.minVram")
    if hardware.cpu is not None:
        path = f"{path}.cpu"
        requests = quantity.parse_or_none(hardware.cpu.requests)
        if requests is None:
            yield _malformed(f"{path}.requests", hardware.cpu.requests)
        elif requests.value <= 0:
            yield f"{path}.requests is {hardware.cpu.requests}; it must be greater than zero"
        yield from _amount(hardware.cpu.limits, f"{path}.limits")


def _sources(sources: Sequence[ModelSource], path: str) -> Iterator[str]:
    for place, source in enumerate(sources):
        yield from _source_uri(source.source_uri, f"{path}[{place}].sourceUri")
        yield from _amount(source.size, f"{path}[{place}].size")


def _source_uri(uri: str, path: str) -> Iterator[str]:
    if not uri.partition("://")[2].strip("/"):
        yield f"{path} {uri!r} names nothing to download; write hf://<organisation>/<name> or s3://<bucket>/<key>"
    elif uri.startswith("hf://"):
        try:
            split_revision(uri.partition("://")[2])
        except ValueError as error:
            yield f"{path} {error}"


def resource_problems(resources: ResourceRequirements | None, path: str = "spec.resources") -> Iterator[str]:
    """What is wrong with names and amounts of resources."""
    if resources is None:
        return
    for side, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        for name, amount in amounts.items():
            place = f"{path}.{side}[{name[:_QUOTED]}]"
            if not _RESOURCE.fullmatch(name):
                yield f"{place} is no resource of a container; use cpu, memory, ephemeral-storage or <domain>/<name>"
            yield from _amount(amount, place)


def _amount(amount: QuantityText | None, path: str) -> Iterator[str]:
    if amount is None:
        return
    given = quantity.parse_or_none(amount)
    if given is None:
        yield _malformed(path, amount)
    elif given.value < 0:
        yield f"{path} is {amount}; it must not be negative"


def _malformed(path: str, amount: QuantityText) -> str:
    return f"{path} is {amount}, which is no quantity; write for example 2, 500m or 16Gi"
