"""Removes the ScaledObject and the OpenTelemetryCollector of an InferenceService that KEDA scaled (SV-272)."""

from typing import Final

from aim_serving.scaler_leftovers import RemovalParams
from controller_runtime import (
    AimError,
    ApiError,
    Category,
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


class ScalerRemover:
    """Effect ``scaler-removal``."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """Remove both, as far as they are there and the InferenceService controls them.

        Raises:
            EffectError: the API server refuses; the removal is asked for again.
        """
        params = RemovalParams.model_validate(effect.params)
        removed = [kind.kind for kind in (SCALED_OBJECT, COLLECTOR) if await self._remove(kind, params)]
        return {"removed": removed}

    async def _remove(self, kind: Kind[Resource], params: RemovalParams) -> bool:
        try:
            there = await self._kube.get(kind, params.name, params.namespace)
            if not _is_controlled(there, params.workload_uid):
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


def _is_controlled(obj: JsonObject, workload_uid: str) -> bool:
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == workload_uid for owner in owners)


def _failure(kind: Kind[Resource], params: RemovalParams, error: KubeError) -> EffectError:
    what = f"{kind.kind} {params.namespace}/{params.name} cannot be removed: {error}"
    return EffectError(AimError(Category.INFRASTRUCTURE, "ScalerNotRemoved", what))
