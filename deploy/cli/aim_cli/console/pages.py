"""What stands on each page, as plain data for its template (FW-631). Pure but for what is asked through `Cluster`."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aim_cli.cluster.refs import KNOWN, Cluster, JsonObject, Ref, ref_of
from aim_cli.cluster.states import state_of
from aim_cli.console.graph import HEIGHT, WIDTH, drawing, mark_of
from aim_cli.installation.overview import gpus_of_node, gpus_of_pod
from aim_cli.objects.caches import quotas_of
from aim_cli.objects.tree import Node
from aim_cli.objects.tree import tree as grown
from aim_cli.units import age, format_size
from aim_cli.why.blockers import Link, blockers_of
from aim_cli.why.command import Explanation, what_of, when_of, why
from aim_cli.why.holders import Holder, describe, holders
from aim_cli.why.remedies import remedy_of, split_remedy
from aim_domain import kinds
from aim_domain.gpu.inventory import gpu_model_of
from aim_domain.kind_names import (
    AIM_ARTIFACT,
    AIM_CLUSTER_MODEL,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    AIM_MODEL,
    AIM_SERVICE_TEMPLATE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    KindName,
)


@dataclass(frozen=True, slots=True)
class Volume:
    """One claim; sizes in bytes.

    Attributes:
        artifact: that it was made for; it may be gone.
        used: what has arrived of the weights; ``None`` where the artifact does not tell.
        users: names of pods.
        kept: why it is not evicted; empty where nothing says so.
        last: when it was used last, as the artifact tells it.
    """

    claim: Ref
    artifact: Ref
    state: str
    requested: int
    used: int | None
    users: tuple[str, ...]
    kept: str
    last: str

    @property
    def mark(self) -> str:
        """The name of the sign for its state."""
        return mark_of(self.state)

    @property
    def share(self) -> float:
        """How full it is, in percent."""
        return min(100.0, 100 * (self.used or 0) / self.requested) if self.requested else 0.0

    @property
    def sizes(self) -> str:
        """In words: used of requested."""
        requested = format_size(self.requested)
        return requested if self.used is None else f"{format_size(self.used)} of {requested}"

    def unused_for(self, now: datetime) -> str:
        """How long ago it was used last."""
        return age(self.last, now)


ORDERS: Final[dict[str, Callable[[Volume], Any]]] = {
    "size": lambda one: -one.requested,
    "used": lambda one: -(one.used or 0),
    "users": lambda one: -len(one.users),
    # What was used long ago or never comes first: a user who needs room looks there.
    "last": lambda one: one.last,
    "name": lambda _: "",
}
"""What a list can be sorted by; the largest is what one looks for first."""


def volumes(held: Iterable[Holder], artifacts: Iterable[JsonObject], words: str, order: str) -> list[Volume]:
    """The claims of artifacts, in an order of `ORDERS` (any other counts as ``size``), then by name."""
    by_ref = {ref_of(AIM_ARTIFACT, one): one for one in artifacts}
    found = [_volume(one, by_ref.get(Ref(AIM_ARTIFACT, one.namespace, one.artifact))) for one in held]
    first = ORDERS.get(order, ORDERS["size"])
    shown = (one for one in found if words in str(one.claim) or words in str(one.artifact))
    return sorted(shown, key=lambda one: (first(one), one.claim.namespace, one.claim.name))


def _volume(held: Holder, artifact: JsonObject | None) -> Volume:
    status = (artifact or {}).get("status") or {}
    return Volume(
        Ref(PERSISTENT_VOLUME_CLAIM, held.namespace, held.claim),
        Ref(AIM_ARTIFACT, held.namespace, held.artifact),
        "missing" if artifact is None else state_of(AIM_ARTIFACT, artifact),
        held.size,
        _used_bytes(status),
        held.users,
        held.kept or "nothing; it may be evicted",
        status.get("lastUsed") or "",
    )


def _used_bytes(status: JsonObject) -> int | None:
    downloaded = (status.get("progress") or {}).get("downloadedBytes")
    found = (
        downloaded if downloaded is not None or status.get("status") != "Ready" else status.get("discoveredSizeBytes")
    )
    return None if found is None else int(found)


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
    return Row(ref_of(kind, obj), state, mark_of(state), tuple(map(str, cells)), because)


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


def catalogue(cluster: Cluster, words: str) -> JsonObject:
    """Models, and the templates of each with whether they fit the GPUs that there are."""
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
                models.append((_row(kind, obj, (image,)), own))
    return {"models": models[:PAGE], "found": len(models), "words": words}


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


def capacity(cluster: Cluster, now: datetime, words: str = "", order: str = "size") -> JsonObject:
    """GPUs by node, limits, and volumes, of which those are shown that are called so."""
    pods = cluster.search(POD)
    held_by = [one for pod in pods if (one := gpu_holder(POD, pod)).count]
    nodes = [_node(obj, held_by) for obj in cluster.search(NODE)]
    nodes = sorted((one for one in nodes if one["total"]), key=lambda one: str(one["name"]))
    artifacts = cluster.search(AIM_ARTIFACT)
    held = holders(cluster.search(PERSISTENT_VOLUME_CLAIM), artifacts, pods)
    shown = volumes(held, artifacts, words, order)
    return {
        "nodes": nodes,
        "pools": _pools(nodes),
        "teams": _teams(held_by),
        "gpus": {
            "used": sum(one.count for one in held_by if one.node),
            "waiting": sum(one.count for one in held_by if not one.node),
            "total": sum(one["total"] for one in nodes),
            "nodes": len(nodes),
        },
        "limits": [_limit(*one) for one in quotas_of(cluster, held, "")],
        "volumes": shown[:PAGE],
        "found": len(shown),
        "address": href,
        "now": now,
        "words": words,
        "order": order if order in ORDERS else "size",
    }


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A pod that has not ended.

    Attributes:
        node: where it is; empty while it waits for a place.
    """

    namespace: str
    node: str
    count: int


def gpu_holder(kind: KindName, pod: JsonObject) -> GpuHolder:
    """A pod, by the GPUs that it has or waits for."""
    node = (pod.get("spec") or {}).get("nodeName") or ""
    return GpuHolder(pod["metadata"].get("namespace") or "", node, gpus_of_pod(kind, pod))


def _node(obj: JsonObject, held_by: Iterable[GpuHolder]) -> JsonObject:
    name, model = obj["metadata"]["name"], gpu_model_of(kinds.NODE.decode(obj))
    total = gpus_of_node(NODE, obj)
    used = sum(one.count for one in held_by if one.node == name)
    return {"name": name, "model": model or "unknown", "used": used, "total": total}


def _pools(nodes: Iterable[JsonObject]) -> list[JsonObject]:
    """Nodes by the model of their GPUs."""
    found: dict[str, JsonObject] = {}
    for one in nodes:
        pool = found.setdefault(one["model"], {"model": one["model"], "nodes": 0, "used": 0, "total": 0})
        pool |= {"nodes": pool["nodes"] + 1, "used": pool["used"] + one["used"], "total": pool["total"] + one["total"]}
    return sorted(found.values(), key=lambda one: (-one["total"], one["model"]))


def _teams(held_by: Iterable[GpuHolder]) -> list[JsonObject]:
    """What each namespace has and waits for, the most first."""
    used, waiting = Counter[str](), Counter[str]()
    for one in held_by:
        (used if one.node else waiting)[one.namespace] += one.count
    rows = [{"namespace": name, "used": used[name], "waiting": waiting[name]} for name in used.keys() | waiting.keys()]
    return sorted(rows, key=lambda one: (-one["used"], -one["waiting"], one["namespace"]))


def _limit(namespace: str, used: int, limit: int | None) -> JsonObject:
    share = 0 if limit is None else 100 * used / max(1, limit)
    reported = "" if limit is None else format_size(limit)
    return {"namespace": namespace, "used": format_size(used), "limit": reported, "share": min(100, share)}


def _state(kind: KindName, obj: JsonObject) -> str:
    return state_of(kind, obj)


def _full_name(ref: Ref) -> str:
    return f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name
