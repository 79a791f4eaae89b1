"""The first page: whether anything is wrong, since when, for how many causes, and all services (FW-869, FW-870)."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from aim_cli.answer import count_of
from aim_cli.cluster.refs import Cluster, JsonObject, Ref, ref_of
from aim_cli.cluster.states import Weight
from aim_cli.installation.attention import Concern, Group, grouped, in_order, likeness, needs_attention
from aim_cli.installation.overview import counts_of, glances, gpus_of_node
from aim_cli.units import age, moment
from aim_cli.why.blockers import Link
from aim_cli.why.command import Explanation, why
from aim_console.capacity_page import gpu_holder
from aim_console.graph import mark_of
from aim_console.pages import RANGES, explained, href
from aim_domain.kind_names import AIM_SERVICE, NODE, POD, KindName

ROWS: Final = 50
"""Services of one page."""
_CAUSES: Final = 20
"""Causes of one page, each of which is followed to its end."""
_NAMED: Final = 5
"""Objects that a cause names."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What an address asks to see; empty members ask for everything.

    Attributes:
        words: that stand in ``namespace/name``.
        last: what has been in the way for no longer than this, one of `RANGES`.
        page: of the services, from 1.
    """

    words: str = ""
    namespace: str = ""
    state: str = ""
    model: str = ""
    last: str = ""
    page: int = 1

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> "Filter":
        """That of an address; what is no page is the first."""
        page = query.get("page", "")
        # Python refuses to read numbers of thousands of digits.
        number = int(page) if page.isascii() and page.isdecimal() and len(page) <= len("99999") else 1
        names = {name: query.get(name, "") for name in ("namespace", "state", "model")}
        last = query.get("last", "")
        return cls(query.get("q", ""), **names, last=last if last in RANGES else "", page=max(1, number))

    def address(self, page: int = 1) -> str:
        """Where the same is shown, at another page of it."""
        asked = {"q": self.words, "namespace": self.namespace, "state": self.state, "model": self.model}
        asked |= {"last": self.last, "page": str(page) if page > 1 else ""}
        return f"/?{urlencode({name: value for name, value in asked.items() if value})}"

    @property
    def narrows(self) -> bool:
        """Whether it leaves anything out."""
        return bool(self.words or self.namespace or self.state or self.model or self.last)

    def admits(self, concern: Concern, now: datetime, model: str = "") -> bool:
        """Whether an object is asked for."""
        ref = concern.ref
        since = datetime.fromisoformat(concern.since) if concern.since else None
        return (
            self.words in (f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name)
            and self.namespace in ("", ref.namespace)
            and self.state in ("", concern.state)
            and self.model in ("", model)
            and (not self.last or (since is not None and since >= moment(self.last, now)))
        )


@dataclass(frozen=True, slots=True)
class Line:
    """What the list of services tells of one, beside its state."""

    ref: Ref
    model: str
    template: str
    replicas: str
    path: str
    created: str


def line_of(kind: KindName, obj: JsonObject) -> Line:
    """That of a service."""
    status = obj.get("status") or {}
    return Line(
        ref_of(kind, obj),
        (status.get("resolvedModel") or {}).get("name") or "",
        (status.get("resolvedTemplate") or {}).get("name") or "",
        str((status.get("runtime") or {}).get("replicas") or ""),
        (status.get("routing") or {}).get("path") or "",
        obj["metadata"].get("creationTimestamp") or "",
    )


def home(cluster: Cluster, asked: Filter, now: datetime) -> JsonObject:
    """What is wrong, by cause; what there is; the services."""
    known = glances(cluster)
    lines = {one.ref: one for one in cluster.each(AIM_SERVICE, "", line_of)}
    services = known[AIM_SERVICE]
    shown = [one for one in services if asked.admits(one, now, _model(lines, one.ref))]
    shown.sort(key=lambda one: (-one.weight, one.ref.namespace, one.ref.name))
    others = [one for kind, some in known.items() if kind != AIM_SERVICE for one in some if asked.admits(one, now)]
    pages = max(1, math.ceil(len(shown) / ROWS))
    page = min(asked.page, pages)
    causes, more = causes_of(cluster, [one for one in (*shown, *others) if needs_attention(one, now)])
    return {
        "verdict": _verdict(shown, causes, more, now),
        "causes": [_cause_data(one, now) for one in causes],
        "more": more,
        "counts": {kind.kind: dict(states) for kind, states in counts_of(known).items()},
        "gpus": _gpus(cluster),
        "asked": asked,
        "choices": {
            "namespace": _choices((one.ref.namespace for one in services), asked.namespace),
            "state": _choices((one.state for one in services), asked.state),
            "model": _choices((_model(lines, one.ref) for one in services), asked.model),
            "last": [
                (one, sum(1 for concern in services if Filter(last=one).admits(concern, now)))
                for one in (RANGES if any(concern.since for concern in services) else ())
            ],
        },
        "services": [_row(one, lines.get(one.ref), now) for one in shown[(page - 1) * ROWS : page * ROWS]],
        "total": len(services),
        "found": len(shown),
        "first": (page - 1) * ROWS + 1,
        "earlier": asked.address(page - 1) if page > 1 else "",
        "later": asked.address(page + 1) if page < pages else "",
    }


def _gpus(cluster: Cluster) -> JsonObject:
    """GPUs of pods that have a node, of those that wait for one, and those that there are."""
    pods = cluster.each(POD, "", gpu_holder)
    total = cluster.each(NODE, "", gpus_of_node)
    return {
        "used": sum(one.count for one in pods if one.node),
        "waiting": sum(one.count for one in pods if not one.node),
        "total": sum(total),
        "nodes": sum(1 for one in total if one),
    }


def _model(lines: Mapping[Ref, Line], ref: Ref) -> str:
    return lines[ref].model if ref in lines else ""


def _choices(values: Iterable[str], chosen: str) -> list[tuple[str, int]]:
    """Values with how often there are, by name; with the chosen one, that its field shows it."""
    counted = Counter(one for one in values if one)
    return sorted({chosen: 0, **counted}.items() if chosen else counted.items())


def _row(one: Concern, line: Line | None, now: datetime) -> JsonObject:
    cells = (
        ()
        if line is None
        else (
            ("model", line.model),
            ("template", line.template),
            ("replicas", line.replicas),
            ("path", line.path),
            ("age", age(line.created, now)),
        )
    )
    return {"ref": one.ref, "href": href(one.ref), "state": one.state, "mark": mark_of(one.state), "cells": cells}


@dataclass(frozen=True, slots=True)
class Cause:
    """What is in the way of some objects at last.

    Attributes:
        found: the way of the object that stands for all.
        alike: the ways of the others end at objects of their own, for the same reason.
    """

    group: Group
    found: Explanation
    alike: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """The same for groups that end at the same."""
        return _end_of(self.found)


def _end_of(found: Explanation) -> tuple[object, ...]:
    if not found.ways:
        return (found.ref,)
    last = found.ways[0][-1]
    return (last.ref, last.blocker and last.blocker.reason)


def causes_of(cluster: Cluster, concerns: Iterable[Concern]) -> tuple[list[Cause], int]:
    """Causes by what they hurt, the worst first, and of how many objects more nothing is said.

    What lies on the way from an AIMService to its cause belongs to that cause, and is no cause of its own (FW-869).
    """
    some = in_order(concerns)
    found: dict[tuple[object, ...], Cause] = {}
    consequences: set[tuple[KindName, str]] = set()
    more = 0
    groups = grouped(some)
    # A service leads to what was made for it, never the other way round.
    for group in sorted(groups, key=lambda one: one.first.ref.kind != AIM_SERVICE):
        if group.first.ref.kind != AIM_SERVICE and (group.first.ref.kind, group.first.likeness) in consequences:
            continue
        if len(found) >= _CAUSES:
            more += len(group.concerns)
            continue
        way = why(cluster, group.first.ref)
        # One more tells whether what is in the way is shared, or each has its own.
        alike = len(group.concerns) > 1 and _end_of(why(cluster, group.concerns[-1].ref)) != _end_of(way)
        cause = Cause(group, way, alike)
        consequences |= {_likeness_of(link) for link in way.links}
        before = found.get(cause.key)
        if before is not None:
            both = Group((*before.group.concerns, *group.concerns))
            cause = Cause(both, before.found, before.alike or alike)
        found[cause.key] = cause
    ranked = sorted(found.values(), key=lambda one: (-one.group.first.weight, -len(one.group.concerns)))
    return ranked, more


def _likeness_of(link: Link) -> tuple[KindName, str]:
    said = "" if link.blocker is None else f"{link.blocker.reason}: {link.blocker.message}"
    return link.ref.kind, likeness(link.ref, said)


def _cause_data(cause: Cause, now: datetime) -> JsonObject:
    group = cause.group
    named = [{"ref": one.ref, "href": href(one.ref), "mark": mark_of(one.state)} for one in group.concerns[:_NAMED]]
    return {
        "mark": mark_of(group.first.state),
        "state": group.first.state,
        "summary": _summary(group),
        "since": group.since,
        "age": age(group.since, now),
        "named": named,
        "alike": cause.alike,
        "unnamed": len(group.concerns) - len(named),
        # What a row said at first is all that is known of what no longer stands in its way.
        **(explained(cause.found, now) if cause.found.ways else {"cause": None, "said": group.first.why}),
    }


def _summary(group: Group) -> str:
    kind = group.first.ref.kind.kind
    count = count_of(len(group.concerns), kind)
    where = group.namespaces
    within = f" in {where[0]}" if len(where) == 1 else f" in {len(where)} namespaces" if where else ""
    return f"{count}{within}"


def _verdict(services: Sequence[Concern], causes: Sequence[Cause], more: int, now: datetime) -> JsonObject:
    """One sentence: how many services are well, and for how many reasons the others are not."""
    ill = [one for one in services if one.weight is not Weight.WELL and needs_attention(one, now)]
    starting = sum(1 for one in services if one.weight is Weight.UNDER_WAY) - sum(
        1 for one in ill if one.weight is Weight.UNDER_WAY
    )
    worst = max((one.group.first.weight for one in causes), default=Weight.WELL)
    marks = {Weight.WELL: "well", Weight.UNDER_WAY: "way", Weight.HURT: "hurt", Weight.BROKEN: "broken"}
    since = min((one.since for one in ill if one.since), default="")
    total = count_of(len(services), "service")
    words = f"{len(ill)} of {total} {'needs' if len(ill) == 1 else 'need'} attention"
    if not ill:
        words = f"{total}, none needs attention" if services else "No service"
    parts = [words]
    if starting:
        parts.append(f"{starting} starting")
    if causes:
        parts.append(f"{count_of(len(causes), 'cause')}{' and more' if more else ''}")
    if since:
        parts.append(f"the oldest for {age(since, now)}")
    mark = marks[worst] if services or causes else "rest"
    return {"mark": mark, "words": "; ".join(parts)}
