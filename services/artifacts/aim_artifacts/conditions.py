"""Condition types, reasons and annotations of artifacts and caches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aim_domain import AIMArtifact
from aim_domain.parts import ARTIFACTS
from controller_runtime import Patch


@dataclass(frozen=True, slots=True)
class Annotation:
    """One of them; ``None`` takes it away."""

    name: str
    value: str | None
    why: str


def annotate(artifact: AIMArtifact, annotations: Sequence[Annotation]) -> tuple[Patch, ...]:
    """All of them in one guarded patch: a second one would meet the version that the first has made."""
    if not annotations:
        return ()
    metadata = artifact.metadata
    body = {"metadata": {"annotations": {one.name: one.value for one in annotations}}}
    why = "; ".join(one.why for one in annotations)
    return (Patch(ARTIFACTS, metadata.namespace, metadata.name, metadata.resource_version, body, why),)


DOWNLOAD_COMPLETE: Final = "DownloadComplete"
"""Domain condition of an artifact; takes no part in the aggregation (AR-310)."""

MODEL_ID_KNOWN: Final = "ModelIdKnown"
"""Only where it is false: what mounts the weights finds them under another name (AR-829)."""

DOWNLOADING: Final = "Downloading"
VERIFYING: Final = "Verifying"
VERIFIED: Final = "Verified"
VERIFICATION_FAILED: Final = "VerificationFailed"
INVALID_SIZE_OUTPUT: Final = "InvalidSizeOutput"
QUOTA_AVAILABLE: Final = "QuotaAvailable"
RESOURCE_NOT_READY: Final = "ResourceNotReady"

ALL_CACHES_READY: Final = "AllCachesReady"
CACHES_NOT_READY: Final = "CachesNotReady"
CREATING_CACHES: Final = "CreatingCaches"
NO_CACHES: Final = "NoCaches"
EVICTED: Final = "Evicted"
"""Of a source without a user: its artifact is not made again (AR-490). Also the reason of the artifact's Event."""

# Reasons of events (FW-130).
MODEL_ID_MISSING: Final = "ModelIdMissing"
DOWNLOAD_FILTER_IGNORED: Final = "DownloadFilterIgnored"
INVALID_QUOTA_ANNOTATION: Final = "InvalidQuotaAnnotation"
EVICTION_TRIGGERED: Final = "EvictionTriggered"
DUPLICATE_MODEL_SOURCE: Final = "DuplicateModelSource"
