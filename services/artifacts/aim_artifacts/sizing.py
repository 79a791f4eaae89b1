"""How large weights are, and how large their volume becomes (AR-200…AR-206, AR-421…AR-423)."""

from functools import lru_cache
from typing import Final

from aim_domain import DEFAULT_HEADROOM_PERCENT, AIMArtifact, RuntimeConfigSpec, labels
from controller_runtime import quantity

LARGEST_SOURCE: Final = 1 << 50
"""Largest size in bytes that a size discovery may report (AR-157)."""


def stated_size(artifact: AIMArtifact) -> int | None:
    """Bytes of ``spec.size``; ``None`` when it is absent, zero or unusable (AR-150, AR-203)."""
    given = whole_bytes(artifact.spec.size)
    return given if given > 0 else None


@lru_cache(maxsize=1024)
def whole_bytes(text: int | str | None) -> int:
    """A quantity, rounded up; 0 for one that cannot be read. Kept, because hundreds of volumes are of a few sizes."""
    parsed = quantity.parse_or_none(text)
    return 0 if parsed is None else parsed.ceiling


def headroom_percent(artifact: AIMArtifact, config: RuntimeConfigSpec) -> int:
    """Headroom for a volume that is yet to be made (AR-201)."""
    override = headroom_annotation(artifact.metadata.annotations.get(labels.ANNOTATION_PVC_HEADROOM))
    if override is not None:
        return override
    configured = config.storage.pvc_headroom_percent if config.storage else None
    return DEFAULT_HEADROOM_PERCENT if configured is None else configured


def headroom_annotation(text: str | None) -> int | None:
    """A percentage stored in an annotation; ``None`` when it is absent or no number."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None


def display_size(artifact: AIMArtifact, discovered: int | None) -> str | None:
    """``status.displaySize``: of the spec if it says a size, else of the discovery (AR-421)."""
    stated = stated_size(artifact)
    try:
        if stated is not None:
            return quantity.human_size(stated)
        return None if discovered is None else quantity.human_size(discovered)
    except quantity.QuantityError:
        return str(artifact.spec.size) if stated is not None else None
