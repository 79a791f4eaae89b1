"""Secrets of a Job that fails: a corrected one is followed within a minute (AR-820…AR-822, FW-096)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Final

from aim_artifacts import SERVICE_NAME
from aim_artifacts.download_account import DOWNLOAD_ACCOUNT
from aim_artifacts.stage import SeenArtifact
from aim_domain import merge_env
from aim_domain.pull_secrets import SecretsParams, SecretVersions, read_secret_versions
from controller_runtime import (
    ApiVerb,
    Clients,
    Component,
    Effect,
    EffectRunner,
    EffectType,
    Fact,
    View,
    access,
)
from controller_runtime.core import EnvVar, Job
from controller_runtime.kinds import SECRET


def _reader(clients: Clients) -> EffectRunner[SecretsParams, SecretVersions]:
    return partial(read_secret_versions, clients.kube)


SECRET_VERSIONS: Final = EffectType(
    "secret-versions", SecretsParams, SecretVersions, _reader, 4, (access(SECRET, ApiVerb.GET),)
)
"""UID and version of the Secrets of a Job."""
_INTERVAL: Final = timedelta(seconds=60)
"""How often they are read while the Job fails (FW-096)."""


@dataclass(frozen=True, slots=True)
class SecretWatch:
    """What has become of the Secrets since the Job began.

    Attributes:
        changed: names of those that appeared, changed or went away.
        effects: the next reading.
    """

    changed: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()


def watch_secrets(job: Job, names: Iterable[str], components: Iterable[Component], view: View) -> SecretWatch:
    """Note the versions of the Secrets as the Job begins, and compare with them while it fails.

    They are noted so early because a correction that comes while the Job fails is one, too. A reading that fails is
    tried again and changes nothing: where the service may not read Secrets, the next Job comes with the time to live of
    the failed one (AR-361).

    Args:
        components: the Job and its pods as they stand.
    """
    secrets = sorted(set(names))
    if not secrets:
        return SecretWatch()
    params = SecretsParams(namespace=job.namespace, secrets=tuple(secrets))
    noted = SECRET_VERSIONS.ask(f"{job.uid}/begin", params)
    first = _fact(noted, view)
    if first is None:
        return SecretWatch(effects=(noted,))
    at_first = SECRET_VERSIONS.result_of(first)
    if at_first is None:
        return SecretWatch(effects=(_after(first, noted),))
    if not any(component.errors for component in components):
        return SecretWatch()
    reading = SECRET_VERSIONS.ask(f"{job.uid}/now", params)
    latest = _fact(reading, view) or first
    before, after = at_first.versions, (SECRET_VERSIONS.result_of(latest) or at_first).versions
    changed = tuple(name for name in secrets if name in before and name in after and before[name] != after[name])
    return SecretWatch(changed) if changed else SecretWatch(effects=(_after(latest, reading),))


def secrets_of(seen: SeenArtifact, view: View) -> Iterator[str]:
    """Names of the Secrets that the pull or the containers of an artifact's Jobs use."""
    artifact, config = seen.artifact, seen.config_of_jobs
    for variable in merge_env(config.env, artifact.spec.env):
        yield from _secret_name(variable)
    yield from (secret.name for secret in artifact.spec.image_pull_secrets if secret.name)
    known = DOWNLOAD_ACCOUNT.result_of(DOWNLOAD_ACCOUNT.look_up(view, SERVICE_NAME, artifact.namespace).value)
    yield from () if known is None else known.pull_secrets


def has_changed(names: Iterable[str]) -> str:
    """Why a Job is replaced."""
    named = list(names)
    return f"{'Secret' if len(named) == 1 else 'Secrets'} {', '.join(named)} changed since it began"


def _secret_name(variable: EnvVar) -> Iterator[str]:
    reference = variable.value_from.secret_key_ref if variable.value_from is not None else None
    if reference is not None and reference.name:
        yield reference.name


def _fact(effect: Effect, view: View) -> Fact | None:
    return SECRET_VERSIONS.look_up(view, SERVICE_NAME, effect.key).value


def _after(fact: Fact, effect: Effect) -> Effect:
    return replace(effect, not_before=fact.observed_at + _INTERVAL)
