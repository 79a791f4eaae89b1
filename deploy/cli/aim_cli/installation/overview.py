"""``aim status``: the installation at a glance, what needs attention first (FW-608). Pure but for what is asked through
`Cluster`.
"""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from aim_cli.answer import Answer, columns
from aim_cli.cluster.refs import Cluster, JsonObject, Ref, ref_of, remarks, require
from aim_cli.cluster.states import Weight, state_of, weight_of
from aim_cli.errors import Exit
from aim_cli.units import age, bytes_of
from aim_cli.why.blockers import blockers_of
from aim_domain.kind_names import LEASE, NODE, OWN, POD, KindName
from aim_domain.services import SERVICES

GPU: Final = "amd.com/gpu"
_PATIENCE: Final = timedelta(seconds=60)
"""After which something that is under way is worth a look: most of it takes seconds, downloads tell their progress."""
_MOST: Final = 20
_LONGEST: Final = 160


@dataclass(frozen=True, slots=True)
class Concern:
    """An object, with what decides whether it needs attention.

    Attributes:
        why: empty of what is well.
        since: of the oldest of what is in its way, else of the object.
    """

    ref: Ref
    state: str
    weight: Weight
    why: str
    since: str

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        reported = {"state": self.state, "weight": self.weight.name, "why": self.why, "since": self.since}
        return {"object": self.ref.data, **reported}


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a service; ``holder`` is empty without a leader."""

    service: str
    holder: str
    renewed: str
    late: bool


def overview(cluster: Cluster, namespace: str, now: datetime) -> Answer:
    """Everything at a glance; one namespace's objects, or all."""
    known = {kind: cluster.each(kind, namespace if kind.namespaced else "", glance) for kind in OWN}
    concerns = [one for objects in known.values() for one in objects if needs_somebody(one, now)]
    # Of objects that are equally bad off first what a user asked for, then what was made of it.
    concerns.sort(key=lambda one: (-one.weight, OWN.index(one.ref.kind), one.since, str(one.ref)))
    counts = {kind: Counter(one.state or "-" for one in objects) for kind, objects in known.items()}
    leaders = leaders_of(cluster.search(LEASE), now)
    gpus = _summed(cluster.each(NODE, "", _allocatable), cluster.each(POD, "", _requested))
    late = [one for one in leaders if one.late]
    unread = [kind.plural for kind in OWN if kind.plural in cluster.unasked]
    lines = [
        *_summary_lines(concerns, late, now, whole=not unread),
        *columns(("KIND", "OBJECTS", "STATES"), [_row(kind, states) for kind, states in counts.items() if states]),
        *_gpu_lines(gpus, pods_read=POD.plural not in cluster.unasked),
        *(f"leads {one.service}: {one.holder} (renewed {age(one.renewed, now)} ago)" for one in leaders if one.holder),
    ]
    data: JsonObject = {
        "attention": [one.data for one in concerns],
        "counts": {kind.kind: dict(states) for kind, states in counts.items() if kind.plural not in unread},
        "gpus": {"requested": gpus[0], "allocatable": gpus[1], "nodes": gpus[2]},
        "leaders": [
            {"service": one.service, "holder": one.holder, "renewed": one.renewed, "late": one.late} for one in leaders
        ],
    }
    if LEASE.plural in cluster.unasked:
        del data["leaders"]
    serious = late or any(one.weight >= Weight.HURT for one in concerns)
    return Answer(data, tuple(lines), Exit.FOUND if serious else Exit.WELL, remarks(cluster))


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


def _summary_lines(concerns: list[Concern], late: list[Leader], now: datetime, *, whole: bool) -> list[str]:
    lines = [f"no leader of {one.service}: {one.holder or 'no holder'}" for one in late]
    for one in concerns[:_MOST]:
        since = f" for {age(one.since, now)}" if one.since else ""
        lines.append(f"{one.ref} is {one.state}{since}: {one.why}")
    if len(concerns) > _MOST:
        lines.append(f"and {len(concerns) - _MOST} more; -o json has all")
    return lines or ["nothing needs attention" if whole else "nothing needs attention of what you may read"]


def _gpu_lines(gpus: tuple[int, int, int], *, pods_read: bool) -> list[str]:
    used, total, nodes = gpus
    asked = f"{used} of {total} requested" if pods_read else f"{total}"
    return [f"GPUs: {asked} on {nodes} nodes"] if total else []


def _row(kind: KindName, states: Counter[str]) -> tuple[str, str, str]:
    reported = ", ".join(f"{count} {state}" for state, count in states.most_common())
    return kind.kind, str(states.total()), reported


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
    return Concern(ref, state, weight, why if len(why) <= _LONGEST else f"{why[: _LONGEST - 1]}…", since)


def needs_somebody(one: Concern, now: datetime) -> bool:
    """Whether an object needs attention: what is broken or hurt at once, what is under way after a minute."""
    if one.weight is Weight.UNDER_WAY and one.since:
        return now - datetime.fromisoformat(one.since) >= _PATIENCE
    return one.weight is not Weight.WELL


def leaders_of(leases: list[JsonObject], now: datetime) -> list[Leader]:
    """Who leads each of the services, as far as Leases tell; none where there is no Lease of any (one process each)."""
    found = []
    for service in SERVICES:
        for lease in leases:
            if lease["metadata"]["name"] == f"aim-{service}":
                spec = lease.get("spec") or {}
                renewed = spec.get("renewTime") or ""
                lasts = timedelta(seconds=int(spec.get("leaseDurationSeconds") or 15))
                late = not spec.get("holderIdentity") or not renewed or now - datetime.fromisoformat(renewed) > lasts
                found.append(Leader(service, spec.get("holderIdentity") or "", renewed, late))
    return found


def gpus_of(nodes: list[JsonObject], pods: list[JsonObject]) -> tuple[int, int, int]:
    """GPUs that pods ask for, those that there are, and the nodes that have any."""
    return _summed([_allocatable(NODE, one) for one in nodes], [_requested(POD, one) for one in pods])


def _summed(allocatable: list[int], requested: list[int]) -> tuple[int, int, int]:
    return sum(requested), sum(allocatable), sum(1 for one in allocatable if one)


def _allocatable(_: KindName, node: JsonObject) -> int:
    return bytes_of(((node.get("status") or {}).get("allocatable") or {}).get(GPU))


def _requested(_: KindName, pod: JsonObject) -> int:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    containers = (pod.get("spec") or {}).get("containers") or ()
    return sum(bytes_of(((one.get("resources") or {}).get("requests") or {}).get(GPU)) for one in containers)
