"""What came of it, for people and programs (FW-614). Pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from aim_cli.answer import Answer
from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.states import Weight, state_of, weight_of
from aim_cli.cluster.targets import kind_called
from aim_cli.errors import Exit
from aim_cli.installation.overview import GPU
from aim_cli.planning.sandbox import Sandbox, Step, Where
from aim_cli.units import bytes_of
from aim_domain import AIMService, gpu_model_of
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, NODES, RUNTIME_CONFIGS, SERVICES
from aim_domain.runtimeconfig.resolve import effective_name
from aim_serving.reconcile import look_up
from aim_serving.template import TemplateResult
from aim_serving.template_selection import traits_of
from controller_runtime import ClassifiedError, Key
from controller_runtime.log.cache.view import CacheView

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
        unknown: it depends on something that could not be read, so its outcome is unknown.
    """

    where: Where
    verb: str
    state: str = ""
    refused: str = ""
    chosen: str = ""
    rejected: tuple[tuple[str, str], ...] = ()
    gpus: str = ""
    fits: bool = True
    conditions: tuple[JsonObject, ...] = ()
    path: str = ""
    unknown: bool = False

    @property
    def bad(self) -> bool:
        """Whether it would not come to run for a reason that is known now."""
        hurt = weight_of(self.state) >= Weight.HURT and not self.unknown
        return bool(self.refused) or not self.fits or hurt

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
            "template": self.chosen,
            "rejected": [{"template": name, "reason": why} for name, why in self.rejected],
            "gpus": self.gpus,
            "fits": self.fits,
            "path": self.path,
            "conditions": list(self.conditions),
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
    plain = Outcome(where, verb, state, conditions=untrue, path=path, unknown=unknown)
    if where.part is not SERVICES:
        return plain
    found = selection(sandbox, where)
    chosen = None if found is None else found.template or found.base
    if found is None or chosen is None:
        return replace(plain, rejected=_rejected(found))
    traits = traits_of(chosen)
    wanted, replicas = traits.gpu_count or 0, int((obj.get("spec") or {}).get("replicas") or 1)
    if wanted and (pods is None or not sandbox.caches["serving"].is_fresh(NODES)):
        reported, fits = (
            f"needs {replicas} x {wanted} {traits.gpu_model or 'GPU'}; not known whether they are free",
            True,
        )
    else:
        reported, fits = gpu_fit(traits.gpu_model, wanted, replicas, free_gpus(sandbox, pods or ()))
    name = f"{chosen.kind} {chosen.namespace}/{chosen.name}" if chosen.namespace else f"{chosen.kind} {chosen.name}"
    return replace(plain, chosen=name, rejected=_rejected(found), gpus=reported, fits=fits)


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
    outcomes: Iterable[Outcome], steps: Iterable[Step], remarks: Iterable[str], rerouted: Iterable[Reroute] = ()
) -> Answer:
    """Everything, the objects first."""
    some, done, moved = tuple(outcomes), tuple(steps), tuple(rerouted)
    lines = [line for one in some for line in _lines(one)]
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
        "steps": [{"service": one.service, "verb": one.verb, "what": one.what, "why": one.why} for one in done],
    }
    bad = any(one.bad for one in some) or any(not one.after for one in moved)
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
    if one.chosen:
        yield f"{'template':10}{one.chosen}"
    for name, why in one.rejected:
        yield f"{'rejected':10}{name}: {why}"
    if one.gpus:
        yield f"{'GPUs':10}{one.gpus}"
    if one.path:
        yield f"{'route':10}{one.path}"
    for condition in one.conditions:
        yield f"{'then':10}{condition['type']}={condition['status']} {condition['reason']}: {condition['message']}"
