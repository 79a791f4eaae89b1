"""Which pod changes matter to the owner of the workload (FW-170)."""

from collections.abc import Iterable

from aim_shared.api.external.pod import ContainerStatus, Pod
from aim_shared.bus.entry import Change
from aim_shared.reconcile.changes import differs
from aim_shared.reconcile.inspect_pods import is_pod_ready, is_unschedulable


def is_significant(change: Change[Pod]) -> bool:
    """Creation, deletion, and changes of phase, readiness, container count, waiting reasons or schedulability."""
    return differs(change, _digest)


def _digest(pod: Pod) -> tuple[object, ...]:
    status = pod.status
    return (
        status.phase,
        is_pod_ready(pod),
        _waiting_reasons(status.container_statuses),
        _waiting_reasons(status.init_container_statuses),
        is_unschedulable(pod),
    )


def _waiting_reasons(statuses: Iterable[ContainerStatus]) -> tuple[str, ...]:
    return tuple(status.state.waiting.reason if status.state.waiting else "" for status in statuses)
