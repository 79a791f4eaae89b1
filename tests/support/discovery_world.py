"""The discovery service without I/O: passes over a world, with their plans carried out in it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from support.builders import NAMESPACE, NOW, BuiltWorld, make, owner, world_of
from support.deciding import decide

from aim_discovery.effect_kinds import SERVICE_NAME
from aim_discovery.service import definition
from aim_discovery.settings import DiscoverySettings
from aim_domain.kinds import AIM_CLUSTER_MODEL, AIM_CLUSTER_SERVICE_TEMPLATE, AIM_MODEL, AIM_SERVICE_TEMPLATE
from aim_domain.parts import DISCOVERY_JOBS
from controller_runtime import (
    FACT,
    FACTS,
    AimError,
    Effect,
    JsonObject,
    Key,
    Part,
    Plan,
    Reconciler,
    StatusValue,
    timestamp,
)
from controller_runtime.bus.fact import fact_key
from controller_runtime.bus.view import ReadLog
from controller_runtime.kinds import NAMESPACE as NAMESPACE_KIND
from controller_runtime.kinds import NODE, POD
from controller_runtime.reconcile.child_body import Target, with_owner
from controller_runtime.reconcile.difference import same_status

SYSTEM = "aim-system"
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


def settings(**values: Any) -> DiscoverySettings:
    return DiscoverySettings.model_validate({"system_namespace": SYSTEM, **values})


def gpu_node(name: str = "gpu-1", device: str = "74a1", **labels: str) -> JsonObject:
    return make(NODE, name, labels={"amd.com/gpu.device-id": device, **labels})


def model(name: str = "qwen", image: str = IMAGE, **spec: Any) -> JsonObject:
    return make(AIM_MODEL, name, spec={"image": image, **spec})


def cluster_model(name: str = "qwen", image: str = IMAGE, **spec: Any) -> JsonObject:
    return make(AIM_CLUSTER_MODEL, name, spec={"image": image, **spec})


def template(name: str = "tpl", model_name: str = "qwen", **spec: Any) -> JsonObject:
    return make(AIM_SERVICE_TEMPLATE, name, spec={"modelName": model_name, **spec})


def cluster_template(name: str = "tpl", model_name: str = "qwen", **spec: Any) -> JsonObject:
    return make(AIM_CLUSTER_SERVICE_TEMPLATE, name, spec={"modelName": model_name, **spec})


MI300X: JsonObject = {"gpu": {"requests": 1, "model": "MI300X"}}


@dataclass
class DiscoveryWorld:
    """A world and a clock; `run` makes a pass and carries out what it decided."""

    world: BuiltWorld
    now: datetime = NOW
    settings: DiscoverySettings = field(default_factory=settings)

    def run(self, part: Part[Any], name: str, namespace: str = NAMESPACE, failure: AimError | None = None) -> Plan:
        """One pass over an object; status, children and deletes enter the world."""
        obj = self.world.object(part, namespace, name)
        plan = decide(self._reconciler(part), obj, self.world.view(failure), self.now)
        raw = self.raw(part, name, namespace)
        for child in plan.children:
            body = with_owner(Target(part, raw), child)
            kind = child.part.kind
            metadata = body["metadata"]
            made = make(
                kind,
                child.name,
                namespace=child.namespace or None,
                uid=f"{kind.singular}-{child.name}-{self.now.timestamp():.0f}",
                created=self.now,
                labels=metadata["labels"],
                owners=metadata["ownerReferences"],
            )
            if self.find(child.part, child.name, child.namespace) is None:
                self.world.put(child.part, {**body, "metadata": made["metadata"]})
        for delete in plan.deletes:
            self.remove(delete.part, delete.name, delete.namespace)
        if plan.status is not None and not same_status(plan.status, raw.get("status") or {}):
            self.world.put(part, {**raw, "status": plan.status})
        return plan

    def settle(self, part: Part[Any], name: str, namespace: str = NAMESPACE, passes: int = 5) -> Plan:
        """Passes until the status stays as it is."""
        plan = self.run(part, name, namespace)
        for _ in range(passes):
            before = self.status(part, name, namespace)
            plan = self.run(part, name, namespace)
            if same_status(self.status(part, name, namespace), before):
                return plan
        raise AssertionError(f"{part} {name} does not settle: {self.status(part, name, namespace)}")

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # Reading

    def reads(self, part: Part[Any], name: str, namespace: str = NAMESPACE) -> ReadLog:
        """What a pass over an object reads."""
        obj, view = self.world.object(part, namespace, name), self.world.view()
        decide(self._reconciler(part), obj, view, self.now)
        return view.reads

    def plan(self, part: Part[Any], name: str, namespace: str = NAMESPACE) -> Plan:
        """What a pass over an object would do; nothing is carried out."""
        return decide(self._reconciler(part), self.world.object(part, namespace, name), self.world.view(), self.now)

    def _reconciler(self, part: Part[Any]) -> Reconciler[Any]:
        return next(one for one in definition(self.settings).reconcilers if one.part is part)

    def find(self, part: Part[Any], name: str, namespace: str = NAMESPACE) -> JsonObject | None:
        entry = self.world.world.get(part, Key(namespace if part.kind.namespaced else "", name))
        return None if entry is None else entry.raw

    def raw(self, part: Part[Any], name: str, namespace: str = NAMESPACE) -> JsonObject:
        found = self.find(part, name, namespace)
        assert found is not None, f"no {part} {namespace}/{name}"
        return found

    def status(self, part: Part[Any], name: str, namespace: str = NAMESPACE) -> JsonObject:
        return dict(self.raw(part, name, namespace).get("status") or {})

    def value(self, part: Part[Any], name: str, namespace: str = NAMESPACE) -> StatusValue:
        return StatusValue(self.status(part, name, namespace)["status"])

    def condition(self, part: Part[Any], name: str, type_: str, namespace: str = NAMESPACE) -> tuple[str, str] | None:
        """Status and reason of a condition."""
        conditions = self.status(part, name, namespace).get("conditions") or []
        return next(((one["status"], one["reason"]) for one in conditions if one["type"] == type_), None)

    def all(self, part: Part[Any]) -> list[JsonObject]:
        return [entry.raw for entry in self.world.world.all(part)]

    # Acting as the rest of the world

    def change(self, part: Part[Any], name: str, namespace: str = NAMESPACE, **members: Any) -> None:
        """Replace members of an object; a changed spec counts the generation up."""
        raw = self.raw(part, name, namespace)
        metadata = raw["metadata"]
        if "spec" in members:
            metadata = {**metadata, "generation": metadata["generation"] + 1}
        self.world.put(part, {**raw, "metadata": metadata, **members})

    def remove(self, part: Part[Any], name: str, namespace: str = NAMESPACE) -> None:
        self.world.world.absorb_deleted(part, _key(part, name, namespace), self.uid(part, name, namespace), 0.0)

    def uid(self, part: Part[Any], name: str, namespace: str = NAMESPACE) -> str:
        return str(self.raw(part, name, namespace)["metadata"]["uid"])

    def answer(self, effect: Effect, outcome: JsonObject | None = None, failure: AimError | None = None) -> None:
        """Let an effect end, now."""
        where = fact_key(SERVICE_NAME, effect.kind, effect.key)
        before = self.find(FACTS, where.name, where.namespace)
        problem = (
            None
            if failure is None
            else {
                "category": failure.category.value,
                "reason": failure.reason,
                "message": failure.message,
            }
        )
        self.world.put(
            FACTS,
            {
                "apiVersion": FACT.api_version,
                "kind": FACT.kind,
                "metadata": {"namespace": where.namespace, "name": where.name, "uid": where.name},
                "effect": effect.kind,
                "about": effect.key,
                "owner": {"part": "p", "name": "n", "uid": "u"},
                "observedAt": timestamp(self.now),
                "attempts": (before or {}).get("attempts", 0) + 1 if failure else 0,
                "outcome": outcome,
                "failure": problem,
            },
        )

    def end_job(self, name: str, how: str = "Complete", reason: str = "", namespace: str = NAMESPACE) -> None:
        """Let a Job complete or fail."""
        conditions = [{"type": how, "status": "True", "reason": reason, "lastTransitionTime": timestamp(self.now)}]
        self.world.put(
            DISCOVERY_JOBS, {**self.raw(DISCOVERY_JOBS, name, namespace), "status": {"conditions": conditions}}
        )

    def job_pod(self, job: str, phase: str, *containers: JsonObject, namespace: str = NAMESPACE) -> JsonObject:
        """A pod of a Job."""
        raw = self.raw(DISCOVERY_JOBS, job, namespace)
        labels = {"job-name": job, "app.kubernetes.io/component": "discovery"}
        status = {"phase": phase, "containerStatuses": list(containers)}
        return make(POD, f"{job}-x", namespace=namespace, labels=labels, owners=[owner(raw)], status=status)


def _key(part: Part[Any], name: str, namespace: str) -> Key:
    return Key(namespace if part.kind.namespaced else "", name)


def discovery_world(*objects: JsonObject, nodes: Iterable[JsonObject] | None = None, **values: Any) -> DiscoveryWorld:
    """A cluster with one MI300X node, the usual namespaces, and these objects."""
    own = settings(**values)
    declared = definition(own)
    cluster = [gpu_node()] if nodes is None else list(nodes)
    namespaces = [make(NAMESPACE_KIND, NAMESPACE), make(NAMESPACE_KIND, SYSTEM)]
    world = world_of(declared.consumes, *namespaces, *cluster, *objects, indexes=declared.indexes)
    return DiscoveryWorld(world, settings=own)


def effect_of(plan: Plan, kind: str) -> Effect:
    """The one effect of that kind that a plan asks for."""
    (found,) = [effect for effect in plan.effects if effect.kind == kind]
    return found
