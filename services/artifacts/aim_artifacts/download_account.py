"""The ServiceAccount of download pods, made and looked up before a Job is (AR-810…AR-812)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from aim_artifacts import SERVICE_NAME
from aim_artifacts.settings import ArtifactsSettings
from controller_runtime import FACTS, ApiModel, ClassifiedError, Effect, Items, View, get_fact

DOWNLOAD_ACCOUNT: Final = "download-account"
"""Effect: sees to it that the account exists. Its key is the namespace: one reading serves all who ask."""
_FRESH: Final = timedelta(minutes=1)
"""How long a reading stands for what is: many downloads that begin together cost one."""
_FAILED_AGAIN: Final = timedelta(seconds=10)


class DownloadAccount(ApiModel):
    """What a Job of the namespace has to know of the account.

    Attributes:
        pull_secrets: those of ``default``, which a pod has to name itself; none where the account has its own.
    """

    pull_secrets: Items[str] = ()


@dataclass(frozen=True, slots=True)
class AccountSeen:
    """How the account stands; one of the first two is there, or neither while nobody has looked.

    Attributes:
        effects: the reading that is due.
    """

    account: DownloadAccount | None = None
    error: ClassifiedError | None = None
    effects: tuple[Effect, ...] = ()


def look_at_account(view: View, namespace: str, settings: ArtifactsSettings, now: datetime) -> AccountSeen:
    """The account as a reading of these seconds found it, else that reading."""
    fact = get_fact(view, FACTS, SERVICE_NAME, DOWNLOAD_ACCOUNT, namespace).value
    if fact is not None and now - _FRESH < fact.observed_at <= now + _FRESH and fact.error is None:
        return AccountSeen(account=fact.read(DownloadAccount))
    params = {"namespace": namespace, "account": settings.artifact_service_account}
    if fact is None or fact.error is None:
        return AccountSeen(effects=(Effect(DOWNLOAD_ACCOUNT, namespace, params),))
    return AccountSeen(
        error=fact.error, effects=(Effect(DOWNLOAD_ACCOUNT, namespace, params, fact.observed_at + _FAILED_AGAIN),)
    )
