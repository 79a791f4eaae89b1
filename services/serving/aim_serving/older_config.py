"""What configurations of older kinds say that counts for nothing here, told on themselves (RC-154)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from aim_domain import NAMESPACE_CONFIGS_BY_NAMESPACE, AIMNamespaceConfig, KaiwoConfig, kaiwo_problems, oldest_config
from aim_domain.parts import KAIWO_CONFIGS
from controller_runtime import Event, EventType, JsonObject, Plan, View, to_json

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
    told = sorted(_deviating(to_json(config.spec), _DEFAULTS))
    overruled = _overruled(config, view.all(KAIWO_CONFIGS).items)
    return Plan(events=(*overruled, *_unusable(config), *_without_effect(told)))


def _unusable(config: KaiwoConfig) -> list[Event]:
    told = "; ".join(f"{problem.field}: {problem.message}, and is ignored" for problem in kaiwo_problems(config.spec))
    return [Event(EventType.WARNING, "InvalidSpec", told, standing=True)] if told else []


def _overruled(
    config: AIMNamespaceConfig | KaiwoConfig, all_of_kind: Iterable[AIMNamespaceConfig | KaiwoConfig]
) -> list[Event]:
    first = oldest_config(all_of_kind)
    if first is None or first.uid == config.uid:
        return []
    message = f"{config.kind} {first.name} is older and the one that counts; move what is missing there to it"
    return [Event(EventType.WARNING, "ConfigIgnored", message, standing=True)]


def _without_effect(paths: Iterable[str]) -> list[Event]:
    told = ", ".join(paths)
    return [Event(EventType.NORMAL, "NoEffect", f"accepted, but without effect here: {told}")] if told else []


def _deviating(value: JsonObject, defaults: JsonObject, *path: str) -> Iterable[str]:
    """Paths of what is set to something else than its default, and has no effect."""
    for name, given in value.items():
        here = (*path, name)
        default = defaults.get(name)
        if isinstance(given, dict):
            yield from _deviating(given, default if isinstance(default, dict) else {}, *here)
        elif given not in (default, None, []) and here not in _HAS_EFFECT:
            yield ".".join(("spec", *here))
