"""Status of runtime configs, those of older API groups included."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from aim_domain import (
    DEFAULT_NAME,
    NAMESPACE_CONFIGS_BY_NAMESPACE,
    AIMClusterRuntimeConfig,
    AIMNamespaceConfig,
    AIMRuntimeConfig,
    KaiwoConfig,
    RuntimeConfigSpec,
    compile_pattern,
    gateway_duration,
    kaiwo_problems,
    labels,
    oldest_config,
)
from aim_domain.parts import ARTIFACT_CLAIMS, KAIWO_CONFIGS, NAMESPACES
from aim_domain.path_template import template_problems
from aim_domain.propagation import MAX_PATTERN, MAX_PATTERNS
from aim_domain.spec_checks import resource_problems
from aim_domain.storage_limits import exceeded_limits, storage_limits
from controller_runtime import (
    Change,
    ConditionStatus,
    Desired,
    DurationError,
    Event,
    EventType,
    JsonObject,
    Key,
    Observability,
    ParentCondition,
    Plan,
    View,
    condition_json,
    events_of,
    find_condition,
    quantity,
    settle,
    to_json,
)
from controller_runtime.core import Namespace
from controller_runtime.texts import shortened

_DEPRECATED: Final = (
    ("default_storage_class_name", "spec.defaultStorageClassName", "spec.storage.defaultStorageClassName"),
    ("pvc_headroom_percent", "spec.pvcHeadroomPercent", "spec.storage.pvcHeadroomPercent"),
)


def reconcile_config(config: AIMRuntimeConfig, view: View, now: datetime) -> Plan:  # noqa: ARG001 - shape of reconcilers
    """Status and Events of a namespace's config."""
    return _plan(config, problems_of(config.spec), _deprecations(config), now)


def reconcile_cluster_config(config: AIMClusterRuntimeConfig, view: View, now: datetime) -> Plan:
    """Status and Events of the cluster's config; quotas count on the one named default only (RC-117)."""
    found = [*problems_of(config.spec), *_quota_problems(config)]
    events = [*_deprecations(config), *_quota_events(config), *_quota_below_usage(config, view)]
    return _plan(config, found, events, now)


def problems_of(spec: RuntimeConfigSpec) -> list[str]:
    """What the schema cannot refuse, each with its path (RC-072)."""
    return [
        *_timeout_problems(spec),
        *_template_problems(spec),
        *_pattern_problems(spec),
        *_headroom_problems(spec),
        *resource_problems(spec.jobs.resources if spec.jobs else None, "spec.jobs.resources"),
        *resource_problems(spec.predictors.resources if spec.predictors else None, "spec.predictors.resources"),
    ]


def _timeout_problems(spec: RuntimeConfigSpec) -> list[str]:
    timeout = spec.routing.request_timeout if spec.routing else None
    if timeout is None:
        return []
    try:
        gateway_duration(timeout)
    except DurationError as error:
        return [f"spec.routing.requestTimeout: {error}"]
    return []


def _template_problems(spec: RuntimeConfigSpec) -> list[str]:
    template = spec.routing.path_template if spec.routing else None
    if not template:
        return []
    return [f"spec.routing.pathTemplate: {problem}" for problem in template_problems(template)]


def _pattern_problems(spec: RuntimeConfigSpec) -> list[str]:
    patterns = spec.label_propagation.match if spec.label_propagation else ()
    beyond = [
        f"spec.labelPropagation.match has {len(patterns)} patterns; the first {MAX_PATTERNS} are read, remove others"
    ]
    return [
        f"spec.labelPropagation.match[{place}]: {_refusal(pattern)}"
        for place, pattern in enumerate(patterns[:MAX_PATTERNS])
        if compile_pattern(pattern) is None
    ] + (beyond if len(patterns) > MAX_PATTERNS else [])


def _refusal(pattern: str) -> str:
    if len(pattern) > MAX_PATTERN:
        return f"{shortened(repr(pattern), 64)} is longer than {MAX_PATTERN} characters and matches nothing"
    return f"{pattern!r} is not a valid pattern"


def _headroom_problems(spec: RuntimeConfigSpec) -> list[str]:
    """The schema bounds the field that replaced it."""
    percent = spec.pvc_headroom_percent
    if percent is None or percent >= 0:
        return []
    return [f"spec.pvcHeadroomPercent is {percent}; it must not be negative and is ignored"]


def _quota_problems(config: AIMClusterRuntimeConfig) -> list[str]:
    quota = config.spec.artifact_storage_quota
    limits = {
        "clusterLimit": quota.cluster_limit if quota else None,
        "defaultNamespaceLimit": quota.default_namespace_limit if quota else None,
    }
    read = {name: quantity.parse_or_none(text) for name, text in limits.items() if text is not None}
    return [
        f"spec.artifactStorageQuota.{name}: {limits[name]!r} is {'no' if limit is None else 'a negative'} quantity "
        "and is ignored"
        for name, limit in read.items()
        if limit is None or limit.value < 0
    ]


def _quota_events(config: AIMClusterRuntimeConfig) -> list[Event]:
    if config.spec.artifact_storage_quota is None:
        return []
    invalid = [Event(EventType.WARNING, "InvalidQuota", problem, standing=True) for problem in _quota_problems(config)]
    if config.name == DEFAULT_NAME:
        return invalid
    message = f"artifactStorageQuota is read from AIMClusterRuntimeConfig {DEFAULT_NAME} only; move it there"
    return [*invalid, Event(EventType.WARNING, "QuotaIgnored", message, standing=True)]


def _quota_below_usage(config: AIMClusterRuntimeConfig, view: View) -> list[Event]:
    """Limits below what is stored already (AR-450)."""
    if config.name != DEFAULT_NAME:
        return []
    # A change of a limit is reported here; that of a volume is `StorageQuotaReady` of its artifact.
    stored = view.untracked
    namespaces = {one.name: one for one in stored.all(NAMESPACES).items}
    annotated = any(labels.ANNOTATION_STORAGE_QUOTA in one.metadata.annotations for one in namespaces.values())
    if config.spec.artifact_storage_quota is None and not annotated:
        return []
    exceeded = exceeded_limits(
        stored.all(ARTIFACT_CLAIMS).items, lambda namespace: storage_limits(config, namespaces.get(namespace))
    )
    message = (
        f"{', '.join(exceeded)}; nothing is deleted, and no volume is added until enough is freed: delete unused "
        "artifacts or raise the limit"
    )
    return [Event(EventType.WARNING, "QuotaBelowUsage", message, standing=True)] if exceeded else []


def limited_namespace(change: Change[Namespace], _: View) -> Iterable[Key]:
    """The config that reports usage beyond the limit of a namespace, after a change of that limit (AR-450)."""
    before, after = (
        None if one is None else one.metadata.annotations.get(labels.ANNOTATION_STORAGE_QUOTA)
        for one in (change.before, change.after)
    )
    return [Key("", DEFAULT_NAME)] if change.after is not None and before != after else []


def _deprecations(config: AIMRuntimeConfig | AIMClusterRuntimeConfig) -> list[Event]:
    """Once per generation: that of the stored status has been reported (RC-056)."""
    if config.status.observed_generation == config.metadata.generation:
        return []
    return [
        Event(EventType.NORMAL, "DeprecatedField", f"{old} is deprecated; use {new}")
        for attribute, old, new in _DEPRECATED
        if getattr(config.spec, attribute) is not None
    ]


def _plan(
    config: AIMRuntimeConfig | AIMClusterRuntimeConfig, found: list[str], events: list[Event], now: datetime
) -> Plan:
    valid = not found
    status = ConditionStatus.TRUE if valid else ConditionStatus.FALSE
    reason = "ConfigurationValid" if valid else "InvalidSpec"
    message = "The configuration is valid" if valid else "; ".join(found)
    observe = Observability.INFO if valid else Observability.ERROR
    desired = (
        Desired(ParentCondition.CONFIG_VALID, status, reason, message, observe),
        # One Event says it all.
        Desired(ParentCondition.READY, status, reason, message, Observability.SILENT),
    )
    stored = config.status.conditions
    settled = settle(desired, stored, generation=config.metadata.generation, now=now)
    body = {
        "observedGeneration": config.metadata.generation,
        "conditions": [condition_json(condition) for condition in settled],
    }
    first = valid and find_condition(stored, ParentCondition.CONFIG_VALID) is None
    transitions = () if first else events_of(desired, settled, stored)
    return Plan(status=body, events=(*transitions, *events))


_HAS_EFFECT: Final = frozenset(
    {
        ("storage", "defaultStorageClass"),
        ("storage", "defaultHfMountPath"),
        ("nodes", "defaultGpuResourceKey"),
        ("nodes", "defaultGpuTaintKey"),
        ("nodes", "addTaintsToGpuNodes"),
        ("scheduling", "kubeSchedulerName"),
        ("defaultClusterQueueName",),
    }
)
_DEFAULTS: Final = KaiwoConfig().spec.model_dump(mode="json", by_alias=True)


def reconcile_namespace_config(config: AIMNamespaceConfig, view: View, now: datetime) -> Plan:  # noqa: ARG001
    """Events; the kind has no status."""
    others = view.select(NAMESPACE_CONFIGS_BY_NAMESPACE, config.namespace).items
    credentials = config.spec.credentials
    unused = {
        "spec.credentials.gcs": credentials.gcs if credentials else (),
        "spec.credentials.azureBlob": credentials.azure_blob if credentials else (),
    }
    return Plan(events=(*_overruled(config, others), *_without_effect(path for path, given in unused.items() if given)))


def reconcile_kaiwo_config(config: KaiwoConfig, view: View, now: datetime) -> Plan:  # noqa: ARG001
    """Events; the kind has no status."""
    reported = sorted(_deviating(to_json(config.spec), _DEFAULTS))
    overruled = _overruled(config, view.all(KAIWO_CONFIGS).items)
    return Plan(events=(*overruled, *_unusable(config), *_without_effect(reported)))


def _unusable(config: KaiwoConfig) -> list[Event]:
    reported = "; ".join(
        f"{problem.field}: {problem.message}, and is ignored" for problem in kaiwo_problems(config.spec)
    )
    return [Event(EventType.WARNING, "InvalidSpec", reported, standing=True)] if reported else []


def _overruled(
    config: AIMNamespaceConfig | KaiwoConfig, all_of_kind: Iterable[AIMNamespaceConfig | KaiwoConfig]
) -> list[Event]:
    first = oldest_config(all_of_kind)
    if first is None or first.uid == config.uid:
        return []
    message = f"{config.kind} {first.name} is older and the one that counts; move what is missing there to it"
    return [Event(EventType.WARNING, "ConfigIgnored", message, standing=True)]


def _without_effect(paths: Iterable[str]) -> list[Event]:
    reported = ", ".join(paths)
    return [Event(EventType.NORMAL, "NoEffect", f"accepted, but without effect here: {reported}")] if reported else []


def _deviating(value: JsonObject, defaults: JsonObject, *path: str) -> Iterable[str]:
    """Paths of what is set to something else than its default, and has no effect."""
    for name, given in value.items():
        here = (*path, name)
        default = defaults.get(name)
        if isinstance(given, dict):
            yield from _deviating(given, default if isinstance(default, dict) else {}, *here)
        elif given not in (default, None, []) and here not in _HAS_EFFECT:
            yield ".".join(("spec", *here))
