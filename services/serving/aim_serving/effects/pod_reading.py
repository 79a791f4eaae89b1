"""Reads what pods say about themselves: log tails and Kubernetes Events (FW-146, FW-155)."""

from aim_serving.pod_facts import EventsOutcome, LogOutcome, PodEventsParams, PodLogParams
from aim_shared.api import to_json
from aim_shared.api.kinds import EVENT
from aim_shared.bus.trim import event as trimmed
from aim_shared.errors import AimError, Category
from aim_shared.json import JsonObject
from aim_shared.kube.client import KubeClient
from aim_shared.kube.errors import KubeError
from aim_shared.masking import masked
from aim_shared.reconcile.log_patterns import LOG_TAIL_LINES
from aim_shared.reconcile.plan import Effect
from aim_shared.reconcile.reconciler import EffectError

_MAX_BYTES = 64 * 1024


class PodLogReader:
    """Effect ``pod-log``: the end of a container's log, credentials masked."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """Read it.

        Raises:
            EffectError: the API server does not give it, for example because the pod is gone.
        """
        params = PodLogParams.model_validate(effect.params)
        try:
            text = await self._kube.pod_log(
                params.namespace,
                params.pod,
                params.container,
                tail_lines=LOG_TAIL_LINES,
                previous=params.previous,
                limit_bytes=_MAX_BYTES,
            )
        except KubeError as error:
            what = f"log of container {params.container} of pod {params.namespace}/{params.pod}"
            raise EffectError(AimError(Category.INFRASTRUCTURE, "LogUnreadable", f"{what}: {error}")) from error
        return to_json(LogOutcome(tail=masked(text)))


class PodEventReader:
    """Effect ``pod-events``: the Events of one pod."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """Read them.

        Raises:
            EffectError: the API server does not list them.
        """
        params = PodEventsParams.model_validate(effect.params)
        try:
            page = await self._kube.list(
                EVENT, params.namespace, field_selector=f"involvedObject.uid={params.uid}", limit=100
            )
        except KubeError as error:
            what = f"events of pod {params.namespace}/{params.pod}"
            raise EffectError(AimError(Category.INFRASTRUCTURE, "EventsUnreadable", f"{what}: {error}")) from error
        return to_json(EventsOutcome.model_validate({"events": [trimmed(item) for item in page.items]}))
