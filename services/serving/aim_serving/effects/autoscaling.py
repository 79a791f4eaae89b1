"""Effects of autoscaling: removes what the former autoscaler left, reads what KEDA reports, scales up from zero."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from aim_domain.kinds import HORIZONTAL_POD_AUTOSCALER
from aim_serving import SERVICE_NAME
from aim_serving.autoscaling import AwakeningParams, RemovalParams, ReportParams
from aim_serving.replicas import AutoscalerClass
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


_LONGEST: Final = 1024
"""Characters of KEDA's text that are kept: it may quote whole answers of a metrics server."""


class ScalerReader:
    """Effect ``scaler-report``."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """The words of the conditions that are not as they should be.

        Raises:
            EffectError: the API server does not answer; it is read again.
        """
        params = ReportParams.model_validate(effect.params)
        try:
            scaled = await self._kube.get(SCALED_OBJECT, params.name, params.namespace)
        except ApiError as error:
            if error.is_not_found:
                return {"message": f"ScaledObject {params.name} does not exist; KServe has not made it"}
            raise _unreadable(params, error) from error
        except KubeError as error:
            raise _unreadable(params, error) from error
        said = "; ".join(complaints((scaled.get("status") or {}).get("conditions") or ()))
        return {"message": f"ScaledObject {params.name}: {said}"[:_LONGEST] if said else ""}


def complaints(conditions: Iterable[JsonObject]) -> list[str]:
    """Reason and message of ``Ready`` when it is not true, and of a pause."""
    return [
        f"{one.get('reason') or one['type']}: {one.get('message') or 'no message'}"
        for one in conditions
        if (one.get("type"), one.get("status")) in (("Ready", "False"), ("Ready", "Unknown"), ("Paused", "True"))
    ]


def _unreadable(params: ReportParams, error: KubeError) -> EffectError:
    what = f"ScaledObject {params.namespace}/{params.name} cannot be read: {error}"
    return EffectError(ClassifiedError(Category.INFRASTRUCTURE, "ScalerNotRead", what))


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
                # Gone, or another writer won the conflict: the next pass reads the outcome.
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
