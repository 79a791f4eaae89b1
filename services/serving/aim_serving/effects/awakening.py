"""Scales a Deployment that is at zero to the minimum (SV-297)."""

from typing import Final

from aim_serving import SERVICE_NAME
from aim_serving.effects.scaler_removal import is_controlled
from aim_serving.left_at_zero import AwakeningParams
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

DEPLOYMENT: Final = Kind("apps", "v1", "Deployment", "deployments", True, Resource)
_FIELD_MANAGER: Final = f"aim-{SERVICE_NAME}"


class Awakener:
    """Effect ``awakening``."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """Scale the Deployment if the InferenceService controls it and it is still at zero.

        Raises:
            EffectError: the API server refuses; it is asked for again.
        """
        params = AwakeningParams.model_validate(effect.params)
        try:
            return {"scaled": await self._scale(params)}
        except KubeError as error:
            if isinstance(error, ApiError) and (error.is_not_found or error.is_conflict):
                # Gone, or somebody else was faster: whoever looks next sees what came of it.
                return {"scaled": False}
            what = f"Deployment {params.namespace}/{params.name} cannot be scaled to {params.replicas}: {error}"
            raise EffectError(ClassifiedError(Category.INFRASTRUCTURE, "NotAwakened", what)) from error

    async def _scale(self, params: AwakeningParams) -> bool:
        there = await self._kube.get(DEPLOYMENT, params.name, params.namespace)
        if there["spec"].get("replicas", 1) != 0 or not is_controlled(there, params.workload_uid):
            return False
        await self._kube.merge_patch(
            DEPLOYMENT,
            params.name,
            params.namespace,
            {"spec": {"replicas": params.replicas}},
            resource_version=there["metadata"]["resourceVersion"],
            field_manager=_FIELD_MANAGER,
            subresource="scale",
        )
        return True
