"""The Jobs of an artifact: manifests, environment, filters of files and the account that their pods have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aim_artifacts.claim import CONTROLLER
from aim_artifacts.download_account import DownloadAccount
from aim_artifacts.downloader_contract import DEFAULT_FILTER, TERMINAL_CODES, FilterError, filter_text, selection_of
from aim_artifacts.settings import ArtifactsSettings
from aim_artifacts.source import is_hugging_face
from aim_domain import (
    CHECK_SIZE_RESOURCES,
    DOWNLOAD_RESOURCES,
    AIMArtifact,
    DownloadFilter,
    RuntimeConfigSpec,
    child_labels,
    labels,
    merge_env,
    ordered_by_references,
    pod_annotations,
    settings_hash,
    with_settings,
)
from aim_domain.naming import check_size_job_name, download_job_name, label_value
from aim_domain.parts import ARTIFACT_JOBS
from controller_runtime import (
    Child,
    Delete,
    JsonObject,
    PodPhase,
    WriteMode,
    kind_of,
    loads,
    to_json,
)
from controller_runtime.core import EnvVar, Job, PersistentVolumeClaim, Pod, ResourceRequirements
from controller_runtime.kinds import JOB


def effective_filter(artifact: AIMArtifact, config: RuntimeConfigSpec) -> str:
    """JSON text for ``AIM_DOWNLOAD_FILTER``: pinned, else spec, else runtime config, else default (AR-400, AR-407)."""
    pinned = pinned_filter(artifact)
    if pinned is not None:
        return pinned
    storage = config.storage
    given = artifact.spec.download_filter or (storage.download_filter if storage else None)
    return filter_text(DEFAULT_FILTER if given is None else to_json(given))


def pinned_filter(artifact: AIMArtifact) -> str | None:
    """The filter of the artifact's first Job; an unreadable annotation counts as none."""
    text = artifact.metadata.annotations.get(labels.ANNOTATION_RESOLVED_DOWNLOAD_FILTER)
    value = parse_filter(text)
    return None if value is None else filter_text(value)


def filter_to_pin(artifact: AIMArtifact, config: RuntimeConfigSpec) -> str | None:
    """What to write into the annotation before the first Job; ``None`` when there is nothing to write (AR-407)."""
    if not is_hugging_face(artifact.spec.source_uri) or pinned_filter(artifact) is not None:
        return None
    return effective_filter(artifact, config)


def is_filter_ignored(artifact: AIMArtifact) -> bool:
    """Whether the artifact carries a filter that has no effect (AR-405)."""
    return artifact.spec.download_filter is not None and not is_hugging_face(artifact.spec.source_uri)


def parse_filter(text: str | None) -> JsonObject | None:
    """The filter in an annotation; ``None`` when it is absent or unusable."""
    if not text:
        return None
    try:
        value = loads(text)
        selection_of(value)
    except (ValueError, FilterError):
        return None
    return value


def same_filter(one: DownloadFilter | None, other: JsonObject) -> bool:
    """Whether two filters mean the same: presence counts, the order of patterns does not (AR-546)."""
    if one is None:
        return False
    return _form(to_json(one)) == _form(other)


def _form(value: JsonObject) -> tuple[list[str] | None, list[str] | None]:
    include, exclude = value.get("include"), value.get("exclude")
    return None if include is None else sorted(include), None if exclude is None else sorted(exclude)


MOUNT_PATH = "/cache"
"""Where the volume is mounted in the download container (AR-253)."""
_FILTER = "AIM_DOWNLOAD_FILTER"


def download_environment(
    artifact: AIMArtifact, config: RuntimeConfigSpec, size: int, *, hf_home: str = "", fixed: Sequence[EnvVar] = ()
) -> tuple[EnvVar, ...]:
    """Defaults, overridden by the config, overridden by the artifact, with the fixed ones last to have a say.

    Args:
        hf_home: of a KaiwoConfig, in place of the default (RC-156).
        fixed: of an adapter (LA-021).
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
    own = {name: defaults[name] for name in ("ARTIFACT_NAME", "ARTIFACT_NAMESPACE", "MOUNT_PATH")}
    last = _variables({**own, **_filter(artifact, config)})
    return ordered_by_references(merge_env(_variables(defaults), config.env, artifact.spec.env, [*last, *fixed]))


def check_size_environment(artifact: AIMArtifact, config: RuntimeConfigSpec) -> tuple[EnvVar, ...]:
    """What config and artifact say, and the filter; the program has defaults of its own."""
    return ordered_by_references(merge_env(config.env, artifact.spec.env, _variables(_filter(artifact, config))))


def _filter(artifact: AIMArtifact, config: RuntimeConfigSpec) -> dict[str, str]:
    return {_FILTER: effective_filter(artifact, config)} if is_hugging_face(artifact.spec.source_uri) else {}


def _variables(values: dict[str, str]) -> list[EnvVar]:
    return [EnvVar(name=name, value=value) for name, value in values.items()]


_USER: Final = 1000
_BACKOFF_LIMIT: Final = 2
_DOWNLOAD_TTL: Final = 600
"""Seconds that a finished download Job stays (AR-250)."""
_CHECK_SIZE_TTL: Final = 300
"""Seconds that a finished check-size Job stays (AR-151)."""
_VOLUME: Final = "cache"
_HF_HOME: Final = "hf-home"


@dataclass(frozen=True, slots=True)
class _Blueprint:
    """What distinguishes the two Jobs."""

    name: str
    component: str
    container: JsonObject
    ttl: int
    annotations: dict[str, str]
    pod: JsonObject
    resources: ResourceRequirements


def build_download_job(
    artifact: AIMArtifact,
    config: RuntimeConfigSpec,
    settings: ArtifactsSettings,
    claim: PersistentVolumeClaim,
    size: int,
    *,
    account: DownloadAccount,
    hf_home: str = "",
    gpu_taint: str = "",
    fixed: Sequence[EnvVar] = (),
) -> Child:
    """The Job that fills the volume.

    Args:
        account: as which its pods report.
        hf_home: where a directory is mounted for what the Hub client keeps; empty for none (RC-156).
        gpu_taint: key of the taint of GPU nodes, which its pods tolerate; empty for none (AR-842).
        fixed: variables of an adapter, which nothing overrides (LA-021).
    """
    env = download_environment(artifact, config, size, hf_home=hf_home, fixed=fixed)
    volumes: list[JsonObject] = [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim.name}}]
    mounts: list[JsonObject] = [{"name": _VOLUME, "mountPath": MOUNT_PATH}]
    if hf_home:
        volumes.append({"name": _HF_HOME, "emptyDir": {}})
        mounts.append({"name": _HF_HOME, "mountPath": hf_home})
    container = {**_container("model-download", artifact, settings, env), "volumeMounts": mounts}
    container["securityContext"] |= {"runAsUser": _USER, "runAsGroup": _USER}
    pod: JsonObject = {
        "volumes": volumes,
        "serviceAccountName": settings.artifact_service_account,
        "automountServiceAccountToken": True,
    }
    if account.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in account.pull_secrets]
    return _job(
        artifact,
        config,
        _Blueprint(
            name=download_job_name(artifact.name, artifact.uid),
            component=labels.COMPONENT_DOWNLOAD,
            container=container,
            ttl=_DOWNLOAD_TTL,
            annotations={labels.ANNOTATION_PVC_UID: claim.uid},
            pod={**pod, "securityContext": {**_security(), "fsGroup": _USER}},
            resources=DOWNLOAD_RESOURCES,
        ),
        gpu_taint,
    )


def build_check_size_job(
    artifact: AIMArtifact, config: RuntimeConfigSpec, settings: ArtifactsSettings, *, gpu_taint: str = ""
) -> Child:
    """The Job that finds out how large the weights are."""
    container = {
        **_container("check-size", artifact, settings, check_size_environment(artifact, config)),
        "command": ["/check-size.sh"],
    }
    return _job(
        artifact,
        config,
        _Blueprint(
            name=check_size_job_name(artifact.name, artifact.uid),
            component=labels.COMPONENT_CHECK_SIZE,
            container=container,
            ttl=_CHECK_SIZE_TTL,
            annotations={},
            # It says what it found in its last words, so it needs nothing of the API server.
            pod={"securityContext": _security(), "automountServiceAccountToken": False},
            resources=CHECK_SIZE_RESOURCES,
        ),
        gpu_taint,
    )


def is_stale(job: Job, claim: PersistentVolumeClaim) -> bool:
    """Whether the Job writes, or wrote, to another volume than the claim's (AR-106)."""
    written = job.metadata.annotations.get(labels.ANNOTATION_PVC_UID)
    if written is not None:
        return written != claim.uid
    made, available = job.metadata.creation_timestamp, claim.metadata.creation_timestamp
    return made is not None and available is not None and made < available


def is_outdated(job: Job, artifact: AIMArtifact) -> bool:
    """Whether the artifact's spec has changed since the Job was built (AR-362)."""
    built_from = job.metadata.annotations.get(labels.ANNOTATION_ARTIFACT_GENERATION, "")
    return built_from.isdecimal() and int(built_from) < artifact.metadata.generation


def has_other_settings(job: Job, pods: Sequence[Pod], config: RuntimeConfigSpec, gpu_taint: str) -> bool:
    """Whether no pod of the Job has started and the settings of pods have changed since it was built (AR-843)."""
    written = job.metadata.annotations.get(labels.ANNOTATION_POD_SETTINGS, "")
    waits = all(pod.status.phase is PodPhase.PENDING for pod in pods)
    return waits and written != settings_hash(config.jobs, gpu_taint)


def removal(job: Job, why: str) -> Delete:
    """Delete a Job and, in the background, its pods."""
    return Delete(ARTIFACT_JOBS, job.namespace, job.name, job.uid, why)


def _job(artifact: AIMArtifact, config: RuntimeConfigSpec, plan: _Blueprint, gpu_taint: str) -> Child:
    name = label_value(artifact.name)
    own = {
        labels.CACHE_NAME: name,
        labels.CACHE_TYPE: labels.CACHE_TYPE_ARTIFACT,
        labels.COMPONENT: plan.component,
        labels.ARTIFACT: name,
    }
    on_job = child_labels(own, parent=artifact, controller=CONTROLLER, propagation=config.label_propagation)
    on_pod = {key: value for key, value in on_job.items() if key != labels.APP_MANAGED_BY}
    generation = {labels.ANNOTATION_ARTIFACT_GENERATION: str(artifact.metadata.generation)}
    digest = settings_hash(config.jobs, gpu_taint)
    marks = {**generation, **({labels.ANNOTATION_POD_SETTINGS: digest} if digest else {})}
    pod: JsonObject = {"restartPolicy": "Never", "containers": [plan.container], **plan.pod}
    if artifact.spec.image_pull_secrets:
        pod["imagePullSecrets"] = [to_json(secret) for secret in artifact.spec.image_pull_secrets]
    pod = with_settings(pod, config.jobs, defaults=plan.resources, gpu_taint=gpu_taint)
    given = pod_annotations(config.jobs)
    annotated = {"annotations": given} if given else {}
    body = {
        "metadata": {
            "name": plan.name,
            "namespace": artifact.namespace,
            "labels": on_job,
            "annotations": {**plan.annotations, **marks},
        },
        "spec": {
            "backoffLimit": _BACKOFF_LIMIT,
            "ttlSecondsAfterFinished": plan.ttl,
            "podFailurePolicy": _failure_policy(str(plan.container["name"])),
            "template": {"metadata": {"labels": on_pod, **annotated}, "spec": pod},
        },
    }
    return Child(ARTIFACT_JOBS, kind_of(body, JOB), mode=WriteMode.CREATE)


def _container(name: str, artifact: AIMArtifact, settings: ArtifactsSettings, env: Sequence[EnvVar]) -> JsonObject:
    return {
        "name": name,
        "image": artifact.spec.model_download_image or settings.artifact_downloader_image,
        "imagePullPolicy": "IfNotPresent",
        "args": [artifact.spec.source_uri],
        "env": [to_json(variable) for variable in env],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _security() -> JsonObject:
    return {
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _failure_policy(container: str) -> JsonObject:
    """Disruptions cost no attempt; causes that no attempt can cure end the Job at once (AR-257)."""
    codes = {"containerName": container, "operator": "In", "values": [int(code) for code in TERMINAL_CODES]}
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    return {
        "rules": [
            {"action": "Ignore", "onPodConditions": [disrupted]},
            {"action": "FailJob", "onExitCodes": codes},
        ]
    }
