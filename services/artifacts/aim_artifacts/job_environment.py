"""Environment of the download and check-size containers (AR-153, AR-154, AR-260…AR-263, FW-277)."""

from aim_artifacts.download_filter import effective_filter
from aim_artifacts.source import is_hugging_face
from aim_domain import AIMArtifact, RuntimeConfigSpec, merge_env, ordered_by_references
from controller_runtime.core import EnvVar

MOUNT_PATH = "/cache"
"""Where the volume is mounted in the download container (AR-253)."""
_FILTER = "AIM_DOWNLOAD_FILTER"


def download_environment(
    artifact: AIMArtifact, config: RuntimeConfigSpec, size: int, *, hf_home: str = ""
) -> tuple[EnvVar, ...]:
    """Defaults, overridden by the config, overridden by the artifact, with the fixed ones last to have a say.

    Args:
        hf_home: of a KaiwoConfig, in place of the default (RC-156).
    """
    defaults = {
        "AIM_DOWNLOADER_PROTOCOL": "XET,HF_TRANSFER",
        "TMPDIR": "/tmp/",  # noqa: S108 - inside the container
        "HF_HOME": hf_home or "/tmp/.hf",  # noqa: S108 - inside the container
        "EXPECTED_SIZE_BYTES": str(size),
        "MOUNT_PATH": MOUNT_PATH,
        "TARGET_DIR": MOUNT_PATH,
        "ARTIFACT_NAME": artifact.name,
        "ARTIFACT_NAMESPACE": artifact.namespace,
        "STALL_TIMEOUT": "120",
    }
    fixed = {name: defaults[name] for name in ("ARTIFACT_NAME", "ARTIFACT_NAMESPACE", "MOUNT_PATH")}
    merged = merge_env(
        _variables(defaults), config.env, artifact.spec.env, _variables({**fixed, **_filter(artifact, config)})
    )
    return ordered_by_references(merged)


def check_size_environment(artifact: AIMArtifact, config: RuntimeConfigSpec) -> tuple[EnvVar, ...]:
    """What config and artifact say, and the filter; the program has defaults of its own."""
    return ordered_by_references(merge_env(config.env, artifact.spec.env, _variables(_filter(artifact, config))))


def _filter(artifact: AIMArtifact, config: RuntimeConfigSpec) -> dict[str, str]:
    return {_FILTER: effective_filter(artifact, config)} if is_hugging_face(artifact.spec.source_uri) else {}


def _variables(values: dict[str, str]) -> list[EnvVar]:
    return [EnvVar(name=name, value=value) for name, value in values.items()]
