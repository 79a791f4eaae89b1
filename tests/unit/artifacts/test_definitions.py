"""The kinds of weights as the API has them: fields, columns, rules and keys (section 1 of artifacts.md)."""

import re
from typing import Any

import pytest
from support.artifacts import SERVICE, TEAM, Cluster, artifact, source, template, template_cache, value_of
from support.builders import make, owner
from support.crd_tables import SPECIFICATION, node_at, schema
from support.declarations import definitions
from support.whole_platform import own_passes, variants

from aim_domain import AIMArtifact, AIMTemplateCache, kinds, labels
from aim_domain.crd import definition
from aim_domain.kinds import AIM_ARTIFACT, AIM_SERVICE, AIM_SERVICE_TEMPLATE, AIM_TEMPLATE_CACHE
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_JOBS, ARTIFACTS, PROFILE_CACHES, TEMPLATE_CACHES, TEMPLATES
from controller_runtime import JsonObject, Kind, ParentCondition, StatusValue
from controller_runtime.reconcile.conditions import condition_type
from embedded_apiserver.status import ApiError

SERVING = next(one for one in definitions() if one.name == "serving")
TEXT, LIST, QUANTITY = "string", "array", "quantity"
ARTIFACT_SPEC = {
    "type": TEXT, "disk": TEXT,
    "sourceUri": TEXT, "modelId": TEXT, "storageClassName": TEXT, "size": QUANTITY, "env": LIST,
    "modelDownloadImage": TEXT, "downloadFilter": "object", "imagePullSecrets": LIST, "retentionPriority": "integer",
    "runtimeConfigName": TEXT,
}  # fmt: skip
ARTIFACT_STATUS = {
    "observedGeneration": "integer", "conditions": LIST, "status": TEXT, "progress": "object", "download": "object",
    "displaySize": TEXT, "lastUsed": TEXT, "persistentVolumeClaim": TEXT, "mode": TEXT,
    "discoveredSizeBytes": "integer", "allocatedSize": QUANTITY, "headroomPercent": "integer",
    "revision": TEXT,
}  # fmt: skip
CACHE_SPEC = {
    "templateName": TEXT, "templateScope": TEXT, "env": LIST, "imagePullSecrets": LIST, "storageClassName": TEXT,
    "downloadImage": TEXT, "modelSources": LIST, "runtimeConfigName": TEXT, "mode": TEXT,
}  # fmt: skip
CACHE_STATUS = {
    "observedGeneration": "integer", "conditions": LIST, "resolvedRuntimeConfig": "object", "status": TEXT,
    "resolvedTemplateKind": TEXT, "artifacts": "object",
}  # fmt: skip
STATES = ["Pending", "Progressing", "Ready", "Degraded", "Failed", "NotAvailable"]


def types(node: JsonObject) -> dict[str, str]:
    """JSON type of every member."""
    return {
        name: QUANTITY if one.get("x-kubernetes-int-or-string") else str(one["type"])
        for name, one in node["properties"].items()
    }


def version(kind: Kind[Any]) -> JsonObject:
    [one] = definition(kind)["spec"]["versions"]
    return dict(one)


def columns(kind: Kind[Any]) -> list[tuple[str, str, int]]:
    return [(one["name"], one["jsonPath"], one.get("priority", 0)) for one in version(kind)["additionalPrinterColumns"]]


@pytest.mark.spec("AR-001", "AR-009")
@pytest.mark.parametrize(("kind", "short"), [(AIM_ARTIFACT, "aimart"), (AIM_TEMPLATE_CACHE, "aimtc")])
def test_names_scope_and_subresource(kind: Kind[Any], short: str) -> None:
    spec = definition(kind)["spec"]
    names = spec["names"]
    assert definition(kind)["metadata"]["name"] == f"{kind.kind.lower()}s.aim.eai.amd.com"
    assert (names["kind"], names["listKind"], spec["scope"]) == (kind.kind, f"{kind.kind}List", "Namespaced")
    assert names["shortNames"] == [short]
    assert set(names["categories"]) == {"aim", "all"}
    assert version(kind)["subresources"] == {"status": {}}


@pytest.mark.spec("AR-002", "AR-010")
def test_columns_of_kubectl() -> None:
    assert columns(AIM_ARTIFACT) == [
        ("Status", ".status.status", 0),
        ("Mode", ".status.mode", 0),
        ("Model Size", ".status.displaySize", 0),
        ("Progress", ".status.progress.displayPercentage", 0),
        ("Protocol", ".status.download.protocol", 1),
        ("Attempt", ".status.download.attempt", 1),
        ("Age", ".metadata.creationTimestamp", 0),
    ]
    assert columns(AIM_TEMPLATE_CACHE) == [
        ("Template", ".spec.templateName", 0),
        ("Mode", ".spec.mode", 0),
        ("Status", ".status.status", 0),
        ("Kind", ".status.resolvedTemplateKind", 0),
        ("Age", ".metadata.creationTimestamp", 0),
    ]


@pytest.mark.spec("AR-013", "AR-014", "AR-015", "AR-016", "AR-017", "AR-018")
def test_fields_and_their_types() -> None:
    one, other = schema(AIM_ARTIFACT), schema(AIM_TEMPLATE_CACHE)
    assert types(node_at(one, "spec")) == ARTIFACT_SPEC
    assert types(node_at(one, "status")) == ARTIFACT_STATUS
    assert types(node_at(other, "spec")) == CACHE_SPEC
    assert types(node_at(other, "status")) == CACHE_STATUS
    progress = {"totalBytes": "integer", "downloadedBytes": "integer", "percentage": "integer"}
    assert types(node_at(one, "status.progress")) == {**progress, "displayPercentage": TEXT}
    download = {"protocol": TEXT, "attempt": "integer", "totalAttempts": "integer", "protocolSequence": TEXT}
    assert types(node_at(one, "status.download")) == {**download, "message": TEXT, "commit": TEXT}
    resolved = node_at(other, "status.artifacts")["additionalProperties"]
    assert set(resolved["properties"]) == {"uid", "name", "model", "status", "persistentVolumeClaim", "mountPoint"}
    assert set(resolved["required"]) == {"uid", "name", "model", "status"}
    assert types(node_at(other, "spec.modelSources[]")) == {
        "modelId": TEXT,
        "sourceUri": TEXT,
        "size": QUANTITY,
        "env": LIST,
    }


@pytest.mark.spec("AR-013", "AR-014", "AR-015", "AR-016", "AR-017", "AR-018")
def test_rules_of_the_fields() -> None:
    one, other = schema(AIM_ARTIFACT), schema(AIM_TEMPLATE_CACHE)
    uri, model = r"^(hf|s3)://[^ \t\r\n]+$", "^[a-zA-Z0-9_-]+/[a-zA-Z0-9._-]+$"
    spec = node_at(one, "spec")["properties"]
    assert "required" not in node_at(one, "spec"), "a disk for adapters has no source (CEL-52)"
    assert (spec["sourceUri"]["minLength"], spec["sourceUri"]["pattern"]) == (1, uri)
    assert spec["modelId"]["pattern"] == model
    assert spec["env"]["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["retentionPriority"]["minimum"] == 0
    assert spec["retentionPriority"]["format"] == "int32"
    assert "default" not in spec["modelDownloadImage"]
    status = node_at(one, "status")["properties"]
    assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    assert (sorted(status["status"]["enum"]), status["status"]["default"]) == (sorted(STATES), "Pending")
    assert sorted(status["mode"]["enum"]) == ["Dedicated", "Shared"]
    percentage = status["progress"]["properties"]["percentage"]
    assert (percentage["minimum"], percentage["maximum"]) == (0, 100)
    spec = node_at(other, "spec")["properties"]
    assert set(node_at(other, "spec")["required"]) == {"templateName", "templateScope"}
    assert spec["templateName"]["minLength"] == 1
    assert sorted(spec["templateScope"]["enum"]) == ["Cluster", "Namespace", "Unknown"]
    assert (sorted(spec["mode"]["enum"]), spec["mode"]["default"]) == (["Dedicated", "Shared"], "Shared")
    source_of = node_at(other, "spec.modelSources[]")
    assert set(source_of["required"]) == {"modelId", "sourceUri"}
    assert (source_of["properties"]["modelId"]["pattern"], source_of["properties"]["sourceUri"]["pattern"]) == (
        model,
        uri,
    )
    state = node_at(other, "status.status")
    assert (sorted(state["enum"]), state["default"]) == (sorted(STATES), "Pending")


@pytest.mark.spec("AR-019", "AR-012", "AR-P09")
def test_fields_of_neighbours() -> None:
    config, service = schema(kinds.AIM_CLUSTER_RUNTIME_CONFIG), schema(AIM_SERVICE)
    storage = node_at(config, "spec.storage")["properties"]
    assert set(storage) == {"defaultStorageClassName", "pvcHeadroomPercent", "downloadFilter"}
    assert storage["pvcHeadroomPercent"]["minimum"] == 0
    assert "default" not in storage["pvcHeadroomPercent"]
    assert types(storage["downloadFilter"]) == {"include": LIST, "exclude": LIST}
    for kind in (kinds.AIM_CLUSTER_RUNTIME_CONFIG, kinds.AIM_RUNTIME_CONFIG):
        priority = node_at(schema(kind), "spec.artifact.defaultRetentionPriority")
        assert (priority["type"], priority["minimum"]) == ("integer", 0)
        assert {"defaultStorageClassName", "pvcHeadroomPercent"} <= set(node_at(schema(kind), "spec")["properties"])
    quota = {"clusterLimit": QUANTITY, "defaultNamespaceLimit": QUANTITY}
    assert types(node_at(config, "spec.artifactStorageQuota")) == quota
    assert "artifactStorageQuota" not in node_at(schema(kinds.AIM_RUNTIME_CONFIG), "spec")["properties"]
    mode = node_at(service, "spec.caching.mode")
    assert sorted(mode["enum"]) == ["Always", "Auto", "Dedicated", "Never", "Shared"]
    assert mode["default"] == "Shared"
    assert types(node_at(service, "status.cache")) == {
        "templateCacheRef": "object",
        "profileCacheRef": "object",
        "retryAttempts": "integer",
    }
    caching = schema(AIM_SERVICE_TEMPLATE)
    assert node_at(caching, "spec.caching.enabled")["default"] is False
    assert set(node_at(caching, "spec.caching")["properties"]) == {"enabled", "env"}
    assert "caching" not in node_at(schema(kinds.AIM_CLUSTER_SERVICE_TEMPLATE), "spec")["properties"]


@pytest.mark.spec("AR-011")
def test_the_former_switch_of_caching_is_taken_and_ignored() -> None:
    assert node_at(schema(AIM_SERVICE), "spec.cacheModel")["type"] == "boolean"
    usual = variants()["AIMService"]
    plans = [
        own_passes(usual, {**usual, "spec": {**usual["spec"], **more}})[0].plan
        for more in ({}, {"cacheModel": True}, {"cacheModel": False})
    ]
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.spec("AR-003", "AR-004", "AR-005", "AR-006", "AR-P20", "SC-008")
@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ({"sourceUri": "hf://a/b"}, {"sourceUri": "hf://a/c"}, "sourceUri is immutable"),
        ({}, {"downloadFilter": {}}, "downloadFilter"),
        ({"downloadFilter": {}}, {"downloadFilter": None}, "downloadFilter"),
        ({"downloadFilter": {"include": ["*.json"]}}, {"downloadFilter": None}, "downloadFilter"),
        ({"downloadFilter": {"include": ["a"]}}, {"downloadFilter": {"include": ["b"]}}, "downloadFilter"),
        ({"downloadFilter": {}}, {"downloadFilter": {"include": ["b"]}}, "downloadFilter"),
        ({"downloadFilter": {}}, {"size": "1Gi"}, ""),
    ],
)
def test_what_a_download_is_made_of_never_changes(before: JsonObject, after: JsonObject, refused: str) -> None:
    cluster = Cluster(artifact(spec=before))
    stored = cluster.raw(ARTIFACTS, "qwen")["spec"]
    assert stored.get("downloadFilter") == before.get("downloadFilter")
    spec = {name: value for name, value in {**stored, **after}.items() if value is not None}
    if not refused:
        cluster.change(ARTIFACTS, "qwen", spec=spec)
        return
    with pytest.raises(ApiError, match=refused):
        cluster.change(ARTIFACTS, "qwen", spec=spec)


def _keys_of(requirement: str) -> set[str]:
    """The first cells of the table below a requirement."""
    text = SPECIFICATION.with_name("artifacts.md").read_text(encoding="utf-8")
    below = text[text.index(f"- **{requirement}**") :]
    table = below[below.index("|---") :].split("\n\n")[0]
    return {cell for line in table.splitlines() for cell in re.findall(r"^\| `([^`]+)`", line)}


@pytest.mark.spec("AR-028", "AR-029", "AR-047")
def test_the_documented_keys_are_those_in_use() -> None:
    known = {value for name, value in vars(labels).items() if name.isupper()}
    documented = _keys_of("AR-028") | _keys_of("AR-029") | _keys_of("AR-047")
    assert len(documented) > 28
    assert documented - {"app.kubernetes.io/managed-by"} <= known


@pytest.mark.spec("AR-047", "AR-048")
def test_caches_and_services_have_a_finalizer_and_artifacts_have_none() -> None:
    assert {one.part.name: one.finalizer for one in SERVICE.reconcilers} == {
        ARTIFACTS.name: None,
        TEMPLATE_CACHES.name: "aim.eai.amd.com/artifactcleanup",
        PROFILE_CACHES.name: "aim.eai.amd.com/profile-cache-artifact-cleanup",
    }
    assert [one.finalizer for one in SERVING.reconcilers if one.part.kind is AIM_SERVICE] == [
        "aim.eai.amd.com/template-cache-cleanup"
    ]


@pytest.mark.spec("AR-007", "AR-008")
def test_every_status_says_of_which_generation_it_is() -> None:
    cluster = Cluster(artifact(), template_cache(), template(source()))
    for part, name in ((ARTIFACTS, "qwen"), (TEMPLATE_CACHES, "qwen")):
        cluster.change(part, name, metadata={"annotations": {"a": "b"}})
        plan = cluster.run(part, name)
        assert plan.status is not None
        assert plan.status["observedGeneration"] == cluster.raw(part, name)["metadata"]["generation"]
        assert value_of(plan) != "NotAvailable"


@pytest.mark.spec("AR-315", "AR-P30")
def test_conditions_of_an_artifact_are_those_of_the_table() -> None:
    of_components = {condition_type(name) for name in AIMArtifact.components}
    assert {*_keys_of("AR-315"), *ParentCondition} == {*of_components, "DownloadComplete", *ParentCondition}


@pytest.mark.spec("AR-573")
def test_conditions_of_a_cache() -> None:
    of_components = {condition_type(name) for name in AIMTemplateCache.components}
    assert of_components == {"RuntimeConfigReady", "ServiceTemplateReady", "ArtifactsReady"}


@pytest.mark.spec("AR-031")
def test_states_from_the_worst_to_the_best() -> None:
    names = ("Failed", "NotAvailable", "Degraded", "Pending", "Starting", "Progressing", "Ready", "Running")
    assert [StatusValue(name).priority for name in names] == list(range(8))


@pytest.mark.spec("AR-024")
def test_a_long_name_of_an_artifact_leaves_room_for_what_makes_it_unique() -> None:
    cluster = Cluster(artifact("a" * 60, spec={"size": "1Gi"}))
    cluster.run(ARTIFACTS, "a" * 60)
    [name] = cluster.names(ARTIFACT_CLAIMS)
    assert name == "a" * 48 + "-cache-16b81fda"


@pytest.mark.spec("AR-255")
@pytest.mark.parametrize(("own", "used"), [({}, "downloader:1"), ({"modelDownloadImage": "mine:2"}, "mine:2")])
def test_the_image_of_a_download_is_never_written_into_the_spec(own: JsonObject, used: str) -> None:
    cluster = Cluster(artifact(spec={"size": "1Gi", **own}))
    cluster.settle(ARTIFACTS, "qwen")
    [container] = cluster.only(ARTIFACT_JOBS)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == used
    assert cluster.raw(ARTIFACTS, "qwen")["spec"].get("modelDownloadImage") == own.get("modelDownloadImage")


@pytest.mark.spec("AR-040", "SC-012")
def test_a_paused_artifact_and_a_paused_cache_are_left_alone() -> None:
    paused = {"aim.eai.amd.com/reconciliation-paused": "true"}
    stopped = artifact(spec={"size": "1Gi"}, annotations=paused)
    cluster = Cluster(stopped, template_cache(annotations=paused), template(source()))
    for part in (ARTIFACTS, TEMPLATE_CACHES):
        before = cluster.raw(part, "qwen")
        plan = cluster.run(part, "qwen")
        assert (plan.children, plan.status, plan.deletes, plan.patches) == ((), None, (), ())
        assert cluster.raw(part, "qwen") == before
    assert cluster.names(ARTIFACTS) == ["qwen"]
    cluster.change(TEMPLATE_CACHES, "qwen", metadata={"annotations": {}})
    cluster.settle(TEMPLATE_CACHES, "qwen")
    assert cluster.raw(TEMPLATE_CACHES, "qwen")["status"]["status"] != "Pending"


@pytest.mark.spec("AR-533")
@pytest.mark.parametrize(
    ("configs", "scope"),
    [
        ((kinds.AIM_RUNTIME_CONFIG,), "Namespace"),
        ((kinds.AIM_CLUSTER_RUNTIME_CONFIG,), "Cluster"),
        ((kinds.AIM_RUNTIME_CONFIG, kinds.AIM_CLUSTER_RUNTIME_CONFIG), "Merged"),
        ((), None),
    ],
)
def test_a_cache_says_which_config_it_uses(configs: tuple[Kind[Any], ...], scope: str | None) -> None:
    made = [make(kind, "default", namespace=TEAM if kind.namespaced else "", spec={}) for kind in configs]
    plan = Cluster(template_cache(), template(source()), *made).run(TEMPLATE_CACHES, "qwen")
    assert plan.status is not None
    found = plan.status.get("resolvedRuntimeConfig")
    assert (None if found is None else (found["name"], found["scope"])) == (
        None if scope is None else ("default", scope)
    )


@pytest.mark.spec("AR-643", "AR-P32", "SC-111")
def test_the_cache_of_a_template_goes_with_it_and_its_artifacts_stay() -> None:
    cluster = Cluster(template(source(size="1Gi")))
    cluster.put(TEMPLATE_CACHES, template_cache(owners=[owner(cluster.raw(TEMPLATES, "qwen"))]))
    cluster.settle(TEMPLATE_CACHES, "qwen")
    [name] = cluster.names(ARTIFACTS)
    assert "ownerReferences" not in cluster.raw(ARTIFACTS, name)["metadata"]
    cluster.change(ARTIFACTS, name, status={"status": "Ready"})
    cluster.remove(TEMPLATES, "qwen")
    cluster.run(TEMPLATE_CACHES, "qwen")
    assert cluster.names(TEMPLATE_CACHES) == []
    assert cluster.names(ARTIFACTS) == [name]
