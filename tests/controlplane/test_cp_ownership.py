"""Who owns what: managedFields, conflicts, and lists and maps of every type with several managers."""

from support.suite import SuiteApi
from support.suite_specimen import SPECIMENS, specimen, specimen_status

from controller_runtime import JsonObject

A = f"{SPECIMENS}/a"
STATUS = f"{A}/status"


def _entries(obj: JsonObject) -> dict[str, JsonObject]:
    return {entry["manager"]: entry for entry in obj["metadata"]["managedFields"]}


def _condition(kind: str, status: str = "True", **more: str) -> JsonObject:
    return {"type": kind, "status": status} | more


async def test_an_entry_says_who_how_and_what(specimens: SuiteApi) -> None:
    made = (await specimens.apply(A, specimen("a", text="abc", tags=["x"], steps=["one"], unit={"a": "1"}), "one")).body
    entry = _entries(made)["one"]
    assert entry.pop("time").endswith("Z")
    owned: JsonObject = {"f:text": {}, "f:tags": {'v:"x"': {}}, "f:steps": {}, "f:unit": {}}
    assert entry == {
        "manager": "one",
        "operation": "Apply",
        "apiVersion": "specimen.example.com/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": owned},
    }


async def test_two_managers_own_conditions_of_one_status(specimens: SuiteApi) -> None:
    await specimens.created(SPECIMENS, specimen("a"))
    await specimens.apply(STATUS, specimen_status("a", phase="Up", conditions=[_condition("Ready")]), "serving")
    both = (await specimens.apply(STATUS, specimen_status("a", conditions=[_condition("Routed")]), "routing")).body
    assert both["status"]["conditions"] == [_condition("Ready"), _condition("Routed")]
    assert _entries(both)["routing"]["fieldsV1"] == {
        "f:status": {
            "f:conditions": {'k:{"type":"Routed"}': {".": {}, "f:status": {}, "f:type": {}}},
        }
    }
    taken = await specimens.apply(STATUS, specimen_status("a", conditions=[_condition("Ready", "False")]), "routing")
    assert (taken.status, taken.reason) == (409, "Conflict")
    assert taken.message == (
        'Apply failed with 1 conflict: conflict with "serving" with subresource "status": '
        '.status.conditions[type="Ready"].status'
    )
    left = (await specimens.apply(STATUS, specimen_status("a"), "routing")).body
    assert left["status"]["conditions"] == [_condition("Ready")]
    assert _entries(left)["routing"]["fieldsV1"] == {"f:status": {}}


async def test_an_apply_without_effect_writes_nothing(specimens: SuiteApi) -> None:
    wanted = specimen_status("a", phase="Up", conditions=[_condition("Ready")])
    await specimens.created(SPECIMENS, specimen("a"))
    first = (await specimens.apply(STATUS, wanted, "one")).body
    assert (await specimens.apply(STATUS, wanted, "one")).body == first
    assert (await specimens.apply(STATUS, wanted, "one", force="true")).body == first
    assert (await specimens.get(A)).body == first


async def test_a_value_that_two_agree_on_belongs_to_both(specimens: SuiteApi) -> None:
    await specimens.apply(A, specimen("a", text="abc"), "one")
    shared = (await specimens.apply(A, specimen("a", text="abc"), "two")).body
    # Nothing but the ownership changed: the new entry has no time.
    assert {name: "time" in entry for name, entry in _entries(shared).items()} == {"one": True, "two": False}
    assert (await specimens.apply(A, specimen("a"), "one")).body["spec"]["text"] == "abc"
    refused = await specimens.apply(A, specimen("a", text="abd"), "one")
    assert 'conflict with "two": .spec.text' in refused.message


async def test_several_conflicts_are_listed_by_manager(specimens: SuiteApi) -> None:
    await specimens.apply(A, specimen("a", text="abc", low=1), "one")
    await specimens.apply(A, specimen("a", high=3), "two")
    refused = await specimens.apply(A, specimen("a", text="abd", low=2, high=4), "three")
    assert refused.message == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .spec.low\n- .spec.text\n'
        'conflicts with "two":\n- .spec.high'
    )
    assert {cause["field"] for cause in refused.body["details"]["causes"]} == {".spec.low", ".spec.text", ".spec.high"}


async def test_lists_merge_by_their_type(specimens: SuiteApi) -> None:
    await specimens.apply(A, specimen("a", tags=["x"], steps=["one"], table={"k": 1}), "one")
    merged = await specimens.apply(A, specimen("a", tags=["y"], table={"l": 2}), "two")
    assert merged.body["spec"]["tags"] == ["x", "y"]
    assert merged.body["spec"]["table"] == {"k": 1, "l": 2}
    whole = await specimens.apply(A, specimen("a", steps=["two"]), "two")
    assert 'conflict with "one": .spec.steps' in whole.message
    # What "two" applied before is kept: the refused apply changed nothing.
    left = await specimens.apply(A, specimen("a"), "two")
    assert left.body["spec"]["tags"] == ["x"]


async def test_an_atomic_object_has_one_owner(specimens: SuiteApi) -> None:
    await specimens.apply(A, specimen("a", unit={"a": "1"}), "one")
    refused = await specimens.apply(A, specimen("a", unit={"b": "2"}), "two")
    assert 'conflict with "one": .spec.unit' in refused.message
    forced = await specimens.apply(A, specimen("a", unit={"b": "2"}), "two", force="true")
    assert forced.body["spec"]["unit"] == {"b": "2"}
    assert "one" not in _entries(forced.body)


async def test_an_update_takes_what_it_changes(specimens: SuiteApi) -> None:
    await specimens.apply(A, specimen("a", text="abc", low=1), "one")
    changed = (await specimens.merge(A, {"spec": {"text": "abd"}}, fieldManager="hand")).body
    assert _entries(changed)["hand"]["fieldsV1"] == {"f:spec": {"f:text": {}}}
    assert _entries(changed)["hand"]["operation"] == "Update"
    assert _entries(changed)["one"]["fieldsV1"] == {"f:spec": {"f:low": {}}}
    refused = await specimens.apply(A, specimen("a", text="abc", low=1), "one")
    assert refused.message == (
        'Apply failed with 1 conflict: conflict with "hand" using specimen.example.com/v1: .spec.text'
    )


async def test_the_first_apply_finds_what_was_there_before(specimens: SuiteApi) -> None:
    await specimens.created(SPECIMENS, specimen("a", text="abc"))
    await specimens.merge(A, {"metadata": {"managedFields": [{}]}})
    refused = await specimens.apply(A, specimen("a", text="abd"), "one")
    assert 'conflict with "before-first-apply" using specimen.example.com/v1: .spec.text' in refused.message
    applied = (await specimens.apply(A, specimen("a", text="abc"), "one")).body
    assert set(_entries(applied)) == {"before-first-apply", "one"}


async def test_metadata_is_owned_like_the_rest(specimens: SuiteApi) -> None:
    body = specimen("a")
    body["metadata"] |= {"labels": {"a": "1"}, "annotations": {"b": "2"}, "finalizers": ["x.io/hold"]}
    made = (await specimens.apply(A, body, "one")).body
    assert _entries(made)["one"]["fieldsV1"]["f:metadata"] == {
        "f:annotations": {"f:b": {}},
        "f:labels": {"f:a": {}},
        "f:finalizers": {'v:"x.io/hold"': {}},
    }
    left = (await specimens.apply(A, specimen("a"), "one")).body["metadata"]
    assert not {"labels", "annotations", "finalizers"} & set(left)


async def test_what_an_endpoint_ignores_is_not_owned(specimens: SuiteApi) -> None:
    made = (await specimens.apply(A, specimen("a", text="abc") | specimen_status("a", phase="Up"), "one")).body
    assert made["status"] == {"origin": "definition"}
    assert _entries(made)["one"]["fieldsV1"] == {"f:spec": {"f:text": {}}}
    both = specimen("a", text="zzz") | {"status": {"phase": "Up"}}
    status = (await specimens.apply(STATUS, both, "one")).body
    assert status["spec"]["text"] == "abc"
    fields = [entry["fieldsV1"] for entry in status["metadata"]["managedFields"] if entry.get("subresource")]
    assert fields == [{"f:status": {"f:phase": {}}}]


async def test_an_applied_configuration_has_to_fit_the_schema(specimens: SuiteApi) -> None:
    prefix = "failed to create typed patch object (/a; specimen.example.com/v1, Kind=Specimen): "
    for spec, message in (
        ({"nope": 1}, ".spec.nope: field not declared in schema"),
        ({"low": "x"}, ".spec.low: expected numeric (int or float), got string"),
        ({"tags": ["x", "x"]}, '.spec.tags: duplicate entries for key [="x"]'),
    ):
        refused = await specimens.apply(A, specimen("a", **spec), "one")
        assert (refused.status, refused.reason) == (500, "")
        assert refused.message == prefix + message
