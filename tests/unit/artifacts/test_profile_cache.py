"""The weights of profiles: found, shared with templates, kept for services, and given up (docs/spec/profiles.md)."""

from typing import Any

import pytest
from support.artifacts import (
    MODEL,
    TEAM,
    UID,
    URI,
    Cluster,
    artifact,
    conditions_of,
    message_of,
    namespace,
    plan_of,
    seen,
    source,
    template,
    template_cache,
    value_of,
)
from support.builders import make, ready_status

from aim_artifacts.limits.storage import is_demanded, is_wanted
from aim_domain import AIMArtifact, AIMProfileCache, labels
from aim_domain.kinds import AIM_CLUSTER_PROFILE, AIM_PROFILE, AIM_PROFILE_CACHE, AIM_SERVICE
from aim_domain.parts import ARTIFACTS, PROFILE_CACHES, TEMPLATE_CACHES
from controller_runtime import JsonObject


def profile(name: str = "fast", *sources: JsonObject, cluster: bool = False) -> JsonObject:
    spec = {"aimId": "a", "image": "a/b:1", "modelSources": list(sources or (source(),))}
    kind = AIM_CLUSTER_PROFILE if cluster else AIM_PROFILE
    return make(kind, name, namespace=TEAM, spec=spec, status={"status": "NotAvailable"})


def profile_cache(name: str = "fast", *, finalized: bool = True, **spec: Any) -> JsonObject:
    wanted = {"profileName": "fast", "profileScope": "Namespace", "mode": "Shared", **spec}
    finalizers = [labels.FINALIZER_PROFILE_CACHE] if finalized else []
    return make(AIM_PROFILE_CACHE, name, namespace=TEAM, spec=wanted, finalizers=finalizers)


@pytest.mark.spec("PR-080", "PR-082", "PR-083")
def test_weights_are_downloaded_whether_or_not_a_node_has_the_hardware() -> None:
    plan = plan_of(seen(namespace(), profile_cache(), profile()), PROFILE_CACHES, "fast")
    (child,) = plan.children
    assert (child.part, child.owned) == (ARTIFACTS, False)
    assert child.body["spec"] == {"sourceUri": URI, "modelId": MODEL}
    own = child.body["metadata"]["labels"]
    assert own[labels.PROFILE_NAME] == "fast"
    assert own[labels.PROFILE_SCOPE] == "Namespace"
    assert own[labels.PROFILE_INDEX] == "0"
    assert own[labels.PROFILE_CACHE_NAME] == "fast"
    assert labels.TEMPLATE_CACHE_NAME not in own
    assert own[labels.APP_MANAGED_BY] == "aim-profile-cache-controller"
    found = conditions_of(plan)
    assert found["ProfileReady"] == found["ProfileFound"] == ("True", "ProfileResolved")
    assert found["ArtifactsReady"] == ("False", "CreatingCaches")


@pytest.mark.spec("PR-083")
def test_only_the_profile_of_the_scope_counts() -> None:
    shared = profile_cache(profileScope="Cluster")
    plan = plan_of(seen(namespace(), shared, profile()), PROFILE_CACHES, "fast")
    assert plan.children == ()
    assert conditions_of(plan)["ProfileReady"] == conditions_of(plan)["ProfileFound"] == ("False", "ProfileNotFound")
    assert "AIMClusterProfile fast does not exist" in message_of(plan, "ProfileReady")
    assert plan_of(seen(namespace(), shared, profile(cluster=True)), PROFILE_CACHES, "fast").children != ()


@pytest.mark.spec("PR-080")
def test_a_template_and_a_profile_of_one_source_share_a_download() -> None:
    cluster = Cluster(namespace(), template_cache(), template(source()), profile(), profile_cache())
    cluster.settle(TEMPLATE_CACHES, "qwen")
    cluster.settle(PROFILE_CACHES, "fast")
    (only,) = cluster.names(ARTIFACTS)
    cluster.change(ARTIFACTS, only, status={**ready_status(), "status": "Ready"})
    for part, name in ((TEMPLATE_CACHES, "qwen"), (PROFILE_CACHES, "fast")):
        cluster.settle(part, name)
        assert cluster.value(part, name) == "Ready"
        assert [one["name"] for one in cluster.status(part, name)["artifacts"].values()] == [only]


@pytest.mark.spec("PR-080", "AR-490", "AR-464")
def test_what_a_service_of_the_profile_wants_is_kept() -> None:
    held = artifact(labels={labels.PROFILE_CACHE_NAME: "fast"})
    wanting = make(
        AIM_SERVICE,
        "chat",
        namespace=TEAM,
        spec={"profile": {"name": "fast"}},
        status={"resolvedProfile": {"name": "fast", "scope": "Namespace"}},
    )
    of_template = {**wanting, "status": {"resolvedTemplate": {"name": "fast", "scope": "Namespace"}}}
    own = AIMProfileCache.model_validate(profile_cache())
    for service, wanted in ((wanting, True), (of_template, False)):
        view = seen(profile_cache(), profile(), held, service).view()
        assert is_demanded(own, view) == wanted
        assert is_wanted(AIMArtifact.model_validate(held), view) == wanted


@pytest.mark.spec("PR-085", "AR-586")
def test_a_cache_that_goes_takes_what_never_became_ready() -> None:
    left = artifact(labels={labels.PROFILE_CACHE_NAME: "fast"})
    going = profile_cache()
    going["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    plan = plan_of(seen(namespace(), profile(), going, left), PROFILE_CACHES, "fast")
    assert [(one.part, one.name) for one in plan.deletes] == [(ARTIFACTS, "qwen")]
    listed = {MODEL: {"uid": UID, "name": "qwen", "model": MODEL, "status": "Progressing"}}
    other = {**template_cache(), "status": {"status": "Progressing", "artifacts": listed}}
    plan = plan_of(seen(namespace(), profile(), going, left, other), PROFILE_CACHES, "fast")
    assert plan.deletes == (), "a template cache uses it, too"


@pytest.mark.spec("PR-081", "AR-551")
def test_a_dedicated_cache_owns_its_artifact() -> None:
    plan = plan_of(seen(namespace(), profile_cache(mode="Dedicated"), profile()), PROFILE_CACHES, "fast")
    (child,) = plan.children
    assert child.owned
    shared = artifact("other", uid=UID)
    plan = plan_of(seen(namespace(), profile_cache(mode="Dedicated"), profile(), shared), PROFILE_CACHES, "fast")
    assert len(plan.children) == 1, "a shared one is none of its own"
    assert value_of(plan) in {"Progressing", "Pending"}
