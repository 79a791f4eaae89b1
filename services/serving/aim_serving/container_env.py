"""Environment of the serving container: six layers, sorted by name and references (SV-154…SV-160, RC-170)."""

from collections.abc import Mapping
from typing import Final

from aim_domain import AIMService, RenderedProfile, RuntimeConfigSpec, merge_env, ordered_by_references
from aim_serving.references import Template
from controller_runtime import JsonObject, to_json
from controller_runtime.core import EnvVar

CACHE_PATH: Final = "/workspace/cache"
_DEFAULTS: Final = (
    EnvVar(name="AIM_CACHE_PATH", value=CACHE_PATH),
    EnvVar(name="VLLM_ENABLE_METRICS", value="true"),
)


def container_env(
    service: AIMService,
    template: Template,
    config: RuntimeConfigSpec,
    profile: RenderedProfile | None = None,
    *,
    hf_home: str = "",
) -> list[JsonObject]:
    """The variables as they are applied; a higher layer replaces, AIM_ENGINE_ARGS is merged (SV-038).

    Args:
        profile: the mounted custom profile, whose ids nothing overrides (SV-158).
        hf_home: of a KaiwoConfig, below everything else (RC-156).
    """
    custom = _variables(profile.env) if profile else ()
    derived = () if profile else _ids(template)
    layers = (
        _DEFAULTS,
        _variables({"HF_HOME": hf_home}),
        _of_profile(template),
        config.env,
        (*derived, *_purpose(template)),
    )
    merged = merge_env(*layers, template.spec.env, service.spec.env, custom)
    by_name = sorted(merged, key=lambda variable: variable.name)
    return [to_json(variable) for variable in ordered_by_references(by_name)]


def _of_profile(template: Template) -> tuple[EnvVar, ...]:
    profile = template.status.profile
    return tuple(EnvVar(name=name, value=value) for name, value in (profile.env_vars if profile else {}).items())


def _ids(template: Template) -> tuple[EnvVar, ...]:
    """Profile and weights: always of the spec, never of what was discovered (SV-156, SV-157)."""
    spec = template.spec
    model_id = spec.model_sources[0].model_id if spec.model_sources else None
    return _variables({"AIM_PROFILE_ID": spec.profile_id, "AIM_MODEL_ID": model_id})


def _purpose(template: Template) -> tuple[EnvVar, ...]:
    return _variables({"AIM_METRIC": template.spec.metric, "AIM_PRECISION": template.spec.precision})


def _variables(values: Mapping[str, str | None]) -> tuple[EnvVar, ...]:
    return tuple(EnvVar(name=name, value=str(value)) for name, value in values.items() if value)
