"""``aim why``: what is in the way of an object, as data and as lines. Asks through `Cluster`, decides nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from aim_cli.answer import Answer, Data
from aim_cli.cluster.refs import Cluster, JsonObject, Ref
from aim_cli.cluster.refs import remarks as unread
from aim_cli.cluster.states import state_of
from aim_cli.errors import Exit
from aim_cli.units import age
from aim_cli.why.blockers import Link, causes, rank
from aim_cli.why.holders import REASONS, Holder, describe, holders
from aim_cli.why.remedies import is_known, remedy_of
from aim_domain import labels
from aim_domain.kind_names import AIM_ARTIFACT, PERSISTENT_VOLUME_CLAIM, POD


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of one object.

    Attributes:
        status: ``None`` where there is no such object.
        ways: from the object to what is in its way; the one to read first first.
        held: who has what the first way ends at for want of.
    """

    ref: Ref
    status: str | None
    ways: tuple[tuple[Link, ...], ...] = ()
    held: tuple[Holder, ...] = ()

    @property
    def code(self) -> Exit:
        """How a command about this object alone ends."""
        return Exit.ABSENT if self.status is None else Exit.FOUND if self.ways else Exit.WELL

    @property
    def links(self) -> tuple[Link, ...]:
        """The objects of the first way, the cause first."""
        return tuple(reversed(self.ways[0])) if self.ways else ()


def why(cluster: Cluster, start: Ref) -> Explanation:
    """Follow what is in the way of an object."""
    obj = cluster.find(start)
    if obj is None:
        return Explanation(start, None)
    # Of causes equally deep the one first that a user can act on.
    ways = sorted(causes(cluster, start, obj), key=lambda way: (*rank(way), not is_known(way[-1])))
    status = state_of(start.kind, obj) or "without a status"
    held = _holders_of(cluster, ways[0][-1]) if ways else ()
    return Explanation(start, status, tuple(ways), held)


def answer(found: Iterable[Explanation], cluster: Cluster, now: datetime, *, many: bool = False) -> Answer:
    """Everything that was found; of many objects those that nothing is in the way of are only counted."""
    some = tuple(found)
    shown = [one for one in some if one.ways] if many else some
    lines, wide = ([line for one in shown for line in _apart(one, now, wide=form)][1:] for form in (False, True))
    if many:
        counted = f"{len(some) - len(shown)} of {len(some)} have nothing in their way"
        lines, wide = [*lines, counted], [*wide, counted]
    names = tuple(dict.fromkeys(way[-1].ref.argument for one in shown for way in one.ways))
    code = max((one.code for one in shown), default=Exit.WELL)
    data: Data = [data_of(one) for one in shown] if many else data_of(some[0])
    return Answer(data, tuple(lines), code, unread(cluster), tuple(wide), names)


def _apart(one: Explanation, now: datetime, *, wide: bool) -> Iterable[str]:
    yield ""
    yield from lines_of(one, now, wide=wide)


def lines_of(one: Explanation, now: datetime, *, wide: bool = False) -> Iterable[str]:
    """The cause first, with what to do; then what waits for it, up to the object that was asked about.

    Args:
        wide: what is in the way besides is followed up to that object as well, with what to do (FW-880).
    """
    if one.status is None:
        yield f"{one.ref} does not exist"
        return
    yield f"{one.ref} is {one.status}"
    if not one.ways:
        yield "no problem found"
    for depth, link in enumerate(one.links):
        lead = "because" if depth == 0 else "so"
        yield f"{lead:8}{link.ref}: {what_of(link)}{when_of(link, now)}"
        if depth == 0:
            yield f"{'do':8}{remedy_of(link)}"
            yield from (f"{'held':8}{line}" for line in describe(list(one.held)))
            # What to do stands apart from what follows from the cause.
            if one.links[1:] or one.ways[1:]:
                yield ""
    for way in one.ways[1:]:
        *above, cause = way
        yield f"{'also':8}{cause.ref}: {what_of(cause)}{when_of(cause, now) if wide else ''}"
        if wide:
            yield f"{'do':8}{remedy_of(cause)}"
            yield from (f"{'so':8}{link.ref}: {what_of(link)}{when_of(link, now)}" for link in reversed(above))


def data_of(one: Explanation) -> JsonObject:
    """For ``-o json``: the ways as lists, the cause first."""
    ways = [[_link_data(link) for link in reversed(way)] for way in one.ways]
    held = {"heldBy": [holder.data for holder in one.held]} if one.held else {}
    return {"object": one.ref.data, "exists": one.status is not None, "status": one.status or "", "ways": ways, **held}


def _link_data(link: Link) -> JsonObject:
    named = {"object": link.ref.data, "exists": link.blocker is not None, "remedy": remedy_of(link)}
    if link.blocker is None:
        return named
    blocker = link.blocker
    reported_of = {"condition": blocker.condition, "status": blocker.status, "reason": blocker.reason}
    return {**named, **reported_of, "message": blocker.message, "since": blocker.since, "decidedBy": blocker.who}


def _holders_of(cluster: Cluster, link: Link) -> tuple[Holder, ...]:
    if link.blocker is None or link.blocker.reason not in REASONS:
        return ()
    namespace = "" if REASONS[link.blocker.reason] else link.ref.namespace
    return tuple(
        holders(
            cluster.search(PERSISTENT_VOLUME_CLAIM, namespace, labels.CACHE_NAME),
            cluster.search(AIM_ARTIFACT, namespace),
            cluster.search(POD, namespace),
        )
    )


def what_of(link: Link) -> str:
    """What is wrong with it: condition, reason and message."""
    if link.blocker is None:
        return "does not exist"
    condition = f"{link.blocker.condition}={link.blocker.status} " if link.blocker.condition else ""
    return f"{condition}{link.blocker.reason}: {link.blocker.message}"


def when_of(link: Link, now: datetime) -> str:
    """Since when, and who says so, in parentheses; empty where neither is known."""
    if link.blocker is None:
        return ""
    parts = [f"for {age(link.blocker.since, now)}"] if link.blocker.since else []
    parts += [f"says {link.blocker.who}"] if link.blocker.who else []
    return f" ({', '.join(parts)})" if parts else ""
