"""Runtime profiles of AIM images, in the form that the runtime prints when it is asked for them (DI-267)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from controller_runtime import JsonObject

PROFILE_DIRECTORY: Final = "/workspace/aim-runtime/profiles"
CUSTOM_PREFIX: Final = "custom/"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Weights that a profile needs."""

    name: str
    size_gb: float

    def as_output(self) -> JsonObject:
        """The element of `models[]`."""
        return {"name": self.name, "source": f"hf://{self.name}", "size_gb": self.size_gb}


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile of an image."""

    gpu: str
    gpu_count: int
    metric: str
    precision: str
    model: ModelFile
    kind: str = "optimized"
    description: str = ""
    engine_args: Mapping[str, object] = field(default_factory=dict)
    env_vars: Mapping[str, str] = field(default_factory=dict)

    @property
    def profile_id(self) -> str:
        """File name without suffix, e.g. `vllm-mi300x-fp16-tp1-latency`."""
        return f"vllm-{self.gpu.lower()}-{self.precision}-tp{self.gpu_count}-{self.metric}"

    def matches(self, env: Mapping[str, str]) -> bool:
        """Whether the container's environment asks for this profile; what is not set matches."""
        wanted = {
            "AIM_PROFILE_ID": self.profile_id,
            "AIM_GPU_MODEL": self.gpu,
            "AIM_GPU_COUNT": str(self.gpu_count),
            "AIM_METRIC": self.metric,
            "AIM_PRECISION": self.precision,
        }
        return all(env.get(name, value).rpartition("/")[2] == value for name, value in wanted.items())

    def as_deployment(self) -> dict[str, str | int]:
        """The entry of the label `model.recommendedDeployments` (DI-111)."""
        return {
            "gpuModel": self.gpu,
            "gpuCount": self.gpu_count,
            "precision": self.precision,
            "metric": self.metric,
            "profileId": self.profile_id,
            "description": self.description,
        }

    def as_file(self, aim_id: str) -> str:
        """The file of the profile in its image; without an AIM id that of a profile without weights."""
        content = self.as_output(aim_id)["profile"]
        own = {name: content[name] for name in ("metadata", "engine_args", "env_vars")}
        return yaml.safe_dump({**({"aim_id": aim_id, "model_id": self.model.name} if aim_id else {}), **own})

    def as_output(self, aim_id: str, directory: str = "") -> JsonObject:
        """The array element that the discovery container prints."""
        filename = f"{self.profile_id}.yaml"
        folder = f"{PROFILE_DIRECTORY}/{directory or aim_id}"
        is_quantized = self.model.name != aim_id
        return {
            "filename": filename,
            "path": f"{folder}/{filename}",
            "script": "aim-runtime serve",
            "profile": {
                "aim_id": aim_id,
                "model_id": self.model.name,
                "model": aim_id,
                "quantized_model": self.model.name if is_quantized else None,
                "metadata": {
                    "engine": "vllm",
                    "gpu": self.gpu,
                    "gpu_count": self.gpu_count,
                    "metric": self.metric,
                    "precision": self.precision,
                    "type": self.kind,
                    "manual_selection_only": False,
                },
                "engine_args": {**_ENGINE_ARGS, "tensor-parallel-size": self.gpu_count, **self.engine_args},
                "env_vars": {**_ENV_VARS, **self.env_vars},
            },
            "models": [self.model.as_output()],
        }


_ENGINE_ARGS: Final = {
    "gpu-memory-utilization": 0.95,
    "distributed_executor_backend": "mp",
    "no-enable-log-requests": None,
}
_ENV_VARS: Final = {"NCCL_MIN_NCHANNELS": "112", "HIP_FORCE_DEV_KERNARG": "1"}


def custom_profile_output(env: Mapping[str, str]) -> JsonObject | None:
    """What the runtime prints for a mounted custom profile; its name tells everything (DI-252)."""
    folder, _, name = env.get("AIM_PROFILE_ID", "").rpartition("/")
    aim_id, parts = folder.removeprefix(CUSTOM_PREFIX), name.split("-")
    if not folder.startswith(CUSTOM_PREFIX) or not aim_id or len(parts) != 5:
        return None
    _, gpu, precision, parallel, metric = parts
    count = parallel.removeprefix("tp")
    if not count.isdigit():
        return None
    profile = Profile(gpu.upper(), int(count), metric, precision, ModelFile(aim_id, 16.0), kind="unoptimized")
    return profile.as_output(aim_id, f"{CUSTOM_PREFIX}{aim_id}")
