"""The taint that keeps everything else away from nodes with GPUs, as a KaiwoConfig asks for it (RC-158)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from aim_discovery import SERVICE_NAME
from aim_domain import KaiwoConfig, gpu_model_of, gpu_resource_of, labels, node_taint, oldest_config
from aim_domain.parts import KAIWO_CONFIGS
from controller_runtime import (
    ApiError,
    ApiModel,
    ApiVerb,
    Category,
    ClassifiedError,
    Clients,
    EffectError,
    EffectType,
    Event,
    EventType,
    Fact,
    Int32,
    JsonObject,
    KubeClient,
    KubeError,
    Plan,
    View,
    access,
    quantity,
    to_json,
)
from controller_runtime.core import Node
from controller_runtime.kinds import NODE

_VALUE: Final = "aim-engine"
_EFFECT: Final = "NoSchedule"
_RETRY: Final = timedelta(seconds=5)
"""Also the time that the cache has to see what was written."""
_LONGEST: Final = timedelta(minutes=10)
_DOUBLINGS: Final = 7
"""After so many it is as long."""
_PEACE: Final = timedelta(hours=1)
"""What has stood for so long was not fought over."""
_FIGHTS: Final = 3
"""How often the taint is put back before it is reported."""


class TaintParams(ApiModel):
    """Which taint of ours a node shall have; an empty key for none.

    Attributes:
        again: how often the same was written before, and undone by another client.
    """

    node: str = ""
    key: str = ""
    again: Int32 = 0


class TaintResult(ApiModel):
    """What came of it; see `TaintParams`."""

    written: bool = False
    key: str = ""
    again: Int32 = 0


@dataclass(frozen=True, slots=True)
class Taints:
    """The taints of a node.

    Attributes:
        mark: key of the one that was put here, as an annotation of the node says; empty = none was. Without it, what
            looks like the platform's belongs to another client.
    """

    all: tuple[JsonObject, ...]
    mark: str

    @classmethod
    def of(cls, node: JsonObject) -> Self:
        """Those of a node as Kubernetes has it."""
        annotations = node["metadata"].get("annotations") or {}
        return cls(
            tuple((node.get("spec") or {}).get("taints") or ()), annotations.get(labels.ANNOTATION_GPU_TAINT, "")
        )

    def patch(self) -> JsonObject:
        """What makes a node have them."""
        annotations = {labels.ANNOTATION_GPU_TAINT: self.mark or None}
        return {"metadata": {"annotations": annotations}, "spec": {"taints": list(self.all) or None}}


_ATTEMPTS: Final = 3
_MANAGER: Final = "aim-discovery"


class NodeTainter:
    """Runner of `NODE_TAINT`.

    The taints of a node are one value to the API server, and others write some of them; so they are read and written
    back under the version that was read. What a node has at the moment of writing is not in the cache: of nodes only
    versions with news are published.
    """

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, params: TaintParams) -> TaintResult:
        """Bring the taints of a node in order; nothing is sent where they are.

        Raises:
            EffectError: the API server refuses, or other writers always win the conflict; it is asked for again.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return _result(params, written=await self._settle(params))
            except ApiError as error:
                if error.is_not_found:
                    return _result(params, written=False)
                if not error.is_conflict or attempt == _ATTEMPTS:
                    raise _failure(params, error) from error
            except KubeError as error:
                raise _failure(params, error) from error
        raise AssertionError("the last attempt returns or raises")

    async def _settle(self, params: TaintParams) -> bool:
        node = await self._kube.get(NODE, params.node, None)
        there = Taints.of(node)
        wanted = with_taint(there, params.key)
        if wanted == there:
            return False
        version = node["metadata"]["resourceVersion"]
        await self._kube.merge_patch(
            NODE, params.node, None, wanted.patch(), resource_version=version, field_manager=_MANAGER
        )
        return True


def _result(params: TaintParams, *, written: bool) -> TaintResult:
    return TaintResult(written=written, key=params.key, again=params.again)


def _failure(params: TaintParams, error: KubeError) -> EffectError:
    what = f"the taint of Node {params.node} cannot be brought in order: {error}"
    return EffectError(ClassifiedError(Category.INFRASTRUCTURE, "NodeNotTainted", what))


def _tainter(clients: Clients) -> NodeTainter:
    return NodeTainter(clients.kube)


NODE_TAINT: Final = EffectType(
    "node-taint", TaintParams, TaintResult, _tainter, 4, (access(NODE, ApiVerb.GET, ApiVerb.PATCH),)
)
"""The taint of a node with GPUs, put or taken away."""


def reconcile_node(node: Node, view: View, now: datetime) -> Plan:
    """Ask for the taint to be put or taken away, where the node is not as the oldest KaiwoConfig wants it."""
    configs = view.all(KAIWO_CONFIGS)
    if node.deleting or configs.error is not None:
        return Plan()
    key, there = _wanted_taint(node, oldest_config(configs.items)), Taints.of(to_json(node))
    if with_taint(there, key) == there:
        return Plan()
    fact = NODE_TAINT.look_up(view, SERVICE_NAME, node.uid).value
    fights = 0 if fact is None else _fights(fact, key, now)
    wait = min(_RETRY * 2 ** min(max(fights - 1, 0), _DOUBLINGS), _LONGEST)
    left = timedelta() if fact is None else fact.observed_at + wait - now
    if left > timedelta():
        # Decided again then, not started late: until then the config may say something else.
        return Plan(requeue_after=left.total_seconds())
    params = TaintParams(node=node.name, key=key, again=fights)
    events = (_fought_over(key),) if key and fights >= _FIGHTS else ()
    return Plan(effects=(NODE_TAINT.ask(node.uid, params),), events=events)


def _fights(fact: Fact, key: str, now: datetime) -> int:
    """How often in a row another client has undone the write; the wait between is far below the peace."""
    last = NODE_TAINT.result_of(fact)
    fought = last is not None and last.written and last.key == key and now - fact.observed_at < _PEACE
    return last.again + 1 if last is not None and fought else 0


def with_taint(there: Taints, key: str) -> Taints:
    """The taints of a node with ours as it shall be, and everybody else's as they are.

    Args:
        key: of ours; empty for none. Where another client has put the same, it is not needed.
    """
    ours = (there.mark, _VALUE, _EFFECT)
    kept = tuple(one for one in there.all if there.mark in {"", key} or _identity(one) != ours)
    if not key:
        return Taints(kept, "")
    if any(one.get("key") == key and one.get("effect") == _EFFECT for one in kept):
        is_ours = there.mark == key and any(_identity(one) == ours for one in kept)
        return Taints(kept, key if is_ours else "")
    return Taints((*kept, {"key": key, "value": _VALUE, "effect": _EFFECT}), key)


def _identity(taint: JsonObject) -> tuple[object, object, object]:
    return taint.get("key"), taint.get("value"), taint.get("effect")


def _fought_over(key: str) -> Event:
    message = (
        f"The taint {key}:{_EFFECT} that KaiwoConfig asks for was removed again by another client; it is put back "
        "less and less often. Let the owner of the node's taints put it, or set nodes.addTaintsToGpuNodes to false."
    )
    return Event(EventType.WARNING, "GPUTaintRemoved", message)


def _wanted_taint(node: Node, config: KaiwoConfig | None) -> str:
    return node_taint(config) if config is not None and _has_gpus(node, gpu_resource_of(config.spec)) else ""


def _has_gpus(node: Node, resource: str) -> bool:
    amount = quantity.parse_or_none(node.status.capacity.get(resource, "0"))
    return bool(gpu_model_of(node)) or (amount is not None and amount.value > 0)
