"""What came of it, for people and programs (FW-614). Pure."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from aim_cli.answer import Answer
from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.cluster.states import Weight, state_of, weight_of
from aim_cli.cluster.targets import kind_called
from aim_cli.errors import Exit
from aim_cli.installation.overview import GPU
from aim_cli.parts import PARTS
from aim_cli.planning.quotas import Shortage
from aim_cli.planning.references import Missing
from aim_cli.planning.sandbox import Sandbox, Step, Where
from aim_cli.units import bytes_of
from aim_cli.why.blockers import Link
from aim_cli.why.command import what_of, why
from aim_cli.why.remedies import REMEDIES, remedy_of
from aim_domain import AIMService, gpu_model_of
from aim_domain.kind_names import GATEWAY, HTTP_ROUTE, KindName
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, HTTP_ROUTES, NODES, RUNTIME_CONFIGS, SERVICES
from aim_domain.runtimeconfig.resolve import effective_name
from aim_serving.reconcile import look_up
from aim_serving.template import TemplateResult
from aim_serving.template_selection import traits_of
from controller_runtime import ClassifiedError, Key
from controller_runtime.log import CacheView

T = TypeVar("T")
_SHOWN: Final = ("type", "status", "reason", "message")
_STALE: Final = re.compile(r"was not found, but the view of (\S+) is stale: [^;]*; waiting for it")
"""What a decision says of a view that is not confirmed, which here is one that could not be read."""
_UNREAD: Final = r"is not known, as \1 cannot be read"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One object of the file.

    Attributes:
        verb: created, changed or unchanged; or refused, where the API server does not take it.
        conditions: that are not true at the end, each with reason and message.
        wanted: GPUs of all replicas of a service.
        unknown: it depends on something that could not be read, so its outcome is unknown.
        because: what would keep it from running for good (FW-877); empty if nothing is known.
        remedy: what to do about it.
        warnings: what it would have besides, which is no fault of its own; `reason: message`.
    """

    where: Where
    verb: str
    state: str = ""
    refused: str = ""
    chosen: str = ""
    rejected: tuple[tuple[str, str], ...] = ()
    gpus: str = ""
    fits: bool = True
    wanted: int = 0
    conditions: tuple[JsonObject, ...] = ()
    path: str = ""
    unknown: bool = False
    because: str = ""
    remedy: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def by_profile(self) -> bool:
        """Whether a profile was chosen, and no template."""
        return self.chosen.startswith(("AIMProfile ", "AIMClusterProfile "))

    @property
    def bad(self) -> bool:
        """Whether it would not come to run for a reason that is known now."""
        hurt = weight_of(self.state) >= Weight.HURT and not self.unknown
        return bool(self.refused or self.because) or not self.fits or hurt

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        return {
            "kind": self.where.part.kind.kind,
            "namespace": self.where.key.namespace,
            "name": self.where.key.name,
            "would": self.verb,
            "refused": self.refused,
            "state": "" if self.unknown else self.state,
            "template": "" if self.by_profile else self.chosen,
            "profile": self.chosen if self.by_profile else "",
            "rejected": [{"template": name, "reason": why} for name, why in self.rejected],
            "gpus": self.gpus,
            "fits": self.fits,
            "path": self.path,
            "because": self.because,
            "remedy": self.remedy,
            "conditions": list(self.conditions),
            "warnings": list(self.warnings),
        }


def outcome(sandbox: Sandbox, where: Where, verb: str, pods: Iterable[JsonObject] | None) -> Outcome:
    """What became of an object in the sandbox; `pods` are of all namespaces, ``None`` where these cannot be read."""
    obj = sandbox.objects[where.part.name, where.key]
    status = obj.get("status") or {}
    state = state_of(kind_called(where.part.kind.resource), obj)
    reported_of = [
        one for one in status.get("conditions") or () if one.get("status") != "True" and one["type"] != "Ready"
    ]
    unknown = any(_STALE.search(one.get("message", "")) for one in reported_of)
    untrue = tuple(
        {name: _STALE.sub(r"is not known, as \1 cannot be read", one.get(name, "")) for name in _SHOWN}
        for one in reported_of
    )
    path = (status.get("routing") or {}).get("path") or ""
    because, remedy = ("", "") if unknown else cause_of(sandbox, where)
    plain = Outcome(where, verb, state, conditions=untrue, path=path, unknown=unknown, because=because, remedy=remedy)
    about = (where.part.name, where.key)
    plain = replace(
        plain, warnings=tuple(one for key, some in sandbox.warnings.items() if key[1:] == about for one in some)
    )
    if where.part is not SERVICES:
        return plain
    found = selection(sandbox, where)
    chosen = None if found is None else found.template or found.base
    spec = obj.get("spec") or {}
    own = ((spec.get("model") or {}).get("custom") or {}).get("hardware") or {}
    if found is None or chosen is None:
        plain = replace(plain, rejected=_rejected(found))
        gpu = own.get("gpu") or {}
        # Its templates are made once its image was looked at; which GPUs they are for, it says itself.
        wanted = _gpus(sandbox, spec, str(gpu.get("model") or ""), int(gpu.get("requests") or 0), pods)
        return replace(plain, gpus=wanted[0], fits=wanted[1], wanted=wanted[2]) if gpu else plain
    traits = traits_of(chosen)
    reported, fits, total = _gpus(sandbox, spec, traits.gpu_model, traits.gpu_count or 0, pods)
    name = f"{chosen.kind} {chosen.namespace}/{chosen.name}" if chosen.namespace else f"{chosen.kind} {chosen.name}"
    return replace(plain, chosen=name, rejected=_rejected(found), gpus=reported, fits=fits, wanted=total)


def _gpus(
    sandbox: Sandbox, spec: JsonObject, model: str, count: int, pods: Iterable[JsonObject] | None
) -> tuple[str, bool, int]:
    """What a service needs, whose own resources go before those of its template, whether that is free, and its GPUs."""
    resources = spec.get("resources") or {}
    own = bytes_of((resources.get("requests") or resources.get("limits") or {}).get(GPU))
    wanted, replicas = own or count, int(spec.get("replicas") or 1)
    if wanted and (pods is None or not sandbox.caches["serving"].is_fresh(NODES)):
        return f"needs {replicas} x {wanted} {model or 'GPU'}; not known whether they are free", True, wanted * replicas
    return *gpu_fit(model, wanted, replicas, free_gpus(sandbox, pods or ())), wanted * replicas


@dataclass(slots=True)
class _SandboxCluster:
    """The objects of a sandbox, as `Cluster` asks for them.

    Attributes:
        unasked: kinds of which a sandbox has nothing.
    """

    sandbox: Sandbox
    unasked: dict[str, str] = field(default_factory=dict)

    def find(self, ref: Ref) -> JsonObject | None:
        """See `Cluster`."""
        key = Key(ref.namespace, ref.name)
        parts = self._parts(ref.kind, str(ref))
        found = next((obj for part in parts if (obj := self.sandbox.objects.get((part, key))) is not None), None)
        if found is None and any(not self.sandbox.is_read(part, ref.namespace) for part in parts):
            self.unasked[str(ref)] = "it cannot be read"
        return found

    def search(
        self,
        kind: KindName,
        namespace: str = "",
        labels: str = "",  # noqa: ARG002 - this and the others would only save sending
        fields: str = "",  # noqa: ARG002
        owner: str = "",  # noqa: ARG002
    ) -> list[JsonObject]:
        """See `Cluster`."""
        parts = set(self._parts(kind, kind.plural))
        known = self.sandbox.objects.items()
        return [obj for (part, key), obj in known if part in parts and namespace in ("", key.namespace)]

    def each(self, kind: KindName, namespace: str, make: Callable[[KindName, JsonObject], T]) -> list[T]:
        """See `Cluster`."""
        return [make(kind, obj) for obj in self.search(kind, namespace)]

    def _parts(self, kind: KindName, what: str) -> list[str]:
        found = [part.name for part in PARTS if part.kind.resource == kind.resource]
        if not found:
            self.unasked[what] = "a plan does not look at it"
        return found


_UNDER_WAY: Final = frozenset({"JobRunning", "PodsStarting", "Pending", "HTTPRoutePending", "NoStatus", "Unhealthy"})
"""Reasons of what only takes time; what a plan makes waits for those who are not in it."""


def cause_of(sandbox: Sandbox, where: Where) -> tuple[str, str]:
    """What `aim why` would name as the cause for good, and what to do about it; empty if there is none."""
    kind = kind_called(where.part.kind.resource)
    found = why(_SandboxCluster(sandbox), Ref(kind, where.key.namespace, where.key.name))
    last = next((way[-1] for way in found.ways if _stays(sandbox, way[-1])), None)
    return ("", "") if last is None else (f"{last.ref}: {what_of(last)}", remedy_of(last))


def _stays(sandbox: Sandbox, link: Link) -> bool:
    if link.blocker is None or link.ref.kind == GATEWAY:
        return True
    # A model whose image is still to be inspected makes its templates afterwards.
    if any(one.verb == "ask" and link.blocker.message == f"{one.why} has no template" for one in sandbox.steps):
        return False
    # No gateway sees the route that is only planned.
    planned_route = link.ref.kind == HTTP_ROUTE and sandbox.is_made(HTTP_ROUTES, Key(link.ref.namespace, link.ref.name))
    return link.blocker.reason in REMEDIES and link.blocker.reason not in _UNDER_WAY and not planned_route


@dataclass(frozen=True, slots=True)
class Reroute:
    """A service whose address changes because of a runtime config that is planned (FW-760); empty for none."""

    service: Key
    before: str
    after: str

    @property
    def line(self) -> str:
        """For people."""
        then = f"moves to {self.after}" if self.after else "is no longer served"
        return f"{'route':10}AIMService {self.service}: {self.before} {then}"


def reroutes(sandbox: Sandbox, planned: Collection[Where]) -> tuple[Reroute, ...]:
    """Let routing decide about the services that follow a planned config, and compare their paths."""
    configs = [where for where in planned if where.part in (RUNTIME_CONFIGS, CLUSTER_RUNTIME_CONFIGS)]
    services = [Where(SERVICES, key) for part, key in sandbox.objects if part == SERVICES.name and configs]
    following = [
        one for one in services if one not in planned and any(_follows(sandbox, one, config) for config in configs)
    ]
    before = {one: _path(sandbox, one) for one in following}
    sandbox.consider("routing", (one for one in following if before[one]))
    after = {one: _path(sandbox, one) for one in following}
    return tuple(Reroute(one.key, before[one], after[one]) for one in following if before[one] != after[one])


def _follows(sandbox: Sandbox, service: Where, config: Where) -> bool:
    spec = sandbox.objects[service.part.name, service.key].get("spec") or {}
    named = effective_name(spec.get("runtimeConfigName")) == config.key.name
    return named and config.key.namespace in ("", service.key.namespace)


def _path(sandbox: Sandbox, service: Where) -> str:
    status = sandbox.objects[service.part.name, service.key].get("status") or {}
    return (status.get("routing") or {}).get("path") or ""


def selection(sandbox: Sandbox, where: Where) -> TemplateResult | None:
    """The template that the service would be given if it had none, with whom that is preferred to."""
    cache = sandbox.caches["serving"]
    entry = cache.get(where.part, where.key)
    value = None if entry is None else entry.decode()
    if value is None or isinstance(value, ClassifiedError):
        return None
    service: AIMService = value
    unsettled = service.model_copy(update={"status": type(service.status)()})
    return look_up(CacheView(cache), unsettled, sandbox.now).template.result


def _rejected(found: TemplateResult | None) -> tuple[tuple[str, str], ...]:
    choice = None if found is None else found.choice
    if choice is None:
        return ()
    return tuple(
        (one.name, f"{why.value}{f' ({one.gpu_count or 1} x {one.gpu_model})' if one.gpu_model else ''}")
        for one, why in choice.rejected
    )


def free_gpus(sandbox: Sandbox, pods: Iterable[JsonObject]) -> dict[str, tuple[str, int, int]]:
    """By node: model, GPUs that no pod asks for, and GPUs that there are."""
    used = Counter[str]()
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            for container in pod["spec"].get("containers") or ():
                requests = (container.get("resources") or {}).get("requests") or {}
                used[pod["spec"].get("nodeName") or ""] += bytes_of(requests.get(GPU))
    found = {}
    for entry in sandbox.caches["serving"].all(NODES):
        node = entry.object
        if node is not None and not node.spec.unschedulable:
            total = bytes_of(node.status.allocatable.get(GPU))
            if total:
                found[node.name] = gpu_model_of(node) or "", max(0, total - used[node.name]), total
    return found


def gpu_fit(model: str, wanted: int, replicas: int, nodes: dict[str, tuple[str, int, int]]) -> tuple[str, bool]:
    """Whether the replicas find room, in words; a service that needs none always does."""
    if not wanted:
        return "needs no GPU", True
    suiting = {name: one for name, one in nodes.items() if not model or one[0] == model}
    places = sum(free // wanted for _, free, _ in suiting.values())
    needs = f"{replicas} x {wanted} {model or 'GPU'}"
    if not suiting:
        return f"needs {needs}; no node has any", False
    had = f"{sum(one[1] for one in suiting.values())} of {sum(one[2] for one in suiting.values())} are free"
    if places >= replicas:
        return f"needs {needs}; {had}", True
    return f"needs {needs}; {had}, with room for {places} of {replicas} replicas now", False


def answer(
    outcomes: Iterable[Outcome],
    steps: Iterable[Step],
    remarks: Iterable[str],
    rerouted: Iterable[Reroute] = (),
    lacking: Iterable[Missing | Shortage] = (),
) -> Answer:
    """Everything, the objects first."""
    some, done, moved, absent = tuple(outcomes), tuple(steps), tuple(rerouted), tuple(lacking)
    lines = [line for one in some for line in _lines(one)]
    lines += [one.line for one in absent]
    lines += [one.line for one in moved]
    lines += [_step(one) for one in done]
    if not done:
        lines.append("nothing else would be done")
    data = {
        "objects": [one.data for one in some],
        "routes": [
            {"namespace": one.service.namespace, "name": one.service.name, "before": one.before, "after": one.after}
            for one in moved
        ],
        "missing": [one.data for one in absent if isinstance(one, Missing)],
        "quotas": [one.data for one in absent if isinstance(one, Shortage)],
        "steps": [{"service": one.service, "verb": one.verb, "what": one.what, "why": one.why} for one in done],
    }
    bad = bool(absent) or any(one.bad for one in some) or any(not one.after for one in moved)
    unknown = any(one.unknown for one in some)
    code = Exit.FOUND if bad else Exit.UNREADABLE if unknown else Exit.WELL
    return Answer(data, tuple(lines), code, tuple(remarks))


def _step(one: Step) -> str:
    why = f" ({one.why})" if one.why else ""
    return f"{'would':10}{one.service}: {one.verb} {one.what}{why}"


def _lines(one: Outcome) -> Iterator[str]:
    if one.refused:
        yield f"{one.where}: refused: {one.refused}"
        return
    then = "; what becomes of it is not known" if one.unknown else f", then {one.state}" if one.state else ""
    yield f"{one.where}: would be {one.verb}{then}"
    if one.because:
        yield f"{'because':10}{one.because}"
        yield f"{'do':10}{one.remedy}"
    if one.chosen:
        yield f"{'profile' if one.by_profile else 'template':10}{one.chosen}"
    for name, reason in one.rejected:
        yield f"{'rejected':10}{name}: {reason}"
    if one.gpus:
        yield f"{'GPUs':10}{one.gpus}"
    if one.path:
        yield f"{'route':10}{one.path}"
    for warning in one.warnings:
        yield f"{'warning':10}{warning}"
    for condition in one.conditions:
        yield f"{'then':10}{condition['type']}={condition['status']} {condition['reason']}: {condition['message']}"
