"""Every kind of break of a definition is found, and what breaks nobody is not."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from compatibility.__main__ import lines_of, read_definitions
from compatibility.definitions import compared
from compatibility.finding import Finding, Judged, judged, reasons_of
from upgrade.release import ROOT

NAME = "boxes.example.org"
BOX: dict[str, Any] = {
    "group": "example.org",
    "scope": "Namespaced",
    "names": {
        "kind": "Box", "listKind": "BoxList", "plural": "boxes", "singular": "box",
        "shortNames": ["bx"], "categories": ["all"],
    },
    "conversion": {"strategy": "None"},
    "versions": [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size"}},
            "selectableFields": [{"jsonPath": ".spec.color"}],
            "additionalPrinterColumns": [{"name": "Size", "jsonPath": ".spec.size", "type": "integer"}],
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["color", "mode"],
                            "properties": {
                                "color": {"type": "string", "enum": ["red", "blue"], "description": "How it looks."},
                                "mode": {"type": "string", "default": "open"},
                                "label": {"type": "string", "maxLength": 20, "minLength": 1, "pattern": "^[a-z]+$"},
                                "size": {
                                    "type": "integer", "minimum": 1, "maximum": 9, "format": "int32", "nullable": True,
                                },
                                "share": {"type": "number"},
                                "amount": {"x-kubernetes-int-or-string": True},
                                "parts": {
                                    "type": "array",
                                    "maxItems": 5,
                                    "minItems": 1,
                                    "x-kubernetes-list-type": "map",
                                    "x-kubernetes-list-map-keys": ["name"],
                                    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                                },
                                "notes": {
                                    "type": "object",
                                    "maxProperties": 9,
                                    "minProperties": 1,
                                    "additionalProperties": {"type": "string"},
                                },
                                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            },
                            "x-kubernetes-validations": [{"rule": "self.size < 8", "message": "too large"}],
                        },
                    },
                }
            },
        },
    ],
}  # fmt: skip

OTHER_KEYS = "keys that the schema does not name have other values, or none"

Change = Callable[[dict[str, Any]], object]


def version(spec: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = spec["versions"][0]
    return found


def of(spec: dict[str, Any], name: str = "") -> dict[str, Any]:
    """The schema of ``spec``, or of a member of it."""
    found: dict[str, Any] = version(spec)["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found["properties"][name] if name else found


def put(*place: str, **members: Any) -> Change:
    """A change of members of a schema; ``x_kubernetes_…`` for those with hyphens."""
    return lambda spec: of(spec, *place).update({key.replace("_", "-"): value for key, value in members.items()})


def drop(name: str, *members: str) -> Change:
    return lambda spec: [of(spec, name).pop(member) for member in members]


def rule(text: str, **more: Any) -> Change:
    return lambda spec: of(spec)["x-kubernetes-validations"].append({"rule": text, **more})


def add_version(name: str, **members: Any) -> Change:
    def change(spec: dict[str, Any]) -> None:
        other = {**copy.deepcopy(version(spec)), "name": name, **members}
        if other["storage"]:
            version(spec)["storage"] = False
        spec["versions"].append(other)

    return change


def both(*changes: Change) -> Change:
    return lambda spec: [change(spec) for change in changes]


def changed(change: Change) -> dict[str, Any]:
    spec = copy.deepcopy(BOX)
    change(spec)
    return spec


def found(former: dict[str, Any], present: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.path, one.what) for one in compared({NAME: {"spec": former}}, {NAME: {"spec": present}})]


BREAKS: list[tuple[Change, str, str]] = [
    (lambda spec: spec.update(scope="Cluster"), "scope", "Namespaced became Cluster"),
    (lambda spec: spec.update(group="example.com"), "group", "example.org became example.com"),
    (lambda spec: spec["names"].update(kind="Crate"), "names.kind", "Box became Crate"),
    (lambda spec: spec["names"].update(listKind="Boxes"), "names.listKind", "BoxList became Boxes"),
    (lambda spec: spec["names"].update(plural="crates"), "names.plural", "boxes became crates"),
    (lambda spec: spec["names"].update(singular="crate"), "names.singular", "box became crate"),
    (lambda spec: spec["names"].update(shortNames=["by"]), "names.shortNames", "bx is gone"),
    (lambda spec: spec["names"].pop("categories"), "names.categories", "all is gone"),
    (lambda spec: spec["conversion"].update(strategy="Webhook"), "conversion", "the strategy is another one"),
    (lambda spec: version(spec)["subresources"].pop("status"), "subresources.status", "is gone"),
    (lambda spec: version(spec)["subresources"].update(scale={}), "subresources.scale", "is another one"),
    (lambda spec: version(spec).pop("selectableFields"), "selectableFields", ".spec.color is gone"),
    (lambda spec: of(spec)["properties"].pop("share"), "spec.share", "is gone"),
    (put("share", type="string"), "spec.share", "type number became string"),
    (put("parts", items={"type": "string"}), "spec.parts[]", "type object became string"),
    (put("notes", additionalProperties={"type": "integer"}), "spec.notes.*", "type string became integer"),
    (drop("notes", "additionalProperties"), "spec.notes", OTHER_KEYS),
    (put("amount", x_kubernetes_int_or_string=False, type="string"), "spec.amount", "type int-or-string became string"),
    (drop("size", "nullable"), "spec.size", "nullable is gone"),
    (drop("free", "x-kubernetes-preserve-unknown-fields"), "spec.free", "x-kubernetes-preserve-unknown-fields is gone"),
    (put("color", enum=["red"]), "spec.color", "enum value 'blue' is gone"),
    (put("label", enum=["a", "b"]), "spec.label", "only a, b are allowed now"),
    (put(required=["color", "mode", "label"]), "spec.label", "is required now and has no default"),
    (put("label", maxLength=19), "spec.label", "maxLength 20 became 19"),
    (put("color", maxLength=9), "spec.color", "maxLength 9 is new"),
    (put("label", minLength=2), "spec.label", "minLength 1 became 2"),
    (put("label", pattern="^[a-y]+$"), "spec.label", "pattern ^[a-z]+$ became ^[a-y]+$"),
    (put("color", pattern="^r"), "spec.color", "pattern ^r is new"),
    (put("size", maximum=8), "spec.size", "maximum 9 became 8"),
    (put("size", minimum=2), "spec.size", "minimum 1 became 2"),
    (put("size", exclusiveMaximum=True), "spec.size", "exclusiveMaximum is new"),
    (put("size", exclusiveMinimum=True), "spec.size", "exclusiveMinimum is new"),
    (put("size", multipleOf=2), "spec.size", "multipleOf 2 is new"),
    (put("size", format="int64"), "spec.size", "format int32 became int64"),
    (put("parts", maxItems=4), "spec.parts", "maxItems 5 became 4"),
    (put("parts", minItems=2), "spec.parts", "minItems 1 became 2"),
    (put("parts", uniqueItems=True), "spec.parts", "uniqueItems is new"),
    (put("notes", maxProperties=8), "spec.notes", "maxProperties 9 became 8"),
    (put("notes", minProperties=2), "spec.notes", "minProperties 1 became 2"),
    (lambda spec: version(spec).pop("additionalPrinterColumns"), "additionalPrinterColumns", "Size is gone"),
    (put("label", default="a"), "spec.label", "default 'a' is new"),
    (rule("self.color == oldSelf.color"), "spec", "rule 'self.color == oldSelf.color' is new"),
    (put("mode", default="shut"), "spec.mode", "default 'open' became 'shut'"),
    (rule("self.label != 'x'"), "spec", "rule \"self.label != 'x'\" is new"),
    (rule("self.label != 'oldSelf'"), "spec", "rule \"self.label != 'oldSelf'\" is new"),
    (rule("oldSelf.hasValue()", optionalOldSelf=True), "spec", "rule 'oldSelf.hasValue()' is new"),
    (drop("parts", "x-kubernetes-list-map-keys"), "spec.parts", "x-kubernetes-list-map-keys ['name'] became []"),
    (put("notes", x_kubernetes_map_type="atomic"), "spec.notes", "x-kubernetes-map-type granular became atomic"),
    (put("label", oneOf=[{"maxLength": 3}]), "spec.label", "oneOf is another one"),
]  # fmt: skip


@pytest.mark.spec("FW-663")
@pytest.mark.parametrize(("change", "path", "what"), BREAKS, ids=[f"{path}: {what}" for _, path, what in BREAKS])
def test_a_break_is_found_and_named(change: Change, path: str, what: str) -> None:
    assert found(BOX, changed(change)) == [(path, what)]


@pytest.mark.spec("FW-663")
def test_a_default_that_goes_is_found_for_the_value_and_for_what_is_required() -> None:
    assert found(BOX, changed(drop("mode", "default"))) == [
        ("spec.mode", "default 'open' is gone"),
        ("spec.mode", "is required and has no default any more"),
    ]


@pytest.mark.spec("FW-663")
def test_a_type_that_changes_how_a_list_is_applied_is_found() -> None:
    changes = both(drop("parts", "x-kubernetes-list-map-keys"), put("parts", x_kubernetes_list_type="atomic"))
    assert ("spec.parts", "x-kubernetes-list-type map became atomic") in found(BOX, changed(changes))


@pytest.mark.spec("FW-663")
def test_a_rule_of_changes_that_holds_for_new_objects_as_well_is_found() -> None:
    former = changed(rule("oldSelf.hasValue()"))
    present = changed(rule("oldSelf.hasValue()", optionalOldSelf=True))
    assert found(former, present) == [("spec", "rule 'oldSelf.hasValue()' is new")]


@pytest.mark.spec("FW-663")
def test_a_status_that_becomes_a_subresource_is_found() -> None:
    former = changed(lambda spec: version(spec)["subresources"].pop("status"))
    assert found(former, BOX) == [("subresources.status", "is new")]


@pytest.mark.spec("FW-663")
def test_a_definition_or_version_that_goes_is_found() -> None:
    assert [one.what for one in compared({NAME: {"spec": BOX}}, {})] == ["the definition is gone"]
    unserved = changed(both(add_version("v2", storage=True), lambda spec: version(spec).update(served=False)))
    lines = ["version v1 is no longer served", "v2 is stored, v1 no longer served"]
    assert [what for _, what in found(BOX, unserved)] == lines
    gone = changed(both(add_version("v2", storage=True), lambda spec: spec["versions"].pop(0)))
    assert [what for _, what in found(BOX, gone)] == lines


HARMLESS: dict[str, Change] = {
    "a column more": lambda spec: version(spec)["additionalPrinterColumns"].append({"name": "Color"}),
    "words": put("color", description="What it is painted in."),
    "a short name more": lambda spec: spec["names"]["shortNames"].append("b"),
    "a version more": add_version("v2", storage=False),
    "another one stored, the old one served": add_version("v2", storage=True),
    "a field more": lambda spec: of(spec)["properties"].update(lid={"type": "object", "required": ["x"]}),
    "a required field with a default": both(
        put(required=["color", "mode", "lid"]),
        lambda spec: of(spec)["properties"].update(lid={"type": "string", "default": "on"}),
    ),
    "no longer required": put(required=["color"]),
    "a value more": put("color", enum=["red", "blue", "green"]),
    "any value": drop("color", "enum"),
    "wider limits": both(put("label", maxLength=21, minLength=0), put("size", maximum=10, minimum=0)),
    "no limits": both(drop("label", "maxLength", "minLength", "pattern"), drop("size", "maximum", "minimum", "format")),
    "null allowed": put("label", nullable=True),
    "another message": lambda spec: of(spec)["x-kubernetes-validations"][0].update(message="far too large"),
    "a rule gone": lambda spec: of(spec).pop("x-kubernetes-validations"),
    "keys more": put(additionalProperties={"type": "string"}),
    "a field gone where everything is kept": both(
        put(x_kubernetes_preserve_unknown_fields=True), lambda spec: of(spec)["properties"].pop("share")
    ),
    "spelled out": put("notes", x_kubernetes_map_type="granular"),
}


@pytest.mark.spec("FW-663")
@pytest.mark.parametrize("name", HARMLESS)
def test_what_breaks_nobody_is_not_found(name: str) -> None:
    present = changed(HARMLESS[name])
    assert present != BOX
    assert found(BOX, present) == []


@pytest.mark.spec("FW-663")
def test_the_definitions_of_this_release_agree_with_themselves_and_not_with_a_planted_break() -> None:
    present = read_definitions(ROOT / "deploy/crds")
    assert len(present) > 10
    assert list(compared(present, present)) == []
    planted = copy.deepcopy(present)
    name = "aimservices.aim.eai.amd.com"
    schema = planted[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["model"]
    assert [(one.where, one.path, one.what) for one in compared(present, planted)] == [
        (f"{name} v1alpha1", "spec.model", "is gone")
    ]


ONE, OTHER = (Finding("boxes v1", path, "is gone", "nobody reads it") for path in ("spec.a", "spec.b"))


@pytest.mark.spec("FW-667")
def test_a_finding_counts_unless_somebody_gave_a_reason_and_a_reason_without_finding_fails() -> None:
    reasons = reasons_of([{"finding": "boxes v1 spec.b: is gone", "reason": "never read"}])
    assert judged([ONE, OTHER], reasons) == Judged((ONE,), ((OTHER, "never read"),), ())
    of_all = judged([ONE, OTHER], {"boxes v1 spec.*: is gone": "both", "*.c: is gone": "none"})
    assert of_all == Judged((), ((ONE, "both"), (OTHER, "both")), ("*.c: is gone",))
    stale = judged([ONE], reasons)
    assert stale == Judged((ONE,), (), ("boxes v1 spec.b: is gone",))
    assert [one.fails for one in (judged([ONE], {}), judged([], reasons), judged([OTHER], reasons))] == [
        True,
        True,
        False,
    ]
    assert list(lines_of(stale)) == [
        "breaks: boxes v1 spec.a: is gone; nobody reads it",
        "stale: boxes v1 spec.b: is gone: no such finding any more, take it out of tests/compatibility/meant.yaml",
        "1 break something, 0 are meant to, 1 entries are stale",
    ]


@pytest.mark.spec("FW-667")
@pytest.mark.parametrize(
    "entries",
    [
        [{"finding": "boxes v1 spec.b: is gone"}],
        [{"finding": "boxes v1 spec.b: is gone", "reason": " "}],
        [{"finding": "", "reason": "never read"}],
        [{"finding": "a", "reason": "b", "until": "c"}],
        [{"finding": "a", "reason": "b"}, {"finding": "a", "reason": "c"}],
    ],
)
def test_an_entry_needs_a_finding_and_a_reason_once(entries: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=r"needs a finding and a reason|stands there twice"):
        reasons_of(entries)
