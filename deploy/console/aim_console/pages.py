"""What stands on each page, as plain data for its template (FW-631). Pure but for what is asked through `Cluster`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_cli.cluster.refs import KNOWN, Cluster, JsonObject, Ref, ref_of
from aim_cli.cluster.states import state_of
from aim_cli.objects.tree import Node
from aim_cli.objects.tree import tree as grown
from aim_cli.units import age, moment
from aim_cli.why.blockers import Link, blockers_of
from aim_cli.why.command import Explanation, what_of, when_of, why
from aim_cli.why.holders import describe
from aim_cli.why.remedies import remedy_of, split_remedy
from aim_console.graph import HEIGHT, WIDTH, drawing, mark_of
from aim_domain.kind_names import (
    AIM_CLUSTER_MODEL,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    AIM_MODEL,
    AIM_SERVICE_TEMPLATE,
    KindName,
)

RANGES: Final = ("15m", "1h", "6h", "1d")
"""How far back what pages show can be narrowed to."""
PAGE: Final = 100
"""Rows of a table; a filter finds the others."""
_TRUTHS: Final = {"False": 0, "Unknown": 1, "True": 2}
"""Conditions in the order in which they are read: what is in the way first."""


@dataclass(frozen=True, slots=True)
class Row:
    """One object in a table."""

    ref: Ref
    state: str
    mark: str
    cells: tuple[str, ...]
    why: str = ""
    so_since: str = ""

    def is_so_since(self, begun: datetime) -> bool:
        """Whether it came, or went wrong, after a moment."""
        return bool(self.so_since) and datetime.fromisoformat(self.so_since) >= begun

    @property
    def href(self) -> str:
        """Where its page is."""
        return href(self.ref)


def href(ref: Ref) -> str:
    """The address of an object's page."""
    return f"/objects/{ref.kind.plural}/{ref.namespace or '-'}/{ref.name}"


def ref_at(plural: str, namespace: str, name: str) -> Ref | None:
    """The object that an address means."""
    kind = next((one for one in KNOWN if one.plural == plural), None)
    return None if kind is None else Ref(kind, "" if namespace == "-" else namespace, name)


def _row(kind: KindName, obj: JsonObject, cells: tuple[object, ...]) -> Row:
    state = _state(kind, obj)
    blockers = blockers_of(kind, obj) if mark_of(state) != "well" else ()
    because = f"{blockers[0].reason}: {blockers[0].message}" if blockers else ""
    times = [one.since for one in blockers if one.since] or [obj["metadata"].get("creationTimestamp") or ""]
    return Row(ref_of(kind, obj), state, mark_of(state), tuple(map(str, cells)), because, min(times))


def one_object(cluster: Cluster, ref: Ref, now: datetime, address: Callable[[Ref], str] = href) -> JsonObject | None:
    """Why it is as it is, what belongs to it, and its conditions; ``None`` if there is no such object.

    Args:
        address: of the page of an object.
    """
    obj = cluster.find(ref)
    if obj is None:
        return None
    reported, node = why(cluster, ref), grown(cluster, ref)
    state = _state(ref.kind, obj)
    conditions = sorted(
        (obj.get("status") or {}).get("conditions") or (),
        key=lambda one: (one["type"] != "Ready", _TRUTHS.get(one["status"], len(_TRUTHS)), one["type"]),
    )
    return {
        "ref": ref,
        "state_word": state,
        "mark": mark_of(state),
        **explained(reported, now, address),
        "tree": None if node is None else _branch(node, address),
        "graph": None if node is None else drawing(node, reported.ways, address),
        "box": {"width": WIDTH, "height": HEIGHT},
        "conditions": [{**one, "age": age(one.get("lastTransitionTime", ""), now)} for one in conditions],
        "spec_text": json.dumps(obj.get("spec") or {}, indent=2),
        "past": None,
        "absent": "",
    }


def explained(found: Explanation, now: datetime, address: Callable[[Ref], str] = href) -> JsonObject:
    """Cause and remedy, what waits for it up to the object itself, and what else is in the way (FW-871)."""
    links = [_step(link, now, address) for link in found.links]
    return {
        "cause": links[0] if links else None,
        "held": describe(list(found.held)),
        "steps": links[1:],
        "also": [_step(way[-1], now, address) for way in found.ways[1:]],
    }


def _step(link: Link, now: datetime, address: Callable[[Ref], str]) -> JsonObject:
    advice, command = split_remedy(remedy_of(link))
    return {
        "ref": link.ref,
        "href": address(link.ref),
        "what": what_of(link),
        "when": when_of(link, now),
        "advice": advice,
        "command": command,
    }


def _branch(node: Node, address: Callable[[Ref], str]) -> JsonObject:
    return {
        "ref": node.ref,
        "href": address(node.ref),
        "relation": node.relation,
        "state": node.state,
        "mark": mark_of(node.state),
        "reason": node.reason,
        "again": node.again,
        "below": [_branch(one, address) for one in node.below],
    }


def since(last: str, now: datetime) -> datetime | None:
    """When a range of time, one of `RANGES`, begins; ``None`` for all that there is."""
    return moment(last, now) if last else None


def catalogue(cluster: Cluster, words: str, now: datetime, last: str = "") -> JsonObject:
    """Models, and the templates of each with whether they fit the GPUs that there are.

    Args:
        last: leaves out models that neither came nor went wrong in this range, nor did a template of them.
    """
    begun = since(last, now)
    templates: dict[tuple[str, str], list[Row]] = {}
    for kind in (AIM_SERVICE_TEMPLATE, AIM_CLUSTER_SERVICE_TEMPLATE):
        for obj in cluster.search(kind):
            model = (obj.get("spec") or {}).get("modelName") or ""
            where = obj["metadata"].get("namespace") or ""
            templates.setdefault((where, model), []).append(_template_row(kind, obj))
    models = []
    for kind in (AIM_CLUSTER_MODEL, AIM_MODEL):
        for obj in cluster.search(kind):
            image = (obj.get("spec") or {}).get("image") or ""
            if words in _full_name(ref_of(kind, obj)) or words in image:
                where = (obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
                own = sorted(templates.get(where, ()), key=lambda row: row.ref.name)
                row = _row(kind, obj, (image,))
                if begun is None or any(one.is_so_since(begun) for one in (row, *own)):
                    models.append((row, own))
    return {"models": models[:PAGE], "found": len(models), "words": words, "last": last, "ranges_of": RANGES}


def _template_row(kind: KindName, obj: JsonObject) -> Row:
    spec = obj.get("spec") or {}
    profile = ((obj.get("status") or {}).get("profile") or {}).get("metadata") or {}
    gpu = (spec.get("hardware") or {}).get("gpu") or {}
    cells = (
        f"{gpu.get('requests') or profile.get('gpuCount') or ''} × {gpu.get('model') or profile.get('gpu') or 'any'}",
        spec.get("metric") or profile.get("metric") or "",
        spec.get("precision") or profile.get("precision") or "",
        spec.get("type") or profile.get("type") or "",
    )
    return _row(kind, obj, cells)


def _state(kind: KindName, obj: JsonObject) -> str:
    return state_of(kind, obj)


def _full_name(ref: Ref) -> str:
    return f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name
