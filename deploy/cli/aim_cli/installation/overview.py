"""``aim status``: the installation at a glance, what needs attention first (FW-608). Pure but for what is asked through
`Cluster`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from aim_cli.answer import Answer, columns
from aim_cli.cluster.refs import Cluster, JsonObject, remarks, require
from aim_cli.cluster.states import Weight
from aim_cli.errors import Exit
from aim_cli.installation.attention import Concern, Group, glance, grouped, in_order, needs_attention
from aim_cli.units import age, bytes_of
from aim_domain.kind_names import LEASE, NODE, OWN, POD, KindName
from aim_domain.services import SERVICES
from controller_runtime import MOST_SHARDS, WHOLE, Shard, noted_count, shards

GPU: Final = "amd.com/gpu"
_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a service; ``holder`` is empty without a leader."""

    service: str
    holder: str
    renewed: str
    late: bool
    shard: Shard = WHOLE

    @property
    def what(self) -> str:
        """What it leads, in words."""
        return self.service if self.shard.count == 1 else f"shard {self.shard.index} of {self.service}"


def overview(cluster: Cluster, namespace: str, now: datetime) -> Answer:
    """Everything at a glance; one namespace's objects, or all."""
    known = glances(cluster, namespace)
    concerns = in_order(one for objects in known.values() for one in objects if needs_attention(one, now))
    counts = counts_of(known)
    leaders = leaders_of(cluster.search(LEASE), now)
    gpus = _summed(cluster.each(NODE, "", gpus_of_node), cluster.each(POD, "", gpus_of_pod))
    late = [one for one in leaders if one.late]
    unread = [kind.plural for kind in OWN if kind.plural in cluster.unasked]
    rest = [
        *columns(("KIND", "OBJECTS", "STATES"), [_row(kind, states) for kind, states in counts.items() if states]),
        *_gpu_lines(gpus, pods_read=POD.plural not in cluster.unasked),
        *(f"leads {one.what}: {one.holder} (renewed {age(one.renewed, now)} ago)" for one in leaders if one.holder),
    ]
    data: JsonObject = {
        "attention": [one.data for one in concerns],
        "counts": {kind.kind: dict(states) for kind, states in counts.items() if kind.plural not in unread},
        "gpus": {"requested": gpus[0], "allocatable": gpus[1], "nodes": gpus[2]},
        "leaders": [
            {
                "service": one.service,
                **({} if one.shard.count == 1 else {"shard": one.shard.index}),
                "holder": one.holder,
                "renewed": one.renewed,
                "late": one.late,
            }
            for one in leaders
        ],
    }
    if LEASE.plural in cluster.unasked:
        del data["leaders"]
    serious = late or any(one.weight >= Weight.HURT for one in concerns)
    lines, wide = (
        (*_summary_lines(groups, late, now, most, whole=not unread), *rest)
        for groups, most in ((grouped(concerns), _MOST), ([Group((one,)) for one in concerns], len(concerns)))
    )
    names = tuple(one.ref.argument for one in concerns)
    return Answer(data, lines, Exit.FOUND if serious else Exit.WELL, remarks(cluster), wide, names)


def glances(cluster: Cluster, namespace: str = "") -> dict[KindName, list[Concern]]:
    """How each object of the platform's kinds looks; of one namespace, or of all."""
    return {kind: cluster.each(kind, namespace if kind.namespaced else "", glance) for kind in OWN}


def counts_of(known: Mapping[KindName, Iterable[Concern]]) -> dict[KindName, Counter[str]]:
    """How many objects of each kind are in each state."""
    return {kind: Counter(one.state or "-" for one in objects) for kind, objects in known.items()}


def glimpse(cluster: Cluster, namespace: str, now: datetime) -> Answer:
    """The same for a command, which ends where nothing of it may be read (FW-732).

    Raises:
        UnreachableError: none of the platform's kinds may be listed.
    """
    found = overview(cluster, namespace, now)
    require(cluster, *(kind.plural for kind in OWN), everywhere=not namespace)
    if cluster.unasked.keys() & {NODE.plural, POD.plural} and isinstance(found.data, dict):
        return replace(found, data={key: reported for key, reported in found.data.items() if key != "gpus"})
    return found


def _summary_lines(groups: list[Group], late: list[Leader], now: datetime, most: int, *, whole: bool) -> list[str]:
    lines = [f"no leader of {one.what}: {one.holder or 'no holder'}" for one in late]
    for one in groups[:most]:
        since = f" for {age(one.since, now)}" if one.since else ""
        lines.append(f"{one}{since}: {one.first.why}")
    if (more := sum(len(one.concerns) for one in groups[most:])) > 0:
        lines.append(f"and {more} more; -o wide has all")
    return lines or ["nothing needs attention" if whole else "nothing needs attention of what you may read"]


def _gpu_lines(gpus: tuple[int, int, int], *, pods_read: bool) -> list[str]:
    used, total, nodes = gpus
    asked = f"{used} of {total} requested" if pods_read else f"{total}"
    return [f"GPUs: {asked} on {nodes} nodes"] if total else []


def _row(kind: KindName, states: Counter[str]) -> tuple[str, str, str]:
    reported = ", ".join(f"{count} {state}" for state, count in states.most_common())
    return kind.kind, str(states.total()), reported


def leaders_of(leases: list[JsonObject], now: datetime) -> list[Leader]:
    """Who leads each of the services, as far as Leases tell; none where there is no Lease of any (one process each).

    Of a service that is divided, who leads each of its shards (FW-890): their number stands on the first one's Lease.
    """
    known = {lease["metadata"]["name"]: lease for lease in leases}
    found = []
    for service in SERVICES:
        if (first := known.get(f"aim-{service}")) is None:
            continue
        each = shards(min(noted_count(first["metadata"].get("annotations") or {}), MOST_SHARDS))
        found += [_leader(service, one, known.get(one.lease(f"aim-{service}"), {}), now) for one in each]
    return found


def _leader(service: str, shard: Shard, lease: JsonObject, now: datetime) -> Leader:
    spec = lease.get("spec") or {}
    renewed = spec.get("renewTime") or ""
    lasts = timedelta(seconds=int(spec.get("leaseDurationSeconds") or 15))
    late = not spec.get("holderIdentity") or not renewed or now - datetime.fromisoformat(renewed) > lasts
    return Leader(service, spec.get("holderIdentity") or "", renewed, late, shard)


def gpus_of(nodes: list[JsonObject], pods: list[JsonObject]) -> tuple[int, int, int]:
    """GPUs that pods ask for, those that there are, and the nodes that have any."""
    return _summed([gpus_of_node(NODE, one) for one in nodes], [gpus_of_pod(POD, one) for one in pods])


def _summed(allocatable: list[int], requested: list[int]) -> tuple[int, int, int]:
    return sum(requested), sum(allocatable), sum(1 for one in allocatable if one)


def gpus_of_node(_: KindName, node: JsonObject) -> int:
    """Those that pods may have."""
    return bytes_of(((node.get("status") or {}).get("allocatable") or {}).get(GPU))


def gpus_of_pod(_: KindName, pod: JsonObject) -> int:
    """What a pod that has not ended asks for."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    containers = (pod.get("spec") or {}).get("containers") or ()
    return sum(bytes_of(((one.get("resources") or {}).get("requests") or {}).get(GPU)) for one in containers)
