"""The discovery Job of a template, and its identity."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aim_discovery.models.custom_merge import overlay_env
from aim_discovery.scopes import Model, Template, TemplateScope
from aim_domain import (
    DISCOVERY_RESOURCES,
    HUGGING_FACE,
    VOLUME,
    LabelPropagation,
    PodSettings,
    RenderedProfile,
    ResolvedConfig,
    TemplateSpec,
    child_labels,
    in_reference_order,
    labels,
    pod_annotations,
    settings_hash,
    with_settings,
)
from aim_domain.naming import label_value, template_profile_name
from aim_domain.parts import DISCOVERY_JOBS
from controller_runtime import Child, JsonObject, WriteMode, canonical, kind_of, to_json
from controller_runtime.core import EnvVar
from controller_runtime.kinds import JOB

JOB_NAME_PREFIX: Final = "discover-"
_SPEC_DIGITS: Final = 16
_JOB_DIGITS: Final = 8
_NAME_PART: Final = 45


@dataclass(frozen=True, slots=True)
class DiscoveryInputs:
    """Everything a discovery depends on.

    Attributes:
        env: user variables, the template's over the model's (DI-234), over the namespace's token (RC-152).
        pull_secrets: names, the model's first (DI-231), the namespace's last (RC-153).
        service_account: empty = none (DI-232).
        pods: what the runtime config says of the pods of Jobs (DI-390).
        gpu_taint: key of the taint of GPU nodes, which the pods tolerate; empty for none.
    """

    model_name: str
    image: str
    spec: TemplateSpec
    env: tuple[EnvVar, ...]
    pull_secrets: tuple[str, ...]
    service_account: str
    pods: PodSettings | None = None
    gpu_taint: str = ""

    @property
    def spec_hash(self) -> str:
        """Identity of what is discovered; credentials and environment do not take part (DI-215)."""
        return _digest([self.model_name, self.image, *_wanted_hardware(self.spec), *_profile(self.spec)], _SPEC_DIGITS)

    def job_name(self, template: str) -> str:
        """Name of the Job for exactly these inputs (DI-220, DI-221)."""
        variables = sorted(self.env, key=lambda variable: variable.name)
        texts = [self.model_name, self.image, self.service_account]
        texts += [text for variable in variables for text in (variable.name, _value(variable))]
        texts += [*self.pull_secrets, *_wanted_hardware(self.spec), *_profile(self.spec)]
        texts += [settings_hash(self.pods, self.gpu_taint)]
        return f"{JOB_NAME_PREFIX}{template[:_NAME_PART]}-{_digest(texts, _JOB_DIGITS)}"


def inputs_of(template: Template, model: Model, config: ResolvedConfig, gpu_taint: str = "") -> DiscoveryInputs:
    """The inputs of a template's discovery with the model that it resolved to."""
    spec = template.spec
    named = (secret.name for secret in (*model.spec.image_pull_secrets, *spec.image_pull_secrets))
    own = overlay_env(model.spec.env, spec.env)
    # Only Hugging Face is asked about a model before its sources are known.
    credentials = config.credentials_for([HUGGING_FACE], own)
    return DiscoveryInputs(
        model.name,
        model.spec.image,
        spec,
        overlay_env(credentials, own),
        tuple(dict.fromkeys((*named, *config.pull_secrets))),
        spec.service_account_name or model.spec.service_account_name or "",
        config.spec.jobs,
        gpu_taint,
    )


def _wanted_hardware(spec: TemplateSpec) -> list[str]:
    gpu = spec.hardware.gpu if spec.hardware is not None else None
    return [str(spec.metric or ""), str(spec.precision or "")] + (
        [] if gpu is None else [gpu.model or "", str(gpu.requests or 0)]
    )


def _profile(spec: TemplateSpec) -> list[str]:
    custom = spec.custom_profile
    own = [] if custom is None else [spec.aim_id or "", spec.model_id or "", canonical(to_json(custom)).decode()]
    return [spec.profile_id or "", *own]


def _value(variable: EnvVar) -> str:
    source = variable.value_from
    return variable.value or "" if source is None else canonical(to_json(source)).decode()


def _digest(texts: Sequence[str], length: int) -> str:
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:length]


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
        name: {"name": name, "value": value} for name, value in {**_set_by(spec), **forced}.items() if name not in given
    }
    merged = {**levels, **given, **wanted}
    order = in_reference_order({name: str(variable.get("value") or "") for name, variable in merged.items()})
    return [merged[name] for name in order]


def _set_by(spec: TemplateSpec) -> dict[str, str]:
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
