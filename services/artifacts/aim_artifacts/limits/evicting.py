"""Evicting artifacts, and what their caches remember of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_artifacts.conditions import EVICTED, EVICTION_TRIGGERED, Annotation
from aim_artifacts.indexes import Cache, caches_with, part_of
from aim_artifacts.limits.eviction import Candidate, claim_room
from aim_artifacts.limits.mounts import later_readings, readings_due, unread
from aim_domain import AIMArtifact, labels
from aim_domain.parts import ARTIFACTS
from aim_domain.storage_limits import format_bytes
from controller_runtime import Delete, Effect, Event, EventType, Patch, Subject, View, canonical, loads


def evicted_sources(cache: Cache) -> Mapping[str, str]:
    """UID of the artifact that was evicted, by source; what cannot be read is none."""
    text = cache.metadata.annotations.get(labels.ANNOTATION_EVICTED_SOURCES)
    try:
        found = {} if text is None else loads(text)
    except ValueError:
        return {}
    return {source: uid for source, uid in found.items() if isinstance(uid, str)}


def note_evicted(cache: Cache, evicted: Mapping[str, str]) -> tuple[Patch, ...]:
    """Write down that artifacts of these sources go; nothing where it says so already."""
    known = evicted_sources(cache)
    now = {**known, **evicted}
    return () if now == known else (_patch(cache, now, "artifacts that it lists are evicted"),)


def forget_evicted(cache: Cache, kept: Mapping[str, str]) -> tuple[Patch, ...]:
    """Leave only these in the annotation."""
    if labels.ANNOTATION_EVICTED_SOURCES not in cache.metadata.annotations or kept == evicted_sources(cache):
        return ()
    return (_patch(cache, kept, "evicted artifacts are wanted again"),)


def still_evicted(cache: Cache, matches: Mapping[str, AIMArtifact | None], *, demanded: bool) -> Mapping[str, str]:
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


def _patch(cache: Cache, evicted: Mapping[str, str], why: str) -> Patch:
    text = canonical(dict(evicted)).decode() if evicted else None
    body = {"metadata": {"annotations": {labels.ANNOTATION_EVICTED_SOURCES: text}}}
    metadata = cache.metadata
    return Patch(part_of(cache), metadata.namespace, metadata.name, metadata.resource_version, body, why)


@dataclass(frozen=True, slots=True)
class Eviction:
    """What is to be written, reported and asked for.

    Attributes:
        annotations: of the artifact itself; written first.
        note: what keeps it from happening now, for people; empty when nothing does.
    """

    annotations: tuple[Annotation, ...] = ()
    patches: tuple[Patch, ...] = ()
    deletes: tuple[Delete, ...] = ()
    events: tuple[Event, ...] = ()
    effects: tuple[Effect, ...] = ()
    note: str = ""


NO_EVICTION: Final = Eviction()
"""When no artifact has to be evicted."""


def evict(artifact: AIMArtifact, victims: Sequence[Candidate], view: View, now: datetime) -> Eviction:
    """Evict them for an artifact, once a live list of pods shows that no pod mounts them.

    The order of the writes makes every part of them safe: the claim keeps the room, then the caches know that they
    shall not make the artifacts again, and only then these go.
    """
    namespaces = [one.namespace for one in victims]
    due = readings_due(view, namespaces, now)
    if due:
        return Eviction(effects=due, note=unread(view, namespaces))
    return Eviction(
        claim_room(artifact, now),
        tuple(_notes(victims, view.untracked)),
        tuple(_removal(artifact, one) for one in victims),
        (*(_evicted(artifact, one) for one in victims), _triggered(victims)),
    )


def look_again(view: View, namespaces: set[str]) -> Eviction:
    """Look later whether pods of others have let go of those who would have to go."""
    return Eviction(effects=later_readings(view, namespaces))


def _notes(victims: Sequence[Candidate], view: View) -> list[Patch]:
    caches: dict[str, tuple[Cache, dict[str, str]]] = {}
    for one in victims:
        source = view.get(ARTIFACTS, one.namespace, one.name).value
        for cache in caches_with(view, one.uid).items:
            if source is not None and not cache.deleting and cache.namespace == one.namespace:
                caches.setdefault(cache.uid, (cache, {}))[1][source.spec.source_uri] = one.uid
    return [patch for cache, evicted in caches.values() for patch in note_evicted(cache, evicted)]


def _removal(artifact: AIMArtifact, victim: Candidate) -> Delete:
    why = f"evicted for AIMArtifact {artifact.key}"
    return Delete(ARTIFACTS, victim.namespace, victim.name, victim.uid, why)


def _evicted(artifact: AIMArtifact, victim: Candidate) -> Event:
    message = (
        f"evicted with retention priority {victim.priority}, last used {victim.used}: "
        f"its {format_bytes(victim.size)} are for AIMArtifact {artifact.key}"
    )
    about = Subject(ARTIFACTS, victim.namespace, victim.name, victim.uid)
    return Event(EventType.WARNING, EVICTED, message, about=about, of_deletes=True)


def _triggered(victims: Sequence[Candidate]) -> Event:
    names = ", ".join(f"{one.namespace}/{one.name}" for one in victims)
    freed = format_bytes(sum(one.size for one in victims))
    return Event(EventType.NORMAL, EVICTION_TRIGGERED, f"evicting {names} frees {freed}", of_deletes=True)
