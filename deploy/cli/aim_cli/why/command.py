"""``aim why``: what is in the way of an object, as data and as lines. Asks through `Cluster`, decides nothing else."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from aim_cli.answer import Answer, Data
from aim_cli.cluster.refs import Cluster, JsonObject, Ref
from aim_cli.cluster.refs import remarks as unread
from aim_cli.errors import Exit
from aim_cli.units import age
from aim_cli.why.blockers import UNPULLED, Link, causes, rank
from aim_cli.why.holders import REASONS, Holder, describe, holders
from aim_domain import labels
from aim_domain.component_names import ComponentName
from aim_domain.kind_names import AIM_ARTIFACT, PERSISTENT_VOLUME_CLAIM, POD

REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AuthError": (
            "correct the Secret that env of the service or of its runtime config names, or env itself; "
            "it is tried again by itself"
        ),
        "SourceNotFound": "correct the source: kubectl edit {what}",
        "StorageFull": "raise spec.size or the headroom, and create it again: kubectl delete {what}",
        "NoMatchingFiles": "correct spec.downloadFilter: kubectl edit {what}",
        "NamespaceQuotaExceeded": (
            "delete artifacts (kubectl get aimartifacts -n {namespace}), or raise the limit: "
            "kubectl edit namespace {namespace}"
        ),
        "ClusterQuotaExceeded": (
            "delete artifacts (kubectl get aimartifacts -A), or raise the limit: "
            "kubectl edit aimclusterruntimeconfig default"
        ),
        "ExceedsQuotaLimit": (
            "raise the limit: kubectl edit namespace {namespace}, or kubectl edit aimclusterruntimeconfig default"
        ),
        "ImageNotFound": "correct the image: kubectl edit {what}",
        "ImagePullBackOff": "correct image or pull secret: kubectl describe {what}",
        "ErrImagePull": "correct image or pull secret: kubectl describe {what}",
        UNPULLED: "create the named Secret, or correct imagePullSecrets: kubectl get secrets -n {namespace}",
        "CrashLoopBackOff": "read why it ends: kubectl logs {log} --previous",
        "OOMKilled": "give it more memory: kubectl describe {what}",
        "Unschedulable": "free what it asks for, or add nodes: kubectl describe {what}",
        "FailedScheduling": "free what the pod asks for, or add nodes: kubectl describe {what}",
        "GPUNotAvailable": "add a node with that GPU, or choose another template: kubectl get nodes --show-labels",
        "GPUNotSchedulable": "uncordon a node, or set predictors.tolerations of the runtime config: kubectl get nodes",
        "ProvisioningFailed": (
            "name a storage class that exists and provides the access mode: kubectl get storageclass"
        ),
        "FailedCreate": (
            "correct what it names (kubectl get resourcequota,limitrange -n {namespace}), or set jobs or predictors of "
            "the runtime config"
        ),
        "Suspended": "see the queue that holds it: kubectl describe {what}",
        "GatewayNotConfigured": "set routing.gatewayRef in the service or its runtime config",
        "HTTPRoutePending": "see whether a controller serves the gateway: kubectl describe {what}",
        "GatewayNotProgrammed": "see what its controller reports: kubectl describe gateways -A",
        "PathTemplateInvalid": "correct the path template: kubectl edit {what}",
        "PathConflict": "choose another path or other hostnames: kubectl edit {what}",
        "RoutingDisabled": "restore spec.routing of the named config, or set it here: kubectl edit {what}",
        "PathReserved": "choose another path or other hostnames: kubectl edit {what}",
        "Pending": "see what the provisioner says: kubectl describe {what}",
        "Failed": "see what its pods said: kubectl describe {what}",
        "BackoffLimitExceeded": "see what its pods said: kubectl describe {what}",
        "DeadlineExceeded": "see why its pod takes so long: kubectl describe {what}",
        "NodeNotReady": "see what its node reports, Kubernetes replaces the pod after 5 minutes: kubectl get nodes",
        "FailedMount": "see whether volume and node fit: kubectl describe {what}",
        "NoController": "see whether a controller serves the class: kubectl get gatewayclasses",
        "Paused": f"resume reconciliation: kubectl annotate {{what}} {labels.ANNOTATION_PAUSED}-",
        "WaitingForEviction": "wait for what is being deleted: kubectl get aimartifacts -A",
        "NoStatus": "see whether its service runs: kubectl get pods -A -l app.kubernetes.io/part-of=aim-engine",
    }
)


_NOT_CHANGED: Final = (
    "push the image, or create the service again with another one, as spec.model cannot be changed: "
    "kubectl delete {what}"
)
_OF_DERIVED: Final = {"ImageNotFound": _NOT_CHANGED, "InvalidImageReference": _NOT_CHANGED}
"""What to do about the reason of an object that is made from a service."""
_OF_AUTOSCALER: Final = (
    "see what the autoscaler and the metrics API report: kubectl describe hpa -n {namespace}, "
    "kubectl get apiservices | grep metrics"
)
_BY_WORDS: Final = (
    (
        re.compile(r"exceeded quota: "),
        "raise the quota, or delete what counts: kubectl describe resourcequota -n {namespace}",
    ),
    (
        re.compile(r"Insufficient amd\.com/gpu"),
        "free a GPU, add nodes, or set spec.deploymentStrategy.type to Recreate: kubectl describe {what}",
    ),
    # A pod that finds no room on the other nodes needs room; the taint of control planes is on one of most clusters.
    (
        re.compile(r"^(?!.*Insufficient).*untolerated taint \{(?!node-role\.kubernetes\.io/)", re.DOTALL),
        "set jobs.tolerations or predictors.tolerations of the runtime config: kubectl describe {what}",
    ),
)
"""What to do by the words of a message, where its reason alone says too little; the first that fits."""


def is_known(link: Link) -> bool:
    """Whether there is more to say than what Kubernetes does."""
    return link.blocker is None or link.blocker.reason in REMEDIES


def remedy_of(link: Link) -> str:
    """One line; what Kubernetes itself says of the object, where nothing better is known."""
    ref = link.ref
    scope = f" -n {ref.namespace}" if ref.namespace else ""
    what = (link.blocker.subject if link.blocker else "") or f"{ref.kind.singular} {ref.name}{scope}"
    if link.blocker is None:
        return f"create it, or correct who names it: kubectl get {ref.kind.plural}{scope}"
    reason = link.blocker.reason
    known = next((text for words, text in _BY_WORDS if words.search(link.blocker.message)), None)
    if link.blocker.condition == ComponentName.HPA.condition:
        known = _OF_AUTOSCALER
    if link.blocker.derived and link.blocker.subject:
        known = _OF_DERIVED.get(reason, known)
    known = known or REMEDIES.get(reason)
    if known is None:
        return f"kubectl describe {what}"
    return known.format(what=what, namespace=ref.namespace, log=f"{ref.name}{scope}")


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
    status = (obj.get("status") or {}).get("status") or (obj.get("status") or {}).get("phase") or "no status"
    held = _holders_of(cluster, ways[0][-1]) if ways else ()
    return Explanation(start, status, tuple(ways), held)


def answer(found: Iterable[Explanation], cluster: Cluster, now: datetime, *, many: bool = False) -> Answer:
    """Everything that was found; of many objects those that nothing is in the way of are only counted."""
    some = tuple(found)
    shown = [one for one in some if one.ways] if many else some
    lines = [line for one in shown for line in lines_of(one, now)]
    if many:
        lines.append(f"{len(some) - len(shown)} of {len(some)} have nothing in their way")
    code = max((one.code for one in shown), default=Exit.WELL)
    data: Data = [data_of(one) for one in shown] if many else data_of(some[0])
    return Answer(data, tuple(lines), code, unread(cluster))


def lines_of(one: Explanation, now: datetime) -> Iterable[str]:
    """The cause first, with what to do; then what waits for it, up to the object that was asked about."""
    if one.status is None:
        yield f"{one.ref} does not exist"
        return
    yield f"{one.ref} is {one.status}"
    if not one.ways:
        yield "nothing is in its way"
    for depth, link in enumerate(one.links):
        lead = "because" if depth == 0 else "so"
        yield f"{lead:8}{link.ref}: {_what(link)}{_when(link, now)}"
        if depth == 0:
            yield f"{'do':8}{remedy_of(link)}"
            yield from (f"{'held':8}{line}" for line in describe(list(one.held)))
    for way in one.ways[1:]:
        yield f"{'also':8}{way[-1].ref}: {_what(way[-1])}"


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


def _what(link: Link) -> str:
    if link.blocker is None:
        return "does not exist"
    condition = f"{link.blocker.condition}={link.blocker.status} " if link.blocker.condition else ""
    return f"{condition}{link.blocker.reason}: {link.blocker.message}"


def _when(link: Link, now: datetime) -> str:
    if link.blocker is None:
        return ""
    parts = [f"for {age(link.blocker.since, now)}"] if link.blocker.since else []
    parts += [f"says {link.blocker.who}"] if link.blocker.who else []
    return f" ({', '.join(parts)})" if parts else ""
