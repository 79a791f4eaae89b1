"""Objects around artifacts and caches, and a little cluster in which plans of the artifacts service are carried out."""

from datetime import datetime
from typing import Any

from support.builders import condition, make, owner, terminated
from support.deciding import decide
from support.live import Live

from aim_artifacts.download_account import DOWNLOAD_ACCOUNT, DownloadAccount
from aim_artifacts.service import definition
from aim_artifacts.settings import ArtifactsSettings
from aim_domain import labels
from aim_domain.kinds import AIM_ARTIFACT, AIM_SERVICE_TEMPLATE, AIM_TEMPLATE_CACHE
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_JOBS, ARTIFACT_PODS
from controller_runtime import Effect, JsonObject, Part, Plan, Reconciler, to_json
from controller_runtime.kinds import NAMESPACE, POD
from controller_runtime.reconcile.plan import Execution
from controller_runtime.testing import NOW, BuiltCache, cache_of

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


def template_cache(
    name: str = "qwen", *, spec: JsonObject | None = None, finalized: bool = True, **members: Any
) -> JsonObject:
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


def seen(*objects: JsonObject) -> BuiltCache:
    """The cache of the service with these objects, in which nothing happens."""
    return cache_of(SERVICE.consumes, *objects, indexes=SERVICE.indexes)


def plan_of(cache: BuiltCache, part: Part[Any], name: str = "qwen") -> Plan:
    """What a pass would do, which nobody carries out."""
    reconciler = next(one for one in SERVICE.reconcilers if one.part is part)
    return decide(reconciler, cache.object(part, TEAM, name), cache.view(), cache.now)


class Cluster(Live):
    """The service at work, in a cluster whose Jobs and volumes do what a test says.

    Attributes:
        account: what is known of the account of downloads in each pass; `None` = nothing but what a test answers.
    """

    account: DownloadAccount | None = DownloadAccount()

    def __init__(self, *objects: JsonObject) -> None:
        super().__init__(SERVICE, *objects, namespace=TEAM)

    def _process(self, part: Part[Any], name: str, namespace: str) -> list[tuple[Plan, Execution]]:
        if self.account is not None:
            self.answer(Effect(DOWNLOAD_ACCOUNT.name, TEAM), to_json(self.account))
        return super()._process(part, name, namespace)

    def bind_claim(self) -> None:
        """The volume is there."""
        self.change(ARTIFACT_CLAIMS, self.only(ARTIFACT_CLAIMS)["metadata"]["name"], status={"phase": "Bound"})

    def start_pod(self, job_name: str | None = None, phase: str = "Running", *statuses: JsonObject) -> str:
        """The Job's next pod."""
        job = self.only(ARTIFACT_JOBS) if job_name is None else self.raw(ARTIFACT_JOBS, job_name)
        self.later(1)
        name = f"{job['metadata']['name']}-{len(self.names(ARTIFACT_PODS)) + 1}"
        template = job["spec"]["template"]
        pod = make(
            POD,
            name,
            namespace=TEAM,
            owners=[owner(job)],
            labels=template["metadata"]["labels"],
            created=self.now,
            spec=template["spec"],
            status={"phase": phase, "containerStatuses": list(statuses)},
        )
        self.put(ARTIFACT_PODS, pod)
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
