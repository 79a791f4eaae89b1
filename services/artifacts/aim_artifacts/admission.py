"""Gathers what the storage limits are decided from, and puts the decision into a component (AR-470, AR-485)."""

from collections.abc import Iterable
from dataclasses import dataclass

from aim_artifacts.claim import is_controlled_by, storage_request
from aim_artifacts.conditions import QUOTA_AVAILABLE
from aim_artifacts.indexes import CLAIMS_BY_OWNER, WAITING_ARTIFACTS, owning_artifacts
from aim_artifacts.quota import NO_LIMITS, Blocked, Limits, Request, Volume, admit, limits_of
from aim_artifacts.sizing import headroom_percent, stated_size
from aim_shared.api import AIMArtifact, PersistentVolumeClaim, RuntimeConfigSpec, quantity
from aim_shared.bus.parts import ARTIFACT_CLAIMS, ARTIFACTS, CLUSTER_RUNTIME_CONFIGS, NAMESPACES
from aim_shared.bus.view import View
from aim_shared.errors import AimError
from aim_shared.reconcile.component_names import ComponentName
from aim_shared.reconcile.components import Component, Dependency, Observability, State
from aim_shared.reconcile.conditions import timestamp
from aim_shared.reconcile.decide import is_paused
from aim_shared.runtimeconfig.resolve import DEFAULT_NAME, resolve_config

_NAME = ComponentName.STORAGE_QUOTA


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether the artifact may have its volume.

    Attributes:
        component: ``None`` while no limit is configured.
        blocked: why not; ``None`` when it may.
    """

    component: Component | None = None
    blocked: Blocked | None = None
    limits: Limits = NO_LIMITS


def judge(artifact: AIMArtifact, config: RuntimeConfigSpec, size: int, view: View) -> Admission:
    """Decide about a volume that does not exist yet."""
    limits = _limits(artifact.namespace, view)
    if isinstance(limits, AimError):
        return Admission(_unknown(limits))
    if not limits.apply:
        return Admission(limits=limits)
    claims = view.all(ARTIFACT_CLAIMS)
    if claims.error is not None:
        return Admission(_unknown(claims.error))
    volumes = [volume for claim in claims.items if (volume := _volume(claim, view)) is not None]
    request = _request(artifact, config, size)
    blocked = admit(request, _others(artifact, view), volumes, lambda namespace: _known_limits(namespace, view))
    if blocked is None:
        return Admission(_granted(), limits=limits)
    component = Component(
        _NAME,
        State.PENDING,
        blocked.reason,
        blocked.message,
        dependency=Dependency.UPSTREAM,
        observe=Observability.WARNING,
    )
    return Admission(component, blocked, limits)


def in_effect(artifact: AIMArtifact, view: View) -> Admission:
    """What is said about an artifact that has its volume."""
    limits = _known_limits(artifact.namespace, view)
    return Admission(_granted() if limits.apply else None, limits=limits)


def _granted() -> Component:
    return Component(_NAME, State.READY, QUOTA_AVAILABLE, "The volume is within the storage limits")


def _unknown(error: AimError) -> Component:
    return Component(_NAME, errors=(error,), dependency=Dependency.UPSTREAM)


def _limits(namespace: str, view: View) -> Limits | AimError:
    config, found = view.get(CLUSTER_RUNTIME_CONFIGS, None, DEFAULT_NAME), view.get(NAMESPACES, None, namespace)
    return config.error or found.error or limits_of(config.value, found.value)


def _known_limits(namespace: str, view: View) -> Limits:
    limits = _limits(namespace, view)
    return NO_LIMITS if isinstance(limits, AimError) else limits


def _volume(claim: PersistentVolumeClaim, view: View) -> Volume | None:
    """Counted in every phase, also while it is being deleted (AR-446)."""
    request = quantity.parse_or_none(storage_request(claim))
    owners = list(owning_artifacts(claim))
    if request is None or not owners:
        return None
    return Volume(claim.namespace, request.ceiling, leaving=claim.deleting or not _has_owner(claim, view))


def _has_owner(claim: PersistentVolumeClaim, view: View) -> bool:
    owners = (view.get(ARTIFACTS, key.namespace, key.name) for key in owning_artifacts(claim))
    # What can not be looked up is believed to be there: space is promised only when it is surely freed.
    return any(
        one.error is not None
        or (one.value is not None and not one.value.deleting and is_controlled_by(claim, one.value))
        for one in owners
    )


def _others(artifact: AIMArtifact, view: View) -> Iterable[Request]:
    for other in view.select(WAITING_ARTIFACTS, "").items:
        size = stated_size(other) or other.status.discovered_size_bytes
        if other.uid == artifact.uid or size is None or other.deleting or is_paused(other):
            continue
        config = resolve_config(view, other.namespace, other.spec.runtime_config_name)
        if config.error is None and not view.select(CLAIMS_BY_OWNER, other.uid).items:
            yield _request(other, config.spec, size)


def _request(artifact: AIMArtifact, config: RuntimeConfigSpec, size: int) -> Request:
    created = artifact.metadata.creation_timestamp
    volume = quantity.parse(quantity.volume_size(size, headroom_percent(artifact, config))).ceiling
    return Request("" if created is None else timestamp(created), artifact.namespace, artifact.name, volume)
