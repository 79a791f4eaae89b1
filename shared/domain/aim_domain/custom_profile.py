"""The profile file of a template with a custom profile, rendered alike for discovery and serving (DI-241…DI-254)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import yaml

from aim_domain.api.aim_shapes import GpuRequirements
from aim_domain.api.enums import ProfileType
from aim_domain.api.service_template import TemplateSpec
from controller_runtime import JsonObject

PROFILE_FOLDER: Final = "/workspace/aim-runtime/profiles/custom"
"""Where the runtime looks for custom profiles; a folder per AIM id below (DI-251)."""
VOLUME: Final = "custom-profile"
"""Name of the volume with the file."""

_ENGINE: Final = "vllm"
_VARIABLE: Final = re.compile(r"[A-Z0-9_]+")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._-]+")


class InvalidProfileError(ValueError):
    """The custom profile cannot be used; the message names the field and what to do."""


@dataclass(frozen=True, slots=True)
class RenderedProfile:
    """A profile file and how a container is made to use it.

    Attributes:
        aim_id: its folder.
        profile_id: value of ``AIM_PROFILE_ID`` (DI-246).
        identity: variables that say which model it is of.
    """

    file_name: str
    text: str
    aim_id: str
    profile_id: str
    identity: Mapping[str, str]

    @property
    def mount_path(self) -> str:
        return f"{PROFILE_FOLDER}/{self.aim_id}"

    @property
    def env(self) -> dict[str, str]:
        """Variables that nothing may override (DI-236, DI-252)."""
        return {**self.identity, "AIM_PROFILE_ID": self.profile_id}


def render_profile(spec: TemplateSpec) -> RenderedProfile:
    """The file of a template that has ``customProfile``; equal specs give equal text (DI-248).

    Raises:
        InvalidProfileError: see DI-241 and DI-242.
    """
    gpu = _checked_gpu(spec)
    _check_ids(spec)
    args, variables = _checked_profile(spec)
    metric, precision = str(spec.metric or ""), str(spec.precision or "")
    content: JsonObject = {
        "aim_id": spec.aim_id,
        "model_id": spec.model_id,
        "metadata": {
            "engine": _ENGINE,
            "gpu": gpu.model,
            "gpu_count": gpu.requests,
            "manual_selection_only": False,
            "metric": metric,
            "precision": precision,
            "type": str(spec.type or ProfileType.UNOPTIMIZED),
        },
        "engine_args": args,
        "env_vars": variables,
    }
    stem = f"{_ENGINE}-{(gpu.model or '').lower()}-{precision}-tp{gpu.requests}-{metric}"
    text = yaml.safe_dump(content, sort_keys=True, allow_unicode=True, default_flow_style=False)
    identity = {"AIM_ID": str(spec.aim_id)}
    return RenderedProfile(f"{stem}.yaml", text, str(spec.aim_id), f"custom/{spec.aim_id}/{stem}", identity)


def _checked_gpu(spec: TemplateSpec) -> GpuRequirements:
    gpu = spec.hardware.gpu if spec.hardware is not None else None
    if gpu is None or not gpu.model or (gpu.requests or 0) < 1:
        raise InvalidProfileError("customProfile needs hardware.gpu with a model and at least one request")
    return gpu


def _check_ids(spec: TemplateSpec) -> None:
    if not spec.aim_id or not spec.model_id:
        raise InvalidProfileError("customProfile needs aimId and modelId")
    check_aim_id(spec.aim_id, "aimId")


def check_aim_id(aim_id: str, field: str) -> None:
    """The id becomes part of a mount path.

    Raises:
        InvalidProfileError: it could lead out of its folder.
    """
    if not all(_SEGMENT.fullmatch(part) and part not in (".", "..") for part in aim_id.split("/")):
        raise InvalidProfileError(
            f"{field} {aim_id!r} is not made of segments of letters, digits, '.', '_' and '-', separated by '/'"
        )


def _checked_profile(spec: TemplateSpec) -> tuple[JsonObject, dict[str, str]]:
    profile = spec.custom_profile
    args = profile.engine_args if profile is not None and profile.engine_args is not None else {}
    variables = dict(profile.env_vars) if profile is not None else {}
    if not isinstance(args, dict):
        raise InvalidProfileError("customProfile.engineArgs is not a JSON object")
    if "model" in args:
        raise InvalidProfileError("customProfile.engineArgs must not contain model; the runtime sets it")
    wrong = next((name for name in variables if not _VARIABLE.fullmatch(name)), None)
    if wrong is not None:
        raise InvalidProfileError(f"customProfile.envVars: {wrong!r} is not made of A-Z, 0-9 and '_'")
    return args, variables
