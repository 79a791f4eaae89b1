"""Puts the taint of GPU nodes, and takes it away (RC-158)."""

from typing import Final

from aim_discovery.node_taint import TaintParams, TaintResult, Taints, with_taint
from controller_runtime import (
    ApiError,
    Category,
    ClassifiedError,
    Effect,
    EffectError,
    JsonObject,
    KubeClient,
    KubeError,
    to_json,
)
from controller_runtime.kinds import NODE

_ATTEMPTS: Final = 3
_MANAGER: Final = "aim-discovery"


class NodeTainter:
    """Effect ``node-taint``.

    The taints of a node are one value to the API server, and others write some of them; so they are read and written
    back under the version that was read. What a node has at the moment of writing is not in the cache: of nodes only
    versions with news are published.
    """

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """Bring the taints of a node in order; nothing is sent where they are.

        Raises:
            EffectError: the API server refuses, or other writers always win the conflict; it is asked for again.
        """
        params = TaintParams.model_validate(effect.params)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return _result(params, written=await self._settle(params))
            except ApiError as error:
                if error.is_not_found:
                    return _result(params, written=False)
                if not error.is_conflict or attempt == _ATTEMPTS:
                    raise _failure(params, error) from error
            except KubeError as error:
                raise _failure(params, error) from error
        raise AssertionError("the last attempt returns or raises")

    async def _settle(self, params: TaintParams) -> bool:
        node = await self._kube.get(NODE, params.node, None)
        there = Taints.of(node)
        wanted = with_taint(there, params.key)
        if wanted == there:
            return False
        version = node["metadata"]["resourceVersion"]
        await self._kube.merge_patch(
            NODE, params.node, None, wanted.patch(), resource_version=version, field_manager=_MANAGER
        )
        return True


def _result(params: TaintParams, *, written: bool) -> JsonObject:
    return to_json(TaintResult(written=written, key=params.key, again=params.again))


def _failure(params: TaintParams, error: KubeError) -> EffectError:
    what = f"the taint of Node {params.node} cannot be brought in order: {error}"
    return EffectError(ClassifiedError(Category.INFRASTRUCTURE, "NodeNotTainted", what))
