"""Which sources of a cache were evicted while nobody wanted it (AR-480, AR-490, AR-491)."""

from collections.abc import Mapping

from aim_domain import AIMArtifact, AIMTemplateCache, labels
from aim_domain.parts import TEMPLATE_CACHES
from controller_runtime import Patch, canonical, loads


def evicted_sources(cache: AIMTemplateCache) -> Mapping[str, str]:
    """UID of the artifact that was evicted, by source; what cannot be read is none."""
    text = cache.metadata.annotations.get(labels.ANNOTATION_EVICTED_SOURCES)
    try:
        found = {} if text is None else loads(text)
    except ValueError:
        return {}
    return {source: uid for source, uid in found.items() if isinstance(uid, str)}


def note_evicted(cache: AIMTemplateCache, evicted: Mapping[str, str]) -> tuple[Patch, ...]:
    """Write down that artifacts of these sources go; nothing where it says so already."""
    known = evicted_sources(cache)
    now = {**known, **evicted}
    return () if now == known else (_patch(cache, now, "artifacts that it lists are evicted"),)


def forget_evicted(cache: AIMTemplateCache, kept: Mapping[str, str]) -> tuple[Patch, ...]:
    """Leave only these in the annotation."""
    if labels.ANNOTATION_EVICTED_SOURCES not in cache.metadata.annotations or kept == evicted_sources(cache):
        return ()
    return (_patch(cache, kept, "evicted artifacts are wanted again"),)


def still_evicted(
    cache: AIMTemplateCache, matches: Mapping[str, AIMArtifact | None], *, demanded: bool
) -> Mapping[str, str]:
    """The sources for which no artifact is made now.

    Args:
        matches: the artifact of each source that the cache has, if there is one. The very artifact that is about to be
            evicted is none that "exists again".
    """
    changed = (cache.status.observed_generation or 0) < cache.metadata.generation
    if demanded or changed:
        return {}
    known = evicted_sources(cache)
    return {
        source: uid
        for source, uid in known.items()
        if source in matches and ((found := matches[source]) is None or found.uid == uid)
    }


def _patch(cache: AIMTemplateCache, evicted: Mapping[str, str], why: str) -> Patch:
    text = canonical(dict(evicted)).decode() if evicted else None
    body = {"metadata": {"annotations": {labels.ANNOTATION_EVICTED_SOURCES: text}}}
    metadata = cache.metadata
    return Patch(TEMPLATE_CACHES, metadata.namespace, metadata.name, metadata.resource_version, body, why)
