"""Which artifacts may be evicted, and in which order."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from aim_artifacts.conditions import Annotation
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """An artifact that may be evicted while it is unused.

    Attributes:
        claim: name of its volume's claim.
        size: bytes that the claim asks for.
        priority: lower ones are evicted first (AR-467).
        used: when it was last used, else when it was made; a timestamp in UTC.
    """

    uid: str
    namespace: str
    name: str
    claim: str
    size: int
    priority: int
    used: str

    @property
    def order(self) -> tuple[int, str, str, str]:
        """Sort key: who goes first."""
        return (self.priority, self.used, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Requester:
    """On whose behalf others are evicted.

    Attributes:
        priority: effective retention priority; ``None`` = it is never evicted itself.
        is_demanded: whether a service waits for a cache that it belongs to; asked only where that matters.
    """

    uid: str
    namespace: str
    priority: int | None
    is_demanded: Callable[[], bool]

    def may_displace(self, candidate: Candidate) -> bool:
        """The requester rule: two artifacts without a requester cannot displace each other for ever (AR-466)."""
        return self.priority is None or candidate.priority < self.priority or self.is_demanded()


@dataclass(frozen=True, slots=True)
class Choice:
    """The artifacts to evict, or the limit that stays exceeded; then none is evicted (AR-470 step 6)."""

    victims: tuple[Candidate, ...] = ()
    lacks_here: bool = False
    lacks_everywhere: bool = False


@dataclass(slots=True)
class Evictables:
    """The candidates of one pass; each of them is given away once (AR-449).

    Args:
        load: the candidates, in any order; called once, when an artifact lacks room.
        is_in_use: whether one is in use; asked at most once of each (AR-463).
    """

    load: Callable[[], Iterable[Candidate]] = field(default=tuple)
    is_in_use: Callable[[Candidate], bool] = field(default=lambda _: False)
    _left: dict[str, Candidate] | None = None
    _sizes: Counter[str] = field(default_factory=Counter)
    _idle: set[str] = field(default_factory=set)

    def could_free(self, namespace: str, here: int, everywhere: int) -> bool:
        """Whether there would be that much, in a namespace and in all, if none of it were in use."""
        self._sorted()
        return here <= self._sizes[namespace] and everywhere <= self._sizes.total()

    def choose(self, requester: Requester, here: int, everywhere: int) -> Choice:
        """Whom to evict to free that many bytes in the requester's namespace, and in all.

        A chosen artifact is taken: the next request does not get its room.
        """
        namespace = requester.namespace
        if not self.could_free(namespace, here, 0):
            return Choice(lacks_here=True)
        # Bytes of another namespace do not help here, those of this one help everywhere (AR-468).
        near = (one for one in self._sorted().values() if one.namespace == namespace)
        chosen = self._first(requester, near, here)
        freed = sum(one.size for one in chosen)
        if freed < here:
            return Choice(lacks_here=True)
        if not self.could_free(namespace, 0, everywhere):
            return Choice(lacks_everywhere=True)
        taken = {one.uid for one in chosen}
        far = (one for one in self._sorted().values() if one.uid not in taken)
        chosen += self._first(requester, far, everywhere - freed)
        if sum(one.size for one in chosen) < everywhere:
            return Choice(lacks_everywhere=True)
        for one in chosen:
            self._strike(one)
        return Choice(tuple(chosen))

    def _first(self, requester: Requester, candidates: Iterable[Candidate], needed: int) -> list[Candidate]:
        """The first that free so much together, or all there are."""
        chosen: list[Candidate] = []
        busy: list[Candidate] = []
        # The scan ends once there is enough room; what follows has no lower priority.
        for one in candidates if needed > 0 else ():
            if not requester.may_displace(one):
                break
            if one.uid == requester.uid:
                continue
            if self._is_busy(one):
                busy.append(one)
                continue
            chosen.append(one)
            needed -= one.size
            if needed <= 0:
                break
        for one in busy:
            self._strike(one)
        return chosen

    def _is_busy(self, candidate: Candidate) -> bool:
        if candidate.uid in self._idle:
            return False
        if self.is_in_use(candidate):
            return True
        self._idle.add(candidate.uid)
        return False

    def _sorted(self) -> dict[str, Candidate]:
        if self._left is None:
            self._left = {one.uid: one for one in sorted(self.load(), key=lambda one: one.order)}
            for one in self._left.values():
                self._sizes[one.namespace] += one.size
        return self._left

    def _strike(self, candidate: Candidate) -> None:
        if self._sorted().pop(candidate.uid, None) is not None:
            self._sizes[candidate.namespace] -= candidate.size
