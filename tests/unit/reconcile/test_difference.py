"""When a write would change something, and what is sent for a child."""

from typing import Any

import pytest
from support.builders import make, owner

from aim_domain import kinds, labels
from controller_runtime import Category, Child, JsonObject, Part, WriteMode
from controller_runtime.reconcile.child import (
    Target,
    applied_hash,
    children_in_order,
    foreign_owner,
    is_subset,
    needs_apply,
    refers_to,
    same_status,
    to_create,
    to_update,
    with_owner,
)

SERVICES = Part("aimservices", kinds.AIM_SERVICE)
CONFIG_MAPS = Part("configmaps", kinds.CONFIG_MAP)
JOBS = Part("jobs", kinds.JOB)
CLUSTER_MODELS = Part("aimclustermodels", kinds.AIM_CLUSTER_MODEL)
SERVICE = make(kinds.AIM_SERVICE, "chat")
TARGET = Target(SERVICES, SERVICE, "00-trace")


def config_map(name: str = "c", namespace: str = "ml", **data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def stored(body: JsonObject, uid: str = "u1", **more: Any) -> JsonObject:
    """The body as the API server gives it back, with defaults of its own."""
    metadata = {**body["metadata"], "uid": uid, "resourceVersion": "7", "creationTimestamp": "x"}
    return {**body, "metadata": metadata, **more}


@pytest.mark.spec("FW-409", "FW-205", "FW-013")
def test_what_was_applied_needs_no_apply() -> None:
    body = config_map(a="1")
    live = stored(to_create(body, "00-trace", hashed=True), immutable=False)
    assert not needs_apply(body, live)
    assert needs_apply(body, None)


@pytest.mark.spec("FW-409")
def test_reasons_for_an_apply() -> None:
    body = config_map(a="1")
    live = stored(to_create(body, None, hashed=True))
    assert needs_apply(config_map(), live), "a removal shows in the hash"
    assert needs_apply(body, {**live, "data": {"a": "2"}}), "a manual edit shows in the subset"
    assert needs_apply(body, stored(body)), "no hash"


@pytest.mark.spec("FW-409")
def test_a_changed_value_is_applied_and_leaves_the_annotations_as_they_are() -> None:
    # KServe copies them to the pods, and a pod is replaced when its annotations change.
    one, two = ({**config_map(), "spec": {"predictor": {"minReplicas": number}}} for number in (1, 2))
    live = stored(to_create(one, "00-trace", hashed=True))
    assert needs_apply(two, live)
    assert to_update(two, live)["metadata"]["annotations"] == live["metadata"]["annotations"]
    without = {**config_map(), "spec": {"predictor": {}}}
    assert needs_apply(without, live), "a removed member shows in the hash"


@pytest.mark.spec("FW-409")
def test_an_annotation_is_compared_like_anything_else() -> None:
    one, two = (config_map(a="1") for _ in range(2))
    one["metadata"]["annotations"], two["metadata"]["annotations"] = {"note": "old"}, {"note": "new"}
    live = stored(to_create(one, None, hashed=True))
    assert not needs_apply(one, live)
    assert needs_apply(two, live)
    assert needs_apply(config_map(a="1"), live), "a removed one shows in the hash"


@pytest.mark.spec("FW-409")
def test_the_hash_is_of_the_members_that_say_something() -> None:
    body = {**config_map(), "spec": {"list": [{"a": 1}], "map": {"b": 2}}}
    nothing: JsonObject = {"none": None, "no-items": [], "no-members": {}, "nested": {"deeper": {"none": None}}}
    assert applied_hash({**body, "spec": {**body["spec"], **nothing}}) == applied_hash(body)
    assert applied_hash({**body, "spec": {**body["spec"], "list": [{"c": 1}]}}) != applied_hash(body)
    assert applied_hash({**body, "spec": {**body["spec"], "list": [{"a": 1}, {"a": 1}]}}) != applied_hash(body)


@pytest.mark.spec("FW-409", "FW-205")
def test_hash_and_trace_never_count() -> None:
    body = config_map(a="1")
    assert applied_hash(to_create(body, "00-other", hashed=True)) == applied_hash(body)


@pytest.mark.spec("FW-409")
@pytest.mark.parametrize(
    ("desired", "live", "subset"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"b": 2}, False),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": [{"x": 1}]}, {"a": [{"x": 1, "y": 2}]}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": [1]}, {"a": "1"}, False),
        ({"a": []}, {"a": {}}, False),
        ({"requests": {"cpu": "many"}}, {"requests": {"cpu": "1"}}, False),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "many"}}, False),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": ["1"]}}, False),
        ({"requests": {"cpu": True}}, {"requests": {}}, False),
        ({"requests": {"cpu": "1000m"}}, {"requests": {"cpu": "1"}}, True),
        ({"storage": "1Gi"}, {"storage": "1024Mi"}, True),
        ({"value": "1000m"}, {"value": "1"}, False),
        ({"a": {}}, {}, True),
        ({"a": {}}, {"a": {"b": 1}}, True),
        ({"a": None}, {"a": 1}, True),
        (
            {"metadata": {"ownerReferences": [{"uid": "2", "controller": True}]}},
            {"metadata": {"ownerReferences": [{"uid": "1"}, {"uid": "2", "controller": True, "name": "x"}]}},
            True,
        ),
    ],
)
def test_subsets(desired: JsonObject, live: JsonObject, subset: bool) -> None:
    assert is_subset(desired, live) is subset


@pytest.mark.spec("FW-011")
def test_statuses_are_compared_by_meaning() -> None:
    one: JsonObject = {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}], "cache": None}
    other = {"conditions": [{"type": "B", "status": "False"}, {"type": "A", "status": "True"}]}
    assert same_status(one, other)
    assert not same_status(one, {"conditions": one["conditions"][:1]})
    assert not same_status({"a": 1}, {"a": 2})


@pytest.mark.spec("FW-210", "DI-055", "FW-P20")
def test_owned_children_name_their_controller_and_keep_other_owners() -> None:
    body = config_map()
    body["metadata"]["ownerReferences"] = [{"uid": "other", "kind": "X", "name": "x"}]
    first, second = with_owner(TARGET, Child(CONFIG_MAPS, body))["metadata"]["ownerReferences"]
    assert first["uid"] == "other"
    assert second == {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMService",
        "name": "chat",
        "uid": "aimservice-chat-uid",
        "controller": True,
    }
    assert "ownerReferences" not in with_owner(TARGET, Child(CONFIG_MAPS, config_map(), owned=False))["metadata"]


@pytest.mark.spec("FW-212")
def test_an_owner_never_reaches_out_of_its_namespace() -> None:
    with pytest.raises(ValueError, match="ml/chat cannot own ConfigMap other/c"):
        with_owner(TARGET, Child(CONFIG_MAPS, config_map(namespace="other")))
    with pytest.raises(ValueError, match="cannot own"):
        with_owner(TARGET, Child(CLUSTER_MODELS, make(kinds.AIM_CLUSTER_MODEL, "m")))


@pytest.mark.spec("FW-205", "FW-409")
def test_an_update_names_the_uid_and_keeps_the_trace() -> None:
    live = stored(to_create(config_map(a="1"), "00-first", hashed=True))
    sent = to_update(config_map(a="2"), live)
    assert sent["metadata"]["uid"] == "u1"
    assert sent["metadata"]["annotations"][labels.ANNOTATION_TRACEPARENT] == "00-first"


@pytest.mark.spec("FW-207")
def test_a_child_of_somebody_else_is_not_taken_over() -> None:
    child = Child(CONFIG_MAPS, config_map())
    other = make(kinds.AIM_SERVICE, "other")
    foreign = stored({**config_map(), "metadata": {**config_map()["metadata"], "ownerReferences": [owner(other)]}})
    error = foreign_owner(TARGET, child, foreign)
    assert error is not None
    assert (error.category, error.reason) == (Category.INVALID_SPEC, "AlreadyExists")
    assert "ConfigMap ml/c" in error.message
    assert "AIMService other" in error.message
    assert foreign_owner(TARGET, child, stored(with_owner(TARGET, child))) is None
    assert foreign_owner(TARGET, Child(CONFIG_MAPS, config_map(), owned=False), foreign) is None


@pytest.mark.spec("FW-204")
def test_order_and_references_of_children() -> None:
    job = Child(JOBS, make(kinds.JOB, "j", spec={"volume": {"configMap": {"name": "c"}}}), mode=WriteMode.CREATE)
    b, a = Child(CONFIG_MAPS, config_map("b")), Child(CONFIG_MAPS, config_map("a"))
    assert [child.name for child in children_in_order([job, b, a])] == ["a", "b", "j"]
    assert refers_to(job, Child(CONFIG_MAPS, config_map("c")))
    assert not refers_to(job, a)
    assert not refers_to(a, job)
