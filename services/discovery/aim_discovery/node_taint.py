"""The taint that keeps everything else away from nodes with GPUs, as a KaiwoConfig asks for it (RC-158)."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from aim_discovery.effect_kinds import SERVICE_NAME, EffectKind
from aim_domain import KaiwoConfig, gpu_model_of, gpu_resource_of, node_taint, oldest_config
from aim_domain.parts import KAIWO_CONFIGS
from controller_runtime import FACTS, ApiModel, Effect, JsonObject, Plan, View, get_fact, quantity, to_json
from controller_runtime.core import Node

_VALUE: Final = "aim-engine"
"""Tells this taint from everybody else's, whatever key a config names now or has named before."""
_EFFECT: Final = "NoSchedule"
_RETRY: Final = timedelta(seconds=5)
"""Also the time that the world has to see what was written."""


class TaintParams(ApiModel):
    """Which taint of ours a node shall have; an empty key for none."""

    node: str = ""
    key: str = ""


def reconcile_node(node: Node, view: View, now: datetime) -> Plan:
    """Ask for the taint to be put or taken away, where the node is not as the oldest KaiwoConfig wants it."""
    configs = view.all(KAIWO_CONFIGS)
    if node.deleting or configs.error is not None:
        return Plan()
    params = TaintParams(node=node.name, key=_wanted(node, oldest_config(configs.items)))
    there = [to_json(taint) for taint in node.spec.taints]
    if with_taint(there, params.key) == there:
        return Plan()
    fact = get_fact(view, FACTS, SERVICE_NAME, EffectKind.NODE_TAINT, node.uid).value
    left = timedelta() if fact is None else fact.observed_at + _RETRY - now
    if left > timedelta():
        # Decided anew then, not started late: until then the config may say something else.
        return Plan(requeue_after=left.total_seconds())
    return Plan(effects=(Effect(EffectKind.NODE_TAINT, node.uid, to_json(params)),))


def with_taint(taints: Iterable[JsonObject], key: str) -> list[JsonObject]:
    """The taints of a node with ours as it shall be, and everybody else's as they are.

    Args:
        key: of ours; empty for none. Where somebody else has put the same, there is no need for it.
    """
    kept = [one for one in taints if one.get("value") != _VALUE or (key and one.get("key") == key)]
    is_there = any((one.get("key"), one.get("effect")) == (key, _EFFECT) for one in kept)
    return kept if is_there or not key else [*kept, {"key": key, "value": _VALUE, "effect": _EFFECT}]


def _wanted(node: Node, config: KaiwoConfig | None) -> str:
    return node_taint(config) if config is not None and _has_gpus(node, gpu_resource_of(config.spec)) else ""


def _has_gpus(node: Node, resource: str) -> bool:
    amount = quantity.parse_or_none(node.status.capacity.get(resource, "0"))
    return bool(gpu_model_of(node)) or (amount is not None and amount.value > 0)
