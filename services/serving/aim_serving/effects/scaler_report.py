"""Reads what KEDA says of a ScaledObject (SV-283)."""

from collections.abc import Iterable
from typing import Final

from aim_serving.effects.scaler_removal import SCALED_OBJECT
from aim_serving.scaler_report import ReportParams
from controller_runtime import (
    ApiError,
    Category,
    ClassifiedError,
    Effect,
    EffectError,
    JsonObject,
    KubeClient,
    KubeError,
)

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
            raise _failure(params, error) from error
        except KubeError as error:
            raise _failure(params, error) from error
        said = "; ".join(complaints((scaled.get("status") or {}).get("conditions") or ()))
        return {"message": f"ScaledObject {params.name}: {said}"[:_LONGEST] if said else ""}


def complaints(conditions: Iterable[JsonObject]) -> list[str]:
    """Reason and message of ``Ready`` when it is not true, and of a pause."""
    return [
        f"{one.get('reason') or one['type']}: {one.get('message') or 'no message'}"
        for one in conditions
        if (one.get("type"), one.get("status")) in (("Ready", "False"), ("Ready", "Unknown"), ("Paused", "True"))
    ]


def _failure(params: ReportParams, error: KubeError) -> EffectError:
    what = f"ScaledObject {params.namespace}/{params.name} cannot be read: {error}"
    return EffectError(ClassifiedError(Category.INFRASTRUCTURE, "ScalerNotRead", what))
