"""What metrics show of the storage of artifacts (FW-286)."""

from collections import Counter
from dataclasses import dataclass, field

from aim_artifacts.claim import storage_request
from aim_domain.parts import ARTIFACT_CLAIMS
from controller_runtime import Key, Readings, World, quantity


@dataclass(slots=True)
class StorageReadings:
    """Bytes that the volumes of artifacts ask for, by namespace; those that are being deleted still count (AR-446).

    A claim is decoded when it is new or has changed, not each time that somebody asks.
    """

    _known: dict[Key, tuple[object, int]] = field(default_factory=dict)

    def __call__(self, world: World) -> Readings:
        """What to show now."""
        known: dict[Key, tuple[object, int]] = {}
        for entry in world.all(ARTIFACT_CLAIMS):
            version, size = self._known.get(entry.key, (None, 0))
            if version != entry.version:
                request = None if entry.object is None else quantity.parse_or_none(storage_request(entry.object))
                size = 0 if request is None else request.ceiling
            known[entry.key] = entry.version, size
        self._known = known
        allocated: Counter[str] = Counter()
        for key, (_, size) in known.items():
            allocated[key.namespace] += size
        sizes = [({"namespace": name}, float(size)) for name, size in sorted(allocated.items()) if size]
        return {"aim_artifact_allocated_bytes": sizes}
