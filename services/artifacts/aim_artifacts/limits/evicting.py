"""What a pass does for a blocked artifact that others have to go for (AR-470 step 7, AR-480)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_artifacts.annotations import Annotation
from aim_artifacts.conditions import EVICTED, EVICTION_TRIGGERED
from aim_artifacts.indexes import CACHES_BY_ARTIFACT
from aim_artifacts.limits.evicted_sources import note_evicted
from aim_artifacts.limits.eviction import Candidate
from aim_artifacts.limits.mounts import later_readings, readings_due, unread
from aim_artifacts.limits.quota import shown_bytes
from aim_artifacts.limits.retention import claim_room
from aim_domain import AIMArtifact, AIMTemplateCache
from aim_domain.parts import ARTIFACTS
from controller_runtime import Delete, Effect, Event, EventType, Patch, Subject, View


@dataclass(frozen=True, slots=True)
class Eviction:
    """What is to be written, told and asked for.

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
"""When nobody has to go."""


def evict(artifact: AIMArtifact, victims: Sequence[Candidate], view: View, now: datetime) -> Eviction:
    """Evict them for an artifact, once a live list of pods says that nobody mounts them.

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
    caches: dict[str, tuple[AIMTemplateCache, dict[str, str]]] = {}
    for one in victims:
        source = view.get(ARTIFACTS, one.namespace, one.name).value
        for cache in view.select(CACHES_BY_ARTIFACT, one.uid).items:
            if source is not None and not cache.deleting and cache.namespace == one.namespace:
                caches.setdefault(cache.uid, (cache, {}))[1][source.spec.source_uri] = one.uid
    return [patch for cache, evicted in caches.values() for patch in note_evicted(cache, evicted)]


def _removal(artifact: AIMArtifact, victim: Candidate) -> Delete:
    why = f"evicted for AIMArtifact {artifact.key}"
    return Delete(ARTIFACTS, victim.namespace, victim.name, victim.uid, why)


def _evicted(artifact: AIMArtifact, victim: Candidate) -> Event:
    message = (
        f"evicted with retention priority {victim.priority}, last used {victim.used}: "
        f"its {shown_bytes(victim.size)} are for AIMArtifact {artifact.key}"
    )
    about = Subject(ARTIFACTS, victim.namespace, victim.name, victim.uid)
    return Event(EventType.WARNING, EVICTED, message, about=about, of_deletes=True)


def _triggered(victims: Sequence[Candidate]) -> Event:
    names = ", ".join(f"{one.namespace}/{one.name}" for one in victims)
    freed = shown_bytes(sum(one.size for one in victims))
    return Event(EventType.NORMAL, EVICTION_TRIGGERED, f"evicting {names} frees {freed}", of_deletes=True)
