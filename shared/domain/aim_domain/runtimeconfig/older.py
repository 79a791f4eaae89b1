"""The kinds of ``config.kaiwo.silogen.ai`` as levels of the runtime configuration (RC-125, RC-151…RC-153)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from aim_domain.api.kaiwo_config import KaiwoConfig, KaiwoConfigSpec
from aim_domain.api.namespace_config import AIMNamespaceConfig, NamespaceCredentials, S3Credential, SecretValueReference
from aim_domain.api.runtime_config import RuntimeConfigSpec
from aim_domain.parts import KAIWO_CONFIGS, NAMESPACE_CONFIGS
from controller_runtime import Depth, Index, JsonObject, Resource, Shown
from controller_runtime.core import EnvVar, EnvVarSource, KeySelector

C = TypeVar("C", bound=Resource)

NAMESPACE_CONFIGS_BY_NAMESPACE: Final = Index(
    NAMESPACE_CONFIGS, "namespace", lambda config: [config.namespace], depth=Depth.METADATA
)


def _settings(config: AIMNamespaceConfig | KaiwoConfig) -> object:
    return config.spec


SHOWN_OF_OLDER_CONFIGS: Final = (Shown(NAMESPACE_CONFIGS, _settings), Shown(KAIWO_CONFIGS, _settings))

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
    """

    gpu_taint: str = ""
    scheduler: str = ""
    queue: str = ""


def pod_defaults(config: KaiwoConfig | None) -> PodDefaults:
    """The settings of a KaiwoConfig for serving pods."""
    if config is None:
        return PodDefaults()
    spec = config.spec
    return PodDefaults(
        spec.nodes.default_gpu_taint_key,
        _chosen(spec.scheduling.kube_scheduler_name, _KAIWO.scheduling.kube_scheduler_name),
        _chosen(spec.default_cluster_queue_name, _KAIWO.default_cluster_queue_name),
    )


def _chosen(name: str, default: str) -> str:
    """The default names a component of Kaiwo's: without that, pods would wait for ever, so somebody has to choose."""
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
