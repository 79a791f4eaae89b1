"""What applying an object would do, decided by the services over a cache in memory. No cluster."""

import io
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.asked import Objects
from support.builders import condition, make
from support.declarations import definitions
from support.serving import GATEWAY, TEAM, aim_service, config, model, template

from aim_cli.cluster.refs import Ref
from aim_cli.cluster.targets import Where as Place
from aim_cli.errors import Exit, TargetError, UnreadableError
from aim_cli.parts import PARTS
from aim_cli.planning.files import documents
from aim_cli.planning.gathering import placed
from aim_cli.planning.quotas import RESOURCE_QUOTA, shortages
from aim_cli.planning.references import missing, references_of
from aim_cli.planning.report import Outcome, answer, gpu_fit, outcome, reroutes
from aim_cli.planning.sandbox import Sandbox, Step, Where, merge, with_status
from aim_domain import kinds, labels
from aim_domain.kind_names import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG, AIM_SERVICE, SECRET, KindName
from aim_domain.kind_names import GATEWAY as GATEWAY_KIND
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, GATEWAYS, SERVICES
from aim_serving.service import SERVICE_RECONCILER
from controller_runtime import JsonObject, Key
from controller_runtime.testing import NOW

MI300X = {labels.GPU_DEVICE_ID: "74a1"}
SIZED = {"modelSources": [{"modelId": "Qwen/Qwen3-32B", "sourceUri": "hf://Qwen/Qwen3-32B", "size": "60Gi"}]}


def gpu_node(count: int = 8) -> JsonObject:
    return make(kinds.NODE, "gpu-1", labels=MI300X, spec={}, status={"allocatable": {"amd.com/gpu": str(count)}})


def gateway(reason: str = "Programmed") -> JsonObject:
    """That of the runtime config."""
    ref = GATEWAY["routing"]["gatewayRef"]
    conditions = [condition("Programmed", reason == "Programmed", reason, "so it is")]
    spec = {"gatewayClassName": "c"}
    return make(GATEWAY_KIND, ref["name"], namespace=ref["namespace"], spec=spec, status={"conditions": conditions})


def cache(*objects: JsonObject, quota: str = "unlimited") -> Sandbox:
    sandbox = Sandbox(definitions(), NOW)
    namespace = make(kinds.NAMESPACE, TEAM, annotations={labels.ANNOTATION_STORAGE_QUOTA: quota})
    whole = (namespace, gpu_node(), model(), config(cluster=True, **GATEWAY), gateway(), *objects)
    for obj in whole:
        sandbox.put(next(part for part in PARTS if part.kind.kind == obj["kind"]), obj)
    return sandbox


def planned(sandbox: Sandbox, service: JsonObject, pods: Iterable[JsonObject] | None = ()) -> Outcome:
    where = sandbox.put(SERVICES, service)
    sandbox.run([where])
    return outcome(sandbox, where, "created", pods)


def made(sandbox: Sandbox) -> dict[str, str]:
    """Kinds that would be created, and by which service."""
    return {one.what.split()[0]: one.service for one in sandbox.steps if one.verb == "create"}


@pytest.mark.spec("FW-613", "FW-614")
def test_from_a_service_to_its_volume_and_its_route() -> None:
    sandbox = cache(template(more_status=SIZED), template("slow", metric="throughput"), template("big", gpu="MI325X"))
    found = planned(sandbox, aim_service())
    assert found.chosen == f"AIMServiceTemplate {TEAM}/qwen3-lat"
    assert dict(found.rejected) == {
        "slow": "LowerPreferenceRank (1 x MI300X)",
        "big": "RequiredGPUNotInCluster (1 x MI325X)",
    }
    assert made(sandbox).items() >= {
        ("AIMTemplateCache", "serving"),
        ("AIMArtifact", "artifacts"),
        ("PersistentVolumeClaim", "artifacts"),
        ("HTTPRoute", "routing"),
    }
    assert found.path
    assert not found.bad


@pytest.mark.spec("FW-733")
@pytest.mark.parametrize("unread", ["pods", "nodes"])
def test_gpus_are_not_lacking_where_nobody_may_count_them(unread: str) -> None:
    sandbox = cache(template(more_status=SIZED))
    if unread == "nodes":
        sandbox.unknown("nodes")
    found = planned(sandbox, aim_service(), None if unread == "pods" else ())
    assert (found.gpus, found.fits) == ("needs 1 x 1 MI300X; not known whether they are free", True)


@pytest.mark.spec("FW-613")
def test_a_limit_that_is_in_the_way_is_reported_and_no_volume_made() -> None:
    sandbox = cache(template(more_status=SIZED), quota="1Gi")
    found = planned(sandbox, aim_service())
    assert "PersistentVolumeClaim" not in made(sandbox)
    (reported,) = [one for one in found.conditions if one["type"] == "CacheReady"]
    assert "of 1 GiB" in reported["message"]


@pytest.mark.spec("FW-614", "AR-450")
@pytest.mark.parametrize(("limit", "warned"), [("1Gi", True), ("90Gi", False)])
def test_a_config_with_a_limit_below_what_is_stored_warns_before_it_is_applied(limit: str, *, warned: bool) -> None:
    sandbox = cache(template(more_status=SIZED))
    planned(sandbox, aim_service())
    lowered = config(cluster=True, **GATEWAY, artifactStorageQuota={"clusterLimit": limit})
    where = sandbox.put(CLUSTER_RUNTIME_CONFIGS, lowered)
    sandbox.run([where])
    found = outcome(sandbox, where, "changed", ())
    assert [one.partition(":")[0] for one in found.warnings] == ["QuotaBelowUsage"] * warned
    lines = answer([found], (), ()).lines
    shown = [one for one in lines if one.startswith("warning   QuotaBelowUsage: the cluster uses")]
    assert len(shown) == warned
    assert not found.bad


@pytest.mark.spec("FW-613")
def test_clocks_are_moved_by_two_minutes_at_most() -> None:
    sandbox = cache(template(more_status=SIZED), quota="1Gi")
    planned(sandbox, aim_service())
    # Without an end, the waits for a limit that nobody raises go on.
    assert NOW < sandbox.now <= NOW + timedelta(minutes=2)


@pytest.mark.spec("FW-613")
def test_nothing_that_only_others_can_do_is_assumed() -> None:
    sandbox = cache()
    found = planned(sandbox, aim_service(model={"image": "registry.example/unknown:1"}))
    assert found.chosen == ""
    assert made(sandbox)["AIMModel"] == "serving"
    assert "AIMTemplateCache" not in made(sandbox)
    assert any(one.verb == "ask" and one.service == "discovery" for one in sandbox.steps)


@pytest.mark.spec("FW-613")
def test_what_could_not_be_read_is_not_taken_for_absent() -> None:
    def reasons(*unknown: str) -> set[str]:
        sandbox = cache()
        for part in unknown:
            sandbox.unknown(part)
        found = planned(sandbox, aim_service(model={"name": "qwen"}))
        return {one["reason"] for one in found.conditions if one["type"] == "TemplateReady"}

    assert reasons() == {"TemplateNotFound"}
    assert reasons("aimservicetemplates", "aimclusterservicetemplates") != {"TemplateNotFound"}


@pytest.mark.spec("FW-613")
def test_the_cache_that_was_read_is_left_as_it_was() -> None:
    sandbox = cache(template(more_status=SIZED))
    before = {where: dict(obj) for where, obj in sandbox.objects.items()}
    planned(sandbox, aim_service())
    untouched = {where for where in before if where not in sandbox.touched}
    assert all(sandbox.objects[where] == before[where] for where in untouched)
    assert len(untouched) == len(before)


@pytest.mark.spec("FW-614")
@pytest.mark.parametrize(
    ("model_name", "wanted", "replicas", "fits", "said"),
    [
        ("MI300X", 0, 5, True, "needs no GPU"),
        ("MI300X", 2, 3, True, "needs 3 x 2 MI300X; 7 of 16 are free"),
        ("MI300X", 4, 2, False, "with room for 1 of 2 replicas now"),
        ("MI325X", 1, 1, False, "no node has any"),
        ("", 1, 9, True, "9 x 1 GPU; 9 of 18 are free"),
    ],
)
def test_whether_the_gpus_are_free(model_name: str, wanted: int, replicas: int, *, fits: bool, said: str) -> None:
    nodes = {"a": ("MI300X", 4, 8), "b": ("MI300X", 3, 8), "c": ("MI210", 2, 2)}
    reported, found = gpu_fit(model_name, wanted, replicas, nodes)
    assert said in reported
    assert found is fits


@pytest.mark.spec("FW-614")
def test_gpus_that_pods_hold_are_not_free() -> None:
    asks = {"nodeName": "gpu-1", "containers": [{"resources": {"requests": {"amd.com/gpu": "7"}}}]}
    pods = [make(kinds.POD, phase, spec=asks, status={"phase": phase}) for phase in ("Running", "Failed")]
    assert not planned(cache(template()), aim_service(), pods).bad
    assert planned(cache(template()), aim_service(replicas=2), pods).bad


@pytest.mark.spec("FW-614")
def test_what_is_refused_is_reported_and_bad() -> None:
    refused = Outcome(Where(SERVICES, Key(TEAM, "x")), "refused", refused="spec.bogus is unknown")
    reported = answer([refused], [Step("serving", "create", "AIMModel a/b")], ["not known: y"])
    assert reported.code is Exit.FOUND
    assert reported.lines == (
        f"AIMService {TEAM}/x: refused: spec.bogus is unknown",
        "would     serving: create AIMModel a/b",
    )
    assert reported.remarks == ("not known: y",)


def test_a_status_keeps_what_others_wrote() -> None:
    stored = {
        "routing": {"path": "/a"},
        "status": "Starting",
        "old": 1,
        "conditions": [{"type": "HTTPRouteReady", "status": "True"}, {"type": "ModelReady", "status": "False"}],
    }
    reported = {"status": "Running", "conditions": [{"type": "CacheReady", "status": "True"}]}
    new = with_status(SERVICE_RECONCILER, stored, reported)
    assert (new["routing"], new["status"], "old" in new) == ({"path": "/a"}, "Running", False)
    assert [one["type"] for one in new["conditions"]] == ["HTTPRouteReady", "CacheReady"]


def test_a_merge_patch() -> None:
    assert merge({"a": 1, "b": {"c": 1, "d": 2}}, {"a": None, "b": {"c": 3}, "e": [1]}) == {
        "b": {"c": 3, "d": 2},
        "e": [1],
    }


@pytest.mark.spec("FW-613")
def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(text: str) -> list[JsonObject]:
        file = tmp_path / "file.yaml"
        file.write_text(text, encoding="utf-8")
        return [obj for _, obj in placed(documents([str(file)]), Place(namespace="here"))[0]]

    api = "apiVersion: aim.eai.amd.com/v1alpha1\n"
    (one,) = written(f"---\n{api}kind: AIMService\nmetadata: {{name: a}}\n---\n")
    assert one["metadata"] == {"name": "a", "namespace": "here"}
    (cluster,) = written(f"{api}kind: AIMClusterModel\nmetadata: {{name: a}}\n")
    assert cluster["metadata"] == {"name": "a"}
    with pytest.raises(UnreadableError, match="no object with a name"):
        written("[]")
    with pytest.raises(UnreadableError):
        written("a: b: c")
    with pytest.raises(UnreadableError, match="none cannot be read: No such file or directory; name a file, a fol"):
        list(documents([str(tmp_path / "none")]))
    (tmp_path / "below").mkdir()
    (tmp_path / "file.yaml").write_text(f"{api}kind: AIMService\nmetadata: {{name: a}}\n", encoding="utf-8")
    (tmp_path / "below/two.yml").write_text(f"{api}kind: AIMService\nmetadata: {{name: b}}\n", encoding="utf-8")
    (tmp_path / "below/notes.txt").write_text("[]", encoding="utf-8")
    assert [str(one) for one in documents([str(tmp_path)])] == ["AIMService b", "AIMService a"]
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{api}kind: AIMService\nmetadata: {{name: c, x: 2026-01-01}}\n"))
    (piped,) = documents(["-"])
    assert piped.obj["metadata"] == {"name": "c", "x": "2026-01-01"}, "a time stays a text, as it is in JSON"
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"
    with pytest.raises(TargetError, match="no service decides anything"):
        written(secret)
    nameless = "metadata: {name: b}\n---\n"
    (own,) = written(f"{nameless}{secret}---\n{api}kind: AIMService\nmetadata: {{name: a}}\n")
    assert own["kind"] == "AIMService"


CHAT = Ref(AIM_SERVICE, TEAM, "chat")


def with_gateway(*objects: tuple[KindName, JsonObject]) -> Objects:
    """What the runtime config of `cache` names is there."""
    return Objects((GATEWAY_KIND, gateway()), *objects)


@pytest.mark.spec("FW-876")
def test_a_spec_names_objects_of_others() -> None:
    def ref(kind: str, name: str, **more: Any) -> JsonObject:
        return {kind: {"name": name, **more}}

    spec = {
        "env": [
            {"name": "TOKEN", "valueFrom": ref("secretKeyRef", "hub", key="token")},
            {"name": "MAYBE", "valueFrom": ref("secretKeyRef", "other", key="x", optional=True)},
            {"name": "URL", "valueFrom": ref("configMapKeyRef", "urls", key="hub")},
        ],
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "runner",
        "routing": {"gatewayRef": {"name": "public", "namespace": "gateways"}},
        "storage": {"defaultStorageClassName": "fast"},
        "jobs": {"priorityClassName": "low"},
    }
    found = {str(one.to): (one.field, one.key) for one in references_of(CHAT, spec)}
    assert found == {
        f"Secret {TEAM}/hub": ("spec.env[TOKEN]", "token"),
        f"ConfigMap {TEAM}/urls": ("spec.env[URL]", "hub"),
        f"Secret {TEAM}/registry": ("spec.imagePullSecrets", ""),
        f"ServiceAccount {TEAM}/runner": ("spec.serviceAccountName", ""),
        "Gateway gateways/public": ("spec.routing.gatewayRef", ""),
        "StorageClass fast": ("spec.storage.defaultStorageClassName", ""),
        "PriorityClass low": ("spec.jobs.priorityClassName", ""),
    }
    of_all = Ref(AIM_CLUSTER_RUNTIME_CONFIG, "", "default")
    assert {str(one.to) for one in references_of(of_all, spec)} == {
        "Gateway gateways/public",
        "StorageClass fast",
        "PriorityClass low",
    }, "the namespace is that of each service"
    odd = {"imagePullSecrets": ["x", {"name": 3}, None], "gatewayRef": "x", "env": 7, "secretKeyRef": {"name": ""}}
    assert list(references_of(CHAT, odd)) == [], "the API server refuses it"


@pytest.mark.spec("FW-876")
def test_what_a_service_names_and_is_missing_is_reported_with_a_command() -> None:
    sandbox = cache(template(more_status=SIZED))
    token = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]
    planned(sandbox, aim_service(env=token, imagePullSecrets=[{"name": "registry"}]))
    hub = make(SECRET, "hub", namespace=TEAM) | {"data": {"other": "eA=="}}
    (key, whole) = missing(with_gateway((SECRET, hub)), sandbox, [])
    assert key.line.startswith(
        f"missing   Secret {TEAM}/hub has no key token: spec.env[HF_TOKEN] of AIMService {TEAM}/"
    )
    data = '{"stringData":{"token":"VALUE"}}'
    assert key.line.endswith(f"kubectl patch secret hub -n {TEAM} --type merge -p '{data}'")
    assert whole.line.startswith(f"missing   Secret {TEAM}/registry does not exist: spec.imagePullSecrets of AIM")
    assert f"kubectl create secret docker-registry registry -n {TEAM} " in whole.remedy
    absent, _ = missing(with_gateway(), sandbox, [])
    assert absent.remedy == f"create it: kubectl create secret generic hub -n {TEAM} --from-literal=token=VALUE"
    elsewhere = [make(SECRET, name, namespace="other") | {"data": {"token": "t"}} for name in ("hub", "registry")]
    assert len(missing(with_gateway(), sandbox, elsewhere)) == 2, "in another namespace"
    beside = [make(SECRET, "hub", namespace=TEAM) | {"stringData": {"token": "t"}}]
    beside.append(make(SECRET, "registry", namespace=TEAM))
    assert missing(with_gateway(), sandbox, beside) == [], "they are in the same file"
    refused = with_gateway()
    refused.unasked = {f"Secret {TEAM}/hub": "forbidden", f"Secret {TEAM}/registry": "forbidden"}
    assert missing(refused, sandbox, []) == [], "what may not be read is not known to be missing"
    (absent,) = missing(Objects(), sandbox, beside)
    assert absent.line.startswith("missing   Gateway gateway-system/gateway does not exist: spec.parentRefs of HTTPR")
    reported = answer([], [], [], [], [key])
    assert (reported.code, reported.lines[0]) == (Exit.FOUND, key.line)


@pytest.mark.spec("FW-876")
def test_what_the_runtime_configs_of_a_planned_service_name_for_pods_is_looked_for() -> None:
    sandbox = cache(template(more_status=SIZED))
    planned(sandbox, aim_service())
    mine = config(predictors={"priorityClassName": "mine"}, jobs={"serviceAccountName": "runner"})
    shared = config(cluster=True, predictors={"priorityClassName": "all"}, storage={"defaultStorageClassName": "no"})
    known = with_gateway((AIM_RUNTIME_CONFIG, mine), (AIM_CLUSTER_RUNTIME_CONFIG, shared))
    found = {str(one.reference.to): str(one.reference.by) for one in missing(known, sandbox, [])}
    assert found == {
        "PriorityClass mine": f"AIMRuntimeConfig {TEAM}/default",
        f"ServiceAccount {TEAM}/runner": f"AIMRuntimeConfig {TEAM}/default",
        "PriorityClass all": "AIMClusterRuntimeConfig default",
    }, "its storage is looked for where a volume would be made"


@pytest.mark.spec("FW-760", "RC-160")
def test_routes_that_a_runtime_config_takes_away_are_listed() -> None:
    sandbox = cache(template(more_status=SIZED))
    planned(sandbox, aim_service())
    own = aim_service("own", routing={"enabled": True, **GATEWAY["routing"]})
    planned(sandbox, own)
    routes = [key for part, key in sandbox.objects if part == "httproutes"]
    assert len(routes) == 2
    sandbox.steps.clear()
    replaced = config(cluster=True, artifactStorageQuota={"clusterLimit": "50Ti"})
    where = sandbox.put(CLUSTER_RUNTIME_CONFIGS, replaced)
    sandbox.run([where])
    (taken,) = reroutes(sandbox, {where: "changed"})
    assert (str(taken.service), taken.after) == (f"{TEAM}/qwen-chat", "")
    assert taken.before
    (step,) = [one for one in sandbox.steps if one.verb == "delete"]
    assert "AIMClusterRuntimeConfig default does not enable routing" in step.why
    reported = answer([Outcome(where, "changed")], sandbox.steps, [], [taken])
    assert reported.code == Exit.FOUND
    assert f"route     AIMService {TEAM}/qwen-chat: {taken.before} is no longer served" in reported.lines
    assert [key for part, key in sandbox.objects if part == "httproutes"] != []


@pytest.mark.spec("FW-760")
def test_services_that_follow_another_config_keep_their_routes() -> None:
    sandbox = cache(template(more_status=SIZED))
    planned(sandbox, aim_service())
    where = sandbox.put(CLUSTER_RUNTIME_CONFIGS, {**config(cluster=True), "metadata": {"name": "other", "uid": "o"}})
    assert reroutes(sandbox, [where]) == ()


@pytest.mark.spec("FW-877")
def test_what_keeps_a_service_from_running_for_good_is_foreseen() -> None:
    def found(sandbox: Sandbox, service: JsonObject) -> tuple[str, bool]:
        one = planned(sandbox, service)
        return f"{one.because} | {one.remedy}", one.bad

    well = cache(template(more_status=SIZED))
    assert found(well, aim_service()) == (" | ", False), "a plan waits for others, which is no cause"
    broken = cache(template(more_status=SIZED))
    broken.put(GATEWAYS, gateway("Invalid"))
    because, bad = found(broken, aim_service())
    assert because.startswith("Gateway gateway-system/gateway: Programmed=False Invalid: so it is | ")
    assert bad
    because, bad = found(cache(template(more_status=SIZED), quota="1Gi"), aim_service())
    assert "ExceedsQuotaLimit" in because
    assert f"kubectl edit namespace {TEAM}" in because
    because, bad = found(cache(template()), aim_service(template={"name": "none"}))
    assert because.startswith(f"AIMService {TEAM}/qwen-chat: TemplateReady=False TemplateNotFound")
    # Gateways that cannot be listed may be there.
    unread = cache(template(more_status=SIZED))
    del unread.objects[GATEWAYS.name, Key("gateway-system", "gateway")]
    assert found(unread, aim_service())[1]
    unread.read[GATEWAYS.name] = frozenset({TEAM})
    assert planned(unread, aim_service()).because == ""


@pytest.mark.spec("FW-877")
def test_the_gpus_of_a_service_are_its_own_or_those_of_its_template_or_model() -> None:
    own = planned(cache(template(more_status=SIZED)), aim_service(resources={"limits": {"amd.com/gpu": "64"}}))
    assert own.gpus == "needs 1 x 64 MI300X; 8 of 8 are free, with room for 0 of 1 replicas now"
    custom = {
        "baseImage": "amdenterpriseai/aim-base:1",
        "modelSources": [{"modelId": "a/b", "sourceUri": "hf://a/b"}],
        "hardware": {"gpu": {"model": "MI355X", "requests": 2}},
    }
    of_model = planned(cache(), aim_service(model={"custom": custom}))
    assert (of_model.gpus, of_model.bad) == ("needs 1 x 2 MI355X; no node has any", True)


def resource_quota(
    name: str, hard: dict[str, str], used: dict[str, str], **spec: object
) -> tuple[KindName, JsonObject]:
    body = make(RESOURCE_QUOTA, name, namespace=TEAM, spec={"hard": hard, **spec}, status={"hard": hard, "used": used})
    return RESOURCE_QUOTA, body


@pytest.mark.spec("FW-885")
def test_a_quota_without_room_is_foreseen() -> None:
    sandbox = cache(template("qwen3-lat"))
    found = planned(sandbox, aim_service(template={"name": "qwen3-lat"}, replicas=3))
    assert found.wanted == 3
    gpus, claims = {"requests.amd.com/gpu": "8"}, {"requests.storage": "100Gi"}
    known = Objects(
        resource_quota("gpus", gpus, {"requests.amd.com/gpu": "6"}),
        resource_quota("room", gpus, {"requests.amd.com/gpu": "5"}),
        resource_quota("of-some-pods", gpus, {"requests.amd.com/gpu": "8"}, scopes=["Terminating"]),
        resource_quota("storage", claims, {"requests.storage": "99Gi"}),
    )
    wanted = [(TEAM, found.wanted)]
    (short,) = shortages(known, sandbox, wanted)
    assert short.line == (
        f"quota     ResourceQuota {TEAM}/gpus: 2 of 8 requests.amd.com/gpu are left, 3 are needed; "
        f"raise it, or delete what counts: kubectl edit resourcequota gpus -n {TEAM}"
    )
    reported = answer([found], (), (), (), [short])
    assert isinstance(reported.data, dict)
    assert (reported.code, reported.data["quotas"]) == (Exit.FOUND, [short.data])
    (claim,) = (part for part in PARTS if part.kind.kind == "PersistentVolumeClaim" and not part.optional)
    body = make(
        kinds.PERSISTENT_VOLUME_CLAIM, "c", namespace=TEAM, spec={"resources": {"requests": {"storage": "2Gi"}}}
    )
    del body["metadata"]["uid"]
    where = sandbox.put(claim, sandbox.completed(body))
    sandbox.touched[claim.name, where.key] = where
    assert [one.line.split(";")[0] for one in shortages(known, sandbox, ())] == [
        f"quota     ResourceQuota {TEAM}/storage: 1Gi of 100Gi requests.storage are left, 2Gi are needed"
    ]
    assert shortages(Objects(), sandbox, wanted) == []
