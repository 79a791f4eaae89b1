"""Pull secrets and service accounts, read when they are needed and never kept (DI-072…DI-079, FW-096, FW-344)."""

from collections.abc import Sequence
from typing import Final

import structlog

from aim_shared.api import SECRET, Kind, Resource, Secret
from aim_shared.errors import AimError, Category
from aim_shared.json import JsonObject
from aim_shared.kube.client import KubeClient
from aim_shared.kube.errors import ApiError, KubeError
from aim_shared.reconcile.plan import Effect
from aim_shared.reconcile.reconciler import EffectError
from aim_shared.registry.credentials import ANONYMOUS, CredentialSet, InvalidPullSecretError, parse_pull_secret

_SERVICE_ACCOUNT: Final = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, Resource)

_log: Final = structlog.get_logger(__name__)


class PullSecrets:
    """Reads Secrets by GET; what it returns is used at once and forgotten."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """Effect ``pull-secrets``: UID and version of each Secret, ``null`` for one that does not exist.

        Raises:
            EffectError: a Secret can not be read for another reason (DI-074).
        """
        namespace, names = str(effect.params["namespace"]), effect.params["secrets"]
        versions: JsonObject = {}
        for name in names:
            secret = await self._read(namespace, name)
            versions[name] = None if secret is None else f"{secret.uid}/{secret.metadata.resource_version}"
        return {"versions": versions}

    async def credentials(self, namespace: str, names: Sequence[str], service_account: str) -> CredentialSet:
        """Credentials in the order of DI-076: the listed Secrets, then those of the service account.

        Raises:
            EffectError: a listed Secret does not exist or can not be read.
        """
        listed = [await self._listed(namespace, name) for name in names]
        return CredentialSet.merge([*listed, *await self._of_account(namespace, service_account)])

    async def mirror(self, namespace: str, name: str) -> CredentialSet:
        """Credentials of a mirror; a missing Secret is empty (FW-392)."""
        secret = await self._read(namespace, name)
        return ANONYMOUS if secret is None else _parsed(namespace, secret)

    async def _listed(self, namespace: str, name: str) -> CredentialSet:
        secret = await self._read(namespace, name)
        if secret is None:
            message = f"pull secret {namespace}/{name} does not exist; create it or remove it from imagePullSecrets"
            raise EffectError(AimError(Category.MISSING_UPSTREAM, "SecretNotFound", message))
        return _parsed(namespace, secret)

    async def _of_account(self, namespace: str, name: str) -> list[CredentialSet]:
        """What the service account adds; whatever is missing of it is logged and ignored (DI-077)."""
        try:
            account = await self._kube.get(_SERVICE_ACCOUNT, name, namespace)
            names = [str(entry.get("name") or "") for entry in account.get("imagePullSecrets") or ()]
            found = [(one, await self._read(namespace, one)) for one in names if one]
        except (KubeError, EffectError) as error:
            _log.info("service account gives no credentials", namespace=namespace, name=name, error=str(error))
            return []
        for one, secret in found:
            if secret is None:
                _log.info("pull secret of a service account is missing", namespace=namespace, account=name, name=one)
        return [_parsed(namespace, secret) for _, secret in found if secret is not None]

    async def _read(self, namespace: str, name: str) -> Secret | None:
        try:
            return SECRET.decode(await self._kube.get(SECRET, name, namespace))
        except ApiError as error:
            if error.is_not_found:
                return None
            raise _unreadable(namespace, name, error) from error
        except KubeError as error:
            raise _unreadable(namespace, name, error) from error


def _parsed(namespace: str, secret: Secret) -> CredentialSet:
    try:
        return parse_pull_secret(secret.type, secret.data)
    except InvalidPullSecretError as error:
        _log.warning("pull secret skipped", namespace=namespace, name=secret.name, error=str(error))
        return ANONYMOUS


def _unreadable(namespace: str, name: str, error: KubeError) -> EffectError:
    message = f"pull secret {namespace}/{name} can not be read: {error}"
    return EffectError(AimError(Category.INFRASTRUCTURE, "SecretAccessFailed", message))
