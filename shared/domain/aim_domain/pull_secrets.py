"""Pull secrets: read with GET when they are needed, used at once and never kept (FW-096, FW-344, MS-168)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from pydantic import Field

from controller_runtime import (
    ApiError,
    ApiModel,
    Category,
    ClassifiedError,
    EffectError,
    Items,
    KubeClient,
    KubeError,
)
from controller_runtime.kinds import SECRET
from oci_registry import (
    ANONYMOUS,
    CredentialSet,
    InvalidPullSecretError,
    RegistryError,
    RegistryErrorCode,
    SecretProblem,
    SecretReason,
    parse_pull_secret,
)

_REFUSALS: Final = frozenset({401, 403})
REMEDY: Final = "add it to secrets.allowed of the chart, or allow the service's role to get it"
"""What to do where a Secret may not be read (FW-507)."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PullSecret:
    """What reading one pull secret came to.

    Attributes:
        uid, resource_version: which version was read; empty when there was none.
    """

    name: str
    uid: str = ""
    resource_version: str = ""
    credentials: CredentialSet = ANONYMOUS
    problem: SecretProblem | None = None


async def read_pull_secret(kube: KubeClient, namespace: str, name: str) -> PullSecret:
    """Read one Secret; one that is missing, forbidden or unusable is a problem, not an error.

    Raises:
        KubeError: the API server could not be asked.
    """

    def problem(reason: SecretReason, cause: str) -> SecretProblem:
        return SecretProblem(name, reason, f"pull Secret {namespace}/{name}: {cause}")

    try:
        secret = SECRET.decode(await kube.get(SECRET, name, namespace))
    except ApiError as error:
        if error.is_not_found:
            cause = "does not exist; create it or remove it from imagePullSecrets"
            return PullSecret(name, problem=problem(SecretReason.NOT_FOUND, cause))
        if is_refused(error):
            cause = f"cannot be read; {REMEDY} ({error})"
            return PullSecret(name, problem=problem(SecretReason.ACCESS_FAILED, cause))
        raise
    uid, version = secret.uid, secret.metadata.resource_version
    try:
        return PullSecret(name, uid, version, parse_pull_secret(secret.type, secret.data))
    except InvalidPullSecretError as error:
        return PullSecret(name, uid, version, problem=problem(SecretReason.INVALID, str(error)))


class SecretsParams(ApiModel):
    """Which Secrets of a namespace are looked at."""

    namespace: str
    secrets: Items[str]


class SecretVersions(ApiModel):
    """UID and version of each Secret, ``None`` for one that does not exist."""

    versions: Mapping[str, str | None] = Field(default_factory=dict)


async def read_secret_versions(kube: KubeClient, params: SecretsParams) -> SecretVersions:
    """The versions of Secrets, without what they hold (FW-096).

    Raises:
        EffectError: a Secret cannot be read for another reason (DI-074).
    """
    return SecretVersions(versions={name: await _version(kube, params.namespace, name) for name in params.secrets})


async def _version(kube: KubeClient, namespace: str, name: str) -> str | None:
    try:
        metadata = await kube.get_metadata(SECRET, name, namespace)
    except KubeError as error:
        if isinstance(error, ApiError) and error.is_not_found:
            return None
        remedy = f"; {REMEDY}" if is_refused(error) else ""
        raise unreadable_secret(f"Secret {namespace}/{name} cannot be read: {error}{remedy}") from error
    return f"{metadata['uid']}/{metadata['resourceVersion']}"


def unreadable_secret(message: str) -> EffectError:
    """The failure of a reading that says nothing about the Secret."""
    return EffectError(ClassifiedError(Category.INFRASTRUCTURE, SecretReason.ACCESS_FAILED, message))


def is_refused(error: KubeError) -> bool:
    """Whether the API server does not let the service read."""
    return isinstance(error, ApiError) and error.code in _REFUSALS


async def mirror_credentials(kube: KubeClient, namespace: str, name: str) -> CredentialSet:
    """Credentials of a mirror; an unusable Secret is logged and empty (FW-392).

    Raises:
        RegistryError: the API server could not be asked, so the mirror cannot be used now.
    """
    try:
        secret = await read_pull_secret(kube, namespace, name)
    except KubeError as error:
        message = f"pull Secret {namespace}/{name} of a mirror cannot be read: {error}"
        raise RegistryError(RegistryErrorCode.UNREACHABLE, message) from error
    if secret.problem is not None:
        _log.warning("registry mirror is used without credentials", cause=secret.problem.message)
    return secret.credentials
