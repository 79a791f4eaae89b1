"""A cache that has lived through a random part of the history, and one made from the present: the same plans."""

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from matrix.r11_history import _cache, _in_order, _plans, _present_of, _some_of
from support.builders import make
from support.serving import aim_service
from support.versions import version_of

from aim_domain import DivisibleSettings, kinds
from aim_routing.service import definition
from controller_runtime import JsonObject, Key, dumps
from controller_runtime.log.history.versions import LoggedVersion
from controller_runtime.log.wire.messages import Verb

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def logged(sequence: int, part: str, obj: JsonObject, *, deleted: bool = False) -> LoggedVersion:
    metadata = obj["metadata"]
    return version_of(
        part, Key(metadata.get("namespace") or "", metadata["name"]), dumps(obj), sequence=sequence,
        verb=Verb.DELETE if deleted else Verb.UPSERT, uid=metadata["uid"], resource_version=str(sequence),
    )  # fmt: skip


def history() -> list[LoggedVersion]:
    gateway = {"routing": {"enabled": True, "gatewayRef": {"name": "g", "namespace": "gateways"}}}
    config = make(kinds.AIM_CLUSTER_RUNTIME_CONFIG, "default", spec=gateway)
    changed = {**config, "spec": {"routing": {**gateway["routing"], "pathTemplate": "/x/{.metadata.name}"}}}
    one, other = aim_service("one"), aim_service("other")
    return [
        logged(1, "aimclusterruntimeconfigs", config),
        logged(2, "aimservices", one),
        logged(3, "aimservices", other),
        logged(4, "aimclusterruntimeconfigs", changed),
        logged(5, "aimservices", {**one, "spec": {**one["spec"], "replicas": 2}}),
        logged(6, "aimservices", other, deleted=True),
        logged(7, "aimservices", {**other, "metadata": {**other["metadata"], "uid": "another"}}),
    ]


@pytest.mark.spec("FW-475")
@pytest.mark.parametrize("seed", range(20))
def test_plans_depend_on_the_present_alone(seed: int) -> None:
    chance = random.Random(seed)
    past = history()[: chance.randint(1, 7)]
    routing = definition(DivisibleSettings())
    lived = _plans(routing, _cache(routing, _some_of(past, chance)), NOW)
    assert lived == _plans(routing, _cache(routing, _present_of(past)), NOW)


def test_a_version_that_is_logged_late_or_again_is_not_the_present() -> None:
    one, other, config, changed = history()[1], history()[2], history()[0], history()[3]
    again = replace(one, state=replace(one.state, epoch="e2"), sequence=1)
    ordered = _in_order([again, one, changed, history()[4], config, other, one])
    assert [version.state.resource_version for version in ordered] == ["1", "2", "3", "4", "5", "2"]
    assert [(version.state.epoch, version.sequence) for version in ordered] == [("one", n) for n in range(1, 7)]
    assert sorted(version.sequence for version in _present_of(ordered)) == [3, 4, 6]


def test_another_present_makes_another_plan() -> None:
    routing = definition(DivisibleSettings())
    before, after = (_plans(routing, _cache(routing, history()[:length]), NOW) for length in (3, 4))
    assert before.keys() == after.keys()
    assert before != after
