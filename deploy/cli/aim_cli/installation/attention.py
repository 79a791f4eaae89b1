"""Which objects need attention, and which of them for the same cause (FW-608, FW-868). Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from aim_cli.cluster.refs import JsonObject, Ref, ref_of
from aim_cli.cluster.states import Weight, state_of, weight_of
from aim_cli.why.blockers import blockers_of
from aim_domain.kind_names import OWN, KindName

_PATIENCE: Final = timedelta(seconds=60)
"""After which something that is under way is worth a look: most of it takes seconds, downloads tell their progress."""
_LONGEST: Final = 160
_NAMES: Final = re.compile(r"[A-Za-z0-9](?:[-.\w]*[A-Za-z0-9])?")
# A message may quote a log, so a pattern takes no more than a few steps at each letter.
_PROGRESS: Final = re.compile(r"(?<!\d)\d{1,3}(?:\.\d{1,6})? ?%")
_COMPARED: Final = 2000
"""Letters of a reason and message that tell one cause from another."""
_ITS_OWN: Final = "…"


@dataclass(frozen=True, slots=True)
class Concern:
    """An object, with what decides whether it needs attention.

    Attributes:
        why: empty of what is well.
        since: of the oldest of what is in its way, else of the object.
        likeness: the reason and message as other objects with the same cause have them; empty of what is well.
    """

    ref: Ref
    state: str
    weight: Weight
    why: str
    since: str
    likeness: str = ""

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        reported = {"state": self.state, "weight": self.weight.name, "why": self.why, "since": self.since}
        return {"object": self.ref.data, **reported}


def glance(kind: KindName, obj: JsonObject) -> Concern:
    """How an object looks."""
    state, ref = state_of(kind, obj), ref_of(kind, obj)
    weight = weight_of(state)
    if weight is Weight.WELL:
        return Concern(ref, state, weight, "", "")
    blockers = blockers_of(kind, obj)
    since = min((one.since for one in blockers if one.since), default="") or obj["metadata"].get(
        "creationTimestamp", ""
    )
    why = f"{blockers[0].reason}: {blockers[0].message}" if blockers else "it does not say why"
    shown = why if len(why) <= _LONGEST else f"{why[: _LONGEST - 1]}…"
    return Concern(ref, state, weight, shown, since, likeness(ref, why))


def likeness(ref: Ref, why: str) -> str:
    """A reason and message without what tells one object from another: its own names, and how far it has come."""

    def common(found: re.Match[str]) -> str:
        word = found[0]
        own = word in (ref.name, ref.namespace) or word.startswith(f"{ref.name}-")
        return _ITS_OWN if own else word

    return _NAMES.sub(common, _PROGRESS.sub(_ITS_OWN, why[:_COMPARED]))


def needs_attention(one: Concern, now: datetime) -> bool:
    """Whether an object needs attention: what is broken or hurt at once, what is under way after a minute."""
    if one.weight is Weight.UNDER_WAY and one.since:
        return now - datetime.fromisoformat(one.since) >= _PATIENCE
    return one.weight is not Weight.WELL


def in_order(concerns: Iterable[Concern]) -> list[Concern]:
    """The worst first; of those equally bad off what a user asked for before what was made of it, then the oldest."""
    return sorted(concerns, key=lambda one: (-one.weight, OWN.index(one.ref.kind), one.since, str(one.ref)))


@dataclass(frozen=True, slots=True)
class Group:
    """Objects of one kind, in one state, with the same cause (FW-868)."""

    concerns: tuple[Concern, ...]

    @property
    def first(self) -> Concern:
        """The one that stands for all."""
        return self.concerns[0]

    @property
    def since(self) -> str:
        """Of the oldest; empty where unknown."""
        return min((one.since for one in self.concerns if one.since), default="")

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Where they are."""
        return tuple(sorted({one.ref.namespace for one in self.concerns if one.ref.namespace}))

    def __str__(self) -> str:
        """Which objects, and in what state, in a few words."""
        first, more = self.first, len(self.concerns) - 1
        if not more:
            return f"{first.ref} is {first.state}"
        within = f" in {len(self.namespaces)} namespaces" if len(self.namespaces) > 1 else ""
        return f"{first.ref} and {more} more{within} are {first.state}"


def grouped(concerns: Iterable[Concern]) -> list[Group]:
    """Concerns by cause, each group where its first one stood."""
    found: dict[tuple[KindName, str, str], list[Concern]] = {}
    for one in concerns:
        found.setdefault((one.ref.kind, one.state, one.likeness), []).append(one)
    return [Group(tuple(some)) for some in found.values()]
