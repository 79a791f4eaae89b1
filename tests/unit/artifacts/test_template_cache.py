"""Caches: template, matching, creation, status, clean-up."""

from typing import Any

import pytest
from support.artifacts import (
    MODEL,
    TEAM,
    URI,
    Cluster,
    artifact,
    children_of,
    conditions_of,
    namespace,
    plan_of,
    seen,
    source,
    template,
    template_cache,
    value_of,
)
from support.builders import condition, make, owner

from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_CLUSTER_SERVICE_TEMPLATE
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACTS, TEMPLATE_CACHES, TEMPLATES
from controller_runtime import JsonObject
from controller_runtime.testing import NOW

NAME = "hf---qwen-qwen3-32b-"


def existing(name: str, status: str = "Ready", **members: Any) -> JsonObject:
    ready = status == "Ready"
    body = {"status": status, "conditions": [condition("Ready", ready, "AllComponentsReady" if ready else "AuthError")]}
    return artifact(name, **{"uid": f"uid-{name}", "status": body, **members})


def dedicated_owner(name: str = "qwen") -> JsonObject:
    return owner(template_cache(name))


@pytest.mark.spec("AR-585", "FW-181")
def test_the_finalizer_comes_first() -> None:
    plan = plan_of(seen(template_cache(finalized=False), template(source())), TEMPLATE_CACHES)
    (patch,) = plan.patches
    assert patch.body == {"metadata": {"finalizers": ["aim.eai.amd.com/artifactcleanup"]}}
    assert not plan.children


@pytest.mark.spec("RC-026")
@pytest.mark.spec("AR-530", "AR-532", "AR-560", "AR-561", "AR-563", "AR-564", "SC-080", "SC-093", "SC-094", "FW-P22")
def test_a_shared_cache_creates_unowned_artifacts() -> None:
    spec = {
        "env": [{"name": "HF_TOKEN", "value": "c"}, {"name": "X", "value": "1"}],
        "downloadImage": "img:2",
        "imagePullSecrets": [{"name": "pull"}],
        "storageClassName": "fast",
        "runtimeConfigName": "special",
    }
    sources = [
        source("a/one", "hf://a/one", size="2Gi", env=[{"name": "HF_TOKEN", "value": "s"}]),
        source("a/two", "hf://a/two"),
    ]
    special = make(AIM_CLUSTER_RUNTIME_CONFIG, "special", spec={})
    plan = plan_of(seen(template_cache(spec=spec), template(*sources), special), TEMPLATE_CACHES)
    first, second = children_of(plan, ARTIFACTS)
    assert [child.owned for child in plan.children] == [False, False]
    assert first["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "aim-template-cache-controller",
        "template-created": "true",
        "aim.eai.amd.com/template.name": "qwen",
        "aim.eai.amd.com/template.scope": "Namespace",
        "aim.eai.amd.com/template.index": "0",
        "aim.eai.amd.com/template-cache.name": "qwen",
    }
    assert second["metadata"]["labels"]["aim.eai.amd.com/template.index"] == "1"
    assert "size" not in second["spec"]
    assert first["spec"] == {
        "sourceUri": "hf://a/one",
        "modelId": "a/one",
        "size": "2Gi",
        "storageClassName": "fast",
        "runtimeConfigName": "special",
        "modelDownloadImage": "img:2",
        "env": [{"name": "HF_TOKEN", "value": "s"}, {"name": "X", "value": "1"}],
        "imagePullSecrets": [{"name": "pull"}],
    }
    for given in ({"storageClassName": ""}, {}):
        (made,) = children_of(plan_of(seen(template_cache(spec=given), template(source())), TEMPLATE_CACHES), ARTIFACTS)
        assert {name: made["spec"][name] for name in made["spec"] if name == "storageClassName"} == given
    assert plan.status is not None
    assert plan.status["resolvedTemplateKind"] == "AIMServiceTemplate"
    assert conditions_of(plan)["ArtifactsReady"] == ("False", "CreatingCaches")
    assert value_of(plan) == "Progressing"


@pytest.mark.spec("AR-023", "SC-041")
@pytest.mark.parametrize(
    ("uri", "spec", "name"),
    [
        ("hf://sshleifer/tiny-gpt2", {}, "hf---sshleifer-tiny-gpt2-fc6a9647bb"),
        (
            "hf://sshleifer/tiny-gpt2",
            {"env": [{"name": "HF_TOKEN", "value": "my-token"}]},
            "hf---sshleifer-tiny-gpt2-8b6a4bfd16",
        ),
        ("hf://sshleifer/tiny-gpt2", {"storageClassName": "fast-storage"}, "hf---sshleifer-tiny-gpt2-a47c9b839d"),
        (
            "hf://amd/Llama-3.1-8B-Instruct",
            {"env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-credentials", "key": "token"}}}]},
            "hf---amd-llama-3-1-8b-instruct-e867cdfd62",
        ),
    ],
)
def test_names_of_artifacts_of_shared_caches(uri: str, spec: JsonObject, name: str) -> None:
    plan = plan_of(seen(template_cache(spec=spec), template(source("a/b", uri))), TEMPLATE_CACHES)
    assert [child.name for child in plan.children] == [name]


@pytest.mark.spec("AR-023", "AR-563", "SC-087")
def test_a_dedicated_cache_has_artifacts_of_its_own() -> None:
    name = "llama-template-my-svc-f4"
    known = seen(
        template_cache(name, spec={"mode": "Dedicated"}),
        template(source("a/b", "hf://sshleifer/tiny-gpt2")),
        existing("shared", uri="hf://sshleifer/tiny-gpt2"),
    )
    plan = plan_of(known, TEMPLATE_CACHES, name)
    assert [(child.name, child.owned) for child in plan.children] == [("hf---sshleifer-tiny-gpt2-28813edfaa", True)]


@pytest.mark.spec("AR-534", "FW-121")
@pytest.mark.parametrize("ready", [True, False])
def test_the_reason_of_the_template_is_reported_as_the_template_s(ready: bool) -> None:
    status = "Ready" if ready else "Progressing"
    plan = plan_of(seen(template_cache(), template(source(), status=status, ready=ready)), TEMPLATE_CACHES)
    assert plan.status is not None
    (reported,) = [one for one in plan.status["conditions"] if one["type"] == "ServiceTemplateReady"]
    assert reported["message"] == "AIMServiceTemplate ml-team/qwen: because"
    assert not [event for event in plan.events if event.reason == "AllComponentsReady" and "qwen" not in event.message]


@pytest.mark.spec("AR-534", "AR-535", "AR-572", "SC-082", "SC-084")
@pytest.mark.parametrize(
    ("stored", "status", "reason"),
    [
        (None, "Failed", "ReferenceNotFound"),
        (template(status="Failed", ready=False), "Failed", "NotReadyYet"),
        (template(status="NotAvailable", ready=False), "NotAvailable", "NotReadyYet"),
        (template(status="Degraded", ready=False), "Degraded", "NotReadyYet"),
        (template(source(), status="Progressing", ready=False), "Pending", "NotReadyYet"),
    ],
)
def test_nothing_is_created_for_a_template_that_is_not_ready(
    stored: JsonObject | None, status: str, reason: str
) -> None:
    plan = plan_of(seen(template_cache(), *([stored] if stored else [])), TEMPLATE_CACHES)
    assert not plan.children
    assert value_of(plan) == status
    assert conditions_of(plan)["ServiceTemplateReady"] == ("False", reason)


@pytest.mark.spec("AR-534", "AR-P05")
def test_a_template_that_nobody_looked_at_is_not_ready() -> None:
    untouched = template(source())
    untouched["status"] = {"modelSources": [source()]}
    plan = plan_of(seen(template_cache(), untouched), TEMPLATE_CACHES)
    assert value_of(plan) == "Pending"
    assert conditions_of(plan)["ServiceTemplateReady"] == ("False", "ResourceFound")
    assert not plan.children


@pytest.mark.spec("FW-P19", "FW-208", "AR-027", "AR-P03")
def test_a_long_name_of_a_cache_is_one_label_however_it_is_made() -> None:
    name = "c" * 80
    long = template_cache(name)
    (made,) = children_of(plan_of(seen(long, template(source())), TEMPLATE_CACHES, name), ARTIFACTS)
    assert made["metadata"]["labels"]["aim.eai.amd.com/template-cache.name"] == "c" * 63


@pytest.mark.spec("AR-530", "SC-081", "SC-083", "FW-361", "AR-531")
@pytest.mark.parametrize(
    ("scope", "namespaced", "found"),
    [
        ("Namespace", True, "AIMServiceTemplate"),
        ("Namespace", False, None),
        ("Cluster", False, "AIMClusterServiceTemplate"),
        ("Cluster", True, None),
        ("Unknown", True, "AIMServiceTemplate"),
        ("Unknown", False, "AIMClusterServiceTemplate"),
    ],
)
def test_scopes(scope: str, namespaced: bool, found: str | None) -> None:
    local = template(source())
    shared = make(AIM_CLUSTER_SERVICE_TEMPLATE, "qwen", spec={}, status=local["status"])
    known = seen(template_cache(spec={"templateScope": scope}), local if namespaced else shared)
    plan = plan_of(known, TEMPLATE_CACHES)
    assert plan.status is not None
    assert plan.status.get("resolvedTemplateKind") == found
    assert bool(plan.children) is (found is not None)


@pytest.mark.spec("AR-536", "AR-537", "AR-538")
def test_which_sources_are_kept() -> None:
    own = [source("a/one", "hf://a/one"), source("a/one", "hf://a/other"), source("b/two", "hf://b/two")]
    plan = plan_of(seen(template_cache(spec={"modelSources": own}), template(source())), TEMPLATE_CACHES)
    created = {body["spec"]["sourceUri"]: body for body in children_of(plan, ARTIFACTS)}
    assert list(created) == ["hf://a/one", "hf://b/two"]
    assert created["hf://b/two"]["metadata"]["labels"]["aim.eai.amd.com/template.index"] == "2"
    assert "DuplicateModelSource" in [event.reason for event in plan.events]
    empty = plan_of(seen(template_cache(), template()), TEMPLATE_CACHES)
    assert conditions_of(empty)["ArtifactsReady"] == ("False", "NoCaches")
    assert value_of(empty) == "Progressing"


@pytest.mark.spec("AR-540", "AR-541", "AR-542", "AR-543", "AR-545", "AR-547", "AR-548", "SC-086", "AR-P24", "AR-P25")
def test_matching_an_existing_artifact() -> None:
    known = Cluster(
        template_cache(),
        template(source()),
        existing("b-ready"),
        existing("a-failed", "Failed"),
        existing("c-ready"),
        existing("other", uri="hf://x/y"),
    )
    plan = known.run(TEMPLATE_CACHES, "qwen")
    assert not plan.children
    assert plan.status is not None
    assert plan.status["artifacts"][MODEL]["name"] == "b-ready"
    picky = Cluster(template_cache(spec={"storageClassName": "fast"}), template(source()), existing("b-ready"))
    assert len(picky.run(TEMPLATE_CACHES, "qwen").children) == 1


@pytest.mark.spec("AR-540")
def test_an_artifact_without_status_is_not_used_yet() -> None:
    plan = plan_of(seen(template_cache(), template(source()), artifact("fresh")), TEMPLATE_CACHES)
    assert conditions_of(plan)["ArtifactsReady"] == ("False", "CreatingCaches")


@pytest.mark.spec("AR-409", "AR-546", "AR-562", "AR-025", "AR-206")
def test_overrides_of_the_service_reach_the_artifact() -> None:
    annotations = {
        "aim.eai.amd.com/download-filter": '{"include":["*.json"]}',
        "aim.eai.amd.com/pvc-headroom-percent": "30",
    }
    known = Cluster(template_cache(annotations=annotations), template(source()), existing("without-filter"))
    (body,) = children_of(known.run(TEMPLATE_CACHES, "qwen"), ARTIFACTS)
    assert body["spec"]["downloadFilter"] == {"include": ["*.json"]}
    assert body["metadata"]["annotations"] == {"aim.eai.amd.com/pvc-headroom-percent": "30"}
    plain = plan_of(seen(template_cache(), template(source())), TEMPLATE_CACHES)
    assert body["metadata"]["name"] != children_of(plain, ARTIFACTS)[0]["metadata"]["name"]
    known.change(ARTIFACTS, body["metadata"]["name"], status={"status": "Pending"})
    assert not known.run(TEMPLATE_CACHES, "qwen").children


@pytest.mark.spec("AR-570", "AR-571", "AR-572", "SC-090")
@pytest.mark.parametrize(
    ("states", "status", "artifacts_ready"),
    [
        (["Ready", "Ready"], "Ready", ("True", "AllCachesReady")),
        (["Ready", "Failed"], "Failed", ("False", "AuthError")),
        (["Ready", "Progressing"], "Progressing", ("False", "AuthError")),
        (["Pending", "Progressing"], "Pending", ("False", "AuthError")),
    ],
)
def test_status_follows_the_worst_artifact(states: list[str], status: str, artifacts_ready: tuple[str, str]) -> None:
    uris = ["hf://a/one", "hf://b/two"]
    sources = [source(uri.removeprefix("hf://"), uri) for uri in uris]
    found = [existing(f"x{i}", state, uri=uri) for i, (state, uri) in enumerate(zip(states, uris, strict=True))]
    plan = plan_of(seen(template_cache(), template(*sources), *found), TEMPLATE_CACHES)
    assert value_of(plan) == status
    assert conditions_of(plan)["ArtifactsReady"] == artifacts_ready


@pytest.mark.spec("FW-304", "AR-575", "AR-P12")
def test_a_forged_status_selects_no_volume() -> None:
    """Pods of the namespace may write the status of an artifact; whose claim it is, the claim's owner says."""
    forged = existing("x")
    forged["status"]["persistentVolumeClaim"] = "somebody-elses"
    plan = plan_of(seen(template_cache(), template(source()), forged), TEMPLATE_CACHES)
    assert plan.status is not None
    (entry,) = plan.status["artifacts"].values()
    assert entry.get("persistentVolumeClaim") is None


@pytest.mark.spec("AR-110", "AR-574", "AR-575", "AR-576", "SC-085", "AR-P27")
def test_from_template_to_ready_cache() -> None:
    known = Cluster(template_cache(), template(source(size="2Gi")), namespace())
    known.settle(TEMPLATE_CACHES, "qwen")
    name = known.names(ARTIFACTS)[0]
    assert name.startswith(NAME)
    known.settle(ARTIFACTS, name)
    known.bind_claim()
    known.start_pod()
    known.end_job()
    known.settle(ARTIFACTS, name)
    plan = known.settle(TEMPLATE_CACHES, "qwen")
    assert value_of(plan) == "Ready"
    assert plan.status is not None
    claim = known.only(ARTIFACT_CLAIMS)["metadata"]["name"]
    stored = known.raw(ARTIFACTS, name)
    assert plan.status["artifacts"] == {
        MODEL: {
            "uid": stored["metadata"]["uid"],
            "name": name,
            "model": MODEL,
            "status": "Ready",
            "persistentVolumeClaim": claim,
            "mountPoint": "/workspace/cache/Qwen/Qwen3-32B",
        }
    }
    known.put(TEMPLATE_CACHES, template_cache("second", spec={"templateName": "qwen"}))
    assert value_of(known.settle(TEMPLATE_CACHES, "second")) == "Ready"
    assert known.names(ARTIFACTS) == [name]


@pytest.mark.spec("AR-550", "AR-551", "AR-552", "AR-553", "AR-554", "AR-555", "AR-556", "AR-544", "SC-088", "SC-089")
def test_owned_artifacts_become_shared() -> None:
    owned = existing("mine", owners=[dedicated_owner("private")])
    known = Cluster(template_cache(), template_cache("private", spec={"mode": "Dedicated"}), template(source()), owned)
    before = known.raw(ARTIFACTS, "mine")["metadata"]["resourceVersion"]
    plan = known.run(TEMPLATE_CACHES, "qwen")
    assert not plan.children
    (patch,) = plan.patches
    assert patch.resource_version == before
    metadata = known.raw(ARTIFACTS, "mine")["metadata"]
    assert "ownerReferences" not in metadata
    assert metadata["annotations"]["aim.eai.amd.com/promoted-from"] == "aimtemplatecache-private-uid"
    assert metadata["labels"]["aim.eai.amd.com/template-cache.name"] == "qwen"
    assert value_of(known.run(TEMPLATE_CACHES, "qwen")) == "Ready"
    plan = known.run(TEMPLATE_CACHES, "private")
    assert value_of(plan) == "Ready"
    assert not plan.children


@pytest.mark.spec("AR-551")
@pytest.mark.parametrize("why_not", ["failed", "foreign"])
def test_what_is_not_promoted(why_not: str) -> None:
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}
    owned = existing(
        "theirs",
        "Failed" if why_not == "failed" else "Ready",
        owners=[foreign if why_not == "foreign" else dedicated_owner("private")],
    )
    plan = plan_of(seen(template_cache(), template(source()), owned), TEMPLATE_CACHES)
    assert not plan.patches
    assert len(plan.children) == 1


@pytest.mark.spec("AR-565", "AR-109")
def test_a_failed_artifact_is_left_alone_and_replaced_once_it_is_deleted() -> None:
    known = Cluster(template_cache(), template(source(size="1Gi")))
    known.settle(TEMPLATE_CACHES, "qwen")
    name = known.names(ARTIFACTS)[0]
    body = {"status": "Failed", "conditions": [condition("Ready", False, "AuthError", "refused")]}
    known.change(ARTIFACTS, name, status=body)
    plan = known.settle(TEMPLATE_CACHES, "qwen")
    assert value_of(plan) == "Failed"
    assert conditions_of(plan)["ArtifactsReady"] == ("False", "AuthError")
    assert not plan.children
    former = known.raw(ARTIFACTS, name)["metadata"]["uid"]
    known.remove(ARTIFACTS, name)
    known.settle(TEMPLATE_CACHES, "qwen")
    assert known.raw(ARTIFACTS, name)["metadata"]["uid"] != former


def left_behind() -> list[JsonObject]:
    """A cache that is being deleted, and what it has made."""
    label = {"aim.eai.amd.com/template-cache.name": "qwen"}
    return [
        template_cache(deleting=NOW),
        existing("ready", labels=label),
        existing("failed", "Failed", labels=label),
        existing("progressing", "Progressing", labels=label),
    ]


@pytest.mark.spec("AR-586", "AR-588", "AR-589", "SC-091", "AR-P08")
def test_clean_up_deletes_what_never_became_ready_unless_others_use_it() -> None:
    listed = {"artifacts": {MODEL: {"uid": "uid-progressing", "name": "progressing", "model": MODEL, "status": "x"}}}
    known = Cluster(*left_behind(), namespace(), template_cache("other", status=listed))
    plan = known.run(TEMPLATE_CACHES, "qwen")
    assert [delete.name for delete in plan.deletes] == ["failed"]
    assert not plan.patches
    plan = known.run(TEMPLATE_CACHES, "qwen")
    (patch,) = plan.patches
    assert patch.body == {"metadata": {"finalizers": None}}
    assert known.names(ARTIFACTS) == ["progressing", "ready"]


@pytest.mark.spec("AR-586", "AR-590", "FW-187", "SC-092")
@pytest.mark.parametrize("others", [[], [namespace(deleting=NOW)]])
def test_namespaces_go_without_clean_up(others: list[JsonObject]) -> None:
    plan = plan_of(seen(*left_behind(), *others), TEMPLATE_CACHES)
    assert not plan.deletes
    assert [patch.body["metadata"] for patch in plan.patches] == [{"finalizers": None}]


@pytest.mark.spec("AR-587", "FW-019")
def test_clean_up_waits_for_a_fresh_view() -> None:
    known = Cluster(template_cache(deleting=NOW), namespace())
    known.make_stale(ARTIFACTS)
    plan = known.run(TEMPLATE_CACHES, "qwen")
    assert plan.retry is not None
    assert not plan.patches


def test_the_template_is_read_anew_in_every_pass() -> None:
    known = Cluster(template_cache(), template(status="Progressing", ready=False))
    known.settle(TEMPLATE_CACHES, "qwen")
    known.put(TEMPLATES, template(source()))
    assert [body["spec"]["sourceUri"] for body in children_of(known.run(TEMPLATE_CACHES, "qwen"), ARTIFACTS)] == [URI]
    assert known.raw(TEMPLATE_CACHES, "qwen")["metadata"]["namespace"] == TEAM


@pytest.mark.spec("CC-132")
def test_an_artifact_is_reported_complete_or_not_at_all() -> None:
    def reported(*artifacts: JsonObject) -> JsonObject:
        plan = plan_of(seen(template_cache(), template(source(uri="hf://a/one")), *artifacts), TEMPLATE_CACHES)
        assert plan.status is not None
        found: JsonObject = plan.status.get("artifacts") or {}
        return found

    assert reported() == {}
    [entry] = reported(existing("x", "Progressing", uri="hf://a/one")).values()
    assert all(entry[name] for name in ("uid", "name", "model", "status"))
