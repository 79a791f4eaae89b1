"""Structural schemas and CEL rules: what is refused with which words, defaulted, pruned, kept."""

import pytest
from support.suite import SuiteApi
from support.suite_specimen import SPECIMENS, specimen


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"text": "x"}, 'spec.text: Invalid value: "x": spec.text in body should be at least 2 chars long'),
        ({"text": "abcdef"}, "spec.text: Too long: may not be more than 5 bytes"),
        ({"text": "ABC"}, "spec.text: Invalid value: \"ABC\": spec.text in body should match '^[a-z]+$'"),
        ({"text": 3}, 'spec.text: Invalid value: "integer": spec.text in body must be of type string: "integer"'),
        ({"number": 0.5}, "spec.number: Invalid value: 0.5: spec.number in body should be greater than or equal to 1"),
        ({"number": 10}, "spec.number: Invalid value: 10: spec.number in body should be less than 10"),
        ({"count": 3}, "spec.count: Invalid value: 3: spec.count in body should be a multiple of 2"),
        ({"count": 2.5}, 'spec.count: Invalid value: "number": spec.count in body must be of type integer: "number"'),
        (
            {"amount": True},
            'spec.amount: Invalid value: "boolean": spec.amount in body must be of type integer,string: "boolean"',
        ),
        (
            {"when": "today"},
            'spec.when: Invalid value: "today": spec.when in body must be of type date-time: "today"',
        ),
        ({"table": {"a": 1, "b": 2, "c": 3}}, "spec.table: Too many: 3: must have at most 2 items"),
        (
            {"table": {"a": "x"}},
            'spec.table.a: Invalid value: "string": spec.table.a in body must be of type integer: "string"',
        ),
        ({"tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"'),
        ({"tags": ["a", "b", "c", "d"]}, "spec.tags: Too many: 4: must have at most 3 items"),
        (
            {"either": {"one": "x", "two": "y"}},
            '"spec.either" must validate one and only one schema (oneOf). Found 2 valid alternatives',
        ),
    ],
)
async def test_a_value_is_refused(specimens: SuiteApi, spec: dict[str, object], message: str) -> None:
    refused = await specimens.post(SPECIMENS, specimen("a", **spec))
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert message in refused.message
    assert refused.body["details"]["kind"] == "Specimen"
    assert refused.body["details"]["causes"]


async def test_rules_are_not_evaluated_on_what_is_no_object_of_the_schema(specimens: SuiteApi) -> None:
    refused = await specimens.post(SPECIMENS, specimen("a", low=3, high=1, text=5))
    assert "low must not exceed high" not in refused.message
    assert refused.message.endswith(
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation]"
    )


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        (
            {"low": 3, "high": 1},
            {
                "reason": "FieldValueInvalid",
                "message": 'Invalid value: "object": low must not exceed high',
                "field": "spec",
            },
        ),
        (
            {"link": "http://x.io"},
            {
                "reason": "FieldValueInvalid",
                "message": 'Invalid value: "string": must be an https URL',
                "field": "spec.link",
            },
        ),
        (
            {"coded": "x"},
            {
                "reason": "FieldValueForbidden",
                "message": "Forbidden: failed rule: self.startsWith('q')",
                "field": "spec.coded",
            },
        ),
    ],
)
async def test_a_rule_is_broken(specimens: SuiteApi, spec: dict[str, object], cause: dict[str, str]) -> None:
    refused = await specimens.post(SPECIMENS, specimen("a", **spec))
    assert (refused.status, refused.body["details"]["causes"]) == (422, [cause])


async def test_transition_rules_look_back(specimens: SuiteApi) -> None:
    await specimens.created(SPECIMENS, specimen("a", growing=3, text="abc"))
    assert (await specimens.merge(f"{SPECIMENS}/a", {"spec": {"growing": 4}})).status == 200
    shrunk = await specimens.merge(f"{SPECIMENS}/a", {"spec": {"growing": 2}})
    assert shrunk.body["details"]["causes"][0]["message"] == 'Invalid value: "integer": must not shrink'
    removed = await specimens.merge(f"{SPECIMENS}/a", {"spec": {"text": None}})
    assert "text can't be removed" in removed.message
    # A field that was not there has no past to be compared with.
    assert (await specimens.merge(f"{SPECIMENS}/a", {"spec": {"growing": None}})).status == 200
    assert (await specimens.merge(f"{SPECIMENS}/a", {"spec": {"growing": 1}})).status == 200


async def test_defaults_fill_what_is_absent(specimens: SuiteApi) -> None:
    made = await specimens.created(SPECIMENS, specimen("a", maybe=None, plain=None, nested={}))
    assert made["spec"] == {"maybe": None, "plain": "there", "nested": {"inner": "deep"}}
    bare = await specimens.created(SPECIMENS, specimen("b"))
    assert bare["spec"] == {"maybe": "here", "plain": "there"}


async def test_a_status_has_its_defaults_before_its_manager_writes_any(specimens: SuiteApi) -> None:
    made = await specimens.created(SPECIMENS, {**specimen("a"), "status": {"phase": "Up"}})
    assert made["status"] == {"origin": "definition"}
    assert (await specimens.get(f"{SPECIMENS}/a")).body["status"] == {"origin": "definition"}
    assert "f:status" not in str(made["metadata"]["managedFields"])


async def test_only_open_objects_keep_what_nobody_declared(specimens: SuiteApi) -> None:
    given = specimen("a", open={"any": {"thing": [1, None]}}, nested={"other": 1}) | {"more": 1}
    made = await specimens.created(SPECIMENS, given)
    assert made["spec"]["open"] == {"any": {"thing": [1, None]}}
    assert made["spec"]["nested"] == {"inner": "deep"}
    assert "more" not in made


async def test_strict_validation_names_every_unknown_field(specimens: SuiteApi) -> None:
    given = specimen("a", nested={"other": 1}) | {"more": 1}
    refused = await specimens.post(SPECIMENS, given, fieldValidation="Strict")
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert refused.message.startswith(
        'Specimen in version "v1" cannot be handled as a Specimen: strict decoding error:'
    )
    for path in ("more", "spec.nested.other"):
        assert f'unknown field "{path}"' in refused.message


@pytest.mark.parametrize("amount", [3, "3", "50%"])
async def test_int_or_string_is_kept_as_it_is(specimens: SuiteApi, amount: object) -> None:
    assert (await specimens.created(SPECIMENS, specimen("a", amount=amount)))["spec"]["amount"] == amount


async def test_what_was_accepted_before_is_not_judged_again(specimens: SuiteApi) -> None:
    """Validation ratchets: a definition that became stricter holds for what changes."""
    await specimens.created(SPECIMENS, specimen("a", steps=["one"]))
    assert (await specimens.merge(f"{SPECIMENS}/a", {"metadata": {"labels": {"a": "b"}}})).status == 200


@pytest.mark.parametrize(
    ("metadata", "field", "message"),
    [
        ({"labels": {"a b": "x"}}, "metadata.labels", "name part must consist of alphanumeric characters"),
        ({"labels": {"a": "-"}}, "metadata.labels", "a valid label must be an empty string or consist of"),
        ({"labels": {"a": "x" * 64}}, "metadata.labels", "must be no more than 63 characters"),
        ({"annotations": {"/a": ""}}, "metadata.annotations", "prefix part must be non-empty"),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}, "metadata.ownerReferences.uid", ""),
        ({"name": "a" * 254}, "metadata.name", "must be no more than 253 characters"),
    ],
)
async def test_metadata_is_checked_for_every_kind(
    specimens: SuiteApi, metadata: dict[str, object], field: str, message: str
) -> None:
    for path, body in ((SPECIMENS, specimen("a")), ("/api/v1/namespaces/$ns/configmaps", {"metadata": {"name": "a"}})):
        refused = await specimens.post(path, body | {"metadata": body["metadata"] | metadata})
        assert refused.status == 422, refused.body
        causes = {cause["field"]: cause["message"] for cause in refused.body["details"]["causes"]}
        assert message in causes[field]


async def test_finalizers_of_core_kinds_are_qualified(specimens: SuiteApi) -> None:
    body = {"metadata": {"name": "a", "finalizers": ["mine"]}}
    refused = await specimens.post("/api/v1/namespaces/$ns/configmaps", body)
    assert refused.body["details"]["causes"][0]["field"] == "metadata.finalizers[0]"
    custom = await specimens.post(SPECIMENS, specimen("a") | body)
    assert custom.status == 201
    assert "prefer a domain-qualified finalizer name" in custom.headers["Warning"]
    await specimens.merge(f"{SPECIMENS}/a", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"metadata": {"name": "a"}}, 400, "Object 'Kind' is missing in"),
        ({"kind": "Specimen", "metadata": {"name": "a"}}, 400, "the API version in the data () does not match"),
        (specimen("a") | {"kind": "Other"}, 422, 'kind: Invalid value: "Other": must be Specimen'),
        (specimen("a") | {"metadata": {}}, 422, "metadata.name: Required value: name or generateName is required"),
        (
            specimen("a") | {"metadata": {"name": "a", "namespace": "other"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
async def test_custom_objects_say_what_they_are(
    specimens: SuiteApi, body: dict[str, object], status: int, message: str
) -> None:
    refused = await specimens.post(SPECIMENS, body)
    assert refused.status == status
    assert message in refused.message
