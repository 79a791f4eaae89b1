"""LoRA adapters of a service: disk, downloads, engine, what is said of each (docs/spec/adapters.md)."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import condition, fact, make, owner
from support.deciding import decide
from support.serving import CLAIM as WEIGHTS
from support.serving import (
    DEFINITION,
    TEAM,
    aim_service,
    children_of,
    condition_of,
    config,
    message_of,
    model,
    node,
    overall,
    plan_for,
    predictor_pod,
    serving_cache,
    template,
    template_cache,
    workload,
)
from support.woken import woken

from aim_domain import AIMModel, AIMService, AIMServiceTemplate, labels, resolve_config
from aim_domain.kinds import AIM_ARTIFACT
from aim_domain.naming import adapter_artifact_name, adapter_disk_name, adapter_folder, claim_name
from aim_domain.parts import ARTIFACTS, PREDICTOR_PODS, SERVICES
from aim_serving import SERVICE_NAME
from aim_serving.adapter_loading import ADAPTER_LOAD, LoadParams, LoadResult, Refusal
from aim_serving.inference_service import OF_SCALE, asked_for
from aim_serving.service import SERVICE_RECONCILER
from controller_runtime import Category, ClassifiedError, JsonObject, Plan, loads, to_json
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM
from controller_runtime.testing import NOW, BuiltCache

SQL = {"name": "sql", "sourceUri": "hf://team/sql-lora"}
NAME = "qwen-chat"
PLAIN = aim_service()
UID = PLAIN["metadata"]["uid"]
DISK = adapter_disk_name(NAME, UID, "20Gi")
ADAPTER = adapter_artifact_name(NAME, "sql", "hf://team/sql-lora", DISK)
MOUNT = {"name": "adapters", "mountPath": "/adapters", "readOnly": True}


def disk(name: str = DISK, *, of: JsonObject | None = PLAIN, **status: Any) -> JsonObject:
    status = status or {"status": "Ready"}
    owners = [owner(of)] if of else []
    own = {labels.COMPONENT: labels.COMPONENT_ADAPTER_DISK} if of else {}
    spec = {"type": "adapterDisk", "size": "20Gi"}
    return make(AIM_ARTIFACT, name, namespace=TEAM, owners=owners, labels=own, spec=spec, status=status)


def adapter(name: str = ADAPTER, status: str = "Ready", *, on: str = DISK, of: JsonObject | None = PLAIN) -> JsonObject:
    owners = [owner(of)] if of else []
    own = {labels.COMPONENT: labels.COMPONENT_ADAPTER} if of else {}
    spec = {"type": "adapter", "disk": on, "sourceUri": "hf://team/sql-lora"}
    found = {"status": status, "conditions": [condition("Ready", status == "Ready", "Why", "because")]}
    return make(AIM_ARTIFACT, name, namespace=TEAM, owners=owners, labels=own, spec=spec, status=found)


def claim(of: str = DISK) -> JsonObject:
    uid = disk(of)["metadata"]["uid"]
    return make(PERSISTENT_VOLUME_CLAIM, claim_name(of, uid), namespace=TEAM, labels={labels.CACHE_NAME: of})


CLAIM = claim()["metadata"]["name"]


def planned(*others: JsonObject, running: bool = False, cached: str = "Ready", **spec: Any) -> Plan:
    service = aim_service(**{"adapters": [SQL], **spec})
    present = [workload(service, ready=True, **mounting())] if running else []
    around = [template(), model(), node(), template_cache("qwen3-lat-a04542d9", status=cached), config(), *present]
    return plan_for(serving_cache(service, *around, *others))


def mounting() -> JsonObject:
    weights = {"name": "weights", "persistentVolumeClaim": {"claimName": WEIGHTS}}
    return {"volumes": [weights, {"name": "adapters", "persistentVolumeClaim": {"claimName": CLAIM}}]}


def container(plan: Plan) -> JsonObject:
    [body] = children_of(plan, "InferenceService")
    found: JsonObject = body["spec"]["predictor"]["containers"][0]
    return found


def env(plan: Plan) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container(plan)["env"]}


def pod(name: str = "p", *, restarts: int = 0, volume: str = "adapters") -> JsonObject:
    status = {"name": "kserve-container", "restartCount": restarts, "ready": True}
    found = predictor_pod("Running", ready=True, containers=[status], name=name)
    found["spec"]["volumes"] = [{"name": volume, "persistentVolumeClaim": {"claimName": CLAIM}}]
    found["status"]["podIP"] = "10.0.0.7"
    return found


def asked(plan: Plan) -> list[LoadParams]:
    return [LoadParams.model_validate(one.params) for one in plan.effects if one.kind == ADAPTER_LOAD.name]


def adapters_of(plan: Plan) -> list[tuple[str, str, str | None]]:
    assert plan.status is not None
    return [(one["name"], one["state"], one.get("pods")) for one in plan.status.get("adapters") or ()]


@pytest.mark.spec("LA-001")
def test_a_service_without_adapters_reads_and_plans_nothing_for_them() -> None:
    service = aim_service()
    around = [template(), model(), node(), template_cache("qwen3-lat-a04542d9"), config()]
    cache = serving_cache(service, *around, workload(service, ready=True), predictor_pod("Running", ready=True))
    view = cache.view()
    plan = decide(SERVICE_RECONCILER, cache.object(SERVICES, TEAM, NAME), view, NOW)
    assert "aimartifacts" not in view.reads.parts
    assert not [one for one in plan.effects if one.kind == ADAPTER_LOAD.name]
    assert children_of(plan, "AIMArtifact") == []
    assert not [one for one in container(plan)["volumeMounts"] if one["name"] == "adapters"]
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in env(plan)
    assert plan.status is not None
    assert "adapters" not in plan.status


@pytest.mark.spec("LA-011", "LA-013", "LA-020")
def test_the_disk_comes_first_then_the_pods_with_it_then_the_downloads() -> None:
    assert children_of(planned(cached="Progressing"), "AIMArtifact") == [], "the weights come first"
    first = planned(adapterRuntime={"diskSize": "5Gi"}, storage={"defaultStorageClassName": "shared"})
    [made] = children_of(first, "AIMArtifact")
    assert (made["metadata"]["name"], made["spec"]) == (
        adapter_disk_name(NAME, UID, "5Gi"),
        {"type": "adapterDisk", "size": "5Gi", "storageClassName": "shared"},
    )
    assert children_of(first, "InferenceService") == [], "its pods would be replaced in a moment"
    second = planned(disk(), claim())
    [download] = children_of(second, "AIMArtifact")
    assert download["metadata"]["name"] == ADAPTER
    assert download["spec"] == {"type": "adapter", "disk": DISK, "sourceUri": "hf://team/sql-lora"}
    assert MOUNT in container(second)["volumeMounts"]
    [body] = children_of(second, "InferenceService")
    volume = {"name": "adapters", "persistentVolumeClaim": {"claimName": CLAIM, "readOnly": True}}
    assert volume in body["spec"]["predictor"]["volumes"]
    assert [child.body["kind"] for child in second.children][-1] == "AIMArtifact", "the model is not kept waiting"


@pytest.mark.spec("LA-013", "LA-033", "LA-041")
def test_a_disk_without_room_leaves_the_model_alone() -> None:
    quota = condition("StorageQuotaReady", False, "StorageQuotaExceeded", "20Gi of 10Gi")
    ready = condition("Ready", False, "StorageQuotaExceeded", "20Gi of 10Gi")
    plan = planned(disk(status="Pending", conditions=[quota, ready]))
    assert "/adapters" not in [one["mountPath"] for one in container(plan)["volumeMounts"]]
    assert condition_of(plan, "AdaptersReady") == ("False", "AdapterDiskNotReady")
    assert "20Gi of 10Gi" in message_of(plan, "AdaptersReady")


@pytest.mark.spec("LA-013", "LA-033")
def test_a_disk_without_a_volume_leaves_the_model_alone_and_what_mounts_it_as_it_is() -> None:
    refused = condition("CachePvcReady", False, "ProvisioningFailed", "no such class")
    pending = disk(
        status="Pending", conditions=[refused, condition("Ready", False, "ProvisioningFailed", "no such class")]
    )
    plan = planned(pending, claim())
    assert MOUNT not in container(plan)["volumeMounts"]
    assert "no such class" in message_of(plan, "AdaptersReady")
    assert MOUNT in container(planned(pending, claim(), running=True))["volumeMounts"]
    waiting = condition("CachePvcReady", False, "ResourceNotReady", "not there yet")
    on_its_way = planned(disk(status="Progressing", conditions=[waiting]))
    assert children_of(on_its_way, "InferenceService") == []


@pytest.mark.spec("LA-012", "LA-033")
def test_a_disk_that_goes_takes_no_pod_along() -> None:
    plan = planned(running=True)
    [body] = children_of(plan, "InferenceService")
    claims = [one["persistentVolumeClaim"]["claimName"] for one in body["spec"]["predictor"]["volumes"][1:]]
    assert claims == [WEIGHTS, CLAIM], "the weights and the disk that they have"
    assert condition_of(plan, "CacheReady") == ("True", "CacheReady"), "no weights are gone with it"


@pytest.mark.spec("LA-030")
@pytest.mark.parametrize(
    ("runtime", "profile", "expected"),
    [
        ({}, None, (8, 16, 32)),
        ({}, {"max-loras": 2, "max-lora-rank": 64}, (2, 16, 64)),
        ({"maxLoras": 20}, {"max-loras": 2}, (20, 20, 32)),
        ({"maxCpuLoras": 100, "maxRank": 8}, {"max-lora-rank": "much"}, (8, 100, 8)),
    ],
)
def test_limits_of_the_engine(runtime: JsonObject, profile: JsonObject | None, expected: tuple[int, int, int]) -> None:
    shape = {"metadata": {"type": "optimized", "metric": "latency", "precision": "fp8", "gpu": "MI300X", "gpuCount": 1}}
    found = template(more_status={"profile": {**shape, **({"engine_args": profile} if profile else {})}})
    service = aim_service(adapters=[SQL], adapterRuntime=runtime)
    around = [found, model(), node(), template_cache("qwen3-lat-a04542d9"), config(), disk(), claim()]
    variables = env(plan_for(serving_cache(service, *around)))
    arguments = loads(variables["AIM_ENGINE_ARGS"])
    assert arguments["enable-lora"] is True
    assert tuple(arguments[name] for name in ("max-loras", "max-cpu-loras", "max-lora-rank")) == expected
    assert variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"


@pytest.mark.spec("LA-030")
def test_what_a_user_says_to_the_engine_stays() -> None:
    own = [{"name": "AIM_ENGINE_ARGS", "value": '{"max-loras": 3, "max-model-len": 1024}'}]
    arguments = loads(env(planned(disk(), claim(), env=own))["AIM_ENGINE_ARGS"])
    assert (arguments["max-loras"], arguments["max-model-len"], arguments["enable-lora"]) == (3, 1024, True)


@pytest.mark.spec("LA-031", "LA-040", "LA-041")
def test_each_ready_pod_is_asked_to_load_what_is_there() -> None:
    files = (disk(), claim(), adapter())
    plan = planned(*files, pod(), pod("q", volume="weights"), running=True)
    [params] = asked(plan)
    folder = adapter_folder(ADAPTER, adapter()["metadata"]["uid"])
    assert (params.url, params.kept) == ("http://10.0.0.7:8000", ("sql",))
    assert [to_json(one) for one in params.wanted] == [{"name": "sql", "path": f"/adapters/{folder}"}]
    assert adapters_of(plan) == [("sql", "Loading", "0/1")]
    assert condition_of(plan, "AdaptersReady") == ("False", "AdaptersLoading")


def loaded(params: LoadParams, *, restarts: int = 0, **members: Any) -> JsonObject:
    """The fact of a pass over the engine."""
    outcome = to_json(LoadResult(digest=params.digest, **members))
    return fact_of(restarts, outcome=outcome)


def fact_of(restarts: int, **members: Any) -> JsonObject:
    key = f"{UID}/{pod()['metadata']['uid']}/{restarts}"
    return fact(SERVICE_NAME, ADAPTER_LOAD.name, key, PLAIN, SERVICES, observed=NOW, **members)


@pytest.mark.spec("LA-031", "LA-032", "LA-040")
def test_what_an_engine_has_is_not_asked_again_until_it_restarts() -> None:
    files = (disk(), claim(), adapter())
    [params] = asked(planned(*files, pod(), running=True))
    settled = planned(*files, pod(), loaded(params, loaded=params.wanted), running=True)
    assert (asked(settled), adapters_of(settled)) == ([], [("sql", "Ready", "1/1")])
    assert condition_of(settled, "AdaptersReady") == ("True", "AdaptersLoaded")
    restarted = planned(*files, pod(restarts=1), loaded(params, loaded=params.wanted), running=True)
    assert adapters_of(restarted) == [("sql", "Loading", "0/1")]
    assert len(asked(restarted)) == 1


@pytest.mark.spec("LA-032", "LA-033")
def test_a_refusal_is_reported_and_tried_again_and_changes_nothing_else() -> None:
    files = (disk(), claim(), adapter())
    [params] = asked(planned(*files, pod(), running=True))
    refusal = Refusal(name="sql", path=params.wanted[0].path, why="the engine refuses it (400): rank 64")
    plan = planned(*files, pod(), loaded(params, refused=(refusal,)), running=True)
    assert condition_of(plan, "AdaptersReady") == ("False", "AdapterFailed")
    assert "rank 64" in message_of(plan, "AdaptersReady")
    assert overall(plan) == overall(planned(*files, pod(), loaded(params, loaded=params.wanted), running=True))
    [effect] = [one for one in plan.effects if one.kind == ADAPTER_LOAD.name]
    assert effect.not_before == NOW + timedelta(minutes=2)


@pytest.mark.spec("LA-032")
@pytest.mark.parametrize(("attempts", "seconds"), [(1, 10), (2, 20), (5, 160), (6, 300), (500, 300)])
def test_an_engine_that_does_not_answer_is_asked_less_and_less_often(attempts: int, seconds: int) -> None:
    error = ClassifiedError(Category.INFRASTRUCTURE, "EngineNotReached", "the engine has not answered")
    unanswered = fact_of(0, failure=error, attempts=attempts)
    plan = planned(disk(), claim(), adapter(), pod(), unanswered, running=True)
    [effect] = [one for one in plan.effects if one.kind == ADAPTER_LOAD.name]
    assert effect.not_before == NOW + timedelta(seconds=seconds)
    assert "the engine has not answered" in message_of(plan, "AdaptersReady")


@pytest.mark.spec("LA-040")
@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        ("Progressing", "Downloading", "AdaptersDownloading"),
        ("Failed", "Failed", "AdapterFailed"),
        ("Ready", "Pending", "AdaptersPending"),
    ],
)
def test_states_before_there_is_a_pod(status: str, state: str, reason: str) -> None:
    plan = planned(disk(), claim(), adapter(status=status), running=True)
    assert adapters_of(plan) == [("sql", state, None)]
    assert condition_of(plan, "AdaptersReady") == ("False", reason)


@pytest.mark.spec("LA-040", "LA-042")
def test_an_artifact_that_is_no_adapter_of_this_disk_is_named() -> None:
    missing = planned(disk(), claim(), adapters=[{"name": "sql"}], running=True)
    assert adapters_of(missing) == [("sql", "Pending", None)]
    assert f"not found; create it on disk {DISK}" in message_of(missing, "AdaptersReady")
    elsewhere = planned(disk(), claim(), adapter("sql", on="other", of=None), adapters=[{"name": "sql"}], running=True)
    assert adapters_of(elsewhere) == [("sql", "Failed", None)]
    assert "set adapterRuntime.disk: other" in message_of(elsewhere, "AdaptersReady")


@pytest.mark.spec("LA-011", "LA-013")
def test_a_disk_of_several_services_is_made_by_a_person() -> None:
    runtime = {"disk": "team"}
    absent = planned(adapterRuntime=runtime)
    assert [one["spec"]["type"] for one in children_of(absent, "AIMArtifact")] == ["adapter"]
    assert "AIMArtifact ml-team/team not found; create it" in message_of(absent, "AdaptersReady")
    assert len(children_of(absent, "InferenceService")) == 1
    present = planned(disk("team", of=None), claim("team"), adapterRuntime=runtime)
    assert MOUNT in container(present)["volumeMounts"]
    [download] = children_of(present, "AIMArtifact")
    assert download["spec"]["disk"] == "team"


@pytest.mark.spec("LA-001", "LA-020")
def test_what_is_not_listed_any_longer_goes_and_nothing_of_others() -> None:
    foreign = adapter("foreign", of=None)
    named = make(AIM_ARTIFACT, "named", namespace=TEAM, owners=[owner(PLAIN)], spec={"sourceUri": "hf://a/b"})
    others = (disk(), claim(), adapter(), adapter("former"), foreign, named)
    plan = planned(*others, running=True)
    assert [one.name for one in plan.deletes if one.part is ARTIFACTS] == ["former"]
    emptied = planned(*others, adapters=[], adapterMode="dynamic", running=True)
    assert sorted(one.name for one in emptied.deletes) == sorted(["former", ADAPTER])
    assert MOUNT in container(emptied)["volumeMounts"], "ready for others"
    given_up = planned(*others, adapters=[], running=True)
    assert sorted(one.name for one in given_up.deletes) == sorted(["former", ADAPTER, DISK])
    assert MOUNT not in container(given_up)["volumeMounts"]


@pytest.mark.spec("LA-031")
def test_a_dry_run_loads_nothing() -> None:
    service = aim_service(adapters=[SQL])
    service["metadata"]["annotations"] = {labels.ANNOTATION_DRY_RUN: "plan"}
    around = [template(), model(), node(), template_cache("qwen3-lat-a04542d9"), config()]
    cache = serving_cache(
        service, *around, workload(service, ready=True, **mounting()), disk(), claim(), adapter(), pod()
    )
    assert asked(plan_for(cache)) == []


@pytest.mark.spec("LA-011", "LA-031")
def test_a_larger_disk_is_another_one_and_the_former_stays_while_pods_mount_it() -> None:
    larger = adapter_disk_name(NAME, UID, "50Gi")
    runtime = {"diskSize": "50Gi"}
    first = planned(disk(), claim(), adapter(), pod(), running=True, adapterRuntime=runtime)
    made = {one["metadata"]["name"]: one["spec"]["type"] for one in children_of(first, "AIMArtifact")}
    assert made[larger] == "adapterDisk"
    assert [one.name for one in first.deletes if one.name == DISK] == []
    later = (disk(), claim(), disk(larger), claim(larger), pod())
    second = planned(*later, running=True, adapterRuntime=runtime)
    [body] = children_of(second, "InferenceService")
    mounted = body["spec"]["predictor"]["volumes"][-1]["persistentVolumeClaim"]["claimName"]
    assert mounted == claim(larger)["metadata"]["name"]
    assert asked(second) == [], "pods with the former disk would not find the files"


@pytest.mark.spec("LA-040")
def test_an_adapter_from_another_source_is_not_ready_by_what_an_engine_has_of_the_former_one() -> None:
    files = (disk(), claim(), adapter())
    [params] = asked(planned(*files, pod(), running=True))
    former = params.model_copy(update={"digest": "former"})
    other = tuple(one.model_copy(update={"path": "/adapters/former"}) for one in params.wanted)
    refusal = Refusal(name="sql", path="/adapters/former", why="no adapter")
    plan = planned(*files, pod(), loaded(former, loaded=other, refused=(refusal,)), running=True)
    assert adapters_of(plan) == [("sql", "Loading", "0/1")]


@pytest.mark.spec("LA-033", "LA-040")
def test_a_text_of_any_length_is_no_reason_to_reject_a_status() -> None:
    found = adapter(status="Failed")
    found["status"]["conditions"] = [condition("Ready", False, "Why", "x" * 32_000)]
    plan = planned(disk(), claim(), found, running=True)
    assert plan.status is not None
    [one] = plan.status["adapters"]
    assert len(one["message"]) < 1100
    assert len(message_of(plan, "AdaptersReady")) < 2000


@pytest.mark.spec("LA-033")
def test_a_disk_that_is_given_up_stays_while_the_pods_cannot_be_changed() -> None:
    unready = template("qwen3-lat", status="Progressing")
    service = aim_service()
    around = [unready, model(), node(), template_cache("qwen3-lat-a04542d9"), config(), disk(), claim(), adapter()]
    closed = plan_for(serving_cache(service, *around, workload(service, ready=True, **mounting())))
    assert children_of(closed, "InferenceService") == []
    assert [one.name for one in closed.deletes if one.part is ARTIFACTS] == []


def in_a_cluster(*others: JsonObject) -> BuiltCache:
    service = aim_service(adapters=[SQL])
    around = [template(), model(), node(), template_cache("qwen3-lat-a04542d9"), config()]
    return serving_cache(service, *around, *others)


@pytest.mark.spec("LA-013", "LA-031")
def test_what_becomes_of_a_disk_and_of_an_engine_concerns_the_service() -> None:
    quota = condition("StorageQuotaReady", False, "ExceedsQuotaLimit", "22Gi of 5Gi")
    new = disk(status="Pending", conditions=[condition("Ready", False, "Progressing", "begins")])
    refused = disk(status="Pending", conditions=[quota, condition("Ready", False, "ExceedsQuotaLimit", "22Gi of 5Gi")])
    assert woken(DEFINITION, in_a_cluster(new), ARTIFACTS, new, refused) == {f"service:{TEAM}/{NAME}"}
    service = aim_service(adapters=[SQL])
    running = workload(service, ready=True, **mounting())
    served = in_a_cluster(running, disk(), claim(), adapter(), pod())
    assert woken(DEFINITION, served, PREDICTOR_PODS, pod(), pod(restarts=1)) == {f"service:{TEAM}/{NAME}"}


@pytest.mark.spec("LA-001", "SV-340")
def test_another_list_of_adapters_is_no_new_version() -> None:
    def version(*listed: JsonObject) -> str:
        service = AIMService.model_validate(aim_service(adapters=list(listed)))
        kinds = (AIMServiceTemplate.model_validate(template()), AIMModel.model_validate(model()))
        return asked_for(service, *kinds, resolve_config(in_a_cluster().view(), TEAM, None), OF_SCALE)

    assert version(SQL) == version(SQL, {"name": "chat"})
