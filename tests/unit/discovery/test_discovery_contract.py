"""What discovery owns, creates and reads, and how it is set up (sections 1 and 19)."""

from pathlib import Path

import pytest
from support.crd_tables import schema
from support.declarations import definitions
from support.discovery_cache import (
    MI300X,
    DiscoveryCluster,
    cluster_model,
    cluster_template,
    discovery_cluster,
    model,
    template,
)

from aim_discovery.service import definition
from aim_discovery.settings import DiscoverySettings
from aim_domain import labels
from aim_domain.kinds import AIM_SERVICE_TEMPLATE
from aim_domain.parts import CLUSTER_MODELS, CLUSTER_TEMPLATES, MODELS, TEMPLATES
from controller_runtime import JsonObject
from controller_runtime.manager.settings import load_settings

OWN = (MODELS, CLUSTER_MODELS, TEMPLATES, CLUSTER_TEMPLATES)


@pytest.mark.spec("DI-001")
def test_nobody_else_writes_the_status_of_models_and_templates() -> None:
    writers = {one.part.name: service.name for service in definitions() for one in service.reconcilers}
    assert {writers[part.name] for part in OWN} == {"discovery"}


def busy() -> DiscoveryCluster:
    """Everything at once that makes discovery create something."""
    profile: JsonObject = {
        "aimId": "a/b",
        "modelId": "a/b",
        "metric": "latency",
        "precision": "fp8",
        "hardware": MI300X,
    }
    sources = [{"modelId": "a/b", "sourceUri": "hf://a/b"}]
    entries: JsonObject = {"customTemplates": [{"name": "a"}], "discovery": {"extractMetadata": False}}
    return discovery_cluster(
        model(**entries),
        cluster_model(**entries),
        template(customProfile={}, **profile),
        template("cached", modelSources=sources, caching={"enabled": True}),
        cluster_template(customProfile={}, **profile),
    )


@pytest.mark.spec("DI-002", "DI-003")
def test_only_these_kinds_are_created() -> None:
    cluster = busy()
    created: set[str] = set()
    for part in OWN:
        for obj in cluster.all(part):
            metadata = obj["metadata"]
            plan = cluster.run(part, metadata["name"], metadata.get("namespace") or "")
            created |= {child.part.kind.kind for child in plan.children}
    assert created == {
        "AIMServiceTemplate",
        "AIMClusterServiceTemplate",
        "Job",
        "ConfigMap",
        "AIMTemplateCache",
    }


@pytest.mark.spec("DI-004", "DI-122", "DI-144")
def test_labels_and_fields_that_others_rely_on() -> None:
    cluster = busy()
    (child,) = cluster.run(MODELS, "qwen").children
    labels = child.body["metadata"]["labels"]
    assert labels["aim.eai.amd.com/model"] == "qwen"
    assert labels["aim.eai.amd.com/origin"] == "auto-generated"
    assert labels["aim.eai.amd.com/template.alias"] == "a"
    cluster.settle(TEMPLATES, "cached")
    cluster.run(MODELS, "qwen")
    assert {"status", "modelSources", "profile", "conditions"} <= cluster.status(TEMPLATES, "cached").keys()
    assert {"status", "sourceType", "conditions"} <= cluster.status(MODELS, "qwen").keys()


@pytest.mark.spec("DI-009")
def test_no_finalizer_is_set() -> None:
    assert {one.finalizer for one in definition(DiscoverySettings()).reconcilers} == {None}


@pytest.mark.spec("RC-137", "DI-007", "DI-369", "FW-270", "FW-S72")
def test_the_operator_namespace_has_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = tmp_path / "namespace"
    monkeypatch.setattr("controller_runtime.manager.settings._NAMESPACE_FILE", mounted)
    monkeypatch.delenv("AIM_SYSTEM_NAMESPACE", raising=False)
    monkeypatch.setenv("AIM_OPERATOR_NAMESPACE", "kaiwo-system")
    assert load_settings(DiscoverySettings, []).system_namespace == "aim-system"
    mounted.write_text("of-the-pod\n")
    assert load_settings(DiscoverySettings, []).system_namespace == "of-the-pod"
    monkeypatch.setenv("AIM_SYSTEM_NAMESPACE", "aim")
    monkeypatch.setenv("AIM_POD_NAME", "discovery-0")
    settings = load_settings(DiscoverySettings, [])
    assert (settings.system_namespace, settings.pod_name) == ("aim", "discovery-0")
    assert labels.KSERVE_INFERENCE_SERVICE == "serving.kserve.io/inferenceservice"


@pytest.mark.spec("DI-370", "DI-366", "DI-309")
def test_defaults_of_the_settings() -> None:
    settings = load_settings(DiscoverySettings, [])
    assert settings.inspection_timeout == 30
    assert (settings.extraction_retry_initial, settings.extraction_retry_max) == (10, 600)
    assert (settings.discovery_job_deadline, settings.max_discovery_jobs) == (3600, 10)
    assert settings.resync_interval == 600
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIM_MAX_DISCOVERY_JOBS", "3")
        patch.setenv("AIM_DISCOVERY_JOB_DEADLINE", "10m")
        changed = load_settings(DiscoverySettings, [])
    cluster = discovery_cluster(model(), template(), **changed.model_dump(include={"discovery_job_deadline"}))
    (child,) = cluster.run(TEMPLATES, "tpl").children
    assert child.body["spec"]["activeDeadlineSeconds"] == 600
    assert changed.max_discovery_jobs == 3


@pytest.mark.spec("DI-357")
def test_events_come_from_the_controller() -> None:
    controllers = {one.part.name: one.controller for one in definition(DiscoverySettings()).reconcilers}
    assert [controllers[part.name] for part in OWN] == [
        "model",
        "cluster-model",
        "service-template",
        "cluster-service-template",
    ]
    assert all(one.event_source is None for one in definition(DiscoverySettings()).reconcilers)


@pytest.mark.spec("DI-030")
def test_everything_but_the_identity_of_a_template_can_change() -> None:
    spec = schema(AIM_SERVICE_TEMPLATE)["properties"]["spec"]
    fixed = {name for name, node in spec["properties"].items() if _transitions(node)}
    fixed |= {name for name in spec["properties"] for rule in _transitions(spec) if f"self.{name}" in rule}
    assert fixed == {"modelName", "metric", "precision", "hardware"}


def _transitions(node: JsonObject) -> list[str]:
    return [rule["rule"] for rule in node.get("x-kubernetes-validations") or [] if "oldSelf" in rule["rule"]]
