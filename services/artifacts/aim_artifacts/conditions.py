"""Condition types and reasons of AIMArtifact and AIMTemplateCache (AR-315, AR-570)."""

from typing import Final

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
"""Of a source that nobody wants: its artifact is not made again (AR-490). Also the reason of the artifact's Event."""

# Reasons of events (FW-130).
MODEL_ID_MISSING: Final = "ModelIdMissing"
DOWNLOAD_FILTER_IGNORED: Final = "DownloadFilterIgnored"
INVALID_QUOTA_ANNOTATION: Final = "InvalidQuotaAnnotation"
EVICTION_TRIGGERED: Final = "EvictionTriggered"
DUPLICATE_MODEL_SOURCE: Final = "DuplicateModelSource"
