"""Secrets of a discovery that was refused: what was corrected is tried at once (FW-096, DI-301)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from aim_discovery.effect_kinds import SERVICE_NAME, EffectKind, inputs_key
from aim_discovery.scopes import Template
from aim_discovery.templates.attempts import Attempts
from aim_discovery.templates.identity import DiscoveryInputs
from aim_shared.bus.fact import get_fact
from aim_shared.bus.parts import FACTS
from aim_shared.bus.view import View
from aim_shared.errors import Category
from aim_shared.json import JsonObject
from aim_shared.reconcile.plan import Effect

SECRET_INTERVAL: Final = timedelta(seconds=60)
"""How often the Secrets of a refused discovery are read (FW-096)."""


@dataclass(frozen=True, slots=True)
class CredentialWatch:
    """What has become of the Secrets since the failure was noted.

    Attributes:
        corrected: one of them appeared, changed or went away.
        effects: the next reading.
    """

    corrected: bool = False
    effects: tuple[Effect, ...] = ()


def watch_credentials(
    template: Template, inputs: DiscoveryInputs, namespace: str, attempts: Attempts, view: View
) -> CredentialWatch:
    """Compare with the versions that were read right after the failure; each failed attempt begins anew.

    Args:
        namespace: where the Job runs.
    """
    names = sorted(set(secrets_of(inputs)))
    error = attempts.error
    if error is None or error.category is not Category.AUTH or not names:
        return CredentialWatch()
    params: JsonObject = {"namespace": namespace, "secrets": names}
    key = inputs_key(template.uid, {**params, "attempt": attempts.failed, "inputs": attempts.spec_hash})
    fact = get_fact(view, FACTS, SERVICE_NAME, EffectKind.PULL_SECRETS, key).value
    if fact is None:
        return CredentialWatch(effects=(Effect(EffectKind.PULL_SECRETS, key, params),))
    outcome: JsonObject = fact.outcome or {}
    first, now = outcome.get("since"), outcome.get("versions")
    if first is not None and first != now:
        return CredentialWatch(corrected=True)
    again = params if now is None else {**params, "since": first or now}
    due = fact.observed_at + SECRET_INTERVAL
    return CredentialWatch(effects=(Effect(EffectKind.PULL_SECRETS, key, again, not_before=due),))


def secrets_of(inputs: DiscoveryInputs) -> Iterator[str]:
    """Names of the Secrets that the pull or the container of the Job uses."""
    yield from inputs.pull_secrets
    for variable in inputs.env:
        reference = variable.value_from.secret_key_ref if variable.value_from is not None else None
        if reference is not None and reference.name:
            yield reference.name
