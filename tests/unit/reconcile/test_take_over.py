"""What becomes of managedFields when a manager takes over what others owned before it (FW-209)."""

from typing import Any

import pytest

from aim_domain import parts
from controller_runtime import FieldOwner, JsonObject, Part, StatusOwnership
from controller_runtime.kinds import CONFIG_MAP
from controller_runtime.log.wire.part import published_form
from controller_runtime.reconcile.status_writer import handed_over, is_left

OLD = frozenset({FieldOwner("old", "Apply"), FieldOwner("older", "Apply"), FieldOwner("binary", "Update", "status")})
PART: Part[Any] = Part("things", CONFIG_MAP, predecessors=OLD)


def entry(manager: str, operation: str = "Apply", subresource: str = "", **fields: Any) -> JsonObject:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {f"f:{name}": value for name, value in fields.items()},
        **({"subresource": subresource} if subresource else {}),
    }


@pytest.mark.spec("FW-209")
def test_without_an_entry_of_ours_the_old_one_becomes_ours() -> None:
    user = entry("kubectl", "Update", data={})
    assert handed_over([entry("old", data={"f:a": {}}), user], OLD, "new") == [user, entry("new", data={"f:a": {}})]


@pytest.mark.spec("FW-209")
def test_into_an_entry_of_ours_the_old_ones_are_merged() -> None:
    ours = entry("new", data={".": {}, "f:a": {}}, same={}) | {"apiVersion": "v2", "time": "now"}
    one = entry("old", data={"f:b": {}}, leaf={}, same={})
    other = entry("older", leaf={"f:c": {}})
    assert handed_over([one, ours, other], OLD, "new") == [
        {
            **ours,
            "fieldsV1": {
                "f:data": {".": {}, "f:a": {}, "f:b": {}},
                "f:same": {},
                # An empty member is the field itself; with members of it, it has to be told.
                "f:leaf": {".": {}, "f:c": {}},
            },
        }
    ]


@pytest.mark.spec("FW-209")
def test_an_update_of_the_status_becomes_an_apply_of_the_status() -> None:
    main = entry("new", spec={})
    taken = handed_over([main, entry("binary", "Update", "status", status={})], OLD, "new", "status")
    assert taken == [main, entry("new", "Apply", "status", status={})]


@pytest.mark.spec("FW-209")
@pytest.mark.parametrize(
    "managed",
    [
        [],
        [entry("new", data={})],
        [entry("old", "Update", data={})],
        [entry("binary", "Update", metadata={})],
        [entry("binary", "Update", "status", status={})],
        [entry("other", data={})],
    ],
)
def test_what_others_own_is_left_alone(managed: list[JsonObject]) -> None:
    assert handed_over(managed, OLD, "new") is None


@pytest.mark.spec("FW-517")
def test_an_object_shows_only_who_of_the_predecessors_is_left() -> None:
    obj = {"metadata": {"name": "a", "managedFields": [entry("old", data={}), entry("x", data={})]}, "data": {}}
    shown = published_form(PART, obj)
    assert shown["metadata"]["managedFields"] == [{"manager": "old", "operation": "Apply"}]
    assert published_form(PART, shown) == shown
    assert (is_left(PART, shown), is_left(PART, shown, "status")) == (True, False)
    obj["metadata"]["managedFields"] = [entry("x", data={})]
    assert published_form(PART, obj) == {"metadata": {"name": "a"}, "data": {}}


@pytest.mark.spec("FW-516", "RT-057")
def test_the_go_operators_children_are_taken_over_and_only_of_its_own_kinds_the_status() -> None:
    applied = FieldOwner("aim-service-controller", "Apply")
    status = {FieldOwner(name, "Update", "status") for name in ("manager", "aim-go")}
    children: list[Part[Any]] = [parts.HTTP_ROUTES, parts.INFERENCE_SERVICES, parts.CUSTOM_PROFILES, parts.TEMPLATES]
    for part in children:
        assert applied in part.predecessors
        # KServe's binary and many others are called `manager`, too.
        assert status.isdisjoint(part.predecessors) or part is parts.TEMPLATES
    own: list[Part[Any]] = [parts.SERVICES, parts.MODELS, parts.TEMPLATES, parts.TEMPLATE_CACHES, parts.ARTIFACTS]
    for part in own:
        assert status <= part.predecessors
        assert FieldOwner("manager", "Update") not in part.predecessors


def test_who_owns_a_few_members_of_a_status_is_reported_apart() -> None:
    assert StatusOwnership(only_fields=frozenset({"routing"})).is_listed
    assert not StatusOwnership(foreign_fields=frozenset({"routing"})).is_listed
