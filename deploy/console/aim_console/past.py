"""Earlier moments, from the log alone: the platform, the story of an object, its decisions (FW-631, FW-675)."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

from aim_cli.cluster.refs import KNOWN, JsonObject, Ref
from aim_cli.log.past import body_of, of_versions
from aim_cli.log.report import Bar, scale_of, waterfall
from aim_cli.log.targets import Target, located
from aim_cli.log.timeline import Moment, Reader, deeds, timeline
from aim_cli.services import services
from aim_console import pages
from aim_console.access import Rights, Sight, is_shown, redact, saw_all
from aim_console.mirror import OBJECT_PARTS
from aim_console.pages import href
from aim_domain.kind_names import KindName
from controller_runtime import Key
from controller_runtime.log import DecisionFilter, History, Knowledge, StateAt
from controller_runtime.replay import Replayed, Replayer

T = TypeVar("T")

ELSEWHERE: Final = "what else was made in all of the cluster"
GONE_SINCE: Final = "only what is still there is looked up in the log"
_RESOURCES: Final = {part.name: kind for part in OBJECT_PARTS for kind in KNOWN if kind.resource == part.kind.resource}
_SURENESS: Final = (Knowledge.ABSENT, Knowledge.UNKNOWN, Knowledge.PRESENT)


class Present(Protocol):
    """What is known of today, where the log has no way to look something up."""

    def holds(self, kind: KindName, /) -> bool:
        """Whether objects of a kind are published at all."""

    def owned(self, kind: KindName, owner: str) -> Iterable[Ref]:
        """Objects of a kind that the owner with a UID has now."""

    def object(self, ref: Ref, /) -> JsonObject | None:
        """One object as it is now."""


@dataclass(frozen=True, slots=True)
class PastState:
    """What the log tells of one object.

    Attributes:
        doubt: why that may not be so; empty where it is.
    """

    knowledge: Knowledge
    body: JsonObject | None = None
    unknown: str = ""


@dataclass(slots=True)
class Past:
    """What the log tells of a moment; see `Known`.

    Attributes:
        since: from when on the log has all versions; ``None`` = from the beginning.
        narrowed: whether something was asked that no log can tell, for lack of an index.
    """

    at: datetime
    present: Present
    rights: Rights
    since: datetime | None = None
    narrowed: bool = False
    _states: dict[KindName, dict[Ref, PastState]] = field(default_factory=lambda: defaultdict(dict))
    _read: set[tuple[str, KindName]] = field(default_factory=set)
    _lacking: set[Ref] = field(default_factory=set)
    _unread: set[tuple[str, KindName]] = field(default_factory=set)

    def holds(self, kind: KindName) -> bool:
        """Whether objects of a kind are published at all."""
        return self.present.holds(kind)

    def state_of(self, ref: Ref) -> PastState:
        """What is known of an object; nothing also of what the log was not asked for yet."""
        known = self._states[ref.kind].get(ref)
        if known is None and (ref.namespace, ref.kind) not in self._read:
            self._lacking.add(ref)
        elif known is None:
            known = self._states[ref.kind][ref] = self._nothing
        return known or self._nothing

    @property
    def _nothing(self) -> PastState:
        """What the log lacks may still have been there, where versions were dropped since."""
        if self.since is None or self.since <= self.at:
            return PastState(Knowledge.ABSENT)
        return PastState(
            Knowledge.UNKNOWN, unknown=f"the event log is complete since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        )

    def object(self, ref: Ref) -> JsonObject | None:
        """One object."""
        return self.state_of(ref).body

    def objects(
        self,
        kind: KindName,
        namespace: str,
        owner: str,
        label: str = "",  # noqa: ARG002 - the log has no index of labels
    ) -> Iterator[JsonObject]:
        """Objects of a kind: in a namespace all, else those of an owner that are still there."""
        refs: Iterable[Ref] = ()
        if not namespace:
            self.narrowed = True
            refs = self.present.owned(kind, owner) if owner else ()
        elif (namespace, kind) in self._read:
            refs = [ref for ref in self._states[kind] if ref.namespace == namespace]
        else:
            self._unread.add((namespace, kind))
        for ref in refs:
            if (obj := self.object(ref)) is not None:
                yield obj

    def each(
        self, kind: KindName, namespace: str, make: Callable[[KindName, JsonObject], T]
    ) -> Iterator[tuple[str, T]]:
        """What a function makes of each object of a kind, with its namespace."""
        for obj in self.objects(kind, namespace, ""):
            yield obj["metadata"].get("namespace") or "", make(kind, obj)

    def unknowns(self, kind: KindName) -> Mapping[Ref, str]:
        """Of which objects of a kind the log cannot tell for sure how they were, and why."""
        return {ref: one.unknown for ref, one in self._states[kind].items() if one.unknown}

    async def read_on(self, log: History) -> bool:
        """Read what was asked for and not read yet; whether there was any."""
        lacking, unread = self._lacking, self._unread
        self._lacking, self._unread = set(), set()
        for ref in lacking:
            self._states[ref.kind][ref] = self._nothing
        wanted = [(part, Key(ref.namespace, ref.name)) for ref in lacking for part in _parts(ref.kind)]
        for chain in (await log.chains(wanted)).values() if wanted else ():
            self._note(of_versions(chain.versions, self.at))
        for namespace in sorted({namespace for namespace, _ in unread}):
            kinds = [kind for where, kind in unread if where == namespace]
            parts = [part for kind in kinds for part in _parts(kind)]
            for found in (await log.state_at(self.at, parts, namespace)).values():
                self._note(found)
        self._read |= unread
        return bool(lacking or unread)

    def _note(self, found: StateAt | None) -> None:
        if found is None:
            return
        kind = _RESOURCES[found.part]
        since = self.rights.since(kind.resource, found.key.namespace)
        # The last version before may be of who had a namespace of that name before.
        if since is None or (found.version is not None and found.version.state.time < since):
            return
        ref, state = Ref(kind, found.key.namespace, found.key.name), _state(kind, found)
        before = self._states[kind].get(ref)
        # A kind may have several parts, and an object is in one of them.
        if before is None or _SURENESS.index(state.knowledge) >= _SURENESS.index(before.knowledge):
            self._states[kind][ref] = state


def _parts(kind: KindName) -> Collection[str]:
    return [part for part, known in _RESOURCES.items() if known == kind]


def _state(kind: KindName, found: StateAt) -> PastState:
    body = body_of(found)
    if body is not None:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
    unknown = f"the event log cannot tell how it was: {found.hole}" if found.hole else ""
    if found.knowledge is not Knowledge.ABSENT and body is None:
        unknown = unknown or "the version of then cannot be read"
    return PastState(found.knowledge, body, unknown)


@dataclass(frozen=True, slots=True)
class Then:
    """A page of the past.

    Attributes:
        content: as `pages.one_object` tells it; ``None`` where there was no such object, or that is unknown.
        body: the object itself.
    """

    content: JsonObject | None
    knowledge: Knowledge
    unasked: dict[str, str]
    body: JsonObject | None = None


async def then(log: History, present: Present, rights: Rights, ref: Ref, at: datetime) -> Then:
    """An object as it was, with what belonged to it.

    Raises:
        BusError: the log cannot be read.
    """
    past = Past(at, present, rights, (await log.complete_since()).get("versions"))
    while True:
        sight = Sight(past, rights.then(at))
        found = pages.one_object(sight, ref, at, lambda one: address(one, at))
        if not await past.read_on(log):
            break
    remarks = {ELSEWHERE: GONE_SINCE} if past.narrowed else {}
    state = past.state_of(ref)
    return Then(found, state.knowledge, sight.unasked | remarks, state.body)


def address(ref: Ref, at: datetime) -> str:
    """Where an object's page of a moment is."""
    return f"{pages.href(ref)}/past?at={quote(at.astimezone(UTC).isoformat().replace('+00:00', 'Z'), safe=':')}"


MOST: Final = 300
"""Lines of a story, and decisions that are taken again; the newest."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A bar in hundredths of the picture's width.

    Attributes:
        strokes: where decisions wrote something.
    """

    name: str
    state: str
    after: str
    left: float
    width: float
    open: bool
    strokes: tuple[float, ...]


async def story(history: History, wanted: Target, rights: Rights, since: datetime | None = None) -> JsonObject:
    """Bars and moments of an object; of others only what the viewer may see.

    Args:
        since: no earlier moment is wanted; ``None`` = the whole story.
    """
    wanted = await located(history, wanted)
    found = await waterfall(history, wanted, reader_of(rights))
    bars = [bar for bar in found if is_shown(bar.kind, bar.key, rights, bar.begun)]
    moments = await seen_moments(history, wanted, rights)
    shown = [one for one in moments if since is None or one.at >= since]
    now = datetime.now(UTC)
    window = None if since is None else (since, now)
    return {
        "bars": drawn(bars, window),
        "moments": folded(shown),
        "left_out": len(moments) - len(shown),
        "begun": since or (bars[0].begun if bars else None),
        "span": "now" if window else _seconds_text(scale_of(bars)[1]) if bars else "",
    }


async def seen_moments(history: History, wanted: Target, rights: Rights) -> list[Moment]:
    """The newest moments of an object's story, as far as the viewer may see them."""
    found = await timeline(history, await located(history, wanted), reader=reader_of(rights))
    return [one for one in found if is_shown(one.kind, one.key, rights, one.at)][-MOST:]


def reader_of(rights: Rights) -> Reader:
    """Who has these rights."""
    return Reader(
        lambda one: rights.since(one.part.kind.resource, one.key.namespace),
        lambda record: redact(record, rights),
    )


def drawn(bars: Sequence[Bar], window: tuple[datetime, datetime] | None = None) -> list[Drawn]:
    """Bars on one scale; of a window those that are not ready before it, or that a decision wrote in it (FW-873)."""
    if not bars:
        return []
    begun, span = scale_of(bars) if window is None else (window[0], (window[1] - window[0]).total_seconds())

    def share(moment: datetime) -> float:
        return max(0.0, min(100.0, 100 * (moment - begun).total_seconds() / span))

    def is_shown_in(bar: Bar) -> bool:
        return window is None or bar.ready is None or any(one >= begun for one in (bar.ready, *bar.writes))

    return [
        Drawn(
            f"{bar.kind} {bar.key}",
            bar.state,
            "" if bar.ready is None else _seconds_text((bar.ready - bar.begun).total_seconds()),
            share(bar.begun),
            (100.0 if bar.ready is None else share(bar.ready)) - share(bar.begun),
            bar.ready is None,
            tuple(share(write) for write in bar.writes if 0 <= (write - begun).total_seconds() <= span),
        )
        for bar in filter(is_shown_in, bars)
    ]


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.2f} s"


def folded(moments: Iterable[Moment]) -> list[JsonObject]:
    """A row for each, oldest first; what an object goes on repeating is one row with a count (FW-873)."""
    rows: list[JsonObject] = []
    latest: dict[str, JsonObject] = {}
    for one in moments:
        row = latest.get(one.about)
        if row is not None and (row["who"], row["what"]) == (one.who, one.what):
            row |= {"times": row["times"] + 1, "until": one.at}
            continue
        latest[one.about] = row = {**moment_json(one), "times": 1, "until": one.at}
        rows.append(row)
    return rows


def moment_json(moment: Moment) -> JsonObject:
    """A row of a table."""
    row = {"at": moment.at, "who": moment.who, "about": moment.about, "what": moment.what, "trace": moment.trace}
    return {**row, "decision": _link(moment.kind, moment.key, moment.decision)}


def _link(kind: str, key: Key, decision: str) -> str:
    """Where the page of a decision about an object is; empty where there is none."""
    known = next((one for one in KNOWN if one.kind == kind), None)
    if known is None or not decision:
        return ""
    return f"{href(Ref(known, key.namespace, key.name))}/replay/{quote(decision, safe='')}"


async def replayed(history: History, wanted: Target, rights: Rights) -> JsonObject:
    """The newest decisions about an object, taken again by the code that is installed here.

    What is otherwise or missing names what the decision read, and is shown only to viewers who may see all of that.
    """
    key = wanted.key
    since = rights.since(wanted.part.kind.resource, key.namespace)
    if since is None:
        return {"decisions": [], "left_out": 0}
    about = DecisionFilter(part=wanted.part.name, namespace=key.namespace, name=key.name, since=since)
    left_out = 0
    if len(stored := await history.decisions(about)) > MOST:
        about, left_out = replace(about, since=stored[-MOST].record.at), len(stored) - MOST
    decisions = []
    async for one in Replayer(history, services()).decisions(about):
        decisions.append(_replayed(one, wanted, rights))
        # A request for another page meanwhile is answered.
        await asyncio.sleep(0)
    return {"decisions": decisions[-MOST:], "left_out": left_out}


def _replayed(one: Replayed, wanted: Target, rights: Rights) -> JsonObject:
    record = one.stored.record
    return {
        "at": record.at,
        "link": _link(wanted.part.kind.kind, wanted.key, record.id),
        "service": record.service,
        "did": deeds(redact(record, rights)),
        "verdict": one.verdict.value,
        "because": because(one, rights),
    }


def because(one: Replayed, rights: Rights) -> list[str]:
    """What is otherwise or missing, for who may see all that the decision read."""
    reasons = [*one.differences, *(f"missing: {what}" for what in one.missing)]
    if reasons and not saw_all(one.stored.record, rights):
        return ["it read objects that you may not see"]
    return reasons
