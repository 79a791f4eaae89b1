"""What is read of images and their pull Secrets, and the clients that read it."""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

import structlog
from pydantic import Field

from aim_discovery.settings import DiscoverySettings
from aim_domain import PullSecret, mirror_credentials, read_pull_secret, registry_readings
from aim_domain.pull_secrets import SecretsParams, SecretVersions, read_secret_versions, unreadable_secret
from controller_runtime import (
    ApiModel,
    ApiVerb,
    Category,
    ClassifiedError,
    Clients,
    EffectError,
    EffectType,
    Items,
    JsonObject,
    KubeClient,
    KubeError,
    Readings,
    access,
    canonical,
)
from controller_runtime.kinds import SECRET, SERVICE_ACCOUNT
from oci_registry import (
    CredentialSet,
    RegistryClient,
    RegistryError,
    RegistryErrorCategory,
    SecretReason,
    open_client,
    parse_image,
)

REGISTRY_REASONS: Final[Mapping[RegistryErrorCategory, str]] = MappingProxyType(
    {
        RegistryErrorCategory.AUTH: "ImagePullAuthFailure",
        RegistryErrorCategory.NOT_FOUND: "ImageNotFound",
        RegistryErrorCategory.GENERIC: "MetadataExtractionFailed",
    }
)
"""Reasons of a failed inspection (DI-093)."""


class InspectionParams(ApiModel):
    """Which image is inspected, with the credentials of which pull Secrets and service account."""

    image: str
    namespace: str
    secrets: Items[str]
    service_account: str


class ImageLabels(ApiModel):
    """What a registry says of an image."""

    digest: str = ""
    labels: Mapping[str, str] = Field(default_factory=dict)


_log: Final = structlog.get_logger(__name__)


class PullSecretReader:
    """Reads Secrets by GET; what it returns is used at once and forgotten."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, params: SecretsParams) -> SecretVersions:
        """The versions of Secrets, as `PULL_SECRETS` asks for them.

        Raises:
            EffectError: a Secret cannot be read for another reason than that it does not exist (DI-074).
        """
        return await read_secret_versions(self._kube, params)

    async def credentials(self, namespace: str, names: Sequence[str], service_account: str) -> CredentialSet:
        """Credentials in the order of DI-076: the listed Secrets, then those of the service account.

        Raises:
            EffectError: a listed Secret does not exist or cannot be read.
        """
        listed = [await self._read(namespace, name) for name in names]
        for one in listed:
            if one.problem is not None and one.problem.reason is SecretReason.NOT_FOUND:
                raise EffectError(ClassifiedError(Category.MISSING_UPSTREAM, one.problem.reason, one.problem.message))
        of_account = await self._of_account(namespace, service_account)
        return CredentialSet.merge(one.credentials for one in (*listed, *of_account))

    async def _of_account(self, namespace: str, name: str) -> list[PullSecret]:
        """What the service account adds; whatever is missing of it is logged and ignored (DI-077)."""
        try:
            account = await self._kube.get(SERVICE_ACCOUNT, name, namespace)
            names = [str(entry.get("name") or "") for entry in account.get("imagePullSecrets") or ()]
            return [await self._read(namespace, one) for one in names if one]
        except (KubeError, EffectError) as error:
            _log.info(
                "service account cannot be read; continuing without its pull secrets",
                namespace=namespace,
                name=name,
                error=str(error),
            )
            return []

    async def _read(self, namespace: str, name: str) -> PullSecret:
        """A Secret that may be missing; an undecodable one is logged and counts as empty (DI-078)."""
        try:
            secret = await read_pull_secret(self._kube, namespace, name)
        except KubeError as error:
            raise unreadable_secret(f"pull Secret {namespace}/{name} cannot be read: {error}") from error
        if secret.problem is not None:
            if secret.problem.reason is SecretReason.ACCESS_FAILED:
                raise unreadable_secret(secret.problem.message)
            _log.warning("pull secret has no usable credentials", cause=secret.problem.message)
        return secret


class ImageInspector:
    """Inspects images; the client bounds time and concurrency (DI-088, FW-396)."""

    def __init__(self, registry: RegistryClient, secrets: PullSecretReader) -> None:
        self._registry = registry
        self._secrets = secrets

    def readings(self) -> Readings:
        """Metrics of the access to registries (FW-387, FW-398)."""
        return registry_readings(self._registry)

    async def __call__(self, params: InspectionParams) -> ImageLabels:
        """Digest and labels of the image.

        Raises:
            EffectError: a Secret or the registry refuses; the reason is that of DI-093.
        """
        image = params.image
        credentials = await self._secrets.credentials(params.namespace, params.secrets, params.service_account)
        try:
            config = await self._registry.image_config(parse_image(image), credentials)
        except RegistryError as error:
            message = f"image {image} cannot be inspected: {error}"
            # All three registry categories behave as infrastructure errors of the model (DI-094).
            raise EffectError(
                ClassifiedError(Category.INFRASTRUCTURE, REGISTRY_REASONS[error.category], message)
            ) from error
        return ImageLabels(digest=config.digest, labels=dict(config.labels))


@dataclass(frozen=True, slots=True)
class RegistryClients(Clients):
    """The API server and the registries."""

    registry: RegistryClient
    secrets: PullSecretReader


@asynccontextmanager
async def open_clients(settings: DiscoverySettings, kube: KubeClient) -> AsyncIterator[RegistryClients]:
    """A registry client that follows the mirror configuration while it is open (FW-395)."""
    client = RegistryClient(
        settings,
        mirror_secrets=partial(mirror_credentials, kube, settings.system_namespace),
        api_server=kube.server,
        inspection_timeout=settings.inspection_timeout,
    )
    async with open_client(client, settings.registry_config) as registry:
        yield RegistryClients(kube, registry, PullSecretReader(kube))


def _secrets_reader(clients: RegistryClients) -> PullSecretReader:
    return clients.secrets


def _inspector(clients: RegistryClients) -> ImageInspector:
    return ImageInspector(clients.registry, clients.secrets)


_CREDENTIALS: Final = (access(SECRET, ApiVerb.GET), access(SERVICE_ACCOUNT, ApiVerb.GET))
PULL_SECRETS: Final = EffectType("pull-secrets", SecretsParams, SecretVersions, _secrets_reader, 16, _CREDENTIALS)
"""Existence and versions of the Secrets that a model lists."""
# Limited per registry host; a hanging one must not hold the others up.
IMAGE_INSPECTION: Final = EffectType("image-inspection", InspectionParams, ImageLabels, _inspector, 256, _CREDENTIALS)
"""Labels of an image."""


def inputs_key(owner_uid: str, inputs: JsonObject) -> str:
    """Key of an effect for these inputs of an object: other inputs make another fact."""
    return f"{owner_uid}/{hashlib.sha256(canonical(inputs)).hexdigest()[:16]}"
