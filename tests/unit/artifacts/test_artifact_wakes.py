"""Which changes enqueue which artifacts and caches."""

from typing import Any

import pytest
from support.artifacts import (
    ARTIFACT,
    CACHE,
    SERVICE,
    TEAM,
    Cluster,
    artifact,
    namespace,
    seen,
    source,
    template,
    template_cache,
)
from support.builders import make
from support.woken import woken as all_woken

from aim_domain import labels
from aim_domain.kinds import (
    AIM_CLUSTER_RUNTIME_CONFIG,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    AIM_TEMPLATE_CACHE,
    INFERENCE_SERVICE,
)
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACT_JOBS,
    ARTIFACT_PODS,
    ARTIFACTS,
    CLUSTER_RUNTIME_CONFIGS,
    INFERENCE_SERVICES,
    NAMESPACES,
    STATUS_UPDATER_BINDINGS,
    TEMPLATES,
)
from controller_runtime import JsonObject, Part, Reconciler
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM
from controller_runtime.testing import NOW, BuiltCache


def woken(
    known: BuiltCache, reconciler: Reconciler[Any], part: Part[Any], before: JsonObject | None, after: JsonObject | None
) -> set[str]:
    """Names of the objects of one controller that a change enqueues."""
    found = all_woken(SERVICE, known, part, before, after)
    return {key.rpartition("/")[2] for key in found if key.startswith(f"{reconciler.controller}:")}


def with_status(obj: JsonObject, **status: Any) -> JsonObject:
    return {**obj, "status": {**(obj.get("status") or {}), **status}}


def with_spec(obj: JsonObject, **spec: Any) -> JsonObject:
    return {**obj, "spec": {**obj["spec"], **spec}}


@pytest.mark.spec("AR-800", "FW-170")
def test_children_wake_their_artifact() -> None:
    known = Cluster(artifact(spec={"size": "1Gi"}))
    known.settle(ARTIFACTS, "qwen")
    pod = known.raw(ARTIFACT_PODS, known.start_pod())
    for part, child in (
        (ARTIFACT_CLAIMS, known.only(ARTIFACT_CLAIMS)),
        (ARTIFACT_JOBS, known.only(ARTIFACT_JOBS)),
        (ARTIFACT_PODS, pod),
        (STATUS_UPDATER_BINDINGS, known.only(STATUS_UPDATER_BINDINGS)),
    ):
        assert woken(known, ARTIFACT, part, child, None) == {"qwen"}, part
    assert not woken(known, ARTIFACT, ARTIFACT_PODS, pod, with_status(pod, hostIP="10.0.0.1"))
    assert woken(known, ARTIFACT, ARTIFACT_PODS, pod, with_status(pod, phase="Failed")) == {"qwen"}


@pytest.mark.spec("AR-046", "AR-P29")
def test_runtime_configs_wake_their_users() -> None:
    known = seen(artifact(), artifact("other", uid="u2", spec={"runtimeConfigName": "special"}), template_cache())
    config = make(AIM_CLUSTER_RUNTIME_CONFIG, "special", spec={})
    default = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"env": [{"name": "A", "value": "1"}]})
    assert woken(known, ARTIFACT, CLUSTER_RUNTIME_CONFIGS, None, config) == {"other"}
    assert "qwen" in woken(known, ARTIFACT, CLUSTER_RUNTIME_CONFIGS, None, default)
    assert woken(known, CACHE, CLUSTER_RUNTIME_CONFIGS, default, None) == {"qwen"}
    assert not woken(known, CACHE, CLUSTER_RUNTIME_CONFIGS, default, with_status(default, observedGeneration=2))


@pytest.mark.spec("AR-426", "AR-800")
def test_a_deployment_wakes_the_artifacts_it_mounts() -> None:
    known = Cluster(artifact(spec={"size": "1Gi"}))
    known.settle(ARTIFACTS, "qwen")
    claim = known.only(ARTIFACT_CLAIMS)["metadata"]["name"]
    volumes = [{"name": "w", "persistentVolumeClaim": {"claimName": claim}}]
    user = make(INFERENCE_SERVICE, "chat", namespace=TEAM, spec={"predictor": {"volumes": volumes}})
    assert woken(known, ARTIFACT, INFERENCE_SERVICES, None, user) == {"qwen"}
    assert not woken(known, ARTIFACT, INFERENCE_SERVICES, user, with_status(user, url="http://x"))


@pytest.mark.spec("AR-580")
def test_artifacts_wake_every_cache_that_may_use_them() -> None:
    leaving = template_cache("leaving", spec={"templateName": "none"}, deleting=NOW)
    known = seen(
        template_cache("wants", spec={"templateName": "none", "modelSources": [source()]}),
        template_cache("by-template"),
        template_cache("stranger", spec={"templateName": "none"}),
        leaving,
        template(source()),
        namespace(),
    )
    body = with_status(artifact("x", uid="uid-x"), status="Progressing")
    assert woken(known, CACHE, ARTIFACTS, None, body) == {"wants", "by-template"}
    assert woken(known, CACHE, ARTIFACTS, body, with_status(body, status="Ready")) == {"wants", "by-template"}
    assert woken(known, CACHE, ARTIFACTS, body, None) == {"wants", "by-template"}
    assert not woken(known, CACHE, ARTIFACTS, body, with_status(body, progress={"percentage": 3}))
    made = artifact("y", uid="uid-y", labels={labels.TEMPLATE_CACHE_NAME: "leaving"}, spec={"sourceUri": "hf://a/b"})
    assert woken(known, CACHE, ARTIFACTS, None, made) == {"leaving"}, "it cleans up what it has made"


@pytest.mark.spec("AR-580", "FW-255")
def test_an_artifact_wakes_caches_of_its_namespace_only() -> None:
    shared = make(AIM_CLUSTER_SERVICE_TEMPLATE, "shared", spec={"modelName": "m"}, status=template(source())["status"])
    spec = {"templateName": "shared", "templateScope": "Cluster"}
    elsewhere = [
        make(AIM_TEMPLATE_CACHE, "shared", namespace=f"team-{number}", uid=f"uid-{number}", spec=spec)
        for number in range(5)
    ]
    known = seen(shared, template_cache("here", spec=spec), *elsewhere)
    assert woken(known, CACHE, ARTIFACTS, None, artifact()) == {"here"}


@pytest.mark.spec("AR-580", "FW-116", "AR-P04")
def test_templates_wake_caches_when_sources_or_readiness_change() -> None:
    before = template(source(), status="Progressing", ready=False)
    known = seen(template_cache(), template_cache("cluster-only", spec={"templateScope": "Cluster"}))
    assert woken(known, CACHE, TEMPLATES, None, before) == {"qwen"}
    assert woken(known, CACHE, TEMPLATES, before, template(source())) == {"qwen"}
    more = [source(), source("a/b", "hf://a/b")]
    assert woken(known, CACHE, TEMPLATES, before, with_status(before, modelSources=more)) == {"qwen"}
    assert not woken(known, CACHE, TEMPLATES, before, with_status(before, hardwareSummary="x"))


@pytest.mark.spec("AR-472")
def test_what_makes_room_wakes_those_that_wait_for_storage() -> None:
    def config(**quota: Any) -> JsonObject:
        return make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"artifactStorageQuota": quota})

    full, raised = config(clusterLimit="1Gi"), config(clusterLimit="15Gi")
    waiting = [artifact(name, uid=name, spec={"size": "10Gi", "runtimeConfigName": "own"}) for name in ("a", "b")]
    own = make(AIM_CLUSTER_RUNTIME_CONFIG, "own", spec={})
    known = seen(*waiting, raised, own, namespace())
    assert woken(known, ARTIFACT, CLUSTER_RUNTIME_CONFIGS, full, raised) == {"a"}
    assert not woken(known, ARTIFACT, CLUSTER_RUNTIME_CONFIGS, raised, with_spec(raised, defaultStorageClassName="x"))
    freed = make(PERSISTENT_VOLUME_CLAIM, "gone", namespace=TEAM)
    assert woken(known, ARTIFACT, ARTIFACT_CLAIMS, freed, None) == {"a"}
    limited = namespace(annotations={labels.ANNOTATION_STORAGE_QUOTA: "1Gi"})
    assert woken(known, ARTIFACT, NAMESPACES, limited, namespace()) == {"a"}
    assert not woken(known, ARTIFACT, NAMESPACES, namespace(), namespace(labels={"a": "b"}))


def test_everything_that_is_watched_for_is_consumed() -> None:
    consumed = {part.name for part in SERVICE.consumes}
    assert {part.name for part in SERVICE.publishes} <= consumed
    assert {wake.part.name for one in SERVICE.reconcilers for wake in one.mappings} <= consumed
    assert {index.part.name for index in SERVICE.indexes} <= consumed
