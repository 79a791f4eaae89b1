"""Discoveries that were refused for lack of credentials: their Secrets are watched, corrections are tried at once."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import terminated
from support.discovery_cache import (
    SYSTEM,
    DiscoveryCluster,
    cluster_model,
    cluster_template,
    discovery_cluster,
    effect_of,
    model,
    template,
)

from aim_discovery.image_effects import PULL_SECRETS
from aim_domain.parts import CLUSTER_TEMPLATES, DISCOVERY_JOBS, DISCOVERY_PODS, TEMPLATES
from aim_domain.pods.facts import POD_LOG
from controller_runtime import Category, ClassifiedError

TOKEN = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}]


def refused(line: str = "Cannot access gated repo x", **spec: Any) -> tuple[DiscoveryCluster, str]:
    """A template whose Job has failed with that line in its log, and the name of the Job."""
    cluster = discovery_cluster(model(imagePullSecrets=[{"name": "registry"}]), template(**spec))
    (job,) = cluster.run(TEMPLATES, "tpl").children
    cluster.settle(TEMPLATES, "tpl")
    cluster.put(DISCOVERY_PODS, cluster.job_pod(job.name, "Failed", terminated("discovery", 1)))
    cluster.end_job(job.name, "Failed", "BackoffLimitExceeded")
    cluster.answer(effect_of(cluster.run(TEMPLATES, "tpl"), POD_LOG.name), {"tail": line})
    cluster.run(TEMPLATES, "tpl")
    return cluster, job.name


def read(cluster: DiscoveryCluster, version: str | None) -> timedelta | None:
    """Let the Secrets be read; how long that had to wait."""
    effect = effect_of(cluster.run(TEMPLATES, "tpl"), PULL_SECRETS.name)
    wait = None if effect.not_before is None else effect.not_before - cluster.now
    cluster.until(effect.not_before or cluster.now)
    versions = dict.fromkeys(effect.params["secrets"], version)
    cluster.answer(effect, {"versions": versions})
    return wait


def refuse_reading(cluster: DiscoveryCluster) -> None:
    """Let the next reading of the Secrets fail."""
    effect = effect_of(cluster.run(TEMPLATES, "tpl"), PULL_SECRETS.name)
    cluster.until(effect.not_before or cluster.now)
    message = "Secret ml/registry cannot be read: forbidden"
    cluster.answer(effect, failure=ClassifiedError(Category.INFRASTRUCTURE, "SecretAccessFailed", message))


@pytest.mark.spec("FW-096", "DI-301", "DI-303", "DI-360")
def test_a_corrected_secret_is_tried_at_once() -> None:
    cluster, job = refused(env=TOKEN)
    effect = effect_of(cluster.run(TEMPLATES, "tpl"), PULL_SECRETS.name)
    assert effect.params == {"namespace": "ml", "secrets": ["hf", "registry"]}
    assert read(cluster, "uid/1") is None
    assert cluster.value(TEMPLATES, "tpl") == "Failed"
    # The second failure waits for longer than the Secrets do.
    cluster.remove(DISCOVERY_JOBS, job)
    state = cluster.status(TEMPLATES, "tpl")["discovery"]
    before = cluster.status(TEMPLATES, "tpl")
    cluster.change(TEMPLATES, "tpl", status={**before, "discovery": {**state, "attempts": 5}})
    assert read(cluster, "uid/1") is None, "another attempt begins anew"
    assert read(cluster, "uid/1") == timedelta(seconds=60)
    assert cluster.run(TEMPLATES, "tpl").children == (), "reading again causes no attempt"
    read(cluster, "uid/2")
    assert [child.name for child in cluster.run(TEMPLATES, "tpl").children] == [job]


@pytest.mark.spec("FW-096")
def test_a_secret_that_appears_is_a_correction_and_removes_the_failed_job_first() -> None:
    cluster, job = refused()
    # The failure waits for longer than the Secrets do.
    state = cluster.status(TEMPLATES, "tpl")["discovery"]
    cluster.change(TEMPLATES, "tpl", status={"discovery": {**state, "attempts": 5}})
    read(cluster, None)
    read(cluster, "uid/1")
    plan = cluster.run(TEMPLATES, "tpl")
    assert ([delete.name for delete in plan.deletes], plan.children) == ([job], ())
    assert [child.name for child in cluster.run(TEMPLATES, "tpl").children] == [job]


@pytest.mark.spec("FW-096")
def test_secrets_of_other_failures_are_not_read() -> None:
    cluster, _ = refused("No space left on device", env=TOKEN)
    assert cluster.run(TEMPLATES, "tpl").effects == ()


@pytest.mark.spec("FW-096", "DI-301")
def test_a_secret_that_can_not_be_read_is_tried_again_and_said() -> None:
    cluster, _ = refused()
    refuse_reading(cluster)
    again = effect_of(cluster.run(TEMPLATES, "tpl"), PULL_SECRETS.name)
    assert again.not_before == cluster.now + timedelta(seconds=60)
    assert cluster.value(TEMPLATES, "tpl") == "Failed"
    assert cluster.condition(TEMPLATES, "tpl", "AuthValid") == ("False", "AuthError")
    reported = {one["type"]: one for one in cluster.status(TEMPLATES, "tpl")["conditions"]}
    assert reported["DependenciesReachable"]["status"] == "False"
    assert "ml/registry cannot be read: forbidden" in reported["DependenciesReachable"]["message"]
    read(cluster, "uid/1")
    cluster.run(TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "DependenciesReachable") == ("True", "Reachable")


@pytest.mark.spec("FW-096", "DI-301")
def test_a_correction_is_noticed_across_readings_that_fail() -> None:
    cluster, job = refused()
    cluster.remove(DISCOVERY_JOBS, job)
    state, before = cluster.status(TEMPLATES, "tpl")["discovery"], cluster.status(TEMPLATES, "tpl")
    cluster.change(TEMPLATES, "tpl", status={**before, "discovery": {**state, "attempts": 5}})
    read(cluster, "uid/1")
    refuse_reading(cluster)
    refuse_reading(cluster)
    assert cluster.run(TEMPLATES, "tpl").children == ()
    read(cluster, "uid/2")
    assert [child.name for child in cluster.run(TEMPLATES, "tpl").children] == [job]


@pytest.mark.spec("FW-096", "DI-208", "DI-231")
def test_secrets_of_a_cluster_template_are_those_of_the_operator() -> None:
    secrets = [{"name": "registry"}]
    cluster = discovery_cluster(cluster_model(imagePullSecrets=secrets), cluster_template())
    (job,) = cluster.run(CLUSTER_TEMPLATES, "tpl").children
    cluster.settle(CLUSTER_TEMPLATES, "tpl")
    pod = cluster.job_pod(job.name, "Failed", terminated("discovery", 1), namespace=SYSTEM)
    cluster.put(DISCOVERY_PODS, pod)
    cluster.end_job(job.name, "Failed", "BackoffLimitExceeded", namespace=SYSTEM)
    cluster.answer(
        effect_of(cluster.run(CLUSTER_TEMPLATES, "tpl"), POD_LOG.name), {"tail": "Cannot access gated repo x"}
    )
    effect = effect_of(cluster.settle(CLUSTER_TEMPLATES, "tpl"), PULL_SECRETS.name)
    assert effect.params == {"namespace": SYSTEM, "secrets": ["registry"]}
