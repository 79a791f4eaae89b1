"""What every consumer of runtime configs says of the one that applies to it (RC-065…RC-067)."""

from typing import Any

import pytest
from support.builders import NOW, make, world_of
from support.deciding import decide
from support.whole_platform import SERVICES, objects

from aim_domain import kinds
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, RUNTIME_CONFIGS
from controller_runtime import Reconciler

CONSUMERS = {
    "AIMService": "service",
    "AIMModel": "model",
    "AIMClusterModel": "cluster-model",
    "AIMServiceTemplate": "service-template",
    "AIMClusterServiceTemplate": "cluster-service-template",
    "AIMTemplateCache": "template-cache",
}
STORED = {
    "name": "default",
    "kind": "aim.eai.amd.com/v1alpha1/AIMClusterRuntimeConfig",
    "uid": "old-uid",
    "scope": "Cluster",
}


def reference(kind: str, *, stale: bool = False, exists: bool = True, **spec: Any) -> Any:
    """``status.resolvedRuntimeConfig`` after a pass of an object that had one."""
    service, reconciler = next(
        (service, one) for service in SERVICES for one in service.reconcilers if one.controller == CONSUMERS[kind]
    )
    given = objects()[kind]
    about = {
        **given,
        "spec": {**given["spec"], **spec},
        "status": {**given.get("status", {}), "resolvedRuntimeConfig": STORED},
    }
    config = make(kinds.AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={})
    world = world_of(service.consumes, about, *([config] if exists else []), indexes=service.indexes)
    if stale:
        for part in (RUNTIME_CONFIGS, CLUSTER_RUNTIME_CONFIGS):
            if part in service.consumes:
                world.make_stale(part)
    one: Reconciler[Any] = reconciler
    (entry,) = world.world.all(one.part)
    plan = decide(one, one.part.model.model_validate(entry.raw), world.view(), NOW)
    assert plan.status is not None
    return plan.status.get("resolvedRuntimeConfig")


@pytest.mark.parametrize("kind", CONSUMERS)
@pytest.mark.spec("RC-065", "RC-066", "RC-067")
def test_the_reference_follows_what_applies(kind: str) -> None:
    found = reference(kind)
    assert (found["name"], found["scope"], found["uid"]) == (
        "default",
        "Cluster",
        "aimclusterruntimeconfig-default-uid",
    )
    assert found.get("namespace") is None
    assert reference(kind, exists=False) is None
    assert reference(kind, runtimeConfigName="missing") is None


@pytest.mark.parametrize("kind", CONSUMERS)
@pytest.mark.spec("RC-067", "RC-S24", "FW-019")
def test_the_reference_stays_while_nobody_can_tell(kind: str) -> None:
    assert reference(kind, stale=True, exists=False) == STORED
