"""A template's discovery Job from its start to its end, and what a Job prints."""

from typing import Any

from support.discovery_cache import DiscoveryCluster, discovery_cluster, effect_of, model, template

from aim_discovery.templates.job_log import JOB_LOG
from aim_domain.parts import DISCOVERY_JOBS, TEMPLATES
from controller_runtime import JsonObject

ELEMENT: JsonObject = {
    "profile": {"metadata": {"engine": "vllm", "gpu": "MI300X", "gpu_count": 1, "type": "optimized"}},
    "models": [{"name": "a/b", "source": "hf://a/b", "size_gb": 0.5}],
}


SOURCES = [{"modelId": "a/b", "sourceUri": "hf://a/b"}]


def started(cluster: DiscoveryCluster | None = None, **spec: Any) -> tuple[DiscoveryCluster, str]:
    """A template whose Job was just created."""
    cluster = cluster or discovery_cluster(model(), template(**spec))
    (child,) = cluster.run(TEMPLATES, "tpl").children
    cluster.settle(TEMPLATES, "tpl")
    return cluster, child.name


def finish(cluster: DiscoveryCluster, job: str) -> None:
    """Let the Job print its profile, and vanish."""
    cluster.end_job(job)
    cluster.answer(effect_of(cluster.run(TEMPLATES, "tpl"), JOB_LOG.name), {"element": ELEMENT})
    cluster.settle(TEMPLATES, "tpl")
    cluster.remove(DISCOVERY_JOBS, job)
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Ready"


def fail(cluster: DiscoveryCluster, job: str) -> None:
    """Let the Job fail for good, and vanish."""
    cluster.end_job(job, "Failed", "DeadlineExceeded")
    cluster.later(5)
    cluster.settle(TEMPLATES, "tpl")
    cluster.remove(DISCOVERY_JOBS, job)
    cluster.settle(TEMPLATES, "tpl")


def new_jobs(cluster: DiscoveryCluster) -> list[str]:
    return [child.name for child in cluster.run(TEMPLATES, "tpl").children if child.part is DISCOVERY_JOBS]
