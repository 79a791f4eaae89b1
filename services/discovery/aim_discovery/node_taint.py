"""The taint that keeps everything else away from nodes with GPUs, as a KaiwoConfig asks for it (RC-158)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from aim_discovery.effect_kinds import SERVICE_NAME, EffectKind
from aim_domain import KaiwoConfig, gpu_model_of, gpu_resource_of, labels, node_taint, oldest_config
from aim_domain.parts import KAIWO_CONFIGS
from controller_runtime import (
    FACTS,
    ApiModel,
    Effect,
    Event,
    EventType,
    Fact,
    Int32,
    JsonObject,
    Plan,
    View,
    get_fact,
    quantity,
    to_json,
)
from controller_runtime.core import Node

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


def reconcile_node(node: Node, view: View, now: datetime) -> Plan:
    """Ask for the taint to be put or taken away, where the node is not as the oldest KaiwoConfig wants it."""
    configs = view.all(KAIWO_CONFIGS)
    if node.deleting or configs.error is not None:
        return Plan()
    key, there = _wanted_taint(node, oldest_config(configs.items)), Taints.of(to_json(node))
    if with_taint(there, key) == there:
        return Plan()
    fact = get_fact(view, FACTS, SERVICE_NAME, EffectKind.NODE_TAINT, node.uid).value
    fights = 0 if fact is None else _fights(fact, key, now)
    wait = min(_RETRY * 2 ** min(max(fights - 1, 0), _DOUBLINGS), _LONGEST)
    left = timedelta() if fact is None else fact.observed_at + wait - now
    if left > timedelta():
        # Decided again then, not started late: until then the config may say something else.
        return Plan(requeue_after=left.total_seconds())
    params = TaintParams(node=node.name, key=key, again=fights)
    events = (_fought_over(key),) if key and fights >= _FIGHTS else ()
    return Plan(effects=(Effect(EffectKind.NODE_TAINT, node.uid, to_json(params)),), events=events)


def _fights(fact: Fact, key: str, now: datetime) -> int:
    """How often in a row another client has undone the write; the wait between is far below the peace."""
    last = fact.read(TaintResult)
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
