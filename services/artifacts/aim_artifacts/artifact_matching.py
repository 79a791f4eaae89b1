"""Which existing artifact serves a cache's model source (AR-540…AR-548), and which may be promoted (AR-550…AR-556)."""

from collections.abc import Iterable

from aim_artifacts.download_filter import parse_filter, same_filter
from aim_domain import GROUP, AIMArtifact, AIMTemplateCache, CacheMode, ModelSource, labels
from controller_runtime import StatusValue

_PROMOTABLE = frozenset({StatusValue.READY, StatusValue.PROGRESSING, StatusValue.PENDING})


def match_artifact(
    cache: AIMTemplateCache, source: ModelSource, candidates: Iterable[AIMArtifact]
) -> AIMArtifact | None:
    """The artifact to use: of several the one with the best status, then the first by name (AR-547)."""
    return _best(one for one in candidates if _fits(one, cache, source) and _belongs(one, cache))


def promotable_artifact(
    cache: AIMTemplateCache, source: ModelSource, candidates: Iterable[AIMArtifact]
) -> AIMArtifact | None:
    """The owned artifact that a Shared cache makes shared, when no unowned one matches (AR-551)."""
    if cache.spec.mode == CacheMode.DEDICATED:
        return None
    return _best(one for one in candidates if _fits(one, cache, source) and _is_promotable(one))


def promoted_from(artifact: AIMArtifact) -> tuple[str, ...]:
    """UIDs of owners that the artifact had before (AR-556)."""
    text = artifact.metadata.annotations.get(labels.ANNOTATION_PROMOTED_FROM, "")
    return tuple(uid for part in text.split(",") if (uid := part.strip()))


def _fits(artifact: AIMArtifact, cache: AIMTemplateCache, source: ModelSource) -> bool:
    seen = not artifact.deleting and artifact.status.has("status")
    return (
        seen
        and artifact.spec.source_uri == source.source_uri
        and _class_fits(artifact, cache)
        and (_filter_fits(artifact, cache))
    )


def _class_fits(artifact: AIMArtifact, cache: AIMTemplateCache) -> bool:
    wanted = cache.spec.storage_class_name
    return not wanted or artifact.spec.storage_class_name == wanted


def _filter_fits(artifact: AIMArtifact, cache: AIMTemplateCache) -> bool:
    override = parse_filter(cache.metadata.annotations.get(labels.ANNOTATION_DOWNLOAD_FILTER))
    return override is None or same_filter(artifact.spec.download_filter, override)


def _belongs(artifact: AIMArtifact, cache: AIMTemplateCache) -> bool:
    owners = artifact.metadata.owner_references
    if cache.spec.mode == CacheMode.DEDICATED:
        return any(owner.uid == cache.uid for owner in owners) or cache.uid in promoted_from(artifact)
    return not owners


def _is_promotable(artifact: AIMArtifact) -> bool:
    owners = artifact.metadata.owner_references
    ours = all(owner.api_version.partition("/")[0] == GROUP for owner in owners)
    return bool(owners) and ours and artifact.status.status in _PROMOTABLE


def _best(artifacts: Iterable[AIMArtifact]) -> AIMArtifact | None:
    return min(artifacts, key=lambda one: (-one.status.status.priority, one.name), default=None)
