"""What makes two discoveries the same: hash of the inputs and name of the Job (DI-215…DI-223)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aim_discovery.models.custom_merge import overlay_env
from aim_discovery.scopes import Model, Template
from aim_domain import HUGGING_FACE, PodSettings, ResolvedConfig, TemplateSpec, settings_hash
from controller_runtime import canonical, to_json
from controller_runtime.core import EnvVar

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
        return _digest([self.model_name, self.image, *_wanted(self.spec), *_profile(self.spec)], _SPEC_DIGITS)

    def job_name(self, template: str) -> str:
        """Name of the Job for exactly these inputs (DI-220, DI-221)."""
        variables = sorted(self.env, key=lambda variable: variable.name)
        texts = [self.model_name, self.image, self.service_account]
        texts += [text for variable in variables for text in (variable.name, _value(variable))]
        texts += [*self.pull_secrets, *_wanted(self.spec), *_profile(self.spec)]
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


def _wanted(spec: TemplateSpec) -> list[str]:
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
