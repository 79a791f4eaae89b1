"""Reading pull secrets of the operator namespace, on demand and never kept (MS-158…MS-168)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aim_model_sync.effect_kinds import SecretParams
from aim_model_sync.outcome import SecretProblem, SecretReason, SecretsOutcome, SecretVersion
from aim_shared.api import to_json
from aim_shared.api.external.secret import Secret
from aim_shared.api.kinds import SECRET
from aim_shared.errors import AimError, Category
from aim_shared.json import JsonObject
from aim_shared.kube.client import KubeClient
from aim_shared.kube.errors import ApiError, KubeError
from aim_shared.reconcile.plan import Effect
from aim_shared.reconcile.reconciler import EffectError
from aim_shared.registry.credentials import ANONYMOUS, CredentialSet, InvalidPullSecretError, parse_pull_secret

_REFUSALS: Final = frozenset({401, 403})


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
        self.namespace = namespace

    async def read_all(self, names: Iterable[str]) -> PullSecrets:
        """Credentials in the order of the names; an unusable Secret is a problem, not an error (MS-165, MS-166).

        Raises:
            KubeError: the API server could not be asked.
        """
        sets, versions, problems = [], [], []
        for name in names:
            secret = await self._read(name)
            if isinstance(secret, SecretProblem):
                problems.append(secret)
                versions.append(SecretVersion(name=name))
                continue
            metadata = secret.metadata
            versions.append(SecretVersion(name=name, uid=metadata.uid, resource_version=metadata.resource_version))
            try:
                sets.append(parse_pull_secret(secret.type, secret.data))
            except InvalidPullSecretError as error:
                problems.append(self._problem(name, SecretReason.INVALID, str(error)))
        return PullSecrets(CredentialSet.merge(sets), tuple(versions), tuple(problems))

    async def credentials(self, name: str) -> CredentialSet:
        """Credentials of one Secret, as mirrors need them (FW-392); an unusable one is anonymous.

        Raises:
            KubeError: the API server could not be asked.
        """
        return (await self.read_all((name,))).credentials

    async def versions(self, effect: Effect) -> JsonObject:
        """Runner of `PULL_SECRETS`.

        Raises:
            EffectError: the API server could not be asked.
        """
        params = SecretParams.model_validate(effect.params)
        try:
            found = await self.read_all(params.secrets)
        except KubeError as error:
            raise unreachable(error) from error
        return to_json(SecretsOutcome(secrets=found.versions))

    async def _read(self, name: str) -> Secret | SecretProblem:
        try:
            return Secret.model_validate(await self._kube.get(SECRET, name, self.namespace))
        except ApiError as error:
            if error.is_not_found:
                return self._problem(name, SecretReason.NOT_FOUND, "does not exist; create it there")
            if error.code in _REFUSALS:
                text = "may not be read; let the role of model-sync get Secrets of this namespace"
                return self._problem(name, SecretReason.ACCESS_FAILED, text)
            raise

    def _problem(self, name: str, reason: SecretReason, cause: str) -> SecretProblem:
        return SecretProblem(name=name, reason=reason, message=f"Secret {self.namespace}/{name}: {cause}")


def unreachable(error: KubeError) -> EffectError:
    """The failure of an effect that could not ask the API server (MS-370)."""
    text = f"pull secrets can not be read: {error}; waiting for the API server"
    return EffectError(AimError(Category.INFRASTRUCTURE, "InfrastructureError", text))
