"""Removes what scaled an InferenceService before another autoscaler took over (SV-272, SV-286)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from aim_domain.kinds import HORIZONTAL_POD_AUTOSCALER
from aim_serving.replicas import AutoscalerClass
from aim_serving.scaler_leftovers import RemovalParams
from controller_runtime import (
    ApiError,
    Category,
    ClassifiedError,
    Effect,
    EffectError,
    JsonObject,
    Kind,
    KubeClient,
    KubeError,
    Resource,
)

SCALED_OBJECT: Final = Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects", True, Resource)
COLLECTOR: Final = Kind(
    "opentelemetry.io", "v1beta1", "OpenTelemetryCollector", "opentelemetrycollectors", True, Resource
)

_OF_CLASS: Final[Mapping[AutoscalerClass, tuple[Kind[Any], ...]]] = MappingProxyType(
    {AutoscalerClass.KEDA: (SCALED_OBJECT, COLLECTOR), AutoscalerClass.HPA: (HORIZONTAL_POD_AUTOSCALER,)}
)
REMOVED: Final = tuple(kind for kinds in _OF_CLASS.values() for kind in kinds)
"""Every kind of which it removes objects."""


class ScalerRemover:
    """Effect ``scaler-removal``."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """Remove what the former autoscaler needed, as far as it is there and the InferenceService controls it.

        Raises:
            EffectError: the API server refuses; the removal is asked for again.
        """
        params = RemovalParams.model_validate(effect.params)
        removed = [kind.kind for kind in _OF_CLASS[params.former] if await self._remove(kind, params)]
        return {"removed": removed}

    async def _remove(self, kind: Kind[Any], params: RemovalParams) -> bool:
        try:
            there = await self._kube.get(kind, params.name, params.namespace)
            if not is_controlled(there, params.workload_uid):
                return False
            await self._kube.delete(kind, params.name, params.namespace, uid=there["metadata"]["uid"])
        except ApiError as error:
            # Gone already, or a cluster without that kind.
            if error.is_not_found:
                return False
            raise _failure(kind, params, error) from error
        except KubeError as error:
            raise _failure(kind, params, error) from error
        return True


def is_controlled(obj: JsonObject, workload_uid: str) -> bool:
    """Whether the object is the InferenceService's own."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == workload_uid for owner in owners)


def _failure(kind: Kind[Any], params: RemovalParams, error: KubeError) -> EffectError:
    what = f"{kind.kind} {params.namespace}/{params.name} cannot be removed: {error}"
    return EffectError(ClassifiedError(Category.INFRASTRUCTURE, "ScalerNotRemoved", what))
