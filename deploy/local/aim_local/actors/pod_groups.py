"""By what pods are looked up: their controller, their InferenceService, the claims they mount."""

from typing import Final

from aim_domain import labels
from aim_local.actors.objects import by_controller, labels_of
from controller_runtime import JsonObject, Key

_PREDICTOR: Final = "predictor "
_CLAIM: Final = "claim "


def pod_groups(pod: JsonObject) -> tuple[str, ...]:
    """All groups of a pod."""
    namespace, name = pod["metadata"]["namespace"], labels_of(pod).get(labels.KSERVE_INFERENCE_SERVICE)
    served = (predictor_group(Key(namespace, name)),) if name else ()
    return (*by_controller(pod), *served, *map(claim_group, claims_of(pod)))


def predictor_group(inference_service: Key) -> str:
    """The group of an InferenceService's pods."""
    return f"{_PREDICTOR}{inference_service}"


def claim_group(claim: Key) -> str:
    """The group of the pods that mount a claim."""
    return f"{_CLAIM}{claim}"


def claims_of(pod: JsonObject) -> list[Key]:
    """The claims that a pod mounts."""
    volumes = pod["spec"].get("volumes") or ()
    mounted = [volume["persistentVolumeClaim"] for volume in volumes if volume.get("persistentVolumeClaim")]
    return [Key(pod["metadata"]["namespace"], one["claimName"]) for one in mounted]
