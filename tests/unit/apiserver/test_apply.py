"""Server-side apply: what is merged, removed and owned, and what conflicts."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.apiserver_ownership import EARLY, LATE, apply, owned, update, without_owners
from support.apiserver_schemas import condition, widget, widget_schema, widget_status

from controller_runtime import canonical
from embedded_apiserver.objects.fieldmanager import ApplyConflict, TypedPatchError
from embedded_apiserver.objects.patch import PatchError


def test_the_first_apply_makes_the_object_and_owns_its_leaves() -> None:
    made = apply(None, widget(replicas=1, nested={"a": "x"}, data={"k": "v"}, args=["1"], selector={"s": "t"}), "one")
    assert without_owners(made) == widget(
        replicas=1, nested={"a": "x"}, data={"k": "v"}, args=["1"], selector={"s": "t"}
    )
    assert owned(made, "one") == {".spec.replicas", ".spec.nested.a", ".spec.data.k", ".spec.args", ".spec.selector"}


def test_list_items_are_owned_by_key_with_defaults_and_set_items_by_value() -> None:
    made = apply(None, widget(ports=[{"port": 80, "name": "web"}], tags=["x"]), "one")
    port = '.spec.ports[port=80,protocol="TCP"]'
    assert owned(made, "one") == {port, f"{port}.port", f"{port}.name", '.spec.tags[="x"]'}


def test_identity_and_system_metadata_are_never_owned() -> None:
    config = widget(replicas=1)
    config["metadata"] |= {"uid": "u", "labels": {"a": "b"}, "finalizers": ["f"]}
    made = apply(None, config, "one")
    assert owned(made, "one") == {".spec.replicas", ".metadata.labels.a", '.metadata.finalizers[="f"]'}


def test_an_entry_says_who_how_when_and_what() -> None:
    made = apply(None, widget(replicas=1), "one")
    assert made["metadata"]["managedFields"] == [
        {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": "example.com/v1",
            "time": EARLY,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }
    ]


def test_applying_the_same_again_changes_nothing_not_even_the_time() -> None:
    made = apply(None, widget(replicas=1, tags=["a"]), "one")
    assert apply(made, widget(replicas=1, tags=["a"]), "one", now=LATE) == made


def test_what_a_manager_leaves_out_is_removed() -> None:
    made = apply(None, widget(replicas=1, color="red", nested={"a": "x", "b": "y"}, data={"k": "v"}), "one")
    changed = apply(made, widget(replicas=1, nested={"a": "x"}), "one", now=LATE)
    assert without_owners(changed) == widget(replicas=1, nested={"a": "x"})
    assert changed["metadata"]["managedFields"][0]["time"] == LATE


def test_what_several_own_stays_until_the_last_lets_go() -> None:
    live = apply(None, widget(replicas=1, color="red"), "one")
    live = apply(live, widget(color="red"), "two")
    live = apply(live, widget(replicas=1), "one")
    assert live["spec"] == {"replicas": 1, "color": "red"}
    assert owned(live, "one") == {".spec.replicas"}
    live = apply(live, widget(), "two")
    assert live["spec"] == {"replicas": 1}
    assert owned(live, "two") == {".spec"}


def test_what_nobody_owns_is_left_alone() -> None:
    live = apply(None, widget_status(count=1), "one", subresource="status")
    widget_schema().default(live)
    assert live["status"] == {"count": 1, "phase": "Pending"}
    live = apply(live, widget_status(count=2), "two", subresource="status", force=True)
    assert live["status"] == {"count": 2, "phase": "Pending"}
    assert owned(live, "one") == set()


def test_another_managers_value_is_a_conflict() -> None:
    live = apply(None, widget(replicas=1), "one")
    with pytest.raises(ApplyConflict) as caught:
        apply(live, widget(replicas=2), "two")
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
    assert caught.value.causes() == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.replicas"}
    ]


def test_a_conflict_with_an_updater_names_its_version() -> None:
    live = update(None, widget(replicas=1), "kubectl-client-side-apply")
    with pytest.raises(ApplyConflict) as caught:
        apply(live, widget(replicas=2), "two")
    assert caught.value.conflicts == (('"kubectl-client-side-apply" using example.com/v1', ".spec.replicas"),)


def test_several_conflicts_are_listed_by_manager() -> None:
    live = apply(None, widget(replicas=1, color="red"), "one")
    live = apply(live, widget(nested={"a": "x"}), "two")
    with pytest.raises(ApplyConflict) as caught:
        apply(live, widget(replicas=2, color="blue", nested={"a": "y"}), "three")
    assert str(caught.value) == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .spec.color\n- .spec.replicas\n'
        'conflicts with "two":\n- .spec.nested.a'
    )


def test_a_conflict_with_a_status_writer_names_the_subresource() -> None:
    live = update(None, widget(replicas=1), "user")
    live = update(live, {**live, "status": {"count": 1}}, "kubelet", subresource="status")
    with pytest.raises(ApplyConflict, match=r'"kubelet" with subresource "status" using example.com/v1: .status.count'):
        apply(live, widget_status(count=2), "two", subresource="status")


def test_the_same_value_makes_a_second_owner_without_a_conflict() -> None:
    live = apply(None, widget(replicas=1), "one")
    live = apply(live, widget(replicas=1), "two")
    assert owned(live, "one") == owned(live, "two") == {".spec.replicas"}


def test_force_takes_fields_over() -> None:
    live = apply(None, widget(replicas=1, color="red"), "one")
    live = apply(live, widget(replicas=2), "two", force=True)
    assert live["spec"] == {"replicas": 2, "color": "red"}
    assert owned(live, "one") == {".spec.color"}
    assert owned(live, "two") == {".spec.replicas"}


def test_what_was_taken_by_force_and_then_left_out_is_deleted() -> None:
    live = apply(None, widget(replicas=1, color="red"), "one")
    live = apply(live, widget(replicas=2), "two", force=True)
    live = apply(live, widget(color="red"), "two")
    assert live["spec"] == {"color": "red"}


def test_an_atomic_list_or_map_has_one_owner() -> None:
    live = apply(None, widget(args=["a"], selector={"a": "1"}), "one")
    with pytest.raises(ApplyConflict, match=r"- \.spec\.args\n- \.spec\.selector"):
        apply(live, widget(args=["a", "b"], selector={"a": "1", "b": "2"}), "two")
    live = apply(live, widget(args=["b"], selector={"b": "2"}), "two", force=True)
    assert live["spec"] == {"args": ["b"], "selector": {"b": "2"}}


def test_a_schemaless_value_is_granular_in_objects_and_atomic_in_lists() -> None:
    live = apply(None, widget(free={"a": {"b": 1}, "l": [1]}), "one")
    live = apply(live, widget(free={"a": {"c": 2}}), "two")
    assert live["spec"]["free"] == {"a": {"b": 1, "c": 2}, "l": [1]}
    with pytest.raises(ApplyConflict, match=r"\.spec\.free\.l"):
        apply(live, widget(free={"l": [1, 2]}), "two")


@pytest.mark.spec("CC-022")
def test_two_managers_own_different_conditions_of_one_status() -> None:
    live = apply(None, widget(replicas=1), "user")
    live = apply(live, widget_status(conditions=[condition("Ready")]), "serving", subresource="status")
    live = apply(live, widget_status(conditions=[condition("Routed", "False")]), "routing", subresource="status")
    assert live["status"]["conditions"] == [condition("Ready"), condition("Routed", "False")]
    live = apply(live, widget_status(conditions=[condition("Ready", "False")]), "serving", subresource="status")
    assert live["status"]["conditions"] == [condition("Ready", "False"), condition("Routed", "False")]
    live = apply(live, widget_status(count=1), "serving", subresource="status")
    assert live["status"] == {"count": 1, "conditions": [condition("Routed", "False")]}


@pytest.mark.spec("FW-412")
def test_a_condition_whose_leaves_others_came_to_own_can_not_be_dropped() -> None:
    live = apply(None, widget_status(conditions=[condition("Ready", reason="A")]), "one", subresource="status")
    other = widget_status(conditions=[{"type": "Ready", "reason": "B"}])
    live = apply(live, other, "two", subresource="status", force=True)
    dropped = apply(live, widget_status(count=1), "one", subresource="status")
    assert dropped["status"]["conditions"] == [{"type": "Ready", "reason": "B"}]
    errors = widget_schema().validate(dropped, live)
    assert [str(error) for error in errors] == ["status.conditions[0].status: Required value"]


def test_items_keep_the_order_of_the_configuration_with_others_in_place() -> None:
    def ports(*numbers: int) -> list[dict[str, int]]:
        return [{"port": number} for number in numbers]

    live = apply(None, widget(ports=ports(1, 2, 3)), "one")
    live = apply(live, widget(ports=ports(9, 2)), "two")
    assert live["spec"]["ports"] == ports(1, 9, 2, 3)
    assert apply(live, widget(ports=ports(2, 9)), "two") == live, "another order alone is no change"
    live = apply(live, widget(ports=ports(2, 9, 8)), "two")
    assert live["spec"]["ports"] == ports(1, 2, 3, 9, 8)


def test_items_of_a_set_merge() -> None:
    live = apply(None, widget(tags=["a", "b"]), "one")
    live = apply(live, widget(tags=["c", "b"]), "two")
    assert sorted(live["spec"]["tags"]) == ["a", "b", "c"]
    live = apply(live, widget(tags=["b"]), "one")
    assert sorted(live["spec"]["tags"]) == ["b", "c"]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"ports": [{"name": "x"}]},
            (
                ".spec.ports: element 0: associative list with keys has an element that omits all key fields "
                '["port" "protocol"]'
            ),
        ),
        ({"bogus": 1}, ".spec.bogus: field not declared in schema"),
        ({"replicas": "1"}, ".spec.replicas: expected numeric (int or float), got string"),
        ({"color": 1}, ".spec.color: expected string, got &value.valueUnstructured"),
        ({"nested": []}, ".spec.nested: expected map, got list"),
        ({"args": {}}, ".spec.args: expected list, got map"),
        ({"tags": ["a", "a"]}, '.spec.tags: duplicate entries for key [="a"]'),
    ],
)
def test_what_does_not_fit_the_schema_is_a_typed_error(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypedPatchError) as caught:
        apply(None, widget(**spec), "one")
    assert str(caught.value).startswith(problem)


def test_the_status_message_of_a_typed_error() -> None:
    with pytest.raises(TypedPatchError) as caught:
        apply(None, widget(bogus=1, color=1), "one")
    message = caught.value.status_message("default/w", "example.com/v1", "Widget")
    assert message.startswith(
        "failed to create typed patch object (default/w; example.com/v1, Kind=Widget): errors:\n  ."
    )


def test_managed_fields_in_the_configuration_are_refused() -> None:
    config = widget(replicas=1)
    config["metadata"]["managedFields"] = [{"manager": "x"}]
    with pytest.raises(PatchError, match=r"metadata\.managedFields must be nil") as caught:
        apply(None, config, "one")
    assert caught.value.code == 400


@pytest.mark.spec("CC-003")
def test_an_apply_to_the_status_touches_and_owns_nothing_else() -> None:
    live = apply(None, widget(replicas=1), "user")
    config = {**widget(replicas=9), "status": {"count": 1}}
    config["metadata"]["labels"] = {"a": "b"}
    live = apply(live, config, "one", subresource="status")
    assert without_owners(live) == {**widget(replicas=1), "status": {"count": 1}}
    assert owned(live, "one") == {".status.count"}
    assert [entry.get("subresource") for entry in live["metadata"]["managedFields"]] == ["status", None]


@pytest.mark.spec("CC-003")
def test_an_apply_to_the_main_resource_ignores_the_status() -> None:
    made = apply(None, {**widget(replicas=1), "status": {"count": 1}}, "one", reset_paths={"status"})
    assert without_owners(made) == widget(replicas=1)
    assert owned(made, "one") == {".spec.replicas"}


def test_system_metadata_survives_an_apply() -> None:
    live = apply(None, widget(replicas=1), "one")
    system = {"uid": "u", "resourceVersion": "7", "generation": 3, "creationTimestamp": EARLY}
    live["metadata"] |= system
    config = widget(replicas=2)
    config["metadata"] |= {"resourceVersion": "5", "generation": 9}
    assert system.items() <= apply(live, config, "one")["metadata"].items()


def test_an_object_without_owners_had_its_fields_before_the_first_apply() -> None:
    live = apply(widget(replicas=1, color="red"), widget(replicas=1), "one")
    assert ".spec.color" in owned(live, "before-first-apply")
    with pytest.raises(ApplyConflict, match="before-first-apply"):
        apply(live, widget(color="blue"), "one")


def test_neither_input_is_changed() -> None:
    live, config = apply(None, widget(replicas=1, nested={"a": "x"}), "one"), widget(nested={"a": "y"})
    before = copy.deepcopy((live, config))
    result = apply(live, config, "one")
    result["spec"]["nested"]["a"] = "z"
    assert (live, config) == before


WORDS = st.sampled_from(["x", "y", "z"])
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(0, 2),
        "nested": st.fixed_dictionaries({}, optional={"a": WORDS, "b": WORDS}),
        "data": st.dictionaries(WORDS, WORDS, max_size=3),
        "selector": st.dictionaries(WORDS, WORDS, max_size=2),
        "args": st.lists(WORDS, max_size=3),
        "tags": st.lists(WORDS, max_size=3, unique=True),
        "ports": st.lists(
            st.fixed_dictionaries({"port": st.integers(1, 3)}, optional={"name": WORDS}),
            max_size=3,
            unique_by=lambda port: port["port"],
        ),
    },
)


@given(SPECS, SPECS)
def test_apply_is_idempotent(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = apply(None, widget(**first), "one")
    once = apply(live, widget(**second), "two", force=True)
    assert apply(once, widget(**second), "two", now=LATE) == once


def _full(value: Any) -> Any:
    """Without empty containers, which a removal may leave or take with it, and with lists of items in order."""
    if isinstance(value, dict):
        return {key: full for key, member in value.items() if (full := _full(member)) not in ({}, [])}
    if isinstance(value, list):
        return sorted((_full(item) for item in value), key=canonical)
    return value


@given(SPECS, SPECS)
def test_a_sole_manager_gets_exactly_what_it_applies_last(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = apply(apply(None, widget(**first), "one"), widget(**second), "one")
    assert _full(live.get("spec", {})) == _full(second)


@given(SPECS, SPECS, SPECS)
def test_removing_everything_leaves_what_the_other_owns(
    mine: dict[str, Any], theirs: dict[str, Any], later: dict[str, Any]
) -> None:
    live = apply(None, widget(**theirs), "other")
    live = apply(live, widget(**mine), "me", force=True)
    before = owned(live, "other")
    live = apply(live, widget(**later), "me", force=True)
    live = apply(live, widget(), "me")
    assert owned(live, "me") == {".spec"}
    assert owned(live, "other") <= before
