"""A page for each kind: fields, rules and columns, from its definition."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from aim_domain.crd.manifests import definition
from aim_domain.kinds import OWN_KINDS
from aim_packaging.reference.tables import code, table
from controller_runtime import JsonObject

_OF_KUBERNETES: Final = frozenset(
    {"env", "containerEnv", "resources", "imagePullSecrets", "containers", "tolerations", "affinity"}
)
"""What Kubernetes itself documents; its fields are not repeated."""
_LIMITS: Final = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("maxProperties", "at most {} entries"),
)


def pages() -> Mapping[str, str]:
    """The page of each kind, by the name of its file."""
    return {f"{kind.singular}.md": page(definition(kind)) for kind in OWN_KINDS}


def page(crd: JsonObject) -> str:
    """What a kind is, and all its fields."""
    return "\n".join([*_lines(crd), ""])


def _lines(crd: JsonObject) -> Iterator[str]:
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    yield f"# {names['kind']}"
    yield ""
    yield f"{schema.get('description', '')} `{crd['spec']['group']}/{version['name']}`, {_scope(crd)};"
    short = ", ".join(map(code, names.get("shortNames", ())))
    if others := [one["name"] for one in crd["spec"]["versions"][1:]]:
        yield f"Also served as {', '.join(map(code, others))}, with the same fields."
    yield f"`kubectl get {names['plural']}`{f' (short: {short})' if short else ''}."
    for part in ("spec", "status"):
        if part in schema["properties"]:
            yield from _part(part, schema["properties"][part])
    yield from _rules(schema)
    yield from _columns(version.get("additionalPrinterColumns", ()))


def _scope(crd: JsonObject) -> str:
    return "in a namespace" if crd["spec"]["scope"] == "Namespaced" else "for the whole cluster"


def _part(name: str, schema: JsonObject) -> Iterator[str]:
    lines = list(_fields(0, schema))
    if lines:
        yield from ("", f"## {name}", "", *lines)


def _fields(depth: int, schema: JsonObject) -> Iterator[str]:
    """A list, in which the members of a field stand below it: a table with whole paths is wider than a screen."""
    required = set(schema.get("required", ()))
    for name, field in sorted(schema.get("properties", {}).items()):
        inner, type_ = _unfolded(field)
        words = [field.get("description", ""), *_constraints(field, name in required)]
        if "default" in field:
            words.append(f"Default {code(json.dumps(field['default']))}.")
        meaning = " ".join(word for word in words if word)
        yield f"{'  ' * depth}- **{code(name)}** *{type_}*{f': {meaning}' if meaning else ''}"
        if name not in _OF_KUBERNETES:
            yield from _fields(depth + 1, inner)


def _unfolded(field: JsonObject) -> tuple[JsonObject, str]:
    """The schema whose fields come next, and the type in words."""
    if "items" in field:
        return field["items"], f"{_type(field['items'])}[]"
    values = field.get("additionalProperties")
    if isinstance(values, dict):
        return values, f"{_type(values)}{{}}"
    return field, _type(field)


def _type(field: JsonObject) -> str:
    if _is_quantity(field):
        return "quantity"
    return str(field.get("format") or field.get("type") or "any")


def _is_quantity(field: JsonObject) -> bool:
    return "pattern" in field and bool(field.get("x-kubernetes-int-or-string"))


def _constraints(field: JsonObject, required: bool) -> Iterator[str]:
    if required:
        yield "Required."
    if "enum" in field:
        yield f"One of {', '.join(code(one) for one in field['enum'])}."
    if _is_quantity(field):
        return
    limits = [words.format(field[key]) for key, words in _LIMITS if key in field]
    if limits:
        yield f"{', '.join(limits).capitalize()}."
    if "pattern" in field:
        yield f"Pattern {code(field['pattern'])}."


def _rules(schema: JsonObject) -> Iterator[str]:
    rows = list(dict.fromkeys(_all_rules("", schema)))
    if rows:
        yield from ("", "## Rules", "", "The API server refuses objects for which one of these is not true.", "")
        yield from table(("of", "what it says", "rule"), rows)


def _all_rules(path: str, schema: JsonObject) -> Iterator[tuple[str, str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield code(path or "the object"), rule.get("message", ""), code(" ".join(rule["rule"].split()))
    for name, field in sorted(schema.get("properties", {}).items()):
        below = f"{path}.{name}" if path else name
        yield from _all_rules(below, field)
        inner, type_ = _unfolded(field)
        if inner is not field:
            yield from _all_rules(f"{below}{'[]' if type_.endswith('[]') else '.<key>'}", inner)


def _columns(columns: list[JsonObject]) -> Iterator[str]:
    if columns:
        yield from ("", "## Columns of kubectl get", "")
        yield from table(("column", "from"), ((one["name"], code(one["jsonPath"])) for one in columns))
