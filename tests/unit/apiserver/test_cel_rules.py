"""CEL rules: where they run, what they see, and how violations read."""

from typing import Any

import pytest
from support.apiserver_schemas import conditions_schema, widget

from controller_runtime import JsonObject
from embedded_apiserver.objects.cel import CelCompileError, CelRules, escape

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def rules(*validations: JsonObject, **properties: Any) -> CelRules:
    """Rules on a spec with these properties."""
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(validations)}
    return CelRules.compile({"type": "object", "properties": {"spec": spec}})


def violations(compiled: CelRules, new: JsonObject, old: JsonObject | None = None) -> list[str]:
    return [str(error) for error in compiled.validate(new, old)]


def holds(rule: str, **spec: Any) -> bool:
    """Whether a rule holds for a spec whose schema is guessed from its values."""
    types: dict[type, JsonObject] = {
        int: NUMBER,
        str: TEXT,
        list: {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        dict: {"type": "object", "additionalProperties": TEXT},
    }
    properties = {name: types[type(value)] for name, value in spec.items()}
    return violations(rules({"rule": rule}, **properties), widget(**spec)) == []


def test_a_violation_reads_as_on_the_real_server() -> None:
    compiled = rules({"rule": "self.a <= self.b", "message": "a is at most b"}, a=NUMBER, b=NUMBER)
    assert violations(compiled, widget(a=2, b=1)) == ['spec: Invalid value: "object": a is at most b']
    assert violations(compiled, widget(a=1, b=1)) == []


def test_without_a_message_the_rule_is_shown() -> None:
    assert violations(rules({"rule": "self.a > 0"}, a=NUMBER), widget(a=0)) == [
        'spec: Invalid value: "object": failed rule: self.a > 0'
    ]


def test_reason_field_path_and_message_expression_count() -> None:
    rule = {
        "rule": "self.a > 0",
        "reason": "FieldValueForbidden",
        "fieldPath": ".a",
        "messageExpression": "'a is ' + string(self.a)",
        "message": "unused",
    }
    assert violations(rules(rule, a=NUMBER), widget(a=0)) == ["spec.a: Forbidden: a is 0"]


@pytest.mark.parametrize("expression", ["''", "' '", "'two\\nlines'"])
def test_an_unusable_message_expression_leaves_the_message(expression: str) -> None:
    rule = {"rule": "self.a > 0", "messageExpression": expression, "message": "fallback"}
    assert violations(rules(rule, a=NUMBER), widget(a=0)) == ['spec: Invalid value: "object": fallback']


@pytest.mark.spec("CC-161")
def test_a_transition_rule_runs_only_on_update_where_both_have_the_node() -> None:
    frozen = {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]}
    compiled = rules(color=frozen)
    assert violations(compiled, widget(color="red")) == []
    assert violations(compiled, widget(color="red"), widget()) == []
    assert violations(compiled, widget(), widget(color="red")) == []
    assert violations(compiled, widget(color="blue"), widget(color="red")) == [
        'spec.color: Invalid value: "string": immutable'
    ]


def test_what_did_not_change_is_judged_only_by_transition_rules() -> None:
    compiled = rules({"rule": "self.a > 0"}, {"rule": "self.a > oldSelf.a", "message": "grow"}, a=NUMBER)
    assert violations(compiled, widget(a=0), widget(a=0)) == ['spec: Invalid value: "object": grow']


def test_items_of_a_list_map_correlate_by_key() -> None:
    conditions = conditions_schema()
    conditions["items"]["x-kubernetes-validations"] = [
        {"rule": "oldSelf.status == 'False' || self.status == 'True'", "message": "sticky"}
    ]
    compiled = rules(conditions=conditions)
    old = widget(conditions=[{"type": "A", "status": "True"}, {"type": "B", "status": "False"}])
    new = widget(conditions=[{"type": "B", "status": "False", "reason": "x"}, {"type": "A", "status": "False"}])
    assert violations(compiled, new, old) == ['spec.conditions[1]: Invalid value: "object": sticky']


def test_items_of_an_atomic_list_do_not_correlate() -> None:
    item = {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    compiled = rules(items={"type": "array", "items": item})
    assert violations(compiled, widget(items=["b"]), widget(items=["a"])) == []


def test_rules_run_at_every_level() -> None:
    deep = {**NUMBER, "x-kubernetes-validations": [{"rule": "self > 0", "message": "positive"}]}
    compiled = rules(
        items={"type": "array", "items": {"type": "object", "properties": {"n": deep}}},
        by={"type": "object", "additionalProperties": deep},
    )
    assert violations(compiled, widget(items=[{"n": 1}, {"n": 0}], by={"x": 0})) == [
        'spec.items[1].n: Invalid value: "integer": positive',
        'spec.by.x: Invalid value: "integer": positive',
    ]


def test_the_root_sees_the_name_and_nothing_else_of_the_metadata() -> None:
    root = {"rule": "self.metadata.name == 'w' && self.spec.a > 0", "message": "no"}
    source = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a": NUMBER}}},
        "x-kubernetes-validations": [root],
    }
    assert violations(CelRules.compile(source), widget(a=1)) == []
    assert violations(CelRules.compile(source), widget(a=0)) == ['<nil>: Invalid value: "object": no']
    source["x-kubernetes-validations"] = [{"rule": "has(self.metadata.labels)"}]
    with pytest.raises(CelCompileError, match="undefined field 'labels'"):
        CelRules.compile(source)


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain", "plain"),
        ("namespace", "__namespace__"),
        ("in", "__in__"),
        ("a-b", "a__dash__b"),
        ("a.b", "a__dot__b"),
        ("a/b", "a__slash__b"),
        ("x__y", "x__underscores__y"),
    ],
)
def test_property_names_are_escaped(name: str, escaped: str) -> None:
    assert escape(name) == escaped
    compiled = rules({"rule": f"has(self.{escaped}) && self.{escaped} == 'v'"}, **{name: TEXT})
    assert violations(compiled, widget(**{name: "v"})) == []
    assert len(violations(compiled, widget(**{name: "w"}))) == 1


def test_times_are_timestamps() -> None:
    time = {**TEXT, "format": "date-time"}
    compiled = rules({"rule": "self.start < self.end"}, start=time, end=time)
    assert violations(compiled, widget(start="2024-01-01T09:00:00Z", end="2024-01-01T10:00:00+00:30")) == []
    assert len(violations(compiled, widget(start="2024-01-01T10:00:00Z", end="2024-01-01T10:00:00+02:00"))) == 1


@pytest.mark.parametrize(
    "rule",
    [
        "self.s.startsWith('a') && self.s.endsWith('c') && self.s.contains('b') && self.s.matches('^a.c$')",
        "self.s.size() == 3 && size(self.l) == 3 && self.l[0] == 1",
        "self.l.all(x, x > 0) && self.l.exists(x, x == 2) && self.l.exists_one(x, x == 3)",
        "self.l.map(x, x * 2) == [2, 4, 6] && self.l.filter(x, x > 1).size() == 2",
        "'k' in self.m && self.m.k == 'v' && self.m.all(k, self.m[k] == 'v') && !has(self.m.missing)",
        "self.s.split('b') == ['a', 'c'] && ['a', 'b'].join('-') == 'a-b'",
        "self.s.upperAscii() == 'ABC' && 'ABC'.lowerAscii() == self.s && ' x '.trim() == 'x'",
        "self.s.indexOf('b') == 1 && self.s.lastIndexOf('z') == -1 && self.l.indexOf(3) == 2",
        "self.s.replace('b', 'x') == 'axc' && self.s.substring(1) == 'bc' && self.s.charAt(0) == 'a'",
        "self.l.sum() == 6 && self.l.isSorted() && !([2, 1].isSorted())",
        "self.s.find('[b-c]+') == 'bc' && self.s.findAll('[ac]') == ['a', 'c']",
        "isURL('https://h:1/p') && url('https://h:1/p?q=1').getHost() == 'h:1' && !isURL('no url')",
        "url('https://h:1/p').getScheme() == 'https' && url('https://h:1/p').getPort() == '1'",
        "type(self.n) == int && string(self.n) == '4' && int('4') == self.n && double(self.n) > 3.5",
        "self.n > 3 ? true : false",
        "'self.undefined' != self.s",
    ],
)
def test_the_language(rule: str) -> None:
    assert holds(rule, s="abc", l=[1, 2, 3], m={"k": "v"}, n=4)


def test_an_evaluation_error_is_a_violation() -> None:
    compiled = rules({"rule": "self.a > 0"}, a=NUMBER)
    assert violations(compiled, widget()) == [
        "spec: Invalid value: \"object\": no such key: 'a' evaluating rule: failed rule: self.a > 0"
    ]


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("self.a >", "Failed to parse"),
        ("frobnicate(self.a)", "undeclared reference to 'frobnicate'"),
        ("self.b > 0", "undefined field 'b'"),
        ("other == 1", "undeclared reference to 'other'"),
        ("", "Failed to parse|empty"),
    ],
)
def test_a_rule_that_can_not_compile_is_reported_with_its_place(rule: str, reason: str) -> None:
    with pytest.raises(CelCompileError, match=reason) as caught:
        rules({"rule": rule}, a=NUMBER)
    assert (caught.value.path, caught.value.rule) == ("spec", rule)
    assert str(caught.value).startswith(f"spec: rule {rule!r} does not compile: ")


def test_a_schema_without_rules_costs_nothing() -> None:
    assert CelRules.compile({"type": "object"}).root is None
