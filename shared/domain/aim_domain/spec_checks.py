"""What the API server cannot refuse in a spec, because its rules know no quantities (CC-301, CC-310).

Each problem names the field, what it holds and what it takes. Zero sizes and memories mean "not given".
"""

from collections.abc import Iterable, Iterator, Sequence

from aim_domain.api.aim_shapes import Hardware, ModelSource
from aim_domain.api.artifact import AIMArtifactSpec
from aim_domain.api.model import AIMModelSpec
from aim_domain.api.service import AIMServiceSpec
from aim_domain.api.service_template import TemplateSpec
from controller_runtime import Category, ClassifiedError, quantity
from controller_runtime.quantity import QuantityText


def artifact_errors(spec: AIMArtifactSpec) -> tuple[ClassifiedError, ...]:
    """What is wrong with the spec of an artifact."""
    return _errors(_negative(spec.size, "spec.size"))


def model_errors(spec: AIMModelSpec) -> tuple[ClassifiedError, ...]:
    """What is wrong with the spec of a model of either scope."""

    def problems() -> Iterator[str]:
        yield from _sources(spec.model_sources, "spec.modelSources")
        yield from _hardware(spec.custom.hardware if spec.custom else None, "spec.custom.hardware")
        for place, template in enumerate(spec.custom_templates):
            yield from _hardware(template.hardware, f"spec.customTemplates[{place}].hardware")

    return _errors(problems())


def service_errors(spec: AIMServiceSpec) -> tuple[ClassifiedError, ...]:
    """What is wrong with the hardware and the sources of a service."""

    def problems() -> Iterator[str]:
        custom = spec.model.custom
        if custom is not None:
            yield from _sources(custom.model_sources, "spec.model.custom.modelSources")
            yield from _hardware(custom.hardware, "spec.model.custom.hardware")
        if spec.overrides is not None:
            yield from _hardware(spec.overrides.hardware, "spec.overrides.hardware")

    return _errors(problems())


def template_errors(spec: TemplateSpec) -> tuple[ClassifiedError, ...]:
    """What is wrong with the spec of a template of either scope."""

    def problems() -> Iterator[str]:
        yield from _hardware(spec.hardware, "spec.hardware")
        yield from _sources(spec.model_sources, "spec.modelSources")

    return _errors(problems())


def _errors(problems: Iterable[str]) -> tuple[ClassifiedError, ...]:
    found = tuple(problems)
    return (ClassifiedError(Category.INVALID_SPEC, "InvalidSpec", "; ".join(found)),) if found else ()


def _hardware(hardware: Hardware | None, path: str) -> Iterator[str]:
    if hardware is None:
        return
    if hardware.gpu is not None:
        yield from _negative(hardware.gpu.min_vram, f"{path}.gpu.minVram")
    if hardware.cpu is not None:
        requests = quantity.parse_or_none(hardware.cpu.requests)
        if requests is not None and requests.value <= 0:
            yield f"{path}.cpu.requests is {hardware.cpu.requests}; it must be greater than zero"
        yield from _negative(hardware.cpu.limits, f"{path}.cpu.limits")


def _sources(sources: Sequence[ModelSource], path: str) -> Iterator[str]:
    for place, source in enumerate(sources):
        yield from _negative(source.size, f"{path}[{place}].size")


def _negative(amount: QuantityText | None, path: str) -> Iterator[str]:
    given = quantity.parse_or_none(amount)
    if given is not None and given.value < 0:
        yield f"{path} is {amount}; it must not be negative"
