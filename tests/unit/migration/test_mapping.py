"""What becomes of each field of the old kinds."""

from typing import Any

import pytest
from support.old_objects import GUIDE, KAIWO_DEFAULTS, NAMESPACE_CONFIG, migrated, old, remarks

from aim_cli.migration.draft import FAILURES, OLD_KINDS, Weight, old_kind
from aim_cli.migration.mapping import Old, migrate
from aim_domain import labels
from controller_runtime import JsonObject

LOST = Weight.LOST
IMAGE = "registry.example/model:1"


@pytest.mark.spec("RC-131")
def test_every_old_kind_has_one_of_today() -> None:
    assert {kind.kind: kind.today.kind for kind in OLD_KINDS if kind.kind != kind.today.kind} == {
        "AIMModelCache": "AIMArtifact",
        "AIMNamespaceConfig": "AIMRuntimeConfig",
        "KaiwoConfig": "AIMClusterRuntimeConfig",
    }
    assert all(kind.today.group == "aim.eai.amd.com" for kind in OLD_KINDS)
    same = {kind.kind for kind in OLD_KINDS if kind.kind == kind.today.kind}
    assert same == {
        *("AIMModel", "AIMClusterModel", "AIMServiceTemplate", "AIMClusterServiceTemplate", "AIMService"),
        *("AIMRuntimeConfig", "AIMClusterRuntimeConfig", "AIMTemplateCache"),
    }


@pytest.mark.spec("RC-132")
@pytest.mark.parametrize("kind", ["AIMModel", "AIMClusterModel"])
@pytest.mark.parametrize(
    ("discovery", "expected"),
    [
        ({"enabled": True}, {"extractMetadata": True}),
        ({"enabled": False}, {"extractMetadata": False, "createServiceTemplates": False}),
        ({"enabled": False, "autoCreateTemplates": True}, {"extractMetadata": False, "createServiceTemplates": False}),
        ({"autoCreateTemplates": False}, {"createServiceTemplates": False}),
        ({"enabled": True, "autoCreateTemplates": True}, {"extractMetadata": True, "createServiceTemplates": True}),
    ],
)
def test_discovery_of_models(kind: str, discovery: JsonObject, expected: JsonObject) -> None:
    assert migrated(kind, {"image": IMAGE, "discovery": discovery}) == ({"image": IMAGE, "discovery": expected}, set())


@pytest.mark.spec("RC-132", "RC-146")
def test_fields_of_models_that_have_kept_their_name() -> None:
    spec = {
        "image": IMAGE,
        "defaultServiceTemplate": "best",
        "imagePullSecrets": [{"name": "pull"}],
        "serviceAccountName": "runner",
        "runtimeConfigName": "team",
        "resources": {"limits": {"cpu": "8"}, "requests": {"amd.com/gpu": "1"}},
    }
    assert migrated("AIMModel", spec) == (spec, set())


@pytest.mark.spec("RC-132")
@pytest.mark.parametrize("kind", ["AIMModel", "AIMServiceTemplate", "AIMService"])
def test_other_gpus_are_copied_and_reported(kind: str) -> None:
    spec, reported = migrated(kind, {"resources": {"limits": {"nvidia.com/gpu": "1"}}})
    assert spec["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    assert reported == {(Weight.CHANGED, "spec.resources.limits[nvidia.com/gpu]")}


@pytest.mark.spec("RC-133")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"model": {"ref": "qwen"}}, {"model": {"name": "qwen"}}),
        ({"aimImageName": "qwen"}, {"model": {"name": "qwen"}}),
        ({"model": {"image": IMAGE}}, {"model": {"image": IMAGE}}),
        ({"templateRef": "fast"}, {"template": {"name": "fast"}}),
        ({"cacheModel": True}, {"caching": {"mode": "Shared"}}),
        ({"cacheModel": False}, {"caching": {"mode": "Dedicated"}}),
        ({"caching": {"mode": "Always"}}, {"caching": {"mode": "Shared"}}),
        ({"caching": {"mode": "Auto"}}, {"caching": {"mode": "Shared"}}),
        ({"caching": {"mode": "Never"}}, {"caching": {"mode": "Dedicated"}}),
        ({"caching": {"mode": "Never"}, "cacheModel": True}, {"caching": {"mode": "Dedicated"}}),
        ({"routingAnnotations": {"a": "b"}}, {"routing": {"annotations": {"a": "b"}}}),
    ],
)
def test_renamed_fields_of_services(spec: JsonObject, expected: JsonObject) -> None:
    assert migrated("AIMService", spec) == (expected, set())


@pytest.mark.spec("RC-133")
def test_fields_of_services_that_have_kept_their_name() -> None:
    spec = {
        "model": {"image": IMAGE},
        "routing": {"enabled": True, "gatewayRef": {"name": "gw"}, "annotations": {"a": "b"}},
        "overrides": {"metric": "latency", "precision": "fp8"},
        "env": [{"name": "A", "value": "b"}],
        "replicas": 0,
        "resources": {"limits": {"cpu": "2"}},
        "imagePullSecrets": [{"name": "pull"}],
        "serviceAccountName": "runner",
        "runtimeConfigName": "team",
    }
    assert migrated("AIMService", spec) == (spec, set())


@pytest.mark.spec("RC-133", "RC-148")
@pytest.mark.parametrize(
    ("spec", "old_path", "new_path"),
    [
        ({"model": {"ref": "qwen"}}, "/{.spec.model.ref}", "/{.spec.model.name}"),
        ({"model": {"ref": "qwen"}}, "/x/{.spec.aimImageName}", "/x/{.spec.model.name}"),
        ({"model": {"image": IMAGE}}, "/{.spec.model.ref}", "/{.status.resolvedModel.name}"),
        ({"model": {"ref": "q"}}, "/{.spec.templateRef}", "/{.spec.template.name}"),
    ],
)
def test_path_templates_name_the_fields_of_today(spec: JsonObject, old_path: str, new_path: str) -> None:
    today, reported = migrated("AIMService", {**spec, "routing": {"pathTemplate": old_path}})
    assert today["routing"]["pathTemplate"] == new_path
    assert reported == {(Weight.CHANGED, "spec.routing.pathTemplate")}


@pytest.mark.spec("RC-133")
@pytest.mark.parametrize("path", ["/{.metadata.name}", "/{.spec.model.reference}", "/{.spec.aimImageNames}"])
def test_other_path_templates_stay(path: str) -> None:
    spec = {"routing": {"pathTemplate": path}}
    assert migrated("AIMService", spec) == (spec, set())


@pytest.mark.spec("RC-145")
def test_a_gpu_selector_is_hardware_today() -> None:
    selector = {"count": 2, "model": "MI300X", "resourceName": "amd.com/gpu"}
    gpu = {"requests": 2, "model": "MI300X", "resourceName": "amd.com/gpu"}
    assert migrated("AIMServiceTemplate", {"gpuSelector": selector}) == ({"hardware": {"gpu": gpu}}, set())
    today, reported = migrated("AIMService", {"overrides": {"gpuSelector": selector, "metric": "latency"}})
    assert today == {"overrides": {"metric": "latency", "hardware": {"gpu": gpu}}}
    assert not reported


@pytest.mark.spec("RC-135")
def test_model_sources_of_templates() -> None:
    source = {"name": "org/model", "source": "hf://org/model", "sizeBytes": 12}
    today, reported = migrated("AIMServiceTemplate", {"aimImageName": "m", "modelSources": [source]})
    assert today == {
        "modelName": "m",
        "modelSources": [{"modelId": "org/model", "sourceUri": "hf://org/model", "size": 12}],
    }
    assert not reported


@pytest.mark.spec("RC-134", "RC-012", "RC-S26")
@pytest.mark.parametrize("kind", ["AIMRuntimeConfig", "AIMClusterRuntimeConfig"])
def test_runtime_configs(kind: str) -> None:
    kept = {
        "routing": {"enabled": False, "pathTemplate": "/{.metadata.name}"},
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    }
    spec = {
        **kept,
        "model": {"creationScope": "Cluster", "autoDiscovery": False},
        "defaultStorageClassName": "fast",
        "pvcHeadroomPercent": 0,
        "imagePullSecrets": [{"name": "pull"}],
        "serviceAccountName": "runner",
    }
    today, reported = migrated(kind, spec)
    storage = {"defaultStorageClassName": "fast", "pvcHeadroomPercent": 0}
    assert today == {**kept, "model": {"autoDiscovery": False}, "storage": storage}
    assert reported == {
        (LOST, "spec.imagePullSecrets"),
        (LOST, "spec.serviceAccountName"),
        (LOST, "spec.model.creationScope"),
    }


@pytest.mark.spec("RC-134")
def test_the_scope_that_every_model_has_today_is_no_loss() -> None:
    assert migrated("AIMRuntimeConfig", {"model": {"creationScope": "Namespace"}}) == ({}, set())


@pytest.mark.spec("RC-134")
def test_an_explicit_new_field_of_a_config_wins() -> None:
    spec = {"pvcHeadroomPercent": 5, "storage": {"pvcHeadroomPercent": 7}}
    assert migrated("AIMRuntimeConfig", spec) == ({"storage": {"pvcHeadroomPercent": 7}}, set())


@pytest.mark.spec("RC-135", "RC-139")
def test_a_model_cache_is_an_artifact() -> None:
    spec = {"sourceUri": "hf://org/m", "size": "8Gi", "storageClassName": "fast", "env": [{"name": "A", "value": "b"}]}
    [new] = migrate([old("AIMModelCache", "weights", {**spec, "downloadImage": "dl:1"})]).objects
    assert (new.kind.kind, new.body["kind"], new.name, new.namespace) == (
        "AIMArtifact",
        "AIMArtifact",
        "weights",
        "ml-team",
    )
    assert new.body["spec"] == {**spec, "modelDownloadImage": "dl:1"}
    assert remarks(migrate([old("AIMModelCache", "weights", spec)])) == {(Weight.CHANGED, "status")}
    from_s3 = migrate([old("AIMModelCache", "weights", {"sourceUri": "s3://bucket/m"})])
    assert (LOST, "spec.modelId") in remarks(from_s3)
    named = migrate([old("AIMModelCache", "weights", {"sourceUri": "s3://bucket/m", "modelId": "org/m"})])
    assert (LOST, "spec.modelId") not in remarks(named)


@pytest.mark.spec("RC-135")
def test_the_scope_of_a_cached_template_is_looked_up() -> None:
    cache = old("AIMTemplateCache", "cache", {"templateName": "t"})
    of_team = old("AIMServiceTemplate", "t", {"modelName": "m"})
    of_others = old("AIMServiceTemplate", "t", {"modelName": "m"}, namespace="others")
    of_cluster = old("AIMClusterServiceTemplate", "t", {"modelName": "m"})

    def scope(*others: Old, there: tuple[tuple[str, str], ...] = ()) -> Any:
        caches = [new for new in migrate([cache, *others], there).objects if new.kind.kind == "AIMTemplateCache"]
        return caches[0].body["spec"]["templateScope"] if caches else None

    assert scope(of_cluster) == "Cluster"
    assert scope(of_cluster, of_team) == "Namespace"
    assert scope(there=(("ml-team", "t"),)) == "Namespace"
    assert scope(there=(("", "t"),)) == "Cluster"
    assert scope(of_others) is None
    assert remarks(migrate([cache, of_others])) == {(LOST, "spec.templateName")}


@pytest.mark.spec("RC-136")
def test_keys_of_labels_and_annotations() -> None:
    before = {
        "aim.silogen.ai/template": "t",
        "aim.silogen.ai/model-id": "m",
        "aim.silogen.ai/template.metric": "latency",
        "aim.silogen.ai/template.precision": "fp8",
        "aim.silogen.ai/service-name": "s",
        "aim.silogen.ai/something": "else",
        "app.kubernetes.io/managed-by": "aim-controller",
        "team": "a",
    }
    [new] = migrate([old("AIMModel", "m", {"image": IMAGE}, labels=before)]).objects
    assert new.body["metadata"]["labels"] == {
        "aim.eai.amd.com/template": "t",
        "aim.eai.amd.com/model": "m",
        "aim.eai.amd.com/template.metric": "latency",
        "aim.eai.amd.com/template.precision": "fp8",
        "aim.eai.amd.com/service": "s",
        "aim.eai.amd.com/service.name": "s",
        "aim.silogen.ai/something": "else",
        "app.kubernetes.io/managed-by": "aim-engine",
        "team": "a",
    }
    for key, value, today in (
        ("derived-template", "true", {"origin": "derived"}),
        ("auto-generated", "true", {"origin": "auto-generated"}),
        ("auto-created", "true", {"origin": "auto-generated"}),
        ("aim-image", "m", {"model": "m"}),
    ):
        [new] = migrate([old("AIMModel", "m", {"image": IMAGE}, labels={f"aim.silogen.ai/{key}": value})]).objects
        assert new.body["metadata"]["labels"] == {f"aim.eai.amd.com/{k}": v for k, v in today.items()}


@pytest.mark.spec("RC-127", "RC-130")
def test_an_object_tells_where_it_came_from_and_takes_nothing_along_that_was_the_servers() -> None:
    last = "kubectl.kubernetes.io/last-applied-configuration"
    before = old(
        "AIMService",
        "chat",
        {"model": {"ref": "m"}},
        annotations={"note": "mine", last: "{}"},
        uid="1",
        resourceVersion="2",
        finalizers=["aim.silogen.ai/x"],
    )
    [new] = migrate([before]).objects
    assert new.body["metadata"] == {
        "name": "chat",
        "namespace": "ml-team",
        "annotations": {"note": "mine", labels.ANNOTATION_MIGRATED_FROM: "aim.silogen.ai/AIMService/ml-team/chat"},
    }
    assert new.body["apiVersion"] == "aim.eai.amd.com/v1alpha1"
    assert set(new.body) == {"apiVersion", "kind", "metadata", "spec"}


@pytest.mark.spec("RC-120", "RC-121", "RC-122", "RC-S25")
def test_a_namespace_config() -> None:
    result = migrate([old("AIMNamespaceConfig", "anything", NAMESPACE_CONFIG)])
    [new] = result.objects
    assert (new.kind.kind, new.namespace, new.name) == ("AIMRuntimeConfig", "ml-team", "default")

    def secret(name: str, key: str) -> JsonObject:
        return {"secretKeyRef": {"name": name, "key": key}}

    assert new.body["spec"] == {
        "routing": {"enabled": True, "gatewayRef": {"name": "kgw-default", "namespace": "gateway-system"}},
        "env": [
            {"name": "HF_TOKEN", "valueFrom": secret("hf-creds", "token")},
            {"name": "AWS_ENDPOINT_URL", "value": "https://s3.us-east-1.amazonaws.com"},
            {"name": "AWS_ACCESS_KEY_ID", "valueFrom": secret("s3-creds", "accessKeyId")},
            {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": secret("s3-creds", "secretAccessKey")},
        ],
    }
    assert remarks(result) == {(LOST, "spec.images.imagePullSecrets")}
    assert migrate([old("AIMNamespaceConfig", "empty", {})]).objects == ()


@pytest.mark.spec("RC-S25")
@pytest.mark.parametrize(
    ("spec", "lost"),
    [
        ({"credentials": {"gcs": [{"applicationCredentials": {}}]}}, "spec.credentials.gcs"),
        ({"credentials": {"azureBlob": [{"connectionString": {}}]}}, "spec.credentials.azureBlob"),
        ({"credentials": {"s3": [{}, {"endpointUrl": "https://other"}]}}, "spec.credentials.s3[1]"),
        ({"credentials": {"huggingFaceToken": {"secretName": "s"}}}, "spec.credentials.huggingFaceToken"),
        ({"gateway": {"namespace": "gw"}}, "spec.gateway.namespace"),
        ({"unknown": 1}, "spec.unknown"),
    ],
)
def test_what_a_namespace_config_cannot_hand_on(spec: JsonObject, lost: str) -> None:
    assert (LOST, lost) in migrated("AIMNamespaceConfig", spec)[1]


@pytest.mark.spec("RC-123")
def test_a_kaiwo_config_of_defaults_comes_to_nothing() -> None:
    assert migrate([old("KaiwoConfig", "kaiwo", KAIWO_DEFAULTS)]) == migrate([])
    assert migrate([old("KaiwoConfig", "kaiwo", {})]) == migrate([])


@pytest.mark.spec("RC-123", "RC-124")
@pytest.mark.parametrize(
    ("path", "value", "weight"),
    [
        ("ray.defaultRayImage", "x", Weight.IGNORED),
        ("ray.headPodMemory", "1Gi", Weight.IGNORED),
        ("storage.defaultDataMountPath", "/data", Weight.IGNORED),
        ("storage.defaultHfMountPath", "/hf", LOST),
        ("nodes.defaultGpuResourceKey", "nvidia.com/gpu", LOST),
        ("nodes.defaultGpuTaintKey", "gpu", LOST),
        ("nodes.excludeMasterNodesFromNodePools", True, Weight.IGNORED),
        ("nodes.addTaintsToGpuNodes", True, LOST),
        ("scheduling.kubeSchedulerName", "x", LOST),
        ("scheduling.pendingThresholdForPreemption", "1m", Weight.IGNORED),
        ("resourceMonitoring.lowUtilizationThreshold", 2.5, Weight.IGNORED),
        ("resourceMonitoring.targetNamespaces", ["a"], Weight.IGNORED),
        ("resourceMonitoring.profile", "cpu", Weight.IGNORED),
        ("resourceMonitoring.terminateUnderutilized", True, LOST),
        ("resourceMonitoring.terminateUnderutilizedAfter", "1h", Weight.IGNORED),
        ("defaultClusterQueueName", "x", LOST),
        ("defaultClusterQueueCohortName", "x", Weight.IGNORED),
        ("dynamicallyUpdateDefaultClusterQueue", True, Weight.IGNORED),
        ("nodes.unknown", True, LOST),
    ],
)
def test_what_a_kaiwo_config_says_beyond_its_defaults(path: str, value: object, weight: Weight) -> None:
    *blocks, name = path.split(".")
    spec: JsonObject = {name: value}
    for block in reversed(blocks):
        spec = {block: spec}
    field = "spec.nodes" if path == "nodes.unknown" else f"spec.{path}"
    assert migrated("KaiwoConfig", spec) == ({}, {(weight, field)})


@pytest.mark.spec("RC-123")
def test_the_storage_class_of_a_kaiwo_config() -> None:
    [new] = migrate([old("KaiwoConfig", "kaiwo", {"storage": {"defaultStorageClass": "fast"}})]).objects
    assert (new.kind.kind, new.namespace, new.name) == ("AIMClusterRuntimeConfig", None, "default")
    assert new.body["spec"] == {"storage": {"defaultStorageClassName": "fast"}}


@pytest.mark.spec("RC-126", "RC-148")
def test_several_sources_of_one_config_complete_each_other() -> None:
    gateway = {"routing": {"gatewayRef": {"name": "mine"}}}
    own = old("AIMRuntimeConfig", "default", {**gateway, "env": [{"name": "HF_TOKEN", "value": "x"}]})
    older = old("AIMNamespaceConfig", "a", NAMESPACE_CONFIG)
    result = migrate([older, own])
    [new] = result.objects
    assert new.body["spec"]["routing"] == {"gatewayRef": {"name": "mine"}, "enabled": True}
    names = [entry["name"] for entry in new.body["spec"]["env"]]
    assert names == ["HF_TOKEN", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
    assert new.body["spec"]["env"][0] == {"name": "HF_TOKEN", "value": "x"}
    assert {(Weight.CONFLICT, "spec.routing.gatewayRef"), (Weight.CONFLICT, "spec.env[HF_TOKEN]")} <= remarks(result)
    sources = "aim.silogen.ai/AIMRuntimeConfig/ml-team/default, config.kaiwo.silogen.ai/AIMNamespaceConfig/ml-team/a"
    assert new.body["metadata"]["annotations"] == {labels.ANNOTATION_MIGRATED_FROM: sources}


@pytest.mark.spec("RC-148")
def test_the_oldest_of_several_kaiwo_configs_counts() -> None:
    older = old(
        "KaiwoConfig", "z", {"storage": {"defaultStorageClass": "old"}}, creationTimestamp="2024-01-01T00:00:00Z"
    )
    newer = old(
        "KaiwoConfig", "a", {"storage": {"defaultStorageClass": "new"}}, creationTimestamp="2025-01-01T00:00:00Z"
    )
    result = migrate([newer, older])
    assert result.objects[0].body["spec"] == {"storage": {"defaultStorageClassName": "old"}}
    assert remarks(result) == {(Weight.CONFLICT, "spec.storage.defaultStorageClassName")}


@pytest.mark.spec("RC-144")
def test_what_the_old_operator_made_is_made_anew() -> None:
    owner = {"apiVersion": "aim.silogen.ai/v1alpha1", "kind": "AIMModel", "name": "m", "uid": "1"}
    made = old("AIMServiceTemplate", "generated", {"modelName": "m"}, ownerReferences=[owner])
    of_others = old("AIMServiceTemplate", "own", {"modelName": "m"}, ownerReferences=[{**owner, "apiVersion": "v1"}])
    service = old("AIMService", "chat", {"templateRef": "generated"})
    result = migrate([made, of_others, service])
    assert [new.name for new in result.objects] == ["own", "chat"]
    assert remarks(result) == {(Weight.LEFT, ""), (Weight.CHANGED, "spec.templateRef")}
    assert not {finding.weight for finding in result.findings} & FAILURES


@pytest.mark.spec("RC-146")
def test_a_field_without_a_place_is_named_and_not_written() -> None:
    spec = {"image": IMAGE, "custom": {"hardware": {"gpu": {"model": "MI300X", "vendor": "amd"}}}, "colour": "red"}
    today, reported = migrated("AIMModel", spec)
    assert today == {"image": IMAGE, "custom": {"hardware": {"gpu": {"model": "MI300X"}}}}
    assert reported == {(LOST, "spec.colour"), (LOST, "spec.custom.hardware.gpu.vendor")}


@pytest.mark.spec("RC-140")
def test_what_is_referred_to_is_written_first() -> None:
    specs: dict[str, JsonObject] = {"KaiwoConfig": {"storage": {"defaultStorageClass": "x"}}}
    specs["AIMNamespaceConfig"] = NAMESPACE_CONFIG
    olds = [old(kind.kind, "one", specs.get(kind.kind, {"templateName": "one"})) for kind in reversed(OLD_KINDS)]
    assert [new.kind.kind for new in migrate(olds).objects] == [
        *("AIMClusterRuntimeConfig", "AIMRuntimeConfig", "AIMClusterRuntimeConfig", "AIMRuntimeConfig"),
        *("AIMClusterModel", "AIMModel", "AIMClusterServiceTemplate", "AIMServiceTemplate"),
        *("AIMArtifact", "AIMTemplateCache", "AIMService"),
    ]


@pytest.mark.spec("RC-146")
@pytest.mark.parametrize(
    "spec", [None, [], "text", {"model": "text"}, {"routing": []}, {"env": {"a": 1}}, {"caching": 3}]
)
@pytest.mark.parametrize("kind", OLD_KINDS, ids=lambda kind: kind.kind)
def test_a_malformed_spec_is_no_end(kind: Any, spec: object) -> None:
    body = old(kind.kind, "one", {}).body
    migrate([Old(kind, {**body, "spec": spec}), Old(kind, {**body, "metadata": spec})])


@pytest.mark.spec("RC-131", "RC-132", "RC-133", "RC-134")
def test_all_resources_of_the_older_documents() -> None:
    olds = []
    for body in GUIDE:
        kind = old_kind(body["apiVersion"].partition("/")[0], body["kind"])
        assert kind is not None
        olds.append(Old(kind, body))
    result = migrate(olds)
    assert {str(new) for new in result.objects} == {
        "AIMClusterRuntimeConfig default",
        "AIMRuntimeConfig ml-team/default",
        "AIMClusterModel meta-llama-3-8b-instruct",
        "AIMClusterModel with-discovery",
        "AIMModel ml-team/meta-llama-3-8b-dev",
        "AIMModel ml-team/proprietary-model",
        "AIMService ml-team/my-service",
    }
    assert {field for weight, field in remarks(result) if weight in FAILURES} == {
        "spec.model.creationScope",
        "spec.imagePullSecrets",
        "spec.serviceAccountName",
        "spec.images.imagePullSecrets",
    }
