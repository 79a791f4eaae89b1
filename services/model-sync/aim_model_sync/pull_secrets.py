"""Reading pull secrets of the operator namespace, on demand and never kept (MS-158…MS-168)."""

from collections.abc import Iterable
from dataclasses import dataclass

from aim_domain import read_pull_secret
from aim_model_sync.outcome import SecretsOutcome, SecretVersion
from controller_runtime import (
    ApiModel,
    Category,
    ClassifiedError,
    EffectError,
    KubeClient,
    KubeError,
)
from oci_registry import ANONYMOUS, CredentialSet, SecretProblem


class SecretParams(ApiModel):
    """Which Secrets of the operator namespace to look at."""

    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PullSecrets:
    """What the pull secrets of a source came to."""

    credentials: CredentialSet = ANONYMOUS
    versions: tuple[SecretVersion, ...] = ()
    problems: tuple[SecretProblem, ...] = ()


class SecretReader:
    """Reads Secrets of one namespace."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace

    async def read_all(self, names: Iterable[str]) -> PullSecrets:
        """Credentials in the order of the names; an unusable Secret is a problem, not an error (MS-165, MS-166).

        Raises:
            KubeError: the API server could not be asked.
        """
        found = [await read_pull_secret(self._kube, self._namespace, name) for name in names]
        return PullSecrets(
            CredentialSet.merge(one.credentials for one in found),
            tuple(SecretVersion(name=one.name, uid=one.uid, resource_version=one.resource_version) for one in found),
            tuple(one.problem for one in found if one.problem is not None),
        )

    async def versions(self, params: SecretParams) -> SecretsOutcome:
        """The versions of Secrets.

        Raises:
            EffectError: the API server could not be asked.
        """
        try:
            found = await self.read_all(params.secrets)
        except KubeError as error:
            raise unreachable(error) from error
        return SecretsOutcome(secrets=found.versions)


def unreachable(error: KubeError) -> EffectError:
    """The failure of an effect that could not ask the API server (MS-370)."""
    text = f"pull secrets cannot be read: {error}; retrying"
    return EffectError(ClassifiedError(Category.INFRASTRUCTURE, "InfrastructureError", text))
