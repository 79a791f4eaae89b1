"""Labels by which deployment tools find what they have applied stay where they are."""

import pytest
from support.serving import aim_service, config, plan_for, serving_cache

from aim_domain.propagation import claims_ownership

FOREIGN = (
    "argocd.argoproj.io/instance",
    "argocd.argoproj.io/tracking-id",
    "kustomize.toolkit.fluxcd.io/name",
    "helm.toolkit.fluxcd.io/namespace",
    "fluxcd.io/sync-gc-mark",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/instance",
    "meta.helm.sh/release-name",
    "helm.sh/chart",
    "kubectl.kubernetes.io/last-applied-configuration",
    "applyset.kubernetes.io/part-of",
    "config.kubernetes.io/owning-inventory",
    "config.k8s.io/owning-inventory",
    "olm.owner",
    "olm.managed",
    "operators.coreos.com/aim.default",
    "objectset.rio.cattle.io/hash",
    "kapp.k14s.io/app",
    "crossplane.io/composite",
    "tanka.dev/environment",
    "job-name",
    "batch.kubernetes.io/job-name",
)
OWN = ("team", "app.kubernetes.io/name", "app.kubernetes.io/part-of", "example.com/cost-center", "notargoproj.io/x")


@pytest.mark.spec("RC-171")
@pytest.mark.parametrize("key", FOREIGN)
def test_a_key_of_a_tool(key: str) -> None:
    assert claims_ownership(key)


@pytest.mark.spec("RC-171", "RC-100")
def test_a_child_that_services_share_gets_no_key_of_a_tool_whatever_the_patterns() -> None:
    given = aim_service()
    given["metadata"]["labels"] = dict.fromkeys((*FOREIGN, *OWN), "mine")
    every = config(labelPropagation={"enabled": True, "match": ["*", "*/*"]})
    (made,) = plan_for(serving_cache(given, every)).children
    assert made.body["kind"] == "AIMModel"
    found = made.body["metadata"]["labels"]
    assert {key for key, value in found.items() if value == "mine"} == set(OWN)
    assert found["app.kubernetes.io/managed-by"] == "aim-service-controller"
