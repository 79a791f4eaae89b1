"""Effects that inspect images and read their pull Secrets."""

from collections.abc import Sequence
from typing import Final

import structlog

from aim_discovery.models.inspection import REGISTRY_REASONS
from aim_domain import PullSecret, read_pull_secret, registry_readings
from aim_domain.pull_secrets import read_secret_versions, unreadable_secret
from controller_runtime import (
    Category,
    ClassifiedError,
    Effect,
    EffectError,
    JsonObject,
    KubeClient,
    KubeError,
    Readings,
)
from controller_runtime.kinds import SERVICE_ACCOUNT
from oci_registry import CredentialSet, RegistryClient, RegistryError, SecretReason, parse_image

_log: Final = structlog.get_logger(__name__)


class PullSecretReader:
    """Reads Secrets by GET; what it returns is used at once and forgotten."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """Effect ``pull-secrets``: UID and version of each Secret, ``null`` for one that does not exist.

        Raises:
            EffectError: a Secret cannot be read for another reason (DI-074).
        """
        return await read_secret_versions(self._kube, effect)

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

    async def __call__(self, effect: Effect) -> JsonObject:
        """Digest and labels of the image.

        Raises:
            EffectError: a Secret or the registry refuses; the reason is that of DI-093.
        """
        image = str(effect.params["image"])
        credentials = await self._secrets.credentials(
            str(effect.params["namespace"]), effect.params["secrets"], str(effect.params["serviceAccount"])
        )
        try:
            config = await self._registry.image_config(parse_image(image), credentials)
        except RegistryError as error:
            message = f"image {image} cannot be inspected: {error}"
            # All three registry categories behave as infrastructure errors of the model (DI-094).
            raise EffectError(
                ClassifiedError(Category.INFRASTRUCTURE, REGISTRY_REASONS[error.category], message)
            ) from error
        return {"digest": config.digest, "labels": dict(config.labels)}
