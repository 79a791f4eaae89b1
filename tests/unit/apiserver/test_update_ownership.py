"""Who owns what after creates, updates and patches."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.apiserver_ownership import EARLY, LATE, apply, owned, update, without_owners
from support.apiserver_schemas import widget

from controller_runtime import JsonObject
from embedded_apiserver.objects.fieldmanager import ApplyConflict


def changed(obj: JsonObject, **spec: Any) -> JsonObject:
    """The object with these members of the spec, a None being removed."""
    members = {**obj["spec"], **spec}
    return {**obj, "spec": {key: value for key, value in members.items() if value is not None}}


def test_the_creator_owns_all_it_brought_with_the_containers() -> None:
    made = update(None, widget(replicas=1, nested={"a": "x"}), "kubectl")
    assert owned(made, "kubectl") == {".spec", ".spec.replicas", ".spec.nested", ".spec.nested.a"}
    assert made["metadata"]["managedFields"][0]["operation"] == "Update"


def test_an_update_owns_only_what_it_changes() -> None:
    live = update(None, widget(replicas=1, color="red"), "one")
    live = update(live, changed(live, replicas=2), "two", now=LATE)
    assert owned(live, "two") == {".spec.replicas"}
    assert owned(live, "one") == {".spec", ".spec.color"}
    assert [entry["time"] for entry in live["metadata"]["managedFields"]] == [EARLY, LATE]


def test_an_update_that_changes_nothing_changes_nothing() -> None:
    live = update(None, widget(replicas=1), "one")
    assert update(live, copy.deepcopy(live), "two", now=LATE) == live


def test_true_is_another_value_than_one() -> None:
    live = update(None, widget(free={"a": 1, "l": [1]}), "one")
    live = update(live, changed(live, free={"a": True, "l": [True]}), "two")
    assert owned(live, "two") == {".spec.free.a", ".spec.free.l"}


def test_a_removed_field_has_no_owner_any_more() -> None:
    live = apply(None, widget(replicas=1, color="red"), "one")
    live = update(live, changed(live, color=None), "two")
    assert owned(live, "one") == {".spec.replicas"}
    assert owned(live, "two") == set()


def test_an_update_takes_fields_from_appliers() -> None:
    live = apply(None, widget(replicas=1), "one")
    live = update(live, changed(live, replicas=5), "kubectl")
    with pytest.raises(ApplyConflict, match=r'"kubectl" using example\.com/v1'):
        apply(live, widget(replicas=1), "one")


def test_applying_and_updating_are_two_entries_of_one_manager() -> None:
    live = apply(None, widget(replicas=1), "one")
    live = update(live, changed(live, color="red"), "one")
    assert [entry["operation"] for entry in live["metadata"]["managedFields"]] == ["Apply", "Update"]


@pytest.mark.parametrize("sent", [None, []])
def test_none_or_no_managed_fields_keep_those_of_the_live_object(sent: list[JsonObject] | None) -> None:
    live = apply(None, widget(replicas=1), "one")
    new = without_owners(live)
    if sent is not None:
        new["metadata"]["managedFields"] = sent
    assert update(live, new, "two") == live


def test_one_empty_entry_forgets_all_owners() -> None:
    live = apply(None, widget(replicas=1), "one")
    new = without_owners(live)
    new["metadata"]["managedFields"] = [{}]
    assert update(live, new, "two") == without_owners(live)


def test_a_client_can_write_managed_fields_on_the_main_resource_only() -> None:
    live = apply(None, widget(replicas=1), "one")
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"][0]["manager"] = "renamed"
    assert owned(update(live, new, "two"), "renamed") == {".spec.replicas"}
    assert update(live, new, "two", subresource="status") == live


def test_managed_fields_that_can_not_be_read_are_ignored() -> None:
    live = apply(None, widget(replicas=1), "one")
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = [{"manager": "x", "operation": "Guess"}]
    assert update(live, new, "two") == live


def test_the_number_of_updaters_is_bounded() -> None:
    live = update(None, widget(), "creator")
    for number in range(15):
        live = update(
            live, changed(live, free={**live["spec"].get("free", {}), f"k{number}": 1}), f"m{number:02}",
            now=f"2024-01-01T00:00:{number:02}Z",
        )  # fmt: skip
    entries = live["metadata"]["managedFields"]
    assert len(entries) == 10
    assert entries[0]["manager"] == "ancient-changes"
    assert ".spec.free.k0" in owned(live, "ancient-changes")
    assert owned(live, "m14") == {".spec.free.k14"}


VALUES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), VALUES), min_size=1, max_size=6))
def test_each_leaf_belongs_to_whoever_changed_it_last(steps: list[tuple[str, dict[str, int]]]) -> None:
    live: JsonObject | None = None
    former: dict[str, int] = {}
    owner: dict[str, str] = {}
    for manager, free in steps:
        live = update(live, widget(free=free), manager)
        owner = {key: owner[key] if former.get(key) == value else manager for key, value in free.items()}
        former = free
    assert live is not None
    for manager in ("one", "two", "three"):
        leaves = {path for path in owned(live, manager) if path.startswith(".spec.free.")}
        assert leaves == {f".spec.free.{key}" for key, name in owner.items() if name == manager}
