"""What a viewer may see of the cluster, of the log and of a decision (FW-633, FW-674)."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Protocol, TypeAlias, TypeVar

from aim_cli.cluster.refs import KNOWN, JsonObject, Ref
from aim_cli.log.targets import kind_name
from aim_domain.kind_names import NAMESPACE, KindName
from controller_runtime import FACT, Key
from controller_runtime.log import DecisionRecord, is_facts

REMEMBERED_SECONDS: Final = 60.0
"""How long a viewer still sees what was taken from them."""
_DENIED_SECONDS: Final = 300.0
"""How long a viewer waits for what was granted since: most questions about a viewer of few namespaces end with no."""
_AT_ONCE: Final = 8
_EVER: Final = datetime.min.replace(tzinfo=UTC)

Review: TypeAlias = Callable[[JsonObject], Awaitable[JsonObject]]
"""Has the API server answer a SelfSubjectAccessReview, or the same about another user."""


@dataclass(frozen=True, slots=True)
class Rights:
    """Which objects may be seen.

    Attributes:
        everywhere: kinds that may be listed in the whole cluster, as ``plural.group``.
        within: kinds that may be listed in a namespace.
        made: when the namespaces of today were made, as far as that is known.
    """

    everywhere: frozenset[str] = frozenset()
    within: frozenset[tuple[str, str]] = frozenset()
    made: Mapping[str, datetime] = field(default_factory=dict)

    def admits(self, kind: str, namespace: str) -> bool:
        """Whether objects of a kind may be seen; in the cluster's scope without a namespace."""
        return kind in self.everywhere or (bool(namespace) and (kind, namespace) in self.within)

    def since(self, kind: str, namespace: str) -> datetime | None:
        """From when on the past of these objects may be seen; ``None`` = nothing of it.

        The log goes by names, and who has a namespace today need not be who had one of that name before.
        """
        if kind in self.everywhere:
            return _EVER
        return self.made.get(namespace) if self.admits(kind, namespace) else None

    def admitted(self, kind: str, namespace: str, at: datetime) -> bool:
        """Whether it may be seen how objects of a kind were at a moment."""
        since = self.since(kind, namespace)
        return since is not None and since <= at

    def then(self, at: datetime) -> "Rights":
        """What may be seen of a moment."""
        return replace(self, within=frozenset(one for one in self.within if self.admitted(*one, at)))


@dataclass(slots=True)
class Access:
    """Asks about one viewer, and remembers a yes for a minute, a no for five."""

    review: Review
    clock: Callable[[], float] = time.monotonic
    _known: dict[tuple[str, str], tuple[bool, float]] = field(default_factory=dict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def rights(self, kinds: Collection[KindName], namespaces: Iterable[str]) -> Rights:
        """What may be seen of some kinds.

        Raises:
            KubeError: the API server does not answer.
        """
        # One request of a viewer at a time, so that no two ask the same.
        async with self._asking:
            everywhere = await self._allowed([(kind, "") for kind in kinds])
            rest = [kind for kind in kinds if kind.namespaced and (kind.resource, "") not in everywhere]
            within = await self._allowed([(kind, one) for one in namespaces for kind in rest])
        return Rights(frozenset(name for name, _ in everywhere), frozenset(within))

    async def _allowed(self, questions: Collection[tuple[KindName, str]]) -> set[tuple[str, str]]:
        now = self.clock()
        # What no longer counts is of namespaces that are gone, or is asked again.
        self._known = {what: one for what, one in self._known.items() if now < one[1]}
        unknown = [(kind, namespace) for kind, namespace in questions if (kind.resource, namespace) not in self._known]
        await asyncio.gather(*(self._ask(kind, namespace) for kind, namespace in unknown))
        asked = {(kind.resource, namespace) for kind, namespace in questions}
        return {one for one in asked if self._known[one][0]}

    async def _ask(self, kind: KindName, namespace: str) -> None:
        async with self._turns:
            answer = await self.review(question(kind, namespace))
        allowed = bool((answer.get("status") or {}).get("allowed"))
        remembered = REMEMBERED_SECONDS if allowed else _DENIED_SECONDS
        self._known[kind.resource, namespace] = (allowed, self.clock() + remembered)


def question(kind: KindName, namespace: str) -> JsonObject:
    """Whether the caller may list a kind, in a namespace or everywhere."""
    what = {"verb": "list", "group": kind.group, "resource": kind.plural, "namespace": namespace}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": {name: value for name, value in what.items() if value}},
    }


UNSEEN_CAUSE: Final = "a change that you may not see"
_OF_OBJECTS: Final = ("children", "patches", "deletes")
"""Members of a plan that are lists of what it does to objects, which its reader need not be allowed to see."""
_CAUSE: Final = re.compile(r"(\S+) (?:([^\s/]+)/)?([^\s/]+) (?:appeared|changed|is gone)")


def is_shown(kind: str, key: Key, rights: Rights, at: datetime) -> bool:
    """Whether a viewer may see an object of a kind as it was; a kind without a check no viewer."""
    known = next((one for one in KNOWN if one.kind == kind), None)
    return known is not None and rights.admitted(known.resource, key.namespace, at)


def is_seen(kind: str, key: Key, record: DecisionRecord, rights: Rights) -> bool:
    """Whether who sees a decision may see what it read; facts and its own Namespace belong to it."""
    if is_facts(kind) or kind == FACT.kind or (kind, key) == (NAMESPACE.kind, Key("", record.namespace)):
        kind, key = kind_name(record.part), record.key
    return is_shown(kind, key, rights, record.at)


def saw_all(record: DecisionRecord, rights: Rights) -> bool:
    """Whether a viewer may see all that a decision read and planned.

    What it read is not listed by name where there was much of it, so that takes the right to list the kind everywhere.
    """
    reads = record.reads
    named = [(one.part, one.key) for one in reads.objects]
    named += [(one.part, key) for one in reads.indexes for key in one.keys]
    many = {one.part for one in reads.groups} | {one.part for one in reads.summaries}
    return (
        all(is_seen(kind_name(part), key, record, rights) for part, key in named)
        and all(_is_everywhere(kind_name(part), rights) for part in many if not is_facts(part))
        and not visible_plan(record, rights)[1]
    )


def redact(record: DecisionRecord, rights: Rights) -> DecisionRecord:
    """The decision with those of its writes that a viewer may see."""
    writes = (one for one in record.writes if is_shown(one.kind, Key(one.namespace, one.name), rights, record.at))
    return record.model_copy(update={"writes": tuple(writes)})


def woken_by(record: DecisionRecord, rights: Rights) -> str:
    """What changed before it, in words; empty where nothing did."""
    if not record.woken_by:
        return ""
    reported = _CAUSE.fullmatch(record.woken_by)
    if reported is None or not is_seen(reported[1], Key(reported[2] or "", reported[3]), record, rights):
        return UNSEEN_CAUSE
    return record.woken_by


def visible_plan(record: DecisionRecord, rights: Rights) -> tuple[JsonObject, int]:
    """The plan without what it does to objects that the viewer may not see, and how much that is."""
    plan, hidden = dict(record.plan), 0
    for member in _OF_OBJECTS:
        # Of a plan that was too long digests are kept, which tell names at most.
        items = plan.get(member)
        if isinstance(items, list):
            plan[member] = [
                one for one in items if is_shown(kind_name(one.get("part", "")), _key(one), rights, record.at)
            ]
            hidden += len(items) - len(plan[member])
    return {name: value for name, value in plan.items() if value not in ([], {})}, hidden


def _is_everywhere(kind: str, rights: Rights) -> bool:
    return any(one.kind == kind and one.resource in rights.everywhere for one in KNOWN)


def _key(item: JsonObject) -> Key:
    metadata = (item.get("body") or {}).get("metadata") or {}
    own = {name: item.get(name) or metadata.get(name) or "" for name in ("namespace", "name")}
    return Key(own["namespace"], own["name"])


T = TypeVar("T")
NOT_PUBLISHED = "the event log does not hold them; aim why asks the cluster itself"
NOT_ALLOWED = "you may not list them"


class KnownMoment(Protocol):
    """The present, or a moment of the past, without regard to a viewer."""

    def holds(self, kind: KindName) -> bool:
        """Whether objects of a kind are published at all."""

    def object(self, ref: Ref) -> JsonObject | None:
        """One object."""

    def objects(self, kind: KindName, namespace: str, owner: str, label: str = "") -> Iterable[JsonObject]:
        """Objects of a kind: of a namespace unless it is empty, of the owner with a UID unless that is.

        With a label, as ``name=value``, others may be left out.
        """

    def each(
        self, kind: KindName, namespace: str, make: Callable[[KindName, JsonObject], T]
    ) -> Iterable[tuple[str, T]]:
        """What a function makes of each object of a kind, with the namespace of that."""

    def unknowns(self, kind: KindName, /) -> Mapping[Ref, str]:
        """Of which objects of a kind the state is unknown, and why."""


@dataclass(slots=True)
class Sight:
    """A `Cluster` without a cluster.

    Attributes:
        viewer: what they are called, where they logged in.
        unasked: kinds that are not published, or that the viewer may not list.
    """

    known: KnownMoment
    rights: Rights
    viewer: str = ""
    unasked: dict[str, str] = field(default_factory=dict)
    _searched: dict[tuple[KindName, str, str, str], list[JsonObject]] = field(default_factory=dict)

    def find(self, ref: Ref) -> JsonObject | None:
        """See `Cluster`."""
        if not self.known.holds(ref.kind):
            self.unasked[str(ref)] = NOT_PUBLISHED
        elif not self.rights.admits(ref.kind.resource, ref.namespace):
            self.unasked[str(ref)] = NOT_ALLOWED
        else:
            found = self.known.object(ref)
            if (unknown := self.known.unknowns(ref.kind).get(ref)) is not None:
                self.unasked[str(ref)] = unknown
            return found
        return None

    def search(
        self,
        kind: KindName,
        namespace: str = "",
        labels: str = "",
        fields: str = "",  # noqa: ARG002 - would only save sending
        owner: str = "",
    ) -> list[JsonObject]:
        """See `Cluster`; one page asks for the same more than once."""
        wanted = kind, namespace, labels, owner
        if wanted not in self._searched:
            self._searched[wanted] = self._look_for(*wanted)
        return self._searched[wanted]

    def _look_for(self, kind: KindName, namespace: str, labels: str, owner: str) -> list[JsonObject]:
        if not self._may_look(kind, namespace):
            return []
        found = self.known.objects(kind, namespace, owner, labels)
        shown = [obj for obj in found if self.rights.admits(kind.resource, obj["metadata"].get("namespace") or "")]
        for ref, unknown in self.known.unknowns(kind).items():
            if namespace in ("", ref.namespace) and self.rights.admits(kind.resource, ref.namespace):
                self.unasked[str(ref)] = unknown
        return shown

    def each(self, kind: KindName, namespace: str, make: Callable[[KindName, JsonObject], T]) -> list[T]:
        """See `Cluster`."""
        if not self._may_look(kind, namespace):
            return []
        found = self.known.each(kind, namespace, make)
        return [made for own, made in found if self.rights.admits(kind.resource, own)]

    def _may_look(self, kind: KindName, namespace: str) -> bool:
        if not self.known.holds(kind):
            self.unasked[kind.plural] = NOT_PUBLISHED
            return False
        within = any(name == kind.resource for name, _ in self.rights.within)
        if not within and not self.rights.admits(kind.resource, namespace):
            self.unasked[kind.plural] = NOT_ALLOWED
            return False
        return True
