"""What every consumer of runtime configs says of the one that applies to it (RC-065…RC-067)."""

from dataclasses import dataclass
from typing import Any

import pytest
from support.builders import make
from support.deciding import decide
from support.whole_platform import SERVICES, TEAM, objects
from support.woken import woken

from aim_domain import kinds
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, RUNTIME_CONFIGS
from controller_runtime import JsonObject, Plan, Reconciler
from controller_runtime.testing import NOW, cache_of

CONSUMERS = {
    "AIMService": "service",
    "AIMModel": "model",
    "AIMClusterModel": "cluster-model",
    "AIMServiceTemplate": "service-template",
    "AIMClusterServiceTemplate": "cluster-service-template",
    "AIMTemplateCache": "template-cache",
    "AIMArtifact": "artifact",
}
OTHER_REASON = {"AIMModel", "AIMServiceTemplate", "AIMClusterServiceTemplate"}
LONG_AGO = "2026-11-01T12:00:00Z"
"""What is as old as that is told at once (FW-518)."""
STORED = {
    "name": "default",
    "kind": "aim.eai.amd.com/v1alpha1/AIMClusterRuntimeConfig",
    "uid": "old-uid",
    "scope": "Cluster",
}


@dataclass(frozen=True)
class Passed:
    """What one pass decided, and which configs it asked for."""

    plan: Plan
    asked: frozenset[tuple[str, str, str]]

    @property
    def reference(self) -> Any:
        assert self.plan.status is not None
        return self.plan.status.get("resolvedRuntimeConfig")

    def condition(self, type_: str) -> tuple[str, str] | None:
        assert self.plan.status is not None
        found = (one for one in self.plan.status["conditions"] if one["type"] == type_)
        return next(((one["status"], one["reason"]) for one in found), None)


def after_pass(kind: str, *configs: JsonObject, stale: bool = False, **spec: Any) -> Passed:
    """A pass of an object that had a reference."""
    service, reconciler = next(
        (service, one) for service in SERVICES for one in service.reconcilers if one.controller == CONSUMERS[kind]
    )
    given = objects()[kind]
    status = {**given.get("status", {}), "resolvedRuntimeConfig": STORED}
    about = {**given, "metadata": {**given["metadata"], "creationTimestamp": LONG_AGO}}
    about |= {"spec": {**given["spec"], **spec}, "status": status}
    known = {part.kind.kind for part in service.consumes} - {kind, "AIMRuntimeConfig", "AIMClusterRuntimeConfig"}
    others = [obj for other, obj in objects().items() if other in known]
    cache = cache_of(service.consumes, about, *others, *configs, indexes=service.indexes)
    for part in (RUNTIME_CONFIGS, CLUSTER_RUNTIME_CONFIGS):
        if stale and part in service.consumes:
            cache.make_stale(part)
    one: Reconciler[Any] = reconciler
    (entry,) = cache.cache.all(one.part)
    view = cache.view()
    plan = decide(one, one.part.model.model_validate(entry.raw), view, NOW)
    parts = {RUNTIME_CONFIGS.name, CLUSTER_RUNTIME_CONFIGS.name}
    return Passed(plan, frozenset((part, key.namespace, key.name) for part, key in view.reads.objects if part in parts))


def default(**spec: Any) -> JsonObject:
    return make(kinds.AIM_CLUSTER_RUNTIME_CONFIG, "default", spec=spec)


WITH_REFERENCE = sorted(set(CONSUMERS) - {"AIMArtifact"})


@pytest.mark.parametrize("kind", WITH_REFERENCE)
@pytest.mark.spec("RC-065", "RC-066", "RC-067")
def test_the_reference_follows_what_applies(kind: str) -> None:
    found = after_pass(kind, default()).reference
    expected = ("default", "Cluster", "aimclusterruntimeconfig-default-uid")
    assert (found["name"], found["scope"], found["uid"]) == expected
    assert found.get("namespace") is None
    assert after_pass(kind).reference is None
    assert after_pass(kind, default(), runtimeConfigName="missing").reference is None


@pytest.mark.parametrize("kind", WITH_REFERENCE)
@pytest.mark.spec("RC-067", "RC-S24", "FW-019")
def test_the_reference_stays_while_nobody_can_tell(kind: str) -> None:
    assert after_pass(kind, stale=True).reference == STORED


@pytest.mark.parametrize("kind", CONSUMERS)
@pytest.mark.spec("RC-060", "RC-061", "RC-083", "RC-064", "RC-S02", "RC-S16", "RC-S17", "RC-P03")
def test_a_config_that_is_missing_stops_its_consumer_until_it_appears(kind: str) -> None:
    missing = after_pass(kind, default(), runtimeConfigName="team-x")
    assert missing.condition("ConfigValid") == ("False", "ReferenceNotFound")
    assert missing.condition("Ready") == ("False", "ReferenceNotFound")
    own_reason = "ConfigNotFound" if kind in OTHER_REASON else "ReferenceNotFound"
    assert missing.condition("RuntimeConfigReady") == ("False", own_reason)
    assert missing.plan.status is not None
    assert missing.plan.status["status"] == "Failed"
    assert (missing.plan.children, missing.plan.retry) == ((), None), "its appearance tells when to look again"
    scopes = {("aimclusterruntimeconfigs", "", "team-x")}
    if "Cluster" not in kind:
        scopes.add(("aimruntimeconfigs", TEAM, "team-x"))
    assert missing.asked >= scopes, "what was asked for wakes whoever asked"
    there = make(kinds.AIM_CLUSTER_RUNTIME_CONFIG, "team-x", spec={})
    found = after_pass(kind, there, runtimeConfigName="team-x")
    assert found.condition("ConfigValid") in {None, ("True", "ConfigurationValid")}
    assert found.condition("RuntimeConfigReady") == (
        "True",
        "RuntimeConfigResolved" if kind == "AIMService" else "ConfigFound",
    )


@pytest.mark.parametrize("kind", CONSUMERS)
@pytest.mark.spec("RC-061", "RC-062", "RC-063", "RC-S01")
def test_without_any_config_the_defaults_apply(kind: str) -> None:
    assert after_pass(kind).condition("RuntimeConfigReady") == ("True", "DefaultConfigNotFound")


SETTINGS: dict[str, JsonObject] = {
    "storage class": {"storage": {"defaultStorageClassName": "other"}},
    "headroom": {"storage": {"pvcHeadroomPercent": 77}},
    "download filter": {"storage": {"downloadFilter": {"include": ["*.x"]}}},
    "routing": {"routing": {"enabled": True, "gatewayRef": {"name": "gw"}}},
    "env": {"env": [{"name": "OF_CONFIG", "value": "1"}]},
    "discovery": {"model": {"autoDiscovery": False}},
    "retention": {"artifact": {"defaultRetentionPriority": 3}},
    "quota": {"artifactStorageQuota": {"clusterLimit": "1"}},
}
CONCERNED = {
    "AIMService": {"storage class", "routing", "env"},
    "AIMArtifact": {"storage class", "headroom", "download filter", "env", "retention", "quota"},
    "AIMModel": {"discovery"},
    "AIMClusterModel": {"discovery"},
}
"""What the table of runtime-config.md, section 8, marks."""


@pytest.mark.parametrize("kind", CONSUMERS)
@pytest.mark.spec("RC-110", "RC-011", "RC-114")
def test_a_setting_concerns_only_the_kinds_that_the_table_marks(kind: str) -> None:
    usual = after_pass(kind, default()).plan
    affected = {name for name, spec in SETTINGS.items() if after_pass(kind, default(**spec)).plan != usual}
    assert affected <= CONCERNED.get(kind, set())


CHANGES: dict[str, tuple[JsonObject | None, JsonObject | None]] = {
    "created": (None, default()),
    "changed": (default(), default(labelPropagation={"enabled": True, "match": ["team/*"]}, **SETTINGS["env"])),
    "deleted": (default(), None),
}
READERS = {
    f"{service.name}/{one.part.kind.kind}": (service, one.controller)
    for service in SERVICES
    for one in service.reconcilers
    if one.part.kind.kind in CONSUMERS
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.spec("RC-084", "RC-083")
def test_a_config_alone_wakes_whoever_reads_it(reader: str, change: str) -> None:
    """The clock of the queue stands still, so no timer enqueues them: nothing is polled, nothing is late."""
    service, controller = READERS[reader]
    consumed = {part.kind.kind for part in service.consumes}
    cache = cache_of(
        service.consumes,
        *(obj for kind, obj in objects().items() if kind in consumed and kind != "AIMClusterRuntimeConfig"),
        indexes=service.indexes,
    )
    before, after = CHANGES[change]
    found = woken(service, cache, CLUSTER_RUNTIME_CONFIGS, before, after)
    assert controller in {key.partition(":")[0] for key in found}
