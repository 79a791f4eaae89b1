"""How many replicas the metrics of a simulated cluster ask for: an annotation says it."""

from typing import Final

from aim_local.actors.objects import LOCAL_PREFIX, annotations_of
from controller_runtime import JsonObject

REPLICAS_ANNOTATION: Final = LOCAL_PREFIX + "replicas"
"""On an InferenceService, or on the autoscaler, which counts first."""


def asked_replicas(*places: JsonObject | None) -> int:
    """The number in the first of these objects that tells one; 0 if the metrics ask for nothing."""
    told = (annotations_of(one).get(REPLICAS_ANNOTATION, "") for one in places if one)
    return next((int(text) for text in told if text.isdecimal()), 0)
