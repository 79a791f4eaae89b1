"""The ServiceAccount of download pods: made where there is none, and what a Job has to know of it (AR-810, AR-811)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from aim_artifacts import SERVICE_NAME
from aim_artifacts.settings import ArtifactsSettings
from aim_domain import labels
from controller_runtime import (
    ApiError,
    ApiModel,
    ApiVerb,
    ClassifiedError,
    Clients,
    Effect,
    EffectError,
    EffectType,
    Items,
    JsonObject,
    KubeClient,
    KubeError,
    Verb,
    View,
    access,
    classify,
)
from controller_runtime.kinds import SERVICE_ACCOUNT

_FRESH: Final = timedelta(minutes=1)
"""How long a reading stands for what is: many downloads that begin together cost one."""
_FAILED_AGAIN: Final = timedelta(seconds=10)


class AccountParams(ApiModel):
    """Which ServiceAccount download pods have."""

    namespace: str
    account: str


class DownloadAccount(ApiModel):
    """What a Job of the namespace has to know of the account.

    Attributes:
        pull_secrets: those of ``default``, which a pod has to name itself; none where the account has its own.
    """

    pull_secrets: Items[str] = ()


_FIELD_MANAGER: Final = f"aim-{SERVICE_NAME}"
_DEFAULT: Final = "default"


class AccountMaker:
    """Runner of `DOWNLOAD_ACCOUNT`."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, params: AccountParams) -> DownloadAccount:
        """See to it that the account exists, and say which pull secrets its pods have to name.

        An existing account is used as it is, regardless of its origin.

        Raises:
            EffectError: the API server refuses; no Job is made without.
        """
        namespace, name = params.namespace, params.account
        try:
            own = await self._find(namespace, name) or await self._make(namespace, name)
            # The API server gives a pod that names none the pull secrets of its account, and only those.
            of_default = () if _pull_secrets(own) else _pull_secrets(await self._find(namespace, _DEFAULT))
        except KubeError as error:
            cause = classify(error, verb=Verb.CREATE)
            what = f"ServiceAccount {namespace}/{name} of download pods cannot be made sure of: {cause.message}"
            raise EffectError(ClassifiedError(cause.category, cause.reason, what)) from error
        return DownloadAccount(pull_secrets=of_default)

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


def _maker(clients: Clients) -> AccountMaker:
    return AccountMaker(clients.kube)


DOWNLOAD_ACCOUNT: Final = EffectType(
    "download-account",
    AccountParams,
    DownloadAccount,
    _maker,
    4,
    (access(SERVICE_ACCOUNT, ApiVerb.GET, ApiVerb.CREATE),),
)
"""Its key is the namespace: one reading serves all who ask."""


@dataclass(frozen=True, slots=True)
class AccountSeen:
    """How the account stands; one of the first two is there, or neither before the first reading.

    Attributes:
        effects: the reading that is due.
    """

    account: DownloadAccount | None = None
    error: ClassifiedError | None = None
    effects: tuple[Effect, ...] = ()


def look_at_account(view: View, namespace: str, settings: ArtifactsSettings, now: datetime) -> AccountSeen:
    """The account as a reading of these seconds found it, else that reading."""
    fact = DOWNLOAD_ACCOUNT.look_up(view, SERVICE_NAME, namespace).value
    if fact is not None and now - _FRESH < fact.observed_at <= now + _FRESH and fact.error is None:
        return AccountSeen(account=DOWNLOAD_ACCOUNT.result_of(fact))
    params = AccountParams(namespace=namespace, account=settings.artifact_service_account)
    if fact is None or fact.error is None:
        return AccountSeen(effects=(DOWNLOAD_ACCOUNT.ask(namespace, params),))
    again = DOWNLOAD_ACCOUNT.ask(namespace, params, fact.observed_at + _FAILED_AGAIN)
    return AccountSeen(error=fact.error, effects=(again,))
