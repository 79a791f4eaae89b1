"""Effect ``pod-log``: the last lines of a container's log, credentials masked (FW-146, AR-156, AR-352)."""

from typing import Final

from aim_artifacts.masking import masked
from aim_shared.json import JsonObject
from aim_shared.kube.client import KubeClient
from aim_shared.kube.errors import KubeError
from aim_shared.reconcile.classify import Verb, classify
from aim_shared.reconcile.plan import Effect
from aim_shared.reconcile.reconciler import EffectError

_LIMIT_BYTES: Final = 64 << 10


class PodLogReader:
    """Reads logs; an `EffectRunner`."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """The outcome ``{"tail": text}``."""
        params = effect.params
        try:
            text = await self._kube.pod_log(
                params["namespace"],
                params["pod"],
                params["container"],
                tail_lines=params["tailLines"],
                previous=params["previous"],
                limit_bytes=_LIMIT_BYTES,
            )
        except KubeError as error:
            raise EffectError(classify(error, verb=Verb.GET)) from error
        return {"tail": masked(text)}
