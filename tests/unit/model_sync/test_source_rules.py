"""Rules of model sources that are tables: codes, rows of the overall status, conditions, labels, limits."""

from typing import Final

import pytest
from support.builders import condition, make
from support.model_sources import (
    BROKEN,
    DEFINITION,
    RECONCILER,
    Scene,
    cond,
    images,
    message,
    model,
    outcome,
    selected,
    source,
    syncing,
)
from support.woken import woken

from aim_domain import AIMClusterModelSource
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG
from aim_domain.parts import CLUSTER_MODELS
from aim_model_sync.codes import AUTH, CONFIGURATION, OUTAGE, TRANSIENT, Code, SyncCode
from aim_model_sync.reconcile import build_model
from aim_model_sync.selectors import SelectorText, resolve
from controller_runtime import JsonObject, Plan
from controller_runtime.testing import NOW
from oci_registry import RegistryErrorCode

# Code → whether it is retried soon, and the condition that it turns.
CODES: Final = {
    "InvalidSelector": (False, "ConfigValid"),
    "InvalidVersionConstraint": (False, "ConfigValid"),
    "WildcardNamespaceRequired": (False, "ConfigValid"),
    "WildcardUnsupported": (False, None),
    "MissingCredentials": (False, "AuthValid"),
    "SecretInvalid": (False, "AuthValid"),
    "SecretAccessFailed": (True, "AuthValid"),
    "AuthFailed": (False, "AuthValid"),
    "NotFound": (False, None),
    "RateLimited": (True, None),
    "Timeout": (True, "RegistryReachable"),
    "Unreachable": (True, "RegistryReachable"),
    "ServerError": (True, "RegistryReachable"),
    "InvalidResponse": (True, None),
    "TruncatedResult": (False, None),
    "InternalError": (True, None),
    "AddressRefused": (False, None),
    "ImageUnreadable": (False, None),
}
ALL: Final[tuple[Code, ...]] = (*SyncCode, *RegistryErrorCode)
POSITIVE: Final = {
    "Ready", "RegistryReachable", "FiltersReady", "ExistingModelsReady", "ConfigValid", "AuthValid",
    "DependenciesReachable",
}  # fmt: skip
NEGATIVE: Final = {"Degraded", "Syncing", "MaxModelsLimitReached"}


@pytest.mark.spec(
    "MS-261", "MS-262", "MS-263", "MS-264", "MS-265", "MS-266", "MS-267", "MS-268", "MS-269", "MS-270", "MS-271",
    "MS-272", "MS-273", "MS-274", "MS-275", "MS-277", "MS-394",
    "FW-590",
)  # fmt: skip
def test_the_table_of_codes() -> None:
    conditions = {"ConfigValid": CONFIGURATION, "AuthValid": AUTH, "RegistryReachable": OUTAGE}
    for code in ALL:
        turned = next((name for name, codes in conditions.items() if code in codes), None)
        assert (code in TRANSIENT, turned) == CODES[code.value]
    assert {code.value for code in ALL} == set(CODES)


@pytest.mark.spec("MS-275", "MS-153")
def test_a_truncated_list_is_used_and_not_asked_for_again_soon() -> None:
    result = outcome(selected("org/*", "org/a:1", code="TruncatedResult"))
    plan = Scene(source(syncing())).synced(result).reconcile()
    assert images(plan) == ["org/a:1"]
    assert cond(plan, "Ready") == ("False", "SomeFiltersFailed")
    assert plan.requeue_after is not None
    assert plan.requeue_after > 3000


def concluded(*selectors: str, failing: bool = False) -> Plan:
    """A pass after a sync whose selectors came to: ``ok``, ``partial`` or ``failed``."""
    forms = {
        "ok": selected("org/a", "org/a:1"),
        "partial": selected("org/b*", "org/b:1", code="Timeout"),
        "failed": selected("org/c", code="NotFound"),
    }
    scene = Scene(source(syncing())).synced(outcome(*(forms[one] for one in selectors)))
    return scene.reconcile(failure=BROKEN if failing else None)


@pytest.mark.spec(
    "MS-302", "MS-303", "MS-304", "MS-305", "MS-307", "MS-308", "MS-310", "MS-312", "MS-322", "MS-323"
)  # fmt: skip
@pytest.mark.parametrize(
    ("plan", "status", "ready"),
    [
        (Scene(source()).reconcile(), "Pending", ("False", "AwaitingFirstSync")),
        (Scene(source(spec={"images": ["org/a"]})).reconcile(), "Failed", ("False", "InvalidSpec")),
        (Scene(source({"status": "Pending"})).reconcile(), "Progressing", ("False", "Progressing")),
        (concluded("failed", "failed"), "Failed", ("False", "AllFiltersFailed")),
        (concluded("ok", "failed"), "Degraded", ("False", "SomeFiltersFailed")),
        (concluded("ok", "partial"), "Degraded", ("False", "SomeFiltersFailed")),
        (concluded("partial"), "Degraded", ("False", "SomeFiltersFailed")),
        (concluded("ok", "failed", failing=True), "Degraded", ("False", "SomeFiltersFailed")),
        (concluded("ok", failing=True), "Failed", ("False", "ModelCreationFailed")),
        (concluded("ok"), "Ready", ("True", "AllComponentsReady")),
    ],
)
def test_the_rows_of_the_overall_status(plan: Plan, status: str, ready: tuple[str, str]) -> None:
    assert plan.status is not None
    assert plan.status["status"] == status
    assert cond(plan, "Ready") == ready
    known = {one["type"]: one["status"] for one in plan.status["conditions"]}
    if "Degraded" in known:
        assert (known["Degraded"] == "True") is (status in ("Degraded", "Failed"))


@pytest.mark.spec("FW-397", "MS-327", "MS-328")
@pytest.mark.parametrize("reached", [True, False])
def test_a_registry_is_reachable_when_one_of_its_mirrors_answers(reached: bool) -> None:
    result = outcome(selected("org/a", "org/a:1"), selected("org/b", code="Timeout", registry="x.io", reached=reached))
    plan = Scene(source(syncing())).synced(result).reconcile()
    expected = ("True", "Reachable") if reached else ("False", "RegistryUnreachable")
    assert cond(plan, "RegistryReachable") == expected


@pytest.mark.spec("MS-321", "MS-342", "MS-318", "MS-320", "FW-082")
def test_conditions_are_positive_but_for_three() -> None:
    """Where all is well the positive ones are true and the other three false."""
    plan = concluded("ok")
    assert plan.status is not None
    for one in plan.status["conditions"]:
        assert one["type"] in POSITIVE | NEGATIVE
        assert one["status"] == ("True" if one["type"] in POSITIVE else "False")
        assert set(one) >= {"type", "status", "reason", "lastTransitionTime", "observedGeneration"}


@pytest.mark.spec("MS-339", "MS-340", "MS-344")
def test_problems_of_the_past_stay_as_good_conditions() -> None:
    past = ("ConfigValid", "AuthValid", "DependenciesReachable")
    stored = syncing()
    stored["conditions"] += [condition(name, False, "InvalidSpec") for name in past]
    plan = Scene(source(stored)).synced(outcome(selected("org/a", "org/a:1"))).reconcile()
    assert [cond(plan, name) for name in past] == [
        ("True", "ConfigurationValid"),
        ("True", "AuthenticationValid"),
        ("True", "Reachable"),
    ]
    assert {event.type.value for event in plan.events if event.condition in past} == {"Normal"}
    fresh = concluded("ok")
    assert fresh.status is not None
    assert not {one["type"] for one in fresh.status["conditions"]} & set(past)


@pytest.mark.spec("MS-341")
def test_images_are_reported_under_the_name_of_filters() -> None:
    given = source(syncing(), spec={"filters": None, "images": ["org/a", "org/b"]})
    plan = Scene(given).synced(outcome(selected("org/a", "org/a:1"), selected("org/b", code="NotFound"))).reconcile()
    assert cond(plan, "FiltersReady") == ("False", "SomeFiltersFailed")
    assert "[1] org/b: NotFound" in message(plan, "FiltersReady")


@pytest.mark.spec("MS-180")
def test_each_source_has_a_limit_of_its_own() -> None:
    """Five models of another source take nothing away."""
    other = {"aim.eai.amd.com/model-source": "other"}
    foreign = tuple(model(f"org/x:{number}", labels=other) for number in range(5))
    scene = Scene(source(syncing(), spec={"maxModels": 2}), foreign)
    plan = scene.synced(outcome(selected("org/a", "org/a:3,2,1"))).reconcile()
    assert images(plan) == ["org/a:3", "org/a:2"]


@pytest.mark.spec("MS-181")
def test_pinned_images_are_limited_like_all_others() -> None:
    pinned = [selected(f"org/a:{tag}", f"org/a:{tag}", contacted=False) for tag in ("1", "2", "3")]
    plan = Scene(source(syncing(), spec={"maxModels": 2})).synced(outcome(*pinned)).reconcile()
    assert images(plan) == ["org/a:1", "org/a:2"]
    assert cond(plan, "MaxModelsLimitReached") == ("True", "LimitReached")


@pytest.mark.spec("RC-102", "MS-218", "MS-226", "MS-227")
@pytest.mark.parametrize(
    ("pattern", "key", "copied"),
    [
        ("org.example/*", "org.example/team", True),
        ("team-*", "team-x", True),
        ("team-*", "team-x/y", False),
        ("team-?", "team-a", True),
        ("team-?", "team-ab", False),
        ("[ab]-team", "b-team", True),
        ("[ab]-team", "c-team", False),
        ("*", "org.example/team", False),
    ],
)
def test_labels_are_copied_by_patterns(pattern: str, key: str, copied: bool) -> None:
    """A malformed pattern beside them does no harm, and what the model has already stays."""
    propagation = {"enabled": True, "match": ["[", pattern, "app.kubernetes.io/*"]}
    config = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"labelPropagation": propagation})
    labels = {key: "v", "app.kubernetes.io/managed-by": "helm", "aim.eai.amd.com/origin": "hand-made"}
    given = source(syncing(), labels=labels)
    plan = Scene(given, (config,)).synced(outcome(selected("org/a", "org/a:1"))).reconcile()
    found = plan.children[0].body["metadata"]["labels"]
    assert found.get(key) == ("v" if copied else None)
    assert found["app.kubernetes.io/managed-by"] == "aim-cluster-model-source-controller"
    assert found["aim.eai.amd.com/origin"] == "auto-generated"


@pytest.mark.spec("MS-058", "MS-060", "MS-223", "MS-S078")
def test_an_official_image_of_docker_hub() -> None:
    given = AIMClusterModelSource.model_validate(source(name="docker-source"))
    image = resolve(SelectorText(text="docker.io/ubuntu:22.04"), "ghcr.io").pinned_image
    child = build_model(given, image, None)
    assert child.name == "library-ubuntu-22-04-7a45e5"
    assert child.body["spec"] == {"image": "library/ubuntu:22.04"}


@pytest.mark.spec("MS-260")
def test_a_trigger_for_a_source_that_is_gone_finds_nothing() -> None:
    """Its last model goes after it: the key may be enqueued, and there is nothing to be decided."""
    ghost: JsonObject = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMClusterModelSource",
        "name": "ghost",
        "uid": "ghost-uid",
        "controller": True,
    }
    orphan = model("org/a:1", labels={"aim.eai.amd.com/model-source": "ghost"}, owners=[ghost])
    scene = Scene(source())
    assert woken(DEFINITION, scene.cache, CLUSTER_MODELS, orphan, None) == set()
    assert scene.cache.view().get(RECONCILER.part, None, "ghost").value is None
    assert scene.reconcile(NOW).status is not None
