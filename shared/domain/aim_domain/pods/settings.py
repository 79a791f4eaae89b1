"""One mechanism for what administrators say of the pods that the platform runs (CC-350…CC-354). Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from aim_domain.api.pod_settings import DeploymentStrategy, PodSettings, PredictorSettings
from controller_runtime import JsonObject, canonical, quantity, to_json
from controller_runtime.core import ResourceRequirements

DISCOVERY_RESOURCES: Final = ResourceRequirements(
    requests={"cpu": "100m", "memory": "256Mi"}, limits={"cpu": "2", "memory": "2Gi"}
)
"""A dry run of the image: no GPU, no weights."""
CHECK_SIZE_RESOURCES: Final = ResourceRequirements(
    requests={"cpu": "100m", "memory": "128Mi"}, limits={"cpu": "1", "memory": "1Gi"}
)
"""Lists files and adds up their sizes."""
DOWNLOAD_RESOURCES: Final = ResourceRequirements(
    requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "4", "memory": "8Gi"}
)
"""Several files at once; what the page cache holds of them is reclaimed before the limit counts."""

_NONE: Final = PodSettings()
_DIGITS: Final = 8


def with_settings(
    pod: JsonObject,
    settings: PodSettings | None,
    *,
    defaults: ResourceRequirements | None = None,
    gpu_taint: str = "",
) -> JsonObject:
    """A pod spec with the settings in it; what the pod has of its own takes precedence (CC-352).

    Args:
        pod: as for an object without settings; its only container is the first.
        settings: of the merged runtime config.
        defaults: of the container's resources; `None` where the caller decides about them.
        gpu_taint: key of the taint of GPU nodes, where the cluster has one (RC-155); all pods tolerate it.
    """
    given = settings or _NONE
    container, *others = pod["containers"]
    if defaults is not None:
        container = {**container, "resources": job_resources(given.resources, defaults)}
    fields: JsonObject = {
        "imagePullSecrets": _pull_secrets(pod, given),
        "serviceAccountName": pod.get("serviceAccountName") or given.service_account_name,
        "priorityClassName": pod.get("priorityClassName") or given.priority_class_name,
        "nodeSelector": {**given.node_selector, **(pod.get("nodeSelector") or {})},
        "tolerations": tolerations(given, gpu_taint, pod.get("tolerations") or ()),
        "securityContext": _security(pod.get("securityContext"), given),
    }
    return {
        **pod,
        "containers": [_unsecured(container, given), *others],
        **{name: value for name, value in fields.items() if value},
    }


def pod_annotations(settings: PodSettings | None) -> dict[str, str]:
    """Annotations of the pods."""
    return dict(settings.annotations) if settings is not None else {}


def tolerations(settings: PodSettings | None, gpu_taint: str, own: Iterable[JsonObject] = ()) -> list[JsonObject]:
    """Tolerations of the pods, each once: their own, those of the settings, that of the GPU taint."""
    given = (to_json(one) for one in settings.tolerations) if settings is not None else ()
    taint = ({"key": gpu_taint, "operator": "Exists"},) if gpu_taint else ()
    return list({canonical(one): one for one in (*own, *given, *taint)}.values())


def settings_hash(settings: PodSettings | None, gpu_taint: str) -> str:
    """What tells Jobs of other settings apart; empty where there are none, so that names of Jobs stay (CC-353)."""
    given = to_json(settings) if settings is not None else {}
    if not given and not gpu_taint:
        return ""
    return hashlib.sha256(canonical({"settings": given, "taint": gpu_taint})).hexdigest()[:_DIGITS]


def strategy_of(own: DeploymentStrategy | None, settings: PredictorSettings | None) -> JsonObject | None:
    """The strategy that KServe gives the Deployment; the service's own replaces that of the settings (SV-320)."""
    chosen = own or (settings.deployment_strategy if settings is not None else None)
    if chosen is None or not chosen.type:
        return None if chosen is None or chosen.rolling_update is None else _rolling(chosen)
    # A Deployment with limits of a rolling update beside Recreate is refused.
    return {"type": str(chosen.type)} if str(chosen.type) == "Recreate" else _rolling(chosen)


def _rolling(strategy: DeploymentStrategy) -> JsonObject:
    limits = strategy.rolling_update
    given = {} if limits is None else {"rollingUpdate": to_json(limits)}
    return {"type": "RollingUpdate", **given}


def job_resources(given: ResourceRequirements | None, defaults: ResourceRequirements) -> JsonObject:
    """Requests and limits, key by key; a default that contradicts a setting moves to it (CC-352).

    A quota of CPU and memory admits pods only that name both requests and limits of both.
    """
    asked, allowed = dict(defaults.requests), dict(defaults.limits)
    own = given or ResourceRequirements()
    asked |= own.requests
    allowed |= own.limits
    for name in {*asked} & {*allowed}:
        request, limit = quantity.parse_or_none(asked[name]), quantity.parse_or_none(allowed[name])
        if request is None or limit is None or request <= limit:
            continue
        if name not in own.requests:
            asked[name] = allowed[name]
        elif name not in own.limits:
            allowed[name] = asked[name]
    return {"requests": _sorted(asked), "limits": _sorted(allowed)}


def _sorted(amounts: Mapping[str, str | int]) -> JsonObject:
    return {name: str(amounts[name]) for name in sorted(amounts)}


def _pull_secrets(pod: JsonObject, settings: PodSettings) -> list[JsonObject]:
    own = [str(one.get("name") or "") for one in pod.get("imagePullSecrets") or ()]
    added = [secret.name for secret in settings.image_pull_secrets]
    return [{"name": name} for name in dict.fromkeys((*own, *added)) if name]


def _security(own: JsonObject | None, settings: PodSettings) -> JsonObject:
    changes = settings.security_context
    merged = {**(own or {}), **(changes if isinstance(changes, dict) else {})}
    return {name: value for name, value in merged.items() if value is not None}


_IDENTITY: Final = ("runAsUser", "runAsGroup")


def _unsecured(container: JsonObject, settings: PodSettings) -> JsonObject:
    """A container's user and group follow the pod's where the settings change them."""
    changes, own = settings.security_context, container.get("securityContext")
    if not isinstance(changes, dict) or not own:
        return container
    changed = {name for name in _IDENTITY if name in changes}
    return {**container, "securityContext": {name: value for name, value in own.items() if name not in changed}}
