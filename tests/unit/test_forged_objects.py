"""Objects that only look like ours: with our labels, our names, and our objects as owners, in another namespace.

Whoever may create Jobs, claims or ConfigMaps in a namespace can write all of that. Who is named as an owner in another
namespace, or for the whole cluster, must not be told anything by it.
"""

from typing import Any

import pytest
from support.builders import condition, make, owner
from support.deciding import decide
from support.discovery_cache import SYSTEM, cluster_model, cluster_template, discovery_cache
from support.whole_platform import SERVICES, TEAM, variants

from aim_discovery.templates.slots import occupies_slot
from aim_domain import labels
from aim_domain.parts import CLUSTER_TEMPLATES, DISCOVERY_JOBS, TEMPLATE_CACHES
from controller_runtime import JsonObject, Key, Reconciler, ServiceDefinition
from controller_runtime.core import Job
from controller_runtime.kinds import JOB, NAMESPACE, NODE, PERSISTENT_VOLUME_CLAIM
from controller_runtime.reconcile.record import plan_to_json
from controller_runtime.testing import NOW, BuiltCache, cache_of

ELSEWHERE = "elsewhere"
NEW = {name: {**obj, "status": {}} for name, obj in variants().items()}
"""Each object before anything was made for it, so that a pass wants all its children."""
READERS = {
    f"{name} by {service.name}": (service, one, obj)
    for name, obj in NEW.items()
    for service in SERVICES
    for one in service.reconcilers
    if one.part.kind.kind == obj["kind"]
}
COMPLETE = {"phase": "Succeeded", "conditions": [condition("Complete", True), condition("Ready", True)]}


def cache(service: ServiceDefinition, *objects: JsonObject) -> BuiltCache:
    consumed = {(part.kind.api_version, part.kind.kind) for part in service.consumes}
    surroundings = (
        make(NODE, "gpu-1", labels={labels.GPU_DEVICE_ID: "74a1"}),
        *(make(NAMESPACE, name) for name in (TEAM, ELSEWHERE, "aim-system")),
    )
    known = (obj for obj in (*surroundings, *objects) if (obj["apiVersion"], obj["kind"]) in consumed)
    return cache_of(service.consumes, *known, indexes=service.indexes)


def plan(service: ServiceDefinition, one: Reconciler[Any], about: JsonObject, *others: JsonObject) -> JsonObject:
    built = cache(service, *others, about)
    entry = built.cache.get(one.part, Key(about["metadata"].get("namespace", ""), about["metadata"]["name"]))
    assert entry is not None
    assert entry.object is not None
    return plan_to_json(decide(one, entry.object, built.view(), NOW))


def forged(child: JsonObject, of: JsonObject) -> JsonObject:
    """A child as we would make it, all done and in another namespace."""
    metadata = {
        **child["metadata"],
        "namespace": ELSEWHERE,
        "uid": f"forged-{child['metadata']['name']}",
        "resourceVersion": "7",
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "ownerReferences": [owner(of)],
    }
    return {**child, "metadata": metadata, "status": COMPLETE}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.spec("FW-594", "FW-362")
def test_a_child_in_another_namespace_is_nobodys_child(reader: str) -> None:
    service, one, about = READERS[reader]
    others = [obj for name, obj in variants().items() if name == obj["kind"] and obj["kind"] != about["kind"]]
    wanted = plan(service, one, about, *others)
    children = [child["body"] for child in wanted.get("children", [])]
    namespaced = [forged(child, about) for child in children if child["metadata"].get("namespace")]
    assert plan(service, one, about, *others, *namespaced) == wanted


@pytest.mark.spec("FW-594")
def test_a_job_of_a_tenant_gives_a_cluster_template_no_profile() -> None:
    """Every tenant would run with what that Job prints."""
    template = cluster_template()
    honest = discovery_cache(cluster_model(), template, make(NAMESPACE, ELSEWHERE))
    (job,) = (one.body for one in honest.plan(CLUSTER_TEMPLATES, "tpl", "").children if one.part is DISCOVERY_JOBS)
    assert job["metadata"]["namespace"] == SYSTEM
    attacked = discovery_cache(cluster_model(), template, make(NAMESPACE, ELSEWHERE), forged(job, template))
    plans = [plan_to_json(one.plan(CLUSTER_TEMPLATES, "tpl", "")) for one in (honest, attacked)]
    assert plans[1] == plans[0]


@pytest.mark.spec("FW-594")
def test_a_claim_elsewhere_is_not_the_volume_of_an_artifact() -> None:
    """Its name would be mounted from the cache's own namespace (AR-575)."""
    known = variants()
    service = next(one for one in SERVICES if one.name == "artifacts")
    (one,) = (one for one in service.reconcilers if one.part is TEMPLATE_CACHES)
    artifact = {**known["AIMArtifact"], "status": {"status": "Ready"}}
    others = (known["AIMServiceTemplate"], artifact)
    claim = make(PERSISTENT_VOLUME_CLAIM, "secrets-of-others", namespace=ELSEWHERE, labels={labels.CACHE_NAME: "qwen"},
                 owners=[owner(artifact)])  # fmt: skip
    said = plan(service, one, known["AIMTemplateCache"], *others, claim)
    assert said == plan(service, one, known["AIMTemplateCache"], *others)
    own = {**claim, "metadata": {**claim["metadata"], "namespace": TEAM}}
    assert "secrets-of-others" in str(plan(service, one, known["AIMTemplateCache"], *others, own))


@pytest.mark.spec("FW-594", "DI-319")
def test_labels_alone_take_no_slot_of_the_cluster() -> None:
    """Ten Jobs with our labels would end discovery for everybody."""
    own = {
        labels.APP_NAME: labels.APP_NAME_DISCOVERY,
        labels.APP_COMPONENT: labels.APP_COMPONENT_DISCOVERY,
        labels.APP_MANAGED_BY: "aim-controller",
    }
    real = make(JOB, "job", namespace=ELSEWHERE, labels=own, owners=[owner(cluster_template())])
    assert occupies_slot(Job.model_validate(real))
    stranger = make(JOB, "job", namespace=ELSEWHERE, labels=own, owners=[owner(make(JOB, "other"))])
    for one in (stranger, make(JOB, "job", namespace=ELSEWHERE, labels=own)):
        assert not occupies_slot(Job.model_validate(one))
