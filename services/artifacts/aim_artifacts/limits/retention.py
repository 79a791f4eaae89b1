"""What decides whether an artifact may be evicted at all (AR-460, AR-461, AR-465, RC-116), and claims (AR-447)."""

from datetime import datetime, timedelta
from typing import Final

from aim_artifacts.annotations import Annotation
from aim_domain import AIMArtifact, RuntimeConfigSpec, labels
from controller_runtime import timestamp

CLAIM_LASTS: Final = timedelta(minutes=10)
"""How long what was freed for an artifact is kept for it, since the last eviction."""
_RENEWED_AFTER: Final = timedelta(minutes=1)
"""A claim that is younger stays as it is: evictions that follow each other cost one write."""


def effective_priority(artifact: AIMArtifact, config: RuntimeConfigSpec) -> int | None:
    """The artifact's own priority, else that of its runtime config; ``None`` = never evicted."""
    own = artifact.spec.retention_priority
    configured = config.artifact.default_retention_priority if config.artifact else None
    return configured if own is None else own


def is_protected(artifact: AIMArtifact) -> bool:
    """Whether the annotation exempts it; any value but ``false`` does."""
    value = artifact.metadata.annotations.get(labels.ANNOTATION_EVICTION_PROTECTED)
    return value is not None and value.strip().lower() != "false"


def has_claim(artifact: AIMArtifact, now: datetime | None) -> bool:
    """Whether others were evicted for it lately.

    Args:
        now: ``None`` where no clock is at hand: then a claim lasts until it is dropped.
    """
    since = _claimed_at(artifact)
    return since is not None and (now is None or now - since < CLAIM_LASTS)


def claim_room(artifact: AIMArtifact, now: datetime) -> tuple[Annotation, ...]:
    """Write down that others are evicted for it now; nothing where that was done a moment ago."""
    since = _claimed_at(artifact)
    if since is not None and since <= now < since + _RENEWED_AFTER:
        return ()
    return (Annotation(labels.ANNOTATION_STORAGE_CLAIM, timestamp(now), "others are evicted for it"),)


def drop_claim(artifact: AIMArtifact) -> tuple[Annotation, ...]:
    """Take the claim back; its volume is there."""
    if labels.ANNOTATION_STORAGE_CLAIM not in artifact.metadata.annotations:
        return ()
    return (Annotation(labels.ANNOTATION_STORAGE_CLAIM, None, "its volume is there"),)


def _claimed_at(artifact: AIMArtifact) -> datetime | None:
    text = artifact.metadata.annotations.get(labels.ANNOTATION_STORAGE_CLAIM)
    try:
        since = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
    return since if since is not None and since.tzinfo is not None else None
