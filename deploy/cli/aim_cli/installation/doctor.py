"""``aim doctor``: is everything there that the platform needs, each finding with its remedy (FW-612).

What is looked at comes in as plain data; only `examine` asks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from aim_cli.answer import Answer, columns
from aim_cli.cluster.asking import KubeReader
from aim_cli.cluster.broker import DEFAULT_NAMES, OURS, BrokerNames, brokers
from aim_cli.cluster.refs import JsonObject
from aim_cli.errors import Exit
from aim_cli.installation.bus_state import BusState, PartState, StreamState
from aim_cli.installation.overview import gpus_of, leaders_of
from aim_domain.kind_names import (
    DEFINITION,
    DEPLOYMENT,
    HTTP_ROUTE,
    INFERENCE_SERVICE,
    LEASE,
    NODE,
    OWN,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STATEFUL_SET,
    KindName,
)
from aim_domain.services import SERVICES
from controller_runtime import ApiError
from controller_runtime.manager import REMEDIES, Cause, to_define

_OLDEST: Final = (1, 28)
_SKEW: Final = 5.0
"""Seconds between two clocks that do no harm: Leases last three times as long."""
_LAG: Final = 1000
_MOST: Final = 5
OWN_NAMESPACE: Final = "(its own)"
"""Stands for the namespace of the platform, wherever that is."""
_STORAGE_CLASSES: Final = KindName("storage.k8s.io", "v1", "StorageClass", "storageclasses", False)
_SCALED: Final = "scaledobjects.keda.sh"


class Mark(StrEnum):
    """How a finding is meant."""

    OK = "ok"
    NOTE = "note"
    """Nothing is wrong, but something does not work that may be wanted."""
    UNKNOWN = "unknown"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; a remedy for what is not ok."""

    about: str
    mark: Mark
    what: str
    remedy: str = ""

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        return {"about": self.about, "mark": self.mark.value, "what": self.what, "remedy": self.remedy}


def answer(findings: Iterable[Finding]) -> Answer:
    """What is bad first."""
    order = (Mark.BAD, Mark.UNKNOWN, Mark.NOTE, Mark.OK)
    found = sorted(findings, key=lambda one: order.index(one.mark))
    rows = [(one.mark.value.upper(), one.about, one.what) for one in found]
    lines = []
    for line, one in zip(columns(("", "ABOUT", "WHAT"), rows)[1:], found, strict=True):
        lines.append(line)
        if one.remedy:
            lines.append(f"{'':10}do: {one.remedy}")
    bad = any(one.mark is Mark.BAD for one in found)
    return Answer([one.data for one in found], tuple(lines), Exit.FOUND if bad else Exit.WELL)


def examine(cluster: KubeReader, *, before: bool) -> Iterator[Finding]:
    """Everything that the cluster tells; before an installation what it needs, afterwards also what was installed."""
    yield version(cluster.read("/version"))
    definitions = {one["metadata"]["name"]: one for one in cluster.search(DEFINITION)}
    if DEFINITION.plural in cluster.unasked:
        yield Finding("definitions", Mark.UNKNOWN, cluster.unasked[DEFINITION.plural], "ask with more permissions")
    else:
        yield from foreign_definitions(definitions)
        yield from own_definitions(definitions) if not before else ()
        yield from stored_versions(definitions)
    yield from storage(cluster.search(_STORAGE_CLASSES), known=_STORAGE_CLASSES.plural not in cluster.unasked)
    found = gpus(cluster.search(NODE), cluster.search(POD))
    yield unread(cluster, found.about, NODE, POD) or found
    wanted = INSTALLER if before else READER
    yield from permissions({what: _may(cluster, *what) for what in wanted})
    if not before:
        deployments = list(cluster.select(DEPLOYMENT, "", OURS))
        found_brokers = brokers(cluster)
        hidden = unread(cluster, "services", DEPLOYMENT, STATEFUL_SET)
        yield from (hidden,) if hidden else deployed(deployments, found_brokers)
        for account in accounts(deployments):
            yield permission_finding(
                account, {one: _may_account(cluster, account, one) for one in needs_of(account.service)}
            )
        leases = cluster.search(LEASE)
        hidden = unread(cluster, "leaders", LEASE)
        yield from (hidden,) if hidden else leading(leases, datetime.now(UTC))


def unread(cluster: KubeReader, about: str, *kinds: KindName) -> Finding | None:
    """That some kinds may not be listed; ``None`` where all may (FW-732)."""
    why = [cluster.unasked[kind.plural] for kind in kinds if kind.plural in cluster.unasked]
    return Finding(about, Mark.UNKNOWN, why[0], "ask with more permissions") if why else None


Permission = tuple[str, str, str]
"""Verb, group, plural."""
READER: Final[tuple[Permission, ...]] = tuple(
    ("list", kind.group, kind.plural) for kind in (*OWN, INFERENCE_SERVICE, HTTP_ROUTE, POD, PERSISTENT_VOLUME_CLAIM)
)
"""What this command itself needs."""
EXAMINER: Final[tuple[Permission, ...]] = tuple(
    dict.fromkeys(
        (
            *READER,
            *(
                ("list", kind.group, kind.plural)
                for kind in (DEFINITION, _STORAGE_CLASSES, NODE, POD, DEPLOYMENT, STATEFUL_SET, LEASE)
            ),
            ("create", "authorization.k8s.io", "subjectaccessreviews"),
        )
    )
)
"""What it needs to leave no question open."""
INSTALLER: Final[tuple[Permission, ...]] = (
    ("create", DEFINITION.group, DEFINITION.plural),
    ("create", "rbac.authorization.k8s.io", "clusterroles"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    ("create", "", "namespaces"),
    ("create", "", "serviceaccounts"),
    ("create", "apps", "deployments"),
    ("create", "apps", "statefulsets"),
    ("create", "networking.k8s.io", "networkpolicies"),
)
"""What a user who installs the charts needs; one who has these roles already need not be allowed to escalate."""


def _may(cluster: KubeReader, verb: str, group: str, plural: str) -> bool | None:
    what = {"resourceAttributes": {"verb": verb, "group": group, "resource": plural}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": what}
    try:
        reported = cluster.ask("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    except ApiError:
        return None
    return bool((reported.get("status") or {}).get("allowed"))


@dataclass(frozen=True, slots=True)
class Account:
    """Who a service is to the API server."""

    service: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a service does at the API server."""

    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f' {self.name}' if self.name else ''}"


def accounts(deployments: Iterable[JsonObject]) -> list[Account]:
    """The accounts of the services that are deployed."""
    found = []
    for one in deployments:
        service = (one["metadata"].get("labels") or {}).get("app.kubernetes.io/component") or ""
        pod = ((one["spec"].get("template") or {}).get("spec")) or {}
        if service in SERVICES:
            found.append(Account(service, one["metadata"]["namespace"], pod.get("serviceAccountName") or "default"))
    return found


def needs_of(service: str) -> list[Need]:
    """All that a service does while the broker is there, from what it declares."""
    # Only where there are Deployments: the import of the services takes a second.
    from aim_cli.services import services  # noqa: PLC0415
    from controller_runtime import permissions  # noqa: PLC0415

    code = services()[service]
    return [
        Need(verb.value, one.group, one.resource, name, "" if one.where == "cluster" else OWN_NAMESPACE)
        for one in permissions(code.definition(code.settings()))
        for verb in sorted(one.verbs)
        for name in sorted(one.names) or [""]
    ]


def _may_account(cluster: KubeReader, account: Account, need: Need) -> bool | None:
    resource, _, subresource = need.resource.partition("/")
    what = {
        "verb": need.verb,
        "group": need.group,
        "resource": resource,
        "subresource": subresource,
        "name": need.name,
        "namespace": account.namespace if need.namespace == OWN_NAMESPACE else need.namespace,
    }
    user = f"system:serviceaccount:{account.namespace}:{account.name}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", "system:authenticated"]
    spec = {
        "user": user,
        "groups": groups,
        "resourceAttributes": {key: reported for key, reported in what.items() if reported},
    }
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    try:
        reported = cluster.ask("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    except ApiError:
        return None
    return bool((reported.get("status") or {}).get("allowed"))


def permission_finding(account: Account, reported: Mapping[Need, bool | None]) -> Finding:
    """Whether a service may do what it does; ``None`` = not known."""
    refused = [str(one) for one, may in reported.items() if may is False and not _is_of_secrets(one)]
    about = f"role of {account.service}"
    if not refused and False in reported.values() and None not in reported.values():
        # With secrets.restrict no role reads all of them; which ones were named is no business of this command.
        what = f"{account.name} may do all that it does, but reads only Secrets that were named for it"
        return Finding(about, Mark.NOTE, what, "name further ones in secrets.allowed of the chart")
    if refused:
        shown = ", ".join(refused[:_MOST]) + (f" and {len(refused) - _MOST} more" if refused[_MOST:] else "")
        remedy = "install the chart of this release again: its roles are made from what the services do"
        return Finding(about, Mark.BAD, f"{account.name} may not {shown}", remedy)
    if None in reported.values():
        remedy = "run it as a user who may create subjectaccessreviews"
        return Finding(about, Mark.UNKNOWN, "you may not review the access of others", remedy)
    return Finding(about, Mark.OK, f"{account.name} may do all {len(reported)} things that it does")


def _is_of_secrets(need: Need) -> bool:
    return (need.group, need.resource) == ("", "secrets")


def version(reported: JsonObject) -> Finding:
    """Whether the API server is new enough."""
    digits = ["".join(char for char in str(reported.get(part, "")) if char.isdigit()) for part in ("major", "minor")]
    found = tuple(int(one or 0) for one in digits)
    shown = str(reported.get("gitVersion") or ".".join(map(str, found)))
    if found < _OLDEST:
        return Finding("Kubernetes", Mark.BAD, f"{shown} is older than 1.28", "upgrade the cluster")
    return Finding("Kubernetes", Mark.OK, shown)


def foreign_definitions(definitions: Mapping[str, JsonObject]) -> Iterator[Finding]:
    """KServe and Gateway API are needed; without KEDA nothing scales."""
    for name, kind in (("KServe", INFERENCE_SERVICE), ("Gateway API", HTTP_ROUTE)):
        if kind.resource not in definitions:
            yield Finding(name, Mark.BAD, f"the cluster knows no {kind.kind}", to_define(kind.resource))
        elif kind.version not in _served(definitions[kind.resource]):
            yield Finding(name, Mark.BAD, f"{kind.kind} is not served as {kind.version}", f"upgrade {name}")
        else:
            yield Finding(name, Mark.OK, f"{kind.kind} {kind.version}")
    if _SCALED in definitions:
        yield Finding("KEDA", Mark.OK, "ScaledObject is known")
    else:
        yield Finding("KEDA", Mark.NOTE, "not installed: services with minReplicas do not scale", to_define(_SCALED))


def own_definitions(definitions: Mapping[str, JsonObject]) -> Iterator[Finding]:
    """Whether ours are there, and of this release: a member that is missing there is dropped by the API server."""
    for kind in OWN:
        there = definitions.get(kind.resource)
        if there is None:
            yield Finding("definitions", Mark.BAD, f"{kind.kind} is not defined", REMEDIES[Cause.DEFINITION_MISSING])
        elif missing := sorted(_members(_ours(kind)) - _members(there)):
            shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if missing[3:] else "")
            what = f"{kind.kind} is of an older release: no {shown}"
            yield Finding("definitions", Mark.BAD, what, REMEDIES[Cause.DEFINITION_OLD])
    if all(kind.resource in definitions for kind in OWN):
        yield Finding("definitions", Mark.OK, f"{len(OWN)} kinds are defined")


def stored_versions(definitions: Mapping[str, JsonObject]) -> Iterator[Finding]:
    """Definitions that are there and store a version of which this release knows nothing: the API server keeps them."""
    for kind in OWN:
        there = definitions.get(kind.resource)
        stored = (there or {}).get("status", {}).get("storedVersions") or ()
        unknown = [one for one in stored if one not in _served(_ours(kind))]
        if unknown:
            what = f"{kind.kind} is stored as {', '.join(unknown)}, which this release does not serve"
            remedy = f"install a release that does, or delete its objects: kubectl get {kind.resource} -A"
            yield Finding("definitions", Mark.BAD, what, remedy)


def _ours(kind: KindName) -> JsonObject:
    # Nothing else here needs the models, and their import takes a while.
    from aim_domain.crd import definition  # noqa: PLC0415
    from aim_domain.kinds import kind_of  # noqa: PLC0415

    model = kind_of(kind.api_version, kind.kind)
    assert model is not None
    return definition(model)


def _served(definition: JsonObject) -> set[str]:
    return {one["name"] for one in definition["spec"]["versions"] if one.get("served")}


def _members(definition: JsonObject) -> set[str]:
    found: set[str] = set()

    def walk(schema: JsonObject, path: str) -> None:
        for name, below in (schema.get("properties") or {}).items():
            found.add(f"{path}{name}")
            walk(below, f"{path}{name}.")
        if isinstance(schema.get("items"), dict):
            walk(schema["items"], path)

    for one in definition["spec"]["versions"]:
        schema = (one.get("schema") or {}).get("openAPIV3Schema") or {}
        for member in ("spec", "status"):
            walk((schema.get("properties") or {}).get(member) or {}, f"{member}.")
    return found


def storage(classes: list[JsonObject], *, known: bool) -> Iterator[Finding]:
    """Whether volumes are made where no class is named."""
    default = "storageclass.kubernetes.io/is-default-class"
    defaults = [
        one["metadata"]["name"] for one in classes if (one["metadata"].get("annotations") or {}).get(default) == "true"
    ]
    if not known:
        yield Finding("storage", Mark.UNKNOWN, "storage classes cannot be listed", "ask with more permissions")
    elif defaults:
        yield Finding("storage", Mark.OK, f"the default storage class is {defaults[0]}")
    else:
        remedy = "name one in storage.defaultStorageClassName of the runtime config, or mark one as the default"
        yield Finding("storage", Mark.NOTE, f"none of {len(classes)} storage classes is the default", remedy)


def gpus(nodes: list[JsonObject], pods: list[JsonObject]) -> Finding:
    """Whether models can run at all."""
    requested, total, with_gpus = gpus_of(nodes, pods)
    if total:
        return Finding("GPUs", Mark.OK, f"{total} on {with_gpus} nodes, {requested} requested")
    remedy = "install the AMD GPU operator, or look at its device plugin: kubectl get nodes --show-labels"
    return Finding("GPUs", Mark.NOTE, f"none of {len(nodes)} nodes offers amd.com/gpu", remedy)


def permissions(reported: Mapping[Permission, bool | None]) -> Iterator[Finding]:
    """What the user may; ``None`` = the API server does not say."""
    refused = [f"{verb} {plural}" for (verb, _, plural), may in reported.items() if may is False]
    if refused:
        yield Finding("permissions", Mark.BAD, f"you may not {', '.join(refused)}", "ask for a role that may")
    elif None in reported.values():
        remedy = "see what you may: kubectl auth can-i --list"
        yield Finding("permissions", Mark.UNKNOWN, "the API server does not review access", remedy)
    else:
        yield Finding("permissions", Mark.OK, f"{len(reported)} that are needed are granted")


def deployed(deployments: Iterable[JsonObject], stateful_sets: Iterable[JsonObject] = ()) -> Iterator[Finding]:
    """Whether the services run, and the brokers that came with them."""
    some = list(deployments)
    if not some:
        remedy = "helm upgrade --install aim-engine deploy/charts/aim-engine -n aim-system; elsewhere ignore it"
        yield Finding("services", Mark.NOTE, "no Deployment of the platform is in this cluster", remedy)
    yield from (_running("services", one) for one in some)
    yield from (_running("broker", one) for one in stateful_sets)


def _running(about: str, one: JsonObject) -> Finding:
    name, where, kind = one["metadata"]["name"], one["metadata"]["namespace"], one["kind"].lower()
    wanted, ready = one["spec"].get("replicas", 1), (one.get("status") or {}).get("readyReplicas") or 0
    reported = f"{name}: {ready} of {wanted} replicas are ready"
    if ready >= wanted:
        return Finding(about, Mark.OK, reported)
    return Finding(
        about, Mark.BAD, reported, f"kubectl describe {kind} {name} -n {where}; kubectl logs -n {where} {kind}/{name}"
    )


def leading(leases: list[JsonObject], now: datetime) -> Iterator[Finding]:
    """Whether each service has a leader that is alive."""
    for one in leaders_of(leases, now):
        if not one.late:
            yield Finding("leaders", Mark.OK, f"{one.what} is led by {one.holder}")
        else:
            # A released Lease has neither holder nor time.
            ended = f"since {one.renewed}" if one.renewed else "and its Lease is released"
            remedy = f"see whether it runs: kubectl get pods -A -l app.kubernetes.io/component={one.service}"
            yield Finding("leaders", Mark.BAD, f"no process leads {one.what} {ended}", remedy)


def unasked_broker(why: str = "", names: BrokerNames = DEFAULT_NAMES) -> Finding:
    """The broker's address is missing, or ``why`` it cannot be asked, with what to do behind the last semicolon."""
    if why:
        what, _, remedy = why.rpartition("; ")
        return Finding("broker", Mark.BAD, what or remedy, remedy if what else names.port_forward)
    return Finding(
        "broker", Mark.UNKNOWN, "its address is not known; set --nats-url or AIM_NATS_URL", names.port_forward
    )


def bus(state: BusState, now: datetime, brokers: Sequence[JsonObject] = ()) -> Iterator[Finding]:
    """Streams, lag, freshness and the broker's clock.

    Args:
        brokers: the StatefulSets of this cluster; several are of several installations, and it is unknown which was
            asked.
    """
    copies = int(brokers[0]["spec"].get("replicas", 1)) if len(brokers) == 1 else 0
    yield from (_stream(one, copies) for one in state.streams)
    yield from fresh(state.parts)
    ahead = (state.now - now).total_seconds()
    if abs(ahead) > _SKEW:
        what = f"the broker's clock differs from this machine's by {ahead:+.0f} s"
        yield Finding("clocks", Mark.BAD, what, "let both follow a time server")
    else:
        yield Finding("clocks", Mark.OK, "the broker's clock agrees with this machine's")


def _stream(stream: StreamState, copies: int) -> Finding:
    if stream.held is None:
        remedy = "see whether the services reach the broker"
        return Finding("streams", Mark.BAD, f"there is no {stream.name}", remedy)
    if stream.fault is not None:
        return Finding("streams", Mark.BAD, f"{stream.name} was changed: {stream.fault.cause}", stream.fault.remedy)
    if stream.replicas < copies:
        what = f"{stream.name} is kept by {stream.replicas} of {copies} brokers"
        return Finding("streams", Mark.BAD, what, "set nats.replicas of the chart; the log of the services says more")
    if stream.lag > _LAG:
        what = f"{stream.name}: a reader is {stream.lag} messages behind"
        return Finding("streams", Mark.BAD, what, "see which service is busy: aim queue")
    return Finding("streams", Mark.OK, f"{stream.name}: {stream.held.messages} messages, lag {stream.lag}")


def fresh(parts: Sequence[PartState]) -> Iterator[Finding]:
    """Whether each part has a publisher that is heard of."""
    wanted = [one for one in parts if one.checkpoint is not None or not one.optional]
    silent = [one.name for one in wanted if one.checkpoint is not None and one.late]
    unheard = [one.name for one in wanted if one.checkpoint is None]
    remedy = "see which service stands still: aim bus"
    if silent:
        yield Finding("freshness", Mark.BAD, f"the publishers of {', '.join(silent)} are silent", remedy)
    if unheard:
        yield Finding("freshness", Mark.BAD, f"no service has published {', '.join(unheard)}", remedy)
    if wanted and not silent and not unheard:
        yield Finding("freshness", Mark.OK, f"all {len(wanted)} parts are fresh")
