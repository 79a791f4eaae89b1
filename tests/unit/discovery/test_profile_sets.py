"""Profiles that sets derive from others: sources, versions, names, and what a set reports (docs/spec/profiles.md)."""

from typing import Any

import pytest
import yaml
from support.builders import make
from support.discovery_cache import SYSTEM, discovery_cache, discovery_cluster

from aim_domain import labels
from aim_domain.kinds import (
    AIM_CLUSTER_PROFILE,
    AIM_CLUSTER_PROFILE_SET,
    AIM_PROFILE,
    AIM_PROFILE_SET,
    CONFIG_MAP,
)
from aim_domain.naming import set_member_name
from aim_domain.parts import CLUSTER_PROFILE_SETS, PROFILE_CATALOGUES, PROFILE_SETS, PROFILES
from controller_runtime import JsonObject, Plan

SOURCE = {"modelId": "org/model", "sourceUri": "hf://org/model"}
OTHER = {"modelId": "our/tuned", "sourceUri": "hf://our/tuned"}
SELECTED = {"selector": {"engine": "vllm"}, "versionPolicy": "all"}


def source(
    name: str, *, cluster: bool = False, copyable: bool = True, image: str = "a/b:1.0", **spec: Any
) -> JsonObject:
    annotations = {labels.ANNOTATION_COPYABLE: "true"} if copyable else {}
    given = {
        "aimId": "org/model",
        "modelSources": [SOURCE],
        "engine": "vllm",
        "image": image,
        "profileId": name,
        "acceleratorPartitioningMode": "unpartitioned",
        **spec,
    }
    given = {key: value for key, value in given.items() if value is not None}
    kind = AIM_CLUSTER_PROFILE if cluster else AIM_PROFILE
    return make(kind, name, annotations=annotations, spec=given, status={"status": "Ready"})


def derived(*objects: JsonObject, **spec: Any) -> Plan:
    found = make(AIM_PROFILE_SET, "set", spec={**SELECTED, **spec})
    return discovery_cache(found, *objects).plan(PROFILE_SETS, "set")


def names(plan: Plan) -> set[str]:
    return {child.name for child in plan.children}


def reason(plan: Plan) -> str:
    assert plan.status is not None
    return str(next(one["reason"] for one in plan.status["conditions"] if one["type"] == "DerivationReady"))


def members(*identities: str) -> set[str]:
    return {set_member_name("set", one) for one in identities}


@pytest.mark.spec("PR-110")
def test_only_what_may_be_copied_is_and_the_namespace_comes_before_the_cluster() -> None:
    own, shared, closed = source("own"), source("shared", cluster=True), source("closed", copyable=False)
    assert names(derived(own, shared, closed)) == members("own")
    assert names(derived(shared, closed)) == members("shared")
    of_namespace = {"selector": {"engine": "vllm", "modelRef": {"name": "m", "scope": "Namespace"}}}
    assert names(derived(shared, closed, **of_namespace)) == set()
    plan = derived(closed)
    assert (plan.children, reason(plan)) == ((), "NoMatchingProfiles")


@pytest.mark.spec("PR-061", "PR-063", "PR-111")
def test_members_are_the_sources_with_the_overrides_and_not_copyable_themselves() -> None:
    base = source("base", aimId=None, modelSources=None, type="general")
    given = {
        "selector": {"role": "base", "engine": "vllm"},
        "overrides": {"aimId": "our/tuned", "modelId": "our/tuned", "modelSources": [OTHER]},
        "imagePullSecrets": [{"name": "pull"}],
        "serviceAccountName": "runner",
        "image": "x/y:2",
    }
    (child,) = derived(base, source("whole"), **given).children
    spec, metadata = child.body["spec"], child.body["metadata"]
    assert (spec["aimId"], spec["modelSources"], spec["image"]) == ("our/tuned", [OTHER], "x/y:2")
    assert (spec["imagePullSecrets"], spec["serviceAccountName"]) == ([{"name": "pull"}], "runner")
    assert metadata["annotations"][labels.ANNOTATION_PROFILE_SOURCE] == "copy"
    assert labels.ANNOTATION_COPYABLE not in metadata["annotations"]
    assert metadata["labels"][labels.PROFILE_ROLE] == "deployable"


@pytest.mark.spec("PR-114")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"versionPolicy": "all"}, {"old", "new", "only-old"}),
        ({"versionPolicy": "pinned", "version": "0.9.0"}, {"old", "only-old"}),
        ({"versionPolicy": "latest"}, {"new", "only-old"}),
        ({"versionPolicy": "pinned", "version": "3"}, set()),
    ],
)
def test_a_policy_takes_versions_of_each_shape(policy: dict[str, str], expected: set[str]) -> None:
    sources = (
        source("old", image="a/b:0.9.0", precision="fp8"),
        source("new", image="a/b:0.10.0", precision="fp8"),
        source("only-old", image="a/b:0.9.0", precision="fp16"),
    )
    plan = derived(*sources, **policy)
    assert names(plan) == members(*expected)
    if not expected:
        assert reason(plan) == "NoMatchingProfiles"


@pytest.mark.spec("PR-063")
def test_sources_of_one_id_get_names_of_their_own() -> None:
    sources = (source("one", profileId="same"), source("two", profileId="same"), source("three"))
    assert names(derived(*sources)) == members("one", "two", "three")
    assert names(derived(sources[0])) == members("same")
    both = {"overrides": {"profileId": "mine"}}
    assert names(derived(sources[0], sources[2], **both)) == members("one", "three")


@pytest.mark.spec("PR-112", "PR-113", "PR-116")
def test_a_catalogue_of_a_config_map_is_followed_and_its_loss_deletes_nothing() -> None:
    own = {labels.COMPONENT: labels.COMPONENT_PROFILE_CATALOGUE}
    text = yaml.safe_dump({"aim_id": "org/model", "model_id": "org/model", "metadata": {"engine": "vllm"}})
    data = {"profiles.x__a.yaml": text, "metadata.json": '{"sourceImage":"a/b:1","baseImage":"c/d:1.2.3"}'}
    kept = {**make(CONFIG_MAP, "catalogue", labels=own), "data": data}
    spec = {"sourceRef": {"name": "catalogue"}, "versionPolicy": "all"}
    cluster = discovery_cluster(make(AIM_PROFILE_SET, "set", spec=spec))
    cluster.settle(PROFILE_SETS, "set")
    assert cluster.condition(PROFILE_SETS, "set", "DerivationReady") == ("False", "SourceLoadFailed")
    cluster.add(kept)
    cluster.settle(PROFILE_SETS, "set")
    assert cluster.names(PROFILES) == [set_member_name("set", "a")]
    assert cluster.raw(PROFILES, set_member_name("set", "a"))["spec"]["image"] == "a/b:1"
    cluster.remove(PROFILE_CATALOGUES, "catalogue")
    cluster.settle(PROFILE_SETS, "set")
    assert len(cluster.names(PROFILES)) == 1
    message = next(
        one["message"] for one in cluster.status(PROFILE_SETS, "set")["conditions"] if one["type"] == "DerivationReady"
    )
    assert "kubectl label configmap catalogue -n ml aim.eai.amd.com/component=profile-catalogue" in message
    cluster.add({**kept, "data": {**data, "profiles.x__a.yaml": "- broken"}})
    cluster.settle(PROFILE_SETS, "set")
    assert cluster.names(PROFILES) == [], "a catalogue without that profile"


@pytest.mark.spec("PR-112")
def test_a_set_of_the_cluster_reads_its_config_map_in_the_namespace_of_the_operator() -> None:
    own = {labels.COMPONENT: labels.COMPONENT_PROFILE_CATALOGUE}
    text = yaml.safe_dump({"aim_id": "a", "model_id": "org/model", "metadata": {"engine": "vllm"}})
    kept = {**make(CONFIG_MAP, "catalogue", namespace=SYSTEM, labels=own), "data": {"profiles.general__g.yaml": text}}
    spec = {"sourceRef": {"name": "catalogue"}, "versionPolicy": "all", "image": "a/b:1"}
    shared = make(AIM_CLUSTER_PROFILE_SET, "set", spec=spec)
    plan = discovery_cache(kept, shared).plan(CLUSTER_PROFILE_SETS, "set", "")
    assert names(plan) == members("g")


@pytest.mark.spec("PR-113")
def test_what_is_derived_no_longer_is_deleted() -> None:
    cluster = discovery_cluster(make(AIM_PROFILE_SET, "set", spec=SELECTED), source("one"), source("two"))
    cluster.settle(PROFILE_SETS, "set")
    assert {*members("one", "two")} <= {*cluster.names(PROFILES)}
    cluster.remove(PROFILES, "two")
    cluster.settle(PROFILE_SETS, "set")
    assert not members("two") & {*cluster.names(PROFILES)}


@pytest.mark.spec("PR-116", "PR-117")
@pytest.mark.parametrize(
    ("statuses", "status", "expected"),
    [
        (("Ready", "Ready"), "Ready", "ManagedProfilesReady"),
        (("Ready", "NotAvailable"), "Degraded", "ManagedProfilesPartiallyReady"),
        (("NotAvailable", "NotAvailable"), "NotAvailable", "ManagedProfilesNotAvailable"),
        (("Ready", "Pending"), "Progressing", "Creating"),
    ],
)
def test_a_set_is_as_its_members(statuses: tuple[str, str], status: str, expected: str) -> None:
    cluster = discovery_cluster(make(AIM_PROFILE_SET, "set", spec=SELECTED), source("one"), source("two"))
    cluster.settle(PROFILE_SETS, "set")
    for name, value in zip(("one", "two"), statuses, strict=True):
        cluster.change(PROFILES, set_member_name("set", name), status={"status": value})
    cluster.settle(PROFILE_SETS, "set")
    found = cluster.status(PROFILE_SETS, "set")
    assert found["status"] == status
    assert found["managedProfiles"]["total"] == 2
    assert found["managedProfiles"]["ready"] == statuses.count("Ready")
    condition = cluster.condition(PROFILE_SETS, "set", "DerivationReady")
    assert condition is not None
    assert condition[1] == expected


@pytest.mark.spec("CC-310", "PR-113")
def test_weights_that_lead_nowhere_are_reported_and_nothing_is_derived() -> None:
    bad = {"overrides": {"modelSources": [{"modelId": "a/b", "sourceUri": "hf:///"}]}}
    plan = derived(source("one"), **bad)
    assert plan.children == ()
    assert plan.status is not None
    assert plan.status["status"] == "Failed"
