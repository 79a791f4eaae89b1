"""Effect ``pod-events``: what the cluster reports about a pending pod (FW-155)."""

from aim_artifacts.masking import masked
from aim_shared.api.kinds import EVENT
from aim_shared.bus import trim
from aim_shared.json import JsonObject
from aim_shared.kube.client import KubeClient
from aim_shared.kube.errors import KubeError
from aim_shared.reconcile.classify import Verb, classify
from aim_shared.reconcile.plan import Effect
from aim_shared.reconcile.reconciler import EffectError


class PodEventsReader:
    """Reads the Events of one pod; an `EffectRunner`."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """The outcome ``{"events": [trimmed Event, …]}``."""
        params = effect.params
        selector = f"involvedObject.name={params['pod']},involvedObject.uid={params['uid']}"
        try:
            page = await self._kube.list(EVENT, params["namespace"], field_selector=selector)
        except KubeError as error:
            raise EffectError(classify(error, verb=Verb.GET)) from error
        return {"events": [_masked(trim.event(event)) for event in page.items]}


def _masked(event: JsonObject) -> JsonObject:
    return {**event, "message": masked(str(event.get("message") or ""))}
