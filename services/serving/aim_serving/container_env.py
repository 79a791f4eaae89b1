"""Environment of the serving container: six layers, sorted by name (SV-154…SV-160)."""

from typing import Final

from aim_serving.references import Template
from aim_shared.api import AIMService, EnvVar, RuntimeConfigSpec, to_json
from aim_shared.json import JsonObject
from aim_shared.runtimeconfig.env import merge_env

CACHE_PATH: Final = "/workspace/cache"
_DEFAULTS: Final = (
    EnvVar(name="AIM_CACHE_PATH", value=CACHE_PATH),
    EnvVar(name="VLLM_ENABLE_METRICS", value="true"),
)


def container_env(service: AIMService, template: Template, config: RuntimeConfigSpec) -> list[JsonObject]:
    """The variables as they are applied; a higher layer replaces, AIM_ENGINE_ARGS is merged (SV-038)."""
    merged = merge_env(
        _DEFAULTS, _of_profile(template), config.env, _of_template(template), template.spec.env, service.spec.env
    )
    return [to_json(variable) for variable in sorted(merged, key=lambda variable: variable.name)]


def _of_profile(template: Template) -> tuple[EnvVar, ...]:
    profile = template.status.profile
    return tuple(EnvVar(name=name, value=value) for name, value in (profile.env_vars if profile else {}).items())


def _of_template(template: Template) -> tuple[EnvVar, ...]:
    """What the runtime in the image has to know: always of the spec, never of what was discovered (SV-155, SV-157)."""
    spec = template.spec
    known = {
        "AIM_PROFILE_ID": spec.profile_id,
        "AIM_METRIC": spec.metric,
        "AIM_PRECISION": spec.precision,
        "AIM_MODEL_ID": spec.model_sources[0].model_id if spec.model_sources else None,
    }
    return tuple(EnvVar(name=name, value=str(value)) for name, value in known.items() if value)
