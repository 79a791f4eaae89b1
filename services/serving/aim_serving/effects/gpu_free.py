"""Reads which GPUs the pods of a node hold (SV-287, SV-288)."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from aim_serving.gpu import FreeGpus, NodesParams, is_extended
from controller_runtime import (
    Category,
    ClassifiedError,
    Effect,
    EffectError,
    JsonObject,
    KubeClient,
    KubeError,
    quantity,
    to_json,
)
from controller_runtime.kinds import POD

SHARED_SECONDS: Final = 15.0
"""How long a reading of a node serves every service that waits."""
_MOST_PAGES: Final = 100
_ENDED: Final = frozenset({"Succeeded", "Failed"})

Held = Mapping[str, int]
"""GPUs that pods hold, by the resource's name."""


class GpuReader:
    """Effect ``gpu-free``; runs one at a time, so that what one has read serves the next.

    Args:
        clock: seconds that only go forward.
    """

    def __init__(self, kube: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._read: dict[str, tuple[float, Held]] = {}

    async def __call__(self, effect: Effect) -> JsonObject:
        """What is free on each node that is asked for.

        Raises:
            EffectError: the API server does not answer; it is read again.
        """
        params = NodesParams.model_validate(effect.params)
        self._forget_old()
        try:
            held = {name: await self._held_on(name) for name in params.allocatable}
        except KubeError as error:
            what = f"the pods of a node cannot be listed: {error}"
            raise EffectError(ClassifiedError(Category.INFRASTRUCTURE, "PodsNotListed", what)) from error
        resource = params.resource
        free = {name: max(0, count - held[name].get(resource, 0)) for name, count in params.allocatable.items()}
        return to_json(FreeGpus(**dict(params), free=free))

    async def _held_on(self, node: str) -> Held:
        known = self._read.get(node)
        if known is not None:
            return known[1]
        # From the server's cache, where pods are kept by node: a consistent read would look through all of them. It
        # answers with all of a node's pods at once; whatever stands before it may not.
        held, token = Counter[str](), ""
        for _ in range(_MOST_PAGES):
            page = await self._kube.list_in_form(
                POD,
                gpus_held,
                field_selector=f"spec.nodeName={node}",
                resource_version="" if token else "0",
                continue_token=token,
            )
            for one in page.items:
                held.update(one)
            token = page.continue_token
            if not token:
                break
        else:
            what = f"the list of the pods of node {node} does not end"
            raise EffectError(ClassifiedError(Category.INFRASTRUCTURE, "PodsNotListed", what))
        self._read[node] = (self._clock(), held)
        return held

    def _forget_old(self) -> None:
        oldest = self._clock() - SHARED_SECONDS
        self._read = {node: one for node, one in self._read.items() if one[0] > oldest}


def gpus_held(pod: JsonObject) -> Held:
    """What a pod's node sets aside for it: all that runs together, or the largest step before, if that is more."""
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return {}
    spec = pod.get("spec") or {}
    steps = spec.get("initContainers") or []
    beside = [one for one in steps if one.get("restartPolicy") == "Always"]
    together: Counter[str] = Counter()
    for container in (*(spec.get("containers") or []), *beside):
        together.update(_requested(container))
    alone = [_requested(one) for one in steps if one not in beside]
    names = {name for one in (together, *alone) for name in one}
    return {name: max(one.get(name, 0) for one in (together, *alone)) for name in names}


def _requested(container: JsonObject) -> Held:
    requests = (container.get("resources") or {}).get("requests") or {}
    amounts = ((name, quantity.parse_or_none(amount)) for name, amount in requests.items())
    return {name: one.ceiling for name, one in amounts if is_extended(name) and one is not None}
