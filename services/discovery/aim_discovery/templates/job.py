"""The discovery Job (DI-220…DI-238, FW-276)."""

from collections.abc import Iterable

from aim_discovery.scopes import Template, TemplateScope
from aim_discovery.templates.identity import DiscoveryInputs
from aim_domain import (
    DISCOVERY_RESOURCES,
    VOLUME,
    LabelPropagation,
    RenderedProfile,
    TemplateSpec,
    child_labels,
    in_reference_order,
    labels,
    pod_annotations,
    with_settings,
)
from aim_domain.naming import label_value, template_profile_name
from aim_domain.parts import DISCOVERY_JOBS
from controller_runtime import Child, JsonObject, WriteMode, kind_of, to_json
from controller_runtime.core import EnvVar
from controller_runtime.kinds import JOB

CONTAINER = "discovery"
MANAGED_BY = "aim-controller"
_USER_ID = 65532
_SECONDS_TO_LIVE = 60


def build_job(
    template: Template,
    scope: TemplateScope,
    inputs: DiscoveryInputs,
    namespace: str,
    *,
    deadline: float,
    propagation: LabelPropagation | None,
    profile: RenderedProfile | None = None,
) -> Child:
    """The complete Job; it is created once and never changed (DI-222)."""
    name = label_value(template.name)
    pod_own = {labels.TEMPLATE: name, labels.APP_COMPONENT: labels.APP_COMPONENT_DISCOVERY}
    own = {**pod_own, labels.APP_NAME: labels.APP_NAME_DISCOVERY, labels.APP_MANAGED_BY: MANAGED_BY}

    def labelled(own_labels: dict[str, str]) -> dict[str, str]:
        return child_labels(own_labels, parent=template, controller=scope.controller, propagation=propagation)

    # Pods belong to the Job controller (FW-222).
    pod_labels = {key: value for key, value in labelled(pod_own).items() if key != labels.APP_MANAGED_BY}
    pod_spec = _pod_spec(inputs, profile, is_shared=not template.namespace)
    if profile is not None:
        pod_spec = _with_profile(pod_spec, profile, template_profile_name(template.name))
    pod_spec = with_settings(pod_spec, inputs.pods, defaults=DISCOVERY_RESOURCES, gpu_taint=inputs.gpu_taint)
    given = pod_annotations(inputs.pods)
    annotated = {"annotations": given} if given else {}
    body: JsonObject = {
        "metadata": {"name": inputs.job_name(template.name), "namespace": namespace, "labels": labelled(own)},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": _SECONDS_TO_LIVE,
            "activeDeadlineSeconds": int(deadline),
            "template": {"metadata": {"labels": pod_labels, **annotated}, "spec": pod_spec},
        },
    }
    return Child(DISCOVERY_JOBS, kind_of(body, JOB), mode=WriteMode.CREATE)


def _pod_spec(inputs: DiscoveryInputs, profile: RenderedProfile | None, *, is_shared: bool) -> JsonObject:
    container: JsonObject = {
        "name": CONTAINER,
        "image": inputs.image,
        "args": ["dry-run", "--format=json"],
        "env": container_env(inputs.spec, inputs.env, profile, is_shared=is_shared),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    secrets = [{"name": name} for name in inputs.pull_secrets]
    return {
        "restartPolicy": "Never",
        **({"imagePullSecrets": secrets} if secrets else {}),
        **({"serviceAccountName": inputs.service_account} if inputs.service_account else {}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }


def _with_profile(pod: JsonObject, profile: RenderedProfile, config_map: str) -> JsonObject:
    """The pod with the profile file where the runtime looks for it (DI-251)."""
    (container,) = pod["containers"]
    mount = {"name": VOLUME, "mountPath": profile.mount_path, "readOnly": True}
    volume = {"name": VOLUME, "configMap": {"name": config_map}}
    return {**pod, "containers": [{**container, "volumeMounts": [mount]}], "volumes": [volume]}


def container_env(
    spec: TemplateSpec, user: Iterable[EnvVar], profile: RenderedProfile | None, *, is_shared: bool
) -> list[JsonObject]:
    """Variables of the container: log levels, the user's, then the wanted profile; the user wins (DI-236, RC-170).

    Args:
        profile: a custom profile; its variables cannot be overridden.
        is_shared: of a cluster template, whose users' Secrets may be absent here (DI-235).
    """
    levels = {name: {"name": name, "value": "CRITICAL"} for name in ("AIM_LOG_LEVEL_ROOT", "AIM_LOG_LEVEL")}
    forced = profile.env if profile is not None else {}
    given = {one.name: _variable(one, is_shared=is_shared) for one in user if one.name not in forced}
    wanted = {
        name: {"name": name, "value": value} for name, value in {**_wanted(spec), **forced}.items() if name not in given
    }
    merged = {**levels, **given, **wanted}
    order = in_reference_order({name: str(variable.get("value") or "") for name, variable in merged.items()})
    return [merged[name] for name in order]


def _wanted(spec: TemplateSpec) -> dict[str, str]:
    gpu = spec.hardware.gpu if spec.hardware is not None else None
    count = (gpu.requests or 0) if gpu is not None else 0
    values = {
        "AIM_METRIC": str(spec.metric or ""),
        "AIM_PRECISION": str(spec.precision or ""),
        "AIM_GPU_MODEL": (gpu.model or "") if gpu is not None else "",
        "AIM_GPU_COUNT": str(count) if count > 0 else "",
        "AIM_PROFILE_ID": spec.profile_id or "",
    }
    return {name: value for name, value in values.items() if value}


def _variable(variable: EnvVar, *, is_shared: bool) -> JsonObject:
    result = to_json(variable)
    source = result.get("valueFrom")
    if not is_shared or not source:
        return result
    relaxed = {
        name: {**reference, "optional": True} if name in ("secretKeyRef", "configMapKeyRef") else reference
        for name, reference in source.items()
    }
    return {**result, "valueFrom": relaxed}
