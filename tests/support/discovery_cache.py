"""The discovery service without I/O: passes over a cache, with their plans carried out in it."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from support.builders import NAMESPACE, make, owner
from support.deciding import decide
from support.live import Live

from aim_discovery.service import definition
from aim_discovery.settings import DiscoverySettings
from aim_domain.kinds import AIM_CLUSTER_MODEL, AIM_CLUSTER_SERVICE_TEMPLATE, AIM_MODEL, AIM_SERVICE_TEMPLATE
from aim_domain.parts import DISCOVERY_JOBS
from controller_runtime import (
    Effect,
    JsonObject,
    Part,
    Plan,
    timestamp,
)
from controller_runtime.kinds import NAMESPACE as NAMESPACE_KIND
from controller_runtime.kinds import NODE, POD
from controller_runtime.log.cache.view import ReadLog
from controller_runtime.testing import NOW, BuiltCache, cache_of

SYSTEM = "aim-system"
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


def settings(**values: Any) -> DiscoverySettings:
    return DiscoverySettings.model_validate({"system_namespace": SYSTEM, **values})


def gpu_node(name: str = "gpu-1", device: str = "74a1", **labels: str) -> JsonObject:
    return make(NODE, name, labels={"amd.com/gpu.device-id": device, **labels})


def model(name: str = "qwen", image: str = IMAGE, **spec: Any) -> JsonObject:
    return make(AIM_MODEL, name, created=NOW, spec={"image": image, **spec})


def cluster_model(name: str = "qwen", image: str = IMAGE, **spec: Any) -> JsonObject:
    return make(AIM_CLUSTER_MODEL, name, spec={"image": image, **spec})


def template(name: str = "tpl", model_name: str = "qwen", **spec: Any) -> JsonObject:
    return make(AIM_SERVICE_TEMPLATE, name, spec={"modelName": model_name, **spec})


def cluster_template(name: str = "tpl", model_name: str = "qwen", **spec: Any) -> JsonObject:
    return make(AIM_CLUSTER_SERVICE_TEMPLATE, name, spec={"modelName": model_name, **spec})


MI300X: JsonObject = {"gpu": {"requests": 1, "model": "MI300X"}}


class DiscoveryCache(BuiltCache):
    """What the service sees, in which nothing happens."""

    def __init__(self, own: DiscoverySettings, *objects: JsonObject) -> None:
        self.definition = definition(own)
        seen = cache_of(self.definition.consumes, *objects, indexes=self.definition.indexes)
        super().__init__(seen.cache, seen.sequences, seen.stored)
        self._moment = NOW

    @property
    def now(self) -> datetime:
        return self._moment

    def later(self, seconds: float) -> None:
        """Let the clock be later."""
        self._moment += timedelta(seconds=seconds)

    def all(self, part: Part[Any]) -> list[JsonObject]:
        """The objects of a part."""
        return [entry.raw for entry in self.cache.all(part)]

    def reads(self, part: Part[Any], name: str, namespace: str = NAMESPACE) -> ReadLog:
        """What a pass over an object reads."""
        return self._pass(part, name, namespace)[1]

    def plan(self, part: Part[Any], name: str, namespace: str = NAMESPACE) -> Plan:
        """What a pass over an object would do."""
        return self._pass(part, name, namespace)[0]

    def _pass(self, part: Part[Any], name: str, namespace: str) -> tuple[Plan, ReadLog]:
        reconciler = next(one for one in self.definition.reconcilers if one.part is part)
        view = self.view()
        return decide(reconciler, self.object(part, namespace, name), view, self.now), view.reads


class DiscoveryCluster(Live):
    """The service at work, in a cluster whose Jobs do what a test says."""

    def end_job(self, name: str, how: str = "Complete", reason: str = "", namespace: str = "") -> None:
        """Let a Job complete or fail."""
        conditions = [{"type": how, "status": "True", "reason": reason, "lastTransitionTime": timestamp(self.now)}]
        self.change(DISCOVERY_JOBS, name, namespace, status={"conditions": conditions})

    def job_pod(self, job: str, phase: str, *containers: JsonObject, namespace: str = NAMESPACE) -> JsonObject:
        """A pod of a Job."""
        raw = self.raw(DISCOVERY_JOBS, job, namespace)
        labels = {"job-name": job, "app.kubernetes.io/component": "discovery"}
        status = {"phase": phase, "containerStatuses": list(containers)}
        spec = raw["spec"]["template"]["spec"]
        return make(
            POD,
            f"{job}-x",
            namespace=namespace,
            labels=labels,
            owners=[owner(raw)],
            created=self.now,
            spec=spec,
            status=status,
        )


def discovery_cache(*objects: JsonObject, nodes: Iterable[JsonObject] | None = None, **values: Any) -> DiscoveryCache:
    """A cluster with one MI300X node, the usual namespaces, and these objects, as the service sees it."""
    return DiscoveryCache(settings(**values), *_cluster(nodes), *objects)


def discovery_cluster(
    *objects: JsonObject, nodes: Iterable[JsonObject] | None = None, **values: Any
) -> DiscoveryCluster:
    """The same cluster, with the service at work in it."""
    return DiscoveryCluster(definition(settings(**values)), *_cluster(nodes), *objects)


def _cluster(nodes: Iterable[JsonObject] | None) -> list[JsonObject]:
    namespaces = [make(NAMESPACE_KIND, NAMESPACE), make(NAMESPACE_KIND, SYSTEM)]
    return [*namespaces, *([gpu_node()] if nodes is None else nodes)]


def effect_of(plan: Plan, kind: str) -> Effect:
    """The one effect of that kind that a plan asks for."""
    (found,) = [effect for effect in plan.effects if effect.kind == kind]
    return found
