"""The kinds of ``config.kaiwo.silogen.ai`` as levels of the runtime configuration (RC-125, RC-151…RC-153)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from aim_domain.api.aim_shapes import DEFAULT_GPU_RESOURCE
from aim_domain.api.older_configs import (
    AIMNamespaceConfig,
    KaiwoConfig,
    KaiwoConfigSpec,
    NamespaceCredentials,
    S3Credential,
    SecretValueReference,
)
from aim_domain.api.runtime_config import RuntimeConfigSpec
from aim_domain.parts import KAIWO_CONFIGS, NAMESPACE_CONFIGS
from controller_runtime import Depth, Index, JsonObject, Predicate, Resource
from controller_runtime.core import EnvVar, EnvVarSource, KeySelector

C = TypeVar("C", bound=Resource)

NAMESPACE_CONFIGS_BY_NAMESPACE: Final = Index(
    NAMESPACE_CONFIGS, "namespace", lambda config: [config.namespace], depth=Depth.METADATA
)


def _settings(config: AIMNamespaceConfig | KaiwoConfig) -> object:
    return config.spec


OLDER_CONFIG_PREDICATES: Final = (Predicate(NAMESPACE_CONFIGS, _settings), Predicate(KAIWO_CONFIGS, _settings))

HUGGING_FACE: Final = "hf://"
"""Any repository on Hugging Face."""
_S3: Final = "s3://"
_KAIWO: Final = KaiwoConfigSpec()
_ENDPOINT: Final = "AWS_ENDPOINT_URL"


def oldest_config(configs: Iterable[C]) -> C | None:
    """The one that counts where there should be only one; None of none."""
    return min(configs, key=_age, default=None)


def _age(config: Resource) -> tuple[float, str]:
    created = config.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, config.name)


def of_kaiwo(config: KaiwoConfig | None) -> RuntimeConfigSpec | None:
    """A KaiwoConfig as the lowest level."""
    storage_class = config.spec.storage.default_storage_class if config else None
    if not storage_class:
        return None
    return RuntimeConfigSpec.model_validate({"storage": {"defaultStorageClassName": storage_class}})


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """What a KaiwoConfig says of serving pods; empty where it says nothing (RC-155).

    Attributes:
        gpu_taint: key of a taint that pods with GPUs tolerate.
        scheduler: name of the pods' scheduler.
        queue: name of a queue of Kueue.
        gpu_resource: what a pod asks for where no object names the resource of its GPUs (RC-157).
        hf_home: path of a volume for what Hugging Face's libraries keep, also of download Jobs (RC-156).
    """

    gpu_taint: str = ""
    scheduler: str = ""
    queue: str = ""
    gpu_resource: str = DEFAULT_GPU_RESOURCE
    hf_home: str = ""


def pod_defaults(config: KaiwoConfig | None) -> PodDefaults:
    """The settings of a KaiwoConfig for pods, as far as a pod can have them (RC-159)."""
    if config is None:
        return PodDefaults()
    spec, bad = config.spec, {problem.field for problem in kaiwo_problems(config.spec)}
    return PodDefaults(
        "" if TAINT_KEY in bad else spec.nodes.default_gpu_taint_key,
        _chosen(spec.scheduling.kube_scheduler_name, _KAIWO.scheduling.kube_scheduler_name),
        _chosen(spec.default_cluster_queue_name, _KAIWO.default_cluster_queue_name),
        gpu_resource_of(spec),
        "" if HF_HOME in bad else spec.storage.default_hf_mount_path,
    )


def gpu_resource_of(spec: KaiwoConfigSpec) -> str:
    """The resource of GPUs; the usual one where the KaiwoConfig names none that could be one."""
    key = spec.nodes.default_gpu_resource_key
    return key if key and _is_resource(key) else DEFAULT_GPU_RESOURCE


def node_taint(config: KaiwoConfig | None) -> str:
    """Key of the taint that GPU nodes shall have; empty for none (RC-158)."""
    nodes = config.spec.nodes if config else None
    return pod_defaults(config).gpu_taint if nodes is not None and nodes.add_taints_to_gpu_nodes else ""


HF_HOME: Final = "spec.storage.defaultHfMountPath"
RESOURCE_KEY: Final = "spec.nodes.defaultGpuResourceKey"
TAINT_KEY: Final = "spec.nodes.defaultGpuTaintKey"


@dataclass(frozen=True, slots=True)
class Problem:
    """A setting that no pod or node could have, so that it counts as empty (RC-159)."""

    field: str
    message: str


def kaiwo_problems(spec: KaiwoConfigSpec) -> tuple[Problem, ...]:
    """What the schema lets pass and Kubernetes would refuse, on every pod."""
    path, resource, taint = (
        spec.storage.default_hf_mount_path,
        spec.nodes.default_gpu_resource_key,
        spec.nodes.default_gpu_taint_key,
    )
    found = (
        (HF_HOME, path, _is_mountable(path), "no absolute path at which a volume can be mounted"),
        (RESOURCE_KEY, resource, _is_resource(resource), "no name of an extended resource, such as amd.com/gpu"),
        (TAINT_KEY, taint, _KEY.fullmatch(taint) is not None, "no key of a taint"),
    )
    return tuple(Problem(field, f"{text!r} is {what}") for field, text, good, what in found if text and not good)


_KEY: Final = re.compile(
    r"(?=.{1,317}$)([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_PATH: Final = re.compile(r"(?=.{1,256}$)(/(?!\.{1,2}(/|$))[A-Za-z0-9._-]+)+")
_TAKEN: Final = frozenset(
    ("bin", "boot", "cache", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr", "workspace")
)
"""A volume at or below one of these would hide what a container runs from, or what is mounted there already."""


def _is_resource(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or key.startswith("requests.")
    return bool(slash) and not native and _KEY.fullmatch(key) is not None


def _is_mountable(path: str) -> bool:
    return _PATH.fullmatch(path) is not None and path.split("/")[1] not in _TAKEN


def _chosen(name: str, default: str) -> str:
    """The default names a component of Kaiwo's, without which pods wait for ever: an administrator has to choose."""
    return "" if name == default else name


def of_namespace(config: AIMNamespaceConfig | None) -> RuntimeConfigSpec | None:
    """The gateway of an AIMNamespaceConfig as the level below the namespace's runtime config."""
    gateway = config.spec.gateway if config else None
    if gateway is None or not gateway.name:
        return None
    parent: JsonObject = {"name": gateway.name, **({"namespace": gateway.namespace} if gateway.namespace else {})}
    return RuntimeConfigSpec.model_validate({"routing": {"enabled": True, "gatewayRef": parent}})


def credential_env(
    credentials: NamespaceCredentials, sources: Iterable[str], explicit: Iterable[EnvVar]
) -> tuple[EnvVar, ...]:
    """Variables with the credentials for the hosts of some sources, and for no other host.

    Args:
        sources: URIs of weights.
        explicit: variables that win; where they name an S3 endpoint, the credentials are those for that one.
    """
    uris = tuple(sources)
    named = {variable.name: variable for variable in explicit}
    found: list[EnvVar] = []
    if any(uri.startswith(HUGGING_FACE) for uri in uris):
        found += _variable("HF_TOKEN", credentials.hugging_face_token)
    if any(uri.startswith(_S3) for uri in uris):
        found += _of_endpoint(_endpoint(credentials.s3, named.get(_ENDPOINT)))
    return tuple(variable for variable in found if variable.name not in named)


def _endpoint(known: tuple[S3Credential, ...], wanted: EnvVar | None) -> S3Credential | None:
    """Those of the endpoint that is asked for; of the first one, which is the default, where none is asked for."""
    if wanted is None:
        return known[0] if known else None
    return next((one for one in known if _same_url(one.endpoint_url, wanted.value)), None)


def _same_url(one: str | None, other: str | None) -> bool:
    return bool(one) and (one or "").rstrip("/") == (other or "").rstrip("/")


def _of_endpoint(credential: S3Credential | None) -> list[EnvVar]:
    if credential is None:
        return []
    url = [EnvVar(name=_ENDPOINT, value=credential.endpoint_url)] if credential.endpoint_url else []
    return [
        *url,
        *_variable("AWS_ACCESS_KEY_ID", credential.access_key_id),
        *_variable("AWS_SECRET_ACCESS_KEY", credential.secret_access_key),
    ]


def _variable(name: str, secret: SecretValueReference | None) -> list[EnvVar]:
    if secret is None or not secret.secret_name or not secret.secret_key:
        return []
    key = KeySelector(name=secret.secret_name, key=secret.secret_key)
    return [EnvVar(name=name, value_from=EnvVarSource(secret_key_ref=key))]
