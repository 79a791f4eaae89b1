"""Makes the ServiceAccount of download pods where there is none (AR-810, AR-811)."""

from typing import Final

from aim_artifacts import SERVICE_NAME
from aim_artifacts.jobs import DownloadAccount
from aim_domain import labels
from controller_runtime import (
    ApiError,
    ClassifiedError,
    Effect,
    EffectError,
    JsonObject,
    KubeClient,
    KubeError,
    Verb,
    classify,
    to_json,
)
from controller_runtime.kinds import SERVICE_ACCOUNT

_FIELD_MANAGER: Final = f"aim-{SERVICE_NAME}"
_DEFAULT: Final = "default"


class AccountMaker:
    """Effect ``download-account``."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """See to it that the account exists, and say which pull secrets its pods have to name.

        An existing account is used as it is, regardless of its origin.

        Raises:
            EffectError: the API server refuses; no Job is made without.
        """
        namespace, name = str(effect.params["namespace"]), str(effect.params["account"])
        try:
            own = await self._find(namespace, name) or await self._make(namespace, name)
            # The API server gives a pod that names none the pull secrets of its account, and only those.
            of_default = () if _pull_secrets(own) else _pull_secrets(await self._find(namespace, _DEFAULT))
        except KubeError as error:
            cause = classify(error, verb=Verb.CREATE)
            what = f"ServiceAccount {namespace}/{name} of download pods cannot be made sure of: {cause.message}"
            raise EffectError(ClassifiedError(cause.category, cause.reason, what)) from error
        return to_json(DownloadAccount(pull_secrets=of_default))

    async def _find(self, namespace: str, name: str) -> JsonObject | None:
        try:
            return await self._kube.get(SERVICE_ACCOUNT, name, namespace)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def _make(self, namespace: str, name: str) -> JsonObject | None:
        body = {
            "apiVersion": SERVICE_ACCOUNT.api_version,
            "kind": SERVICE_ACCOUNT.kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {labels.APP_MANAGED_BY: "aim-artifact-controller"},
            },
            # Download pods ask for the token themselves (AR-812).
            "automountServiceAccountToken": False,
        }
        try:
            return await self._kube.create(SERVICE_ACCOUNT, body, _FIELD_MANAGER)
        except ApiError as error:
            if error.is_already_exists:
                return await self._find(namespace, name)
            raise


def _pull_secrets(account: JsonObject | None) -> tuple[str, ...]:
    listed = (account or {}).get("imagePullSecrets") or ()
    return tuple(name for one in listed if (name := str(one.get("name") or "")))
