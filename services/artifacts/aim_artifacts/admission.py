"""The storage limits in an artifact's pass, as a component; and who is worth a pass (AR-470…AR-472, AR-485)."""

from collections.abc import Iterable
from dataclasses import dataclass

from aim_artifacts.conditions import QUOTA_AVAILABLE
from aim_artifacts.quota import NO_LIMITS, Blocked, Limits, admit, fitting
from aim_artifacts.storage import Storage
from aim_domain import AIMArtifact, RuntimeConfigSpec
from aim_domain.component_names import ComponentName
from controller_runtime import AimError, Component, Dependency, Key, Observability, State, View

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
    """Decide about a volume that does not exist yet; without any limit nothing else is looked at."""
    # Whose turn it is no single decision sees: what makes room says it to each in turn (AR-472, FW-502).
    storage = Storage(view.untracked)
    limits = storage.limits_of(artifact.namespace)
    if isinstance(limits, AimError):
        return Admission(_unknown(limits))
    if not limits.apply:
        return Admission(limits=limits)
    scope = storage.scope_of(artifact.namespace)
    volumes = storage.volumes(scope)
    if isinstance(volumes, AimError):
        return Admission(_unknown(volumes))
    request = storage.request(artifact, config, size)
    blocked = admit(request, storage.requests(scope, older_than=request), volumes, storage.known_limits_of)
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
    limits = Storage(view).known_limits_of(artifact.namespace)
    return Admission(_granted() if limits.apply else None, limits=limits)


def admissible(view: View, namespace: str | None) -> Iterable[Key]:
    """Waiting artifacts that get their volumes now, oldest first; the others need no pass (AR-472).

    Args:
        namespace: only those in it; ``None`` = all.
    """
    storage = Storage(view)
    volumes = storage.volumes(namespace if namespace is None else storage.scope_of(namespace))
    if isinstance(volumes, AimError):
        return []
    served = fitting(storage.requests(namespace), volumes, storage.known_limits_of)
    return [Key(request.namespace, request.name) for request in served]


def admissible_after(view: View, namespace: str) -> Iterable[Key]:
    """The same after a volume in that namespace has gone; nobody where nothing is limited."""
    storage = Storage(view)
    if not storage.known_limits_of(namespace).apply:
        return []
    return admissible(view, storage.scope_of(namespace))


def _granted() -> Component:
    return Component(_NAME, State.READY, QUOTA_AVAILABLE, "The volume is within the storage limits")


def _unknown(error: AimError) -> Component:
    return Component(_NAME, errors=(error,), dependency=Dependency.UPSTREAM)
