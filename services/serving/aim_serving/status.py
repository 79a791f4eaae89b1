"""The status of a service: mapping of the overall value, resolved references, replicas (serving.md 12.3, 13)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aim_domain import AIMService, AIMTemplateCache, ResolvedConfig, ResolvedReference, RuntimeStatus
from aim_serving.references import Model, Template, is_ready, reference_to
from controller_runtime import JsonObject, StatusValue, to_json

_MAPPED: Final[Mapping[StatusValue, StatusValue]] = MappingProxyType(
    {
        StatusValue.PROGRESSING: StatusValue.STARTING,
        StatusValue.READY: StatusValue.RUNNING,
    }
)


def service_status(value: StatusValue, *, workload_exists: bool) -> StatusValue:
    """The framework's value in the words of an AIMService (FW-023, FW-024, SV-220)."""
    if value is StatusValue.NOT_AVAILABLE:
        return StatusValue.DEGRADED if workload_exists else StatusValue.PENDING
    return _MAPPED.get(value, value)


def references_json(
    service: AIMService,
    config: ResolvedConfig,
    model: Model | None,
    template: Template | None,
) -> JsonObject:
    """References to what is Ready; what was written stays until another Ready object takes its place (SV-230)."""
    before = service.status
    return {
        "resolvedRuntimeConfig": config.reference_json(before.resolved_runtime_config),
        "resolvedModel": _reference(model, before.resolved_model),
        "resolvedTemplate": _reference(template, before.resolved_template),
    }


def _reference(found: Model | Template | None, before: ResolvedReference | None) -> JsonObject | None:
    if found is not None and is_ready(found):
        return to_json(reference_to(found))
    return None if before is None else to_json(before)


def cache_json(service: AIMService, cache: AIMTemplateCache | None, retries: int) -> JsonObject | None:
    """``status.cache``; the counter outlives any change of the reference (SV-139, SV-229)."""
    before = service.status.cache.template_cache_ref if service.status.cache else None
    ready = cache is not None and cache.status.status is StatusValue.READY
    reference = reference_to(cache) if cache is not None and ready else before
    block: JsonObject = {
        **({} if reference is None else {"templateCacheRef": to_json(reference)}),
        **({"retryAttempts": retries} if retries else {}),
    }
    return block or None


def runtime_json(runtime: RuntimeStatus) -> JsonObject:
    """``status.runtime`` (SV-213)."""
    return to_json(runtime)
