"""A namespace whose storage is limited, artifacts with volumes in it, and their users."""

from datetime import timedelta
from typing import Any

from support.artifacts import TEAM, Cluster, artifact, namespace, template_cache
from support.builders import condition, make

from aim_artifacts.limits.mounts import MOUNTED_CLAIMS
from aim_domain import labels
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_SERVICE, INFERENCE_SERVICE
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_JOBS, ARTIFACTS
from controller_runtime import Effect, JsonObject, Plan, quantity
from controller_runtime.kinds import POD
from controller_runtime.testing import NOW

SMALL = {labels.ANNOTATION_PVC_HEADROOM: "0"}
"""Volumes as large as the weights."""


def limited(limit: str = "20Gi", **spec: Any) -> JsonObject:
    """The cluster's runtime config with a limit for each namespace."""
    return make(
        AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"artifactStorageQuota": {"defaultNamespaceLimit": limit}, **spec}
    )


def sized(
    name: str, *, age: int = 0, size: str = "10Gi", annotations: dict[str, str] | None = None, **spec: Any
) -> JsonObject:
    """An artifact of a known size, of a source of its own, so many hours old; ``spec`` are its further members."""
    notes = {**SMALL, **(annotations or {})}
    created = NOW - timedelta(hours=age)
    return artifact(
        name, uid=f"uid-{name}", uri=f"hf://org/{name}", created=created, annotations=notes, spec={"size": size, **spec}
    )


class Full(Cluster):
    """A namespace of 20 GiB with volumes of 10 GiB, and whoever wants one more."""

    def __init__(self, *objects: JsonObject, old: tuple[JsonObject, ...] = (), quota: JsonObject | None = None) -> None:
        super().__init__(namespace(), quota or limited(), *old, *objects)
        for obj in old:
            self.ready(obj["metadata"]["name"])

    def ready(self, name: str) -> None:
        """Its volume is there, and its download is over."""
        self.run(ARTIFACTS, name)
        claim = self.claim_of(name)
        self.change(ARTIFACT_CLAIMS, claim, status={"phase": "Bound"})
        self.settle(ARTIFACTS, name)
        jobs = (one["metadata"] for one in self.all(ARTIFACT_JOBS))
        job = next(one["name"] for one in jobs if one["ownerReferences"][0]["name"] == name)
        self.change(ARTIFACT_JOBS, job, status={"conditions": [condition("Complete", True)]})
        self.settle(ARTIFACTS, name)

    def claim_of(self, name: str) -> str:
        """Name of an artifact's claim."""
        found = (one["metadata"] for one in self.all(ARTIFACT_CLAIMS))
        return next(str(one["name"]) for one in found if one["ownerReferences"][0]["name"] == name)

    def allocated(self) -> int:
        """Bytes of all claims of the namespace, in whatever state they are."""
        claims = self.all(ARTIFACT_CLAIMS)
        return sum(quantity.parse(one["spec"]["resources"]["requests"]["storage"]).ceiling for one in claims)

    def listed(self, *claims: str) -> None:
        """The live list of pods comes back."""
        self.answer(Effect(MOUNTED_CLAIMS.name, TEAM), {"claims": list(claims)})

    def evict_for(self, name: str) -> Plan:
        """A pass that asks who mounts what, the answer, and the pass after it."""
        plan = self.run(ARTIFACTS, name)
        assert [(effect.kind, effect.key) for effect in plan.effects] == [(MOUNTED_CLAIMS.name, TEAM)]
        assert not plan.deletes
        self.listed()
        return self.run(ARTIFACTS, name)

    def victims(self, name: str = "x") -> list[str]:
        """Who goes for it."""
        plan = self.run(ARTIFACTS, name)
        if any(effect.kind == MOUNTED_CLAIMS.name for effect in plan.effects) and not plan.deletes:
            self.listed()
            plan = self.run(ARTIFACTS, name)
        return [delete.name for delete in plan.deletes]


def workload(name: str, claim: str, **metadata: Any) -> JsonObject:
    """An InferenceService that mounts a claim."""
    volumes = [{"name": "w", "persistentVolumeClaim": {"claimName": claim}}]
    return make(INFERENCE_SERVICE, name, namespace=TEAM, spec={"predictor": {"volumes": volumes}}, **metadata)


def predictor(claim: str, phase: str = "Running") -> JsonObject:
    """A pod of an InferenceService that mounts a claim."""
    volumes = [{"name": "w", "persistentVolumeClaim": {"claimName": claim}}]
    marks = {labels.KSERVE_INFERENCE_SERVICE: "chat"}
    spec = {"volumes": volumes, "containers": [{"name": "c", "image": "i:1"}]}
    return make(POD, "p", namespace=TEAM, labels=marks, spec=spec, status={"phase": phase})


def user(*, resolved: str = "qwen", scope: str = "Namespace", mode: str | None = None, **metadata: Any) -> JsonObject:
    """An AIMService that wants the cache of a template."""
    spec = {"model": {"name": "m"}, **({"caching": {"mode": mode}} if mode else {})}
    status = {"resolvedTemplate": {"name": resolved, "scope": scope}}
    return make(AIM_SERVICE, "chat", namespace=TEAM, spec=spec, status=status, **metadata)


def listing(uid: str, **members: Any) -> JsonObject:
    """A cache that lists an artifact."""
    entry = {"uid": uid, "name": "a", "model": "m", "status": "Ready"}
    return template_cache(status={"artifacts": {"m": entry}}, **members)
