"""The failure path: a refused token, the service's single retry, the user's repair (docs/spec/README.md section 6)."""

from typing import Any

import pytest
from support.artifacts import (
    Cluster,
    conditions_of,
    environment,
    namespace,
    plan_of,
    source,
    template,
    template_cache,
    value_of,
)

from aim_domain import labels
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_JOBS, ARTIFACTS, TEMPLATE_CACHES
from controller_runtime import EventType, Plan, dumps

TERMINATION = dumps({"category": "Auth", "message": "401 for token hf_invalidtoken"}).decode()


def refused(known: Cluster) -> Plan:
    """The one artifact's download is refused; the failure policy ends the Job with its first pod."""
    (name,) = known.names(ARTIFACTS)
    known.settle(ARTIFACTS, name)
    known.bind_claim()
    known.end_pod(known.start_pod(), 10, TERMINATION)
    known.end_job("Failed", "PodFailurePolicy")
    plan = known.run(ARTIFACTS, name)
    known.settle(TEMPLATE_CACHES, "qwen")
    return plan


@pytest.mark.spec(
    "AR-023",
    "AR-109",
    "AR-304",
    "AR-310",
    "AR-350",
    "AR-352",
    "AR-353",
    "AR-356",
    "AR-362",
    "AR-560",
    "AR-570",
    "AR-572",
    "AR-632",
    "FW-072",
    "FW-090",
)
def test_from_a_refused_token_to_a_ready_cache() -> None:
    known = Cluster(template_cache(), template(source(size="2Gi")), namespace())
    known.settle(TEMPLATE_CACHES, "qwen")
    (name,) = known.names(ARTIFACTS)

    failed = refused(known)
    conditions = conditions_of(failed)
    assert {conditions[type_] for type_ in ("DownloadJobPodsReady", "AuthValid", "Ready")} == {("False", "AuthError")}
    assert conditions["DownloadComplete"] == ("False", "Downloading")
    assert value_of(failed) == "Failed"
    warnings = [event.condition for event in failed.events if event.type is EventType.WARNING]
    assert {"DownloadJobPodsReady", "AuthValid", "Ready"} <= set(warnings)
    assert "hf_invalidtoken" not in str(failed)
    of_cache = plan_of(known, TEMPLATE_CACHES)
    assert value_of(of_cache) == "Failed"
    assert conditions_of(of_cache)["ArtifactsReady"] == ("False", "AuthError")
    assert not of_cache.children

    # The serving service spends its single retry: it deletes the failed artifact, and all it owns goes with it.
    before = known.names(ARTIFACT_CLAIMS) + known.names(ARTIFACT_JOBS)
    known.remove(ARTIFACTS, name)
    assert not known.names(ARTIFACT_CLAIMS)
    known.settle(TEMPLATE_CACHES, "qwen")
    assert known.names(ARTIFACTS) == [name]

    assert value_of(refused(known)) == "Failed"
    after = known.names(ARTIFACT_CLAIMS) + known.names(ARTIFACT_JOBS)
    assert len(after) == 2
    assert not set(before) & set(after)

    # The user corrects the artifact's env: the failed Job goes at once, the next one succeeds.
    spec = known.raw(ARTIFACTS, name)["spec"]
    known.change(ARTIFACTS, name, spec={**spec, "env": [{"name": "HF_TOKEN", "value": "corrected"}]})
    assert [delete.part for delete in known.run(ARTIFACTS, name).deletes] == [ARTIFACT_JOBS]
    known.settle(ARTIFACTS, name)
    known.start_pod()
    known.end_job()
    ready = known.settle(ARTIFACTS, name)
    assert value_of(ready) == "Ready"
    assert conditions_of(ready)["AuthValid"] == ("True", "AuthenticationValid")
    assert value_of(known.settle(TEMPLATE_CACHES, "qwen")) == "Ready"


@pytest.mark.spec("AR-566", "AR-362", "SV-269", "FW-206", "FW-411")
def test_an_env_corrected_in_the_cache_starts_a_new_download_at_once() -> None:
    known = Cluster(template_cache(), template(source(size="2Gi")), namespace())
    known.settle(TEMPLATE_CACHES, "qwen")
    (name,) = known.names(ARTIFACTS)
    assert value_of(refused(known)) == "Failed"
    (before,) = known.names(ARTIFACT_JOBS)
    failed_job = known.raw(ARTIFACT_JOBS, before)["metadata"]["uid"]

    corrected = [{"name": "HF_TOKEN", "value": "corrected"}]
    wanted = known.raw(TEMPLATE_CACHES, "qwen")["spec"] | {"env": corrected}
    known.change(TEMPLATE_CACHES, "qwen", spec=wanted)
    plan = known.run(TEMPLATE_CACHES, "qwen")
    (patch,) = plan.patches
    assert (patch.name, patch.body["spec"]) == (name, {"env": corrected})
    assert not plan.children
    assert plan_of(known, TEMPLATE_CACHES).patches == ()

    assert [delete.uid for delete in known.run(ARTIFACTS, name).deletes] == [failed_job]
    known.settle(ARTIFACTS, name)
    (container,) = known.only(ARTIFACT_JOBS)["spec"]["template"]["spec"]["containers"]
    assert environment(container)["HF_TOKEN"] == "corrected"

    # A correction in the artifact itself lasts until the cache says something new.
    known.change(ARTIFACTS, name, spec=known.raw(ARTIFACTS, name)["spec"] | {"env": []})
    assert plan_of(known, TEMPLATE_CACHES).patches == ()
    known.change(TEMPLATE_CACHES, "qwen", spec={**wanted, "env": [{"name": "A", "value": "b"}]})
    assert len(plan_of(known, TEMPLATE_CACHES).patches) == 1


@pytest.mark.spec("AR-566")
@pytest.mark.parametrize("change", [{"status": {"status": "Ready"}}, {"label": "another"}])
def test_an_env_is_not_handed_on_to_ready_or_foreign_artifacts(change: dict[str, Any]) -> None:
    known = Cluster(template_cache(), template(source(size="2Gi")), namespace())
    known.settle(TEMPLATE_CACHES, "qwen")
    (name,) = known.names(ARTIFACTS)
    known.change(ARTIFACTS, name, status={"status": "Failed", **change.get("status", {})})
    if "label" in change:
        known.change(ARTIFACTS, name, metadata={"labels": {labels.TEMPLATE_CACHE_NAME: change["label"]}})
    wanted = known.raw(TEMPLATE_CACHES, "qwen")["spec"] | {"env": [{"name": "HF_TOKEN", "value": "new"}]}
    known.change(TEMPLATE_CACHES, "qwen", spec=wanted)
    assert plan_of(known, TEMPLATE_CACHES).patches == ()
