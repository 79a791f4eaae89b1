"""Objects around artifacts and caches, and a little cluster in which plans of the artifacts service are carried out."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from support.builders import NOW, BuiltWorld, condition, make, next_version, owner, terminated, world_of
from support.deciding import decide

from aim_artifacts.service import definition
from aim_artifacts.settings import ArtifactsSettings
from aim_domain import labels
from aim_domain.kinds import AIM_ARTIFACT, AIM_SERVICE_TEMPLATE, AIM_TEMPLATE_CACHE, kind_of
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_JOBS, ARTIFACT_PODS, ARTIFACTS
from controller_runtime import JsonObject, Key, Part, Plan, Reconciler, WriteMode
from controller_runtime.bus.entry import Version
from controller_runtime.kinds import NAMESPACE, POD

SETTINGS = ArtifactsSettings(artifact_downloader_image="downloader:1")
SERVICE = definition(SETTINGS)
ARTIFACT: Reconciler[Any] = SERVICE.reconcilers[0]
CACHE: Reconciler[Any] = SERVICE.reconcilers[1]
TEAM = "ml-team"
URI = "hf://Qwen/Qwen3-32B"
MODEL = "Qwen/Qwen3-32B"
UID = "11111111-2222-3333-4444-555555555555"


def artifact(name: str = "qwen", *, uid: str = UID, uri: str = URI, **members: Any) -> JsonObject:
    """An artifact; ``spec`` adds to its source."""
    spec = {"sourceUri": uri, **members.pop("spec", {})}
    return make(AIM_ARTIFACT, name, namespace=TEAM, uid=uid, spec=spec, **members)


def cache(name: str = "qwen", *, spec: JsonObject | None = None, finalized: bool = True, **members: Any) -> JsonObject:
    """A cache of template ``qwen`` of the namespace."""
    wanted = {"templateName": "qwen", "templateScope": "Namespace", "mode": "Shared", **(spec or {})}
    finalizers = [labels.FINALIZER_TEMPLATE_CACHE] if finalized else []
    return make(AIM_TEMPLATE_CACHE, name, namespace=TEAM, spec=wanted, finalizers=finalizers, **members)


def template(*sources: JsonObject, status: str = "Ready", ready: bool = True, **members: Any) -> JsonObject:
    """Template ``qwen`` with discovered sources."""
    body = {
        "status": status,
        "modelSources": list(sources),
        "conditions": [condition("Ready", ready, "AllComponentsReady" if ready else "NotReadyYet", "because")],
    }
    return make(AIM_SERVICE_TEMPLATE, "qwen", namespace=TEAM, spec={"modelName": "m"}, status=body, **members)


def source(model: str = MODEL, uri: str = URI, **members: Any) -> JsonObject:
    """A model source."""
    return {"modelId": model, "sourceUri": uri, **members}


def namespace(**members: Any) -> JsonObject:
    """The namespace of all these objects."""
    return make(NAMESPACE, TEAM, **members)


@dataclass
class Cluster:
    """A world that changes as plans say, and as Kubernetes would do on its own."""

    world: BuiltWorld
    now: datetime = NOW
    uids: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, *objects: JsonObject) -> "Cluster":
        return cls(world_of(SERVICE.consumes, *objects, indexes=SERVICE.indexes))

    def plan(self, reconciler: Reconciler[Any], name: str) -> Plan:
        """What a pass decides now."""
        obj = self.world.object(reconciler.part, TEAM, name)
        return decide(reconciler, obj, self.world.view(), self.now)

    def run(self, reconciler: Reconciler[Any], name: str) -> Plan:
        """One pass, carried out."""
        plan = self.plan(reconciler, name)
        self._carry_out(reconciler.part, name, plan)
        return plan

    def settle(self, reconciler: Reconciler[Any], name: str) -> Plan:
        """Passes until one changes nothing any more."""
        for _ in range(10):
            before = self.snapshot()
            plan = self.run(reconciler, name)
            if self.snapshot() == before:
                return plan
        raise AssertionError(f"{reconciler.controller} {name} does not come to rest")

    def snapshot(self) -> list[tuple[str, str, JsonObject]]:
        """Everything that our service writes, without versions."""
        return [
            (part.name, str(entry.key), _without_version(entry.raw))
            for part in SERVICE.publishes
            for entry in self.world.world.all(part)
        ]

    def raw(self, part: Part[Any], name: str) -> JsonObject:
        """The stored JSON of an object that is there."""
        assert self.world.world.get(part, Key(TEAM, name)) is not None, f"no {part} {name}"
        return self.world.stored[part, Key(TEAM, name)]

    def names(self, part: Part[Any]) -> list[str]:
        """Names of the objects of a part."""
        return [entry.key.name for entry in self.world.world.all(part)]

    def only(self, part: Part[Any]) -> JsonObject:
        """The one object of a part."""
        (entry,) = self.world.world.all(part)
        return self.world.stored[part, entry.key]

    def change(self, part: Part[Any], name: str, /, **members: Any) -> None:
        """A new version of an object with other members; ``status`` merges."""
        old = self.raw(part, name)
        merged = {**old, **members}
        if "status" in members:
            merged["status"] = {**(old.get("status") or {}), **members["status"]}
        self._store(part, merged)

    def change_metadata(self, part: Part[Any], name: str, /, **members: Any) -> None:
        """A new version of an object with other metadata."""
        old = self.raw(part, name)
        members = {key: value for key, value in {**old["metadata"], **members}.items() if value is not None}
        self._store(part, {**old, "metadata": members})

    def remove(self, part: Part[Any], name: str) -> None:
        """An object is gone, and with it what it owns."""
        gone = self.raw(part, name)["metadata"]["uid"]
        tombstone = Version(gone, "", next(self.world.sequences), "e1")
        self.world.world.delete(part, Key(TEAM, name), tombstone, 0.0)
        owned: tuple[Part[Any], ...] = (ARTIFACT_CLAIMS, ARTIFACT_JOBS, ARTIFACT_PODS, ARTIFACTS)
        for child_part in owned:
            for entry in list(self.world.world.all(child_part)):
                owners = entry.raw["metadata"].get("ownerReferences") or []
                if any(reference["uid"] == gone for reference in owners):
                    self.remove(child_part, entry.key.name)

    def bind_claim(self) -> None:
        """The volume is there."""
        self.change(ARTIFACT_CLAIMS, self.only(ARTIFACT_CLAIMS)["metadata"]["name"], status={"phase": "Bound"})

    def start_pod(self, job_name: str | None = None, phase: str = "Running", *statuses: JsonObject) -> str:
        """The Job's next pod."""
        job = self.only(ARTIFACT_JOBS) if job_name is None else self.raw(ARTIFACT_JOBS, job_name)
        self.now += timedelta(seconds=1)
        name = f"{job['metadata']['name']}-{self._number('pod')}"
        template_labels = job["spec"]["template"]["metadata"]["labels"]
        pod = make(
            POD,
            name,
            namespace=TEAM,
            owners=[owner(job)],
            labels=template_labels,
            created=self.now,
            status={"phase": phase, "containerStatuses": list(statuses)},
        )
        self.world.put(ARTIFACT_PODS, pod)
        return name

    def end_pod(self, name: str, exit_code: int, message: str = "", reason: str = "") -> None:
        """The pod's container ends."""
        why = reason or ("Completed" if exit_code == 0 else "Error")
        container = terminated("model-download", exit_code, why, message)
        phase = "Succeeded" if exit_code == 0 else "Failed"
        self.change(ARTIFACT_PODS, name, status={"phase": phase, "containerStatuses": [container]})

    def end_job(self, type_: str = "Complete", reason: str = "", since: datetime = NOW) -> None:
        """The Job comes to its end."""
        self.change(
            ARTIFACT_JOBS,
            self.only(ARTIFACT_JOBS)["metadata"]["name"],
            status={"conditions": [condition(type_, True, reason or "Because", since=since)]},
        )

    def _carry_out(self, part: Part[Any], name: str, plan: Plan) -> None:
        for patch in plan.patches:
            self._patch(patch.part, patch.name, patch.body)
        for delete in plan.deletes:
            self.remove(delete.part, delete.name)
        for child in plan.children:
            if child.mode is WriteMode.CREATE and child.name in self.names(child.part):
                continue
            self._create(child.part, child.body, self.raw(part, name) if child.owned else None)
        if plan.status is not None:
            old = self.raw(part, name)
            kept = {field: value for field, value in (old.get("status") or {}).items() if field in _OF_THE_POD}
            merged = {**plan.status}
            for field_name, value in kept.items():
                merged[field_name] = {**value, **plan.status.get(field_name, {})}
            if merged != old.get("status"):
                self._store(part, {**old, "status": merged})

    def _patch(self, part: Part[Any], name: str, body: JsonObject) -> None:
        stored = self.raw(part, name)
        old, change = stored["metadata"], body["metadata"]
        merged = {**old, **change}
        for field_name in ("labels", "annotations"):
            merged[field_name] = {**old.get(field_name, {}), **(change.get(field_name) or {})}
        if "spec" in body:
            self.change(part, name, spec={**stored["spec"], **body["spec"]})
            merged["generation"] = old["generation"] + 1
        self.change_metadata(part, name, **merged)

    def _create(self, part: Part[Any], body: JsonObject, parent: JsonObject | None) -> None:
        uid = f"{body['kind'].lower()}-{self._number(body['kind'])}"
        metadata = {
            **body["metadata"],
            "uid": uid,
            "resourceVersion": next_version(),
            "generation": 1,
            "creationTimestamp": self.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            **({"ownerReferences": [owner(parent)]} if parent is not None else {}),
        }
        assert kind_of(body["apiVersion"], body["kind"]) is part.kind
        self.world.put(part, {**body, "metadata": metadata})

    def _store(self, part: Part[Any], obj: JsonObject) -> None:
        self.world.put(part, {**obj, "metadata": {**obj["metadata"], "resourceVersion": next_version()}})

    def _number(self, what: str) -> int:
        self.uids[what] = self.uids.get(what, 0) + 1
        return self.uids[what]


_OF_THE_POD = ("progress", "download")


def _without_version(raw: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in raw["metadata"].items() if key != "resourceVersion"}
    return {**raw, "metadata": metadata}


def conditions_of(plan: Plan) -> dict[str, tuple[str, str]]:
    """Status and reason by type."""
    assert plan.status is not None
    return {one["type"]: (one["status"], one["reason"]) for one in plan.status["conditions"]}


def message_of(plan: Plan, type_: str) -> str:
    """Message of a condition."""
    assert plan.status is not None
    return next(str(one["message"]) for one in plan.status["conditions"] if one["type"] == type_)


def value_of(plan: Plan) -> str:
    """The status value."""
    assert plan.status is not None
    return str(plan.status["status"])


def children_of(plan: Plan, part: Part[Any]) -> list[JsonObject]:
    """Bodies of the children of one part."""
    return [child.body for child in plan.children if child.part is part]


def environment(container: JsonObject) -> dict[str, Any]:
    """Literal variables by name."""
    return {variable["name"]: variable.get("value") for variable in container["env"]}
