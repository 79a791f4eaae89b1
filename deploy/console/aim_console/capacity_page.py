"""GPUs by node and team, limits of storage, and volumes of weights (FW-875, FW-883)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aim_cli.cluster.refs import Cluster, JsonObject, Ref, ref_of
from aim_cli.cluster.states import state_of
from aim_cli.installation.overview import gpus_of_node, gpus_of_pod
from aim_cli.objects.caches import quotas_of
from aim_cli.units import age, format_size
from aim_cli.why.holders import Holder, holders
from aim_console.graph import mark_of
from aim_console.pages import PAGE, href
from aim_domain import kinds
from aim_domain.gpu.inventory import gpu_model_of
from aim_domain.kind_names import AIM_ARTIFACT, NODE, PERSISTENT_VOLUME_CLAIM, POD, KindName
from controller_runtime import ApiError, KubeClient, KubeError


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


@dataclass(frozen=True, slots=True)
class Others:
    """GPUs of pods that are not the platform's.

    Attributes:
        refused: why they are not known.
    """

    held_by: tuple[GpuHolder, ...] = ()
    refused: str = ""


_PODS: Final = 500
"""Pods of one request."""
_SECONDS: Final = 15.0
"""For all requests: the page holds one of the few places of FW-682."""
_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"


async def others_of(client: AbstractAsyncContextManager[KubeClient], cluster: Cluster) -> Others:
    """Read the pods that have not ended from the API server as the viewer; those of the event log are left out."""
    own = {pod["metadata"].get("uid") for pod in cluster.search(POD)}
    found: list[GpuHolder] = []
    try:
        async with client as kube, asyncio.timeout(_SECONDS):
            token = ""
            while True:
                page = await kube.list_in_form(
                    POD, _holder_with_uid, field_selector=_NOT_ENDED, limit=_PODS, continue_token=token
                )
                found += [one for uid, one in page.items if one.count and uid not in own]
                if not (token := page.continue_token):
                    return Others(tuple(found))
    except TimeoutError:
        return Others(refused=f"the API server does not list all pods within {_SECONDS:g} s; try again")
    except (KubeError, ValueError) as error:
        return Others(refused=error.message if isinstance(error, ApiError) else str(error))


def _holder_with_uid(pod: JsonObject) -> tuple[str | None, GpuHolder]:
    return pod["metadata"].get("uid"), gpu_holder(POD, pod)


def capacity(
    cluster: Cluster, now: datetime, words: str = "", order: str = "size", others: Others | None = None
) -> JsonObject:
    """GPUs by node, limits, and volumes, of which those are shown that are called so."""
    pods = cluster.search(POD)
    held_by = [one for pod in pods if (one := gpu_holder(POD, pod)).count]
    foreign = others.held_by if others is not None else ()
    used, taken = _by_node(held_by), _by_node(foreign)
    nodes = [_node(obj, used, taken) for obj in cluster.search(NODE)]
    nodes = sorted((one for one in nodes if one["total"]), key=lambda one: str(one["name"]))
    artifacts = cluster.search(AIM_ARTIFACT)
    held = holders(cluster.search(PERSISTENT_VOLUME_CLAIM), artifacts, pods)
    shown = volumes(held, artifacts, words, order)
    return {
        "nodes": nodes,
        "pools": _pools(nodes),
        "teams": _teams(held_by, foreign),
        "others": None if others is None or others.refused else sum(one.count for one in foreign if one.node),
        "refused_pods": others.refused if others is not None else "",
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


def _by_node(some: Iterable[GpuHolder]) -> Counter[str]:
    found = Counter[str]()
    for one in some:
        found[one.node] += one.count
    return found


def _node(obj: JsonObject, used: Counter[str], others: Counter[str]) -> JsonObject:
    name, model = obj["metadata"]["name"], gpu_model_of(kinds.NODE.decode(obj))
    held = {"used": used[name], "others": others[name], "total": gpus_of_node(NODE, obj)}
    return {"name": name, "model": model or "unknown", **held}


_SUMS: Final = ("nodes", "used", "others", "total")


def _pools(nodes: Iterable[JsonObject]) -> list[JsonObject]:
    """Nodes by the model of their GPUs."""
    found: dict[str, Counter[str]] = {}
    for one in nodes:
        found.setdefault(one["model"], Counter()).update(
            nodes=1, used=one["used"], others=one["others"], total=one["total"]
        )
    rows = [{"model": model, **{name: sums[name] for name in _SUMS}} for model, sums in found.items()]
    return sorted(rows, key=lambda one: (-one["total"], one["model"]))


def _teams(held_by: Iterable[GpuHolder], foreign: Iterable[GpuHolder]) -> list[JsonObject]:
    """What each namespace has and waits for, the most first."""
    used, others, waiting = Counter[str](), Counter[str](), Counter[str]()
    for one in held_by:
        (used if one.node else waiting)[one.namespace] += one.count
    for one in foreign:
        (others if one.node else waiting)[one.namespace] += one.count
    rows = [
        {"namespace": name, "used": used[name], "others": others[name], "waiting": waiting[name]}
        for name in used.keys() | others.keys() | waiting.keys()
    ]
    return sorted(rows, key=lambda one: (-one["used"] - one["others"], -one["waiting"], one["namespace"]))


def _limit(namespace: str, used: int, limit: int | None) -> JsonObject:
    share = 0 if limit is None else 100 * used / max(1, limit)
    reported = "" if limit is None else format_size(limit)
    return {"namespace": namespace, "used": format_size(used), "limit": reported, "share": min(100, share)}
