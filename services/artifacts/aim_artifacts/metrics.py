"""What metrics show of the storage of artifacts (FW-286)."""

from collections import Counter

from aim_artifacts.claim import storage_request
from aim_domain.parts import ARTIFACT_CLAIMS
from controller_runtime import Readings, World, quantity


def storage_readings(world: World) -> Readings:
    """Bytes that the volumes of artifacts ask for, by namespace; those that are being deleted still count (AR-446)."""
    allocated: Counter[str] = Counter()
    for entry in world.all(ARTIFACT_CLAIMS):
        request = None if entry.object is None else quantity.parse_or_none(storage_request(entry.object))
        if request is not None:
            allocated[entry.key.namespace] += request.ceiling
    return {
        "aim_artifact_allocated_bytes": [({"namespace": name}, float(size)) for name, size in sorted(allocated.items())]
    }
