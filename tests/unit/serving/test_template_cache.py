"""Finding, making and giving up template caches (serving.md sections 8 and 14)."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import condition, make, owner
from support.deciding import decide
from support.serving import (
    TEAM,
    aim_service,
    artifact,
    children_of,
    condition_of,
    config,
    message_of,
    model,
    node,
    overall,
    plan_for,
    serving_cache,
    template,
    template_cache,
    workload,
)

from aim_domain import kinds, labels
from aim_domain.parts import NAMESPACES, SERVICES, TEMPLATE_CACHES
from aim_serving.service import SERVICE_RECONCILER
from controller_runtime import JsonObject, Plan, loads
from controller_runtime.testing import NOW

USUAL = "qwen3-lat-a04542d9"


def service(mode: str | None = None, **spec: Any) -> JsonObject:
    caching: JsonObject = {"caching": {"mode": mode}} if mode else {}
    return aim_service(template={"name": "qwen3-lat"}, **caching, **spec)


def planned(of_service: JsonObject, *objects: JsonObject, of: JsonObject | None = None) -> JsonObject | None:
    """The cache that a pass makes, if it makes one."""
    made = children_of(plan_for(serving_cache(of_service, of or template(), model(), *objects)), "AIMTemplateCache")
    return made[0] if made else None


def cache_used(of_service: JsonObject, *objects: JsonObject) -> str | None:
    """The cache that a pass reports as in use."""
    plan = plan_for(serving_cache(of_service, template(), model(), *objects))
    assert plan.status is not None
    reference = (plan.status.get("cache") or {}).get("templateCacheRef") or {}
    name = reference.get("name")
    assert name is None or isinstance(name, str)
    return name


# Making


@pytest.mark.spec("SV-116", "SV-117", "SV-125", "SV-123", "AT-067", "AR-600", "SC-100")
@pytest.mark.parametrize("mode", [None, "Shared", "Always", "Auto", "Dedicated", "Never"])
def test_modes(mode: str | None) -> None:
    plan = plan_for(serving_cache(service(mode), template(), model()))
    (child,) = (one for one in plan.children if one.body["kind"] == "AIMTemplateCache")
    dedicated = mode in ("Dedicated", "Never")
    assert child.owned is dedicated
    assert child.body["spec"]["mode"] == ("Dedicated" if dedicated else "Shared")
    assert (child.name == USUAL) is not dedicated


@pytest.mark.spec("RC-041", "SV-126", "SV-128", "SV-053", "SV-P21", "AR-609", "AR-611")
def test_content() -> None:
    def variable(name: str, value: str) -> JsonObject:
        return {"name": name, "value": value}

    of = template(
        caching={"env": [variable("HF_TOKEN", "template"), variable("HTTP_PROXY", "p")]},
        env=[variable("HF_TOKEN", "t")],
    )
    own = service(
        env=[variable("HF_TOKEN", "service"), variable("HTTPS_PROXY", "s")],
        storage={"pvcHeadroomPercent": 20, "downloadFilter": {"include": ["*.safetensors"]}},
        imagePullSecrets=[{"name": "regcred"}],
    )
    made = planned(own, config(env=[variable("FROM_CONFIG", "x")], storage={"defaultStorageClassName": "fast"}), of=of)
    assert made is not None
    assert made["spec"] == {
        "templateName": "qwen3-lat",
        "templateScope": "Namespace",
        "mode": "Shared",
        "storageClassName": "fast",
        "env": [variable("HF_TOKEN", "service"), variable("HTTP_PROXY", "p"), variable("HTTPS_PROXY", "s")],
        "imagePullSecrets": [{"name": "regcred"}],
    }
    annotations = made["metadata"]["annotations"]
    assert annotations[labels.ANNOTATION_PVC_HEADROOM] == "20"
    assert loads(annotations[labels.ANNOTATION_DOWNLOAD_FILTER]) == {"include": ["*.safetensors"]}
    assert made["metadata"]["labels"][labels.SERVICE_NAME] == "qwen-chat"


@pytest.mark.spec("SV-017", "SV-126", "SV-261", "AT-152")
@pytest.mark.parametrize(
    ("storage", "headroom"),
    [({"pvcHeadroomPercent": 20}, "20"), ({"pvcHeadroomPercent": 0}, "0"), ({"defaultStorageClassName": "x"}, None)],
)
def test_a_headroom_counts_only_where_the_user_wrote_one(storage: JsonObject, headroom: str | None) -> None:
    made = planned(service(storage=storage), config(storage={"pvcHeadroomPercent": 15}))
    assert made is not None
    assert made["metadata"].get("annotations", {}).get(labels.ANNOTATION_PVC_HEADROOM) == headroom


@pytest.mark.spec("RC-026")
def test_a_cache_follows_the_service_s_config() -> None:
    made = planned(service(runtimeConfigName="special"), config("special"))
    assert made is not None
    assert made["spec"]["runtimeConfigName"] == "special"


@pytest.mark.spec("RC-040", "SV-127", "SV-050", "AT-070", "AR-609", "SC-103")
def test_storage_class() -> None:
    fast = config(storage={"defaultStorageClassName": "fast"})
    own = planned(service(storage={"defaultStorageClassName": "own"}), fast)
    assert own is not None
    assert own["spec"]["storageClassName"] == "own"
    default = planned(service(storage={"defaultStorageClassName": ""}), fast)
    assert default is not None
    assert default["spec"]["storageClassName"] == "", "the cluster's default, not that of the config"
    of_config = planned(service(), fast)
    assert of_config is not None
    assert of_config["spec"]["storageClassName"] == "fast"
    nobody = planned(service())
    assert nobody is not None
    assert "storageClassName" not in nobody["spec"]


@pytest.mark.spec("SV-122", "SV-133", "AT-069", "AR-608", "SC-101")
def test_nothing_to_cache() -> None:
    plan = plan_for(serving_cache(service(), template(sources=()), model()))
    assert plan.children == ()
    assert (condition_of(plan, "CacheReady"), overall(plan)) == (("False", "CacheCreating"), "Starting")
    assert "no model sources" in message_of(plan, "CacheReady")
    assert planned(service(), of=template(status="Progressing")) is None


@pytest.mark.spec("SV-124", "SV-P44")
def test_a_taken_name() -> None:
    other = planned(service(), template_cache(USUAL, "another-template"))
    assert other is not None
    assert other["metadata"]["name"] not in (USUAL, "")
    assert planned(service(), template_cache(USUAL)) is None


# Finding


@pytest.mark.spec("SV-118", "SV-119", "SV-120", "SV-121", "SV-P17", "AR-605", "AR-606", "AR-P23")
def test_which_cache_is_used() -> None:
    assert cache_used(service(), template_cache("by-template")) == "by-template"
    assert cache_used(service(), template_cache("x", scope="Unknown")) == "x"
    assert cache_used(service(), template_cache("x", scope="Cluster")) is None
    assert cache_used(service(), template_cache("x", mode="Dedicated")) is None
    assert cache_used(service(), template_cache("b"), template_cache("a")) == "a"
    assert cache_used(service(), template_cache("a", status="Progressing"), template_cache("b")) == "b"
    own = service("Dedicated")
    name = plan_for(serving_cache(own, template(), model())).children[0].name
    assert cache_used(own, template_cache(name, mode="Dedicated", owners=[owner(own)])) == name
    assert cache_used(own, template_cache(name, mode="Dedicated")) is None
    assert cache_used(own, template_cache(USUAL)) is None


@pytest.mark.spec("SV-118", "SV-139", "SV-230", "AT-150", "SV-P43")
def test_the_stored_cache() -> None:
    stored = {"cache": {"templateCacheRef": {"name": "former", "namespace": TEAM}, "retryAttempts": 1}}
    assert cache_used(service(status=stored), template_cache("former"), template_cache("another")) == "former"
    moved = service(status=stored)
    assert cache_used(moved, template_cache("former", "template-a"), template_cache("another")) == "another"
    plan = plan_for(serving_cache(moved, template(), model(), template_cache("another")))
    assert plan.status is not None
    assert plan.status["cache"]["retryAttempts"] == 1


@pytest.mark.spec("SV-206", "SV-130", "AR-615", "SC-112")
@pytest.mark.parametrize(
    ("status", "reason", "value"),
    [
        ("Ready", "CacheReady", "Starting"),
        ("Progressing", "CacheNotReady", "Starting"),
        ("Pending", "CacheCreating", "Starting"),
        ("NotAvailable", "CacheCreating", "Starting"),
    ],
)
def test_health(status: str, reason: str, value: str) -> None:
    plan = plan_for(serving_cache(service(), template(), model(), template_cache(USUAL, status=status)))
    seen = condition_of(plan, "CacheReady")
    assert seen is not None
    assert (seen[1], overall(plan)) == (reason, value)


@pytest.mark.spec("SV-206", "SV-262")
def test_what_is_said_of_a_cache_that_cannot_be_used_yet() -> None:
    def said(status: str, *, reported: bool) -> str:
        used = template_cache(USUAL, status=status)
        if reported:
            used["status"]["conditions"] = [condition("ArtifactsReady", False, message="1 of 2 artifacts is there")]
        return message_of(plan_for(serving_cache(service(), template(), model(), used)), "CacheReady")

    for status in ("Pending", "NotAvailable", "Degraded"):
        assert f"{USUAL} is {status}: 1 of 2 artifacts is there" in said(status, reported=True)
    assert f"{USUAL} is NotAvailable" in said("NotAvailable", reported=False)
    absent = message_of(plan_for(serving_cache(service(), template(), model())), "CacheReady")
    assert said("Pending", reported=False) == absent, "that it exists by now is not worth a write"


@pytest.mark.spec("SV-130")
def test_a_lost_dedicated_cache() -> None:
    own = service("Dedicated")
    plan = plan_for(serving_cache(own, template(), model(), workload(own)))
    assert (condition_of(plan, "CacheReady"), overall(plan)) == (("False", "CacheCreating"), "Degraded")


@pytest.mark.spec("SV-269", "SV-129", "FW-411", "FW-206", "AT-163", "SV-P46")
@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize(
    ("status", "of", "stored", "patched"),
    [
        ("Failed", "qwen-chat", "bad", True),
        ("Progressing", "qwen-chat", "bad", True),
        ("Ready", "qwen-chat", "bad", False),
        ("Failed", "another", "bad", False),
        ("Failed", "qwen-chat", "good", False),
    ],
)
def test_a_corrected_token(status: str, of: str, stored: str, retries: int, *, patched: bool) -> None:
    own = service(env=[{"name": "HF_TOKEN", "value": "good"}], status={"cache": {"retryAttempts": retries}})
    used = template_cache(USUAL, status=status, labels={labels.SERVICE: of})
    used["spec"]["env"] = [{"name": "HF_TOKEN", "value": stored}]
    plan = plan_for(serving_cache(own, template(), model(), used, artifact("Failed")))
    assert bool(plan.patches) is patched
    if patched:
        (patch,) = plan.patches
        assert patch.body == {"spec": {"env": [{"name": "HF_TOKEN", "value": "good"}]}}
        assert patch.resource_version == used["metadata"]["resourceVersion"]
        assert plan.deletes == ()
        assert ((plan.status or {}).get("cache") or {}).get("retryAttempts", 0) == retries
    if patched and status == "Failed":
        assert (condition_of(plan, "CacheReady"), overall(plan)) == (("False", "CacheRetrying"), "Starting")


@pytest.mark.spec("FW-019", "SV-191")
def test_an_unknown_cache_is_not_made_again() -> None:
    cache = serving_cache(service(), template(), model(), node())
    cache.make_stale(TEMPLATE_CACHES)
    plan = plan_for(cache)
    assert plan.children == ()
    assert plan.retry is not None


# Deletion


def deleting(*objects: JsonObject, namespace: bool = True, doomed: bool = False) -> Plan:
    """The plan for a service that is being deleted."""
    finalizers = [labels.FINALIZER_SERVICE]
    gone = make(kinds.AIM_SERVICE, "qwen-chat", namespace=TEAM, finalizers=finalizers, deleting=NOW)
    there = [make(kinds.NAMESPACE, TEAM, deleting=NOW if doomed else None)] if namespace else []
    cache = serving_cache(gone, *there, *objects)
    return decide(SERVICE_RECONCILER, cache.object(SERVICES, TEAM, "qwen-chat"), cache.view(), NOW)


def mine(name: str = USUAL, **more: Any) -> JsonObject:
    """A cache that the deleted service made."""
    return template_cache(name, labels={labels.SERVICE: "qwen-chat"}, **more)


def deleted(plan: Plan) -> list[str]:
    """Names of deleted caches; with none the finalizer must go."""
    assert bool(plan.deletes) is not bool(plan.patches)
    assert (plan.children, plan.status) == ((), None)
    return [one.name for one in plan.deletes]


@pytest.mark.spec(
    "SV-234",
    "SV-235",
    "SV-240",
    "FW-182",
    "FW-183",
    "AT-132",
    "AT-133",
    "FW-S50",
    "AR-635",
    "AR-636",
    "SC-105",
    "SC-106",
)
def test_unfinished_caches_go_with_the_service() -> None:
    assert deleted(deleting(mine(status="Failed"))) == [USUAL]
    assert deleted(deleting(mine(status="Ready"))) == []
    assert deleted(deleting(mine(status="Ready", mode="Dedicated"))) == [], "its owner reference takes it along"
    assert deleted(deleting(template_cache("of-another", status="Failed"))) == []
    assert deleted(deleting(mine(status="Failed", deleting=NOW))) == []


@pytest.mark.spec("SV-234", "AR-637", "AR-464", "AT-161", "AR-636")
def test_caches_of_others_stay() -> None:
    reference = {"name": "qwen3-lat", "scope": "Namespace", "namespace": TEAM}
    user = aim_service("user", status={"resolvedTemplate": reference})
    assert deleted(deleting(mine(status="Progressing"), user)) == []
    alone = aim_service("alone", caching={"mode": "Dedicated"}, status={"resolvedTemplate": reference})
    assert deleted(deleting(mine(status="Progressing"), alone)) == [USUAL]
    foreign = mine(status="Failed", mode="Dedicated", owners=[owner(alone)])
    assert deleted(deleting(foreign)) == []
    assert deleted(deleting(mine(status="Failed", mode="Dedicated"))) == [USUAL], "nobody else takes it along"
    for of in (aim_service(), template()):
        assert deleted(deleting(mine(status="Failed", mode="Dedicated", owners=[owner(of)]))) == [USUAL]


@pytest.mark.spec("SV-236", "FW-186", "FW-187", "AT-134", "FW-185", "AR-635")
def test_a_terminating_namespace_takes_everything_along() -> None:
    assert deleted(deleting(mine(status="Failed"), namespace=False)) == []
    assert deleted(deleting(mine(status="Failed"), doomed=True)) == []


@pytest.mark.spec("SV-236", "FW-184", "FW-186", "AT-135")
def test_an_unknown_namespace_keeps_the_finalizer() -> None:
    finalizers = [labels.FINALIZER_SERVICE]
    gone = make(kinds.AIM_SERVICE, "qwen-chat", namespace=TEAM, finalizers=finalizers, deleting=NOW)
    cache = serving_cache(gone)
    cache.make_stale(NAMESPACES)
    plan = decide(
        SERVICE_RECONCILER, cache.object(SERVICES, TEAM, "qwen-chat"), cache.view(), NOW + timedelta(seconds=1)
    )
    assert plan.patches == ()
    assert plan.retry is not None


@pytest.mark.spec("SV-234", "AR-464", "AR-P23")
def test_who_uses_the_cluster_template_of_that_name_wants_another_cache() -> None:
    of_cluster = aim_service("user", status={"resolvedTemplate": {"name": "qwen3-lat", "scope": "Cluster"}})
    assert deleted(deleting(mine(status="Progressing"), of_cluster)) == [USUAL]
    assert deleted(deleting(mine(status="Progressing", scope="Cluster"), of_cluster)) == []


@pytest.mark.spec("SV-235", "FW-184", "FW-019")
def test_a_clean_up_looks_again_and_waits_for_a_fresh_view() -> None:
    assert deleting(mine(status="Failed")).requeue_after == 2
    own = make(kinds.AIM_SERVICE, "qwen-chat", namespace=TEAM, finalizers=[labels.FINALIZER_SERVICE], deleting=NOW)
    cache = serving_cache(own, make(kinds.NAMESPACE, TEAM))
    gone = cache.object(SERVICES, TEAM, "qwen-chat")
    cache.make_stale(TEMPLATE_CACHES)
    blind = decide(SERVICE_RECONCILER, gone, cache.view(), NOW)
    assert (blind.deletes, blind.patches) == ((), ())
    assert blind.retry is not None


@pytest.mark.spec("SV-138", "AR-615")
@pytest.mark.parametrize(
    ("conditions", "cause"),
    [
        ([condition("ArtifactsReady", False, "X", "the disk is full"), condition("Ready", False, "Y", "z")], "full"),
        ([condition("ArtifactsReady", False, "JustAReason", "")], "JustAReason"),
        ([condition("Ready", False, "Y", "no template")], "no template"),
        ([], "see its conditions"),
    ],
)
def test_a_failed_cache_quotes_what_says_most(conditions: list[JsonObject], cause: str) -> None:
    failed = template_cache(USUAL, status="Failed", artifact_status="Ready")
    failed["status"]["conditions"] = conditions
    plan = plan_for(serving_cache(aim_service(), template(), model(), node(), failed))
    assert condition_of(plan, "CacheReady") == ("False", "CacheFailed")
    assert message_of(plan, "CacheReady").endswith(cause)
