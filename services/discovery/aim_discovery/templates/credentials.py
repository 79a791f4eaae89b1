"""Secrets of a discovery that was refused: what was corrected is tried at once (FW-096, DI-301)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from aim_discovery.effect_kinds import SERVICE_NAME, EffectKind, inputs_key
from aim_discovery.scopes import Template
from aim_discovery.templates.attempts import Attempts
from aim_discovery.templates.identity import DiscoveryInputs
from controller_runtime import FACTS, Category, ClassifiedError, Effect, Fact, JsonObject, View, get_fact

SECRET_INTERVAL: Final = timedelta(seconds=60)
"""How often the Secrets of a refused discovery are read (FW-096)."""


@dataclass(frozen=True, slots=True)
class CredentialWatch:
    """What has become of the Secrets since the failure was noted.

    Attributes:
        corrected: one of them appeared, changed or went away.
        error: why the latest reading failed; then nobody knows whether they were corrected.
        effects: the next reading.
    """

    corrected: bool = False
    error: ClassifiedError | None = None
    effects: tuple[Effect, ...] = ()


def watch_credentials(
    template: Template, inputs: DiscoveryInputs, namespace: str, attempts: Attempts, view: View
) -> CredentialWatch:
    """Compare with the versions that were read right after the failure; each failed attempt begins anew.

    Those versions are a fact of their own, so that no later reading, least of all a failed one, replaces them.

    Args:
        namespace: where the Job runs.
    """
    names = sorted(set(secrets_of(inputs)))
    error = attempts.error
    if error is None or error.category is not Category.AUTH or not names:
        return CredentialWatch()
    params: JsonObject = {"namespace": namespace, "secrets": names}
    attempt = {**params, "attempt": attempts.failed, "inputs": attempts.spec_hash}
    noted = Effect(EffectKind.PULL_SECRETS, inputs_key(template.uid, attempt), params)
    first = _fact(noted, view)
    if first is None:
        return CredentialWatch(effects=(noted,))
    if first.outcome is None:
        return CredentialWatch(error=first.error, effects=(_after(first, noted),))
    reading = Effect(EffectKind.PULL_SECRETS, inputs_key(template.uid, params), params)
    latest = _fact(reading, view)
    if latest is None or latest.observed_at <= first.observed_at:
        # All attempts share this fact: it may be left from an earlier one.
        latest = first
    if latest.outcome is not None and latest.outcome.get("versions") != first.outcome.get("versions"):
        return CredentialWatch(corrected=True)
    return CredentialWatch(error=latest.error, effects=(_after(latest, reading),))


def _fact(effect: Effect, view: View) -> Fact | None:
    return get_fact(view, FACTS, SERVICE_NAME, effect.kind, effect.key).value


def _after(fact: Fact, effect: Effect) -> Effect:
    return replace(effect, not_before=fact.observed_at + SECRET_INTERVAL)


def secrets_of(inputs: DiscoveryInputs) -> Iterator[str]:
    """Names of the Secrets that the pull or the container of the Job uses."""
    yield from inputs.pull_secrets
    for variable in inputs.env:
        reference = variable.value_from.secret_key_ref if variable.value_from is not None else None
        if reference is not None and reference.name:
            yield reference.name
