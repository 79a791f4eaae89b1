"""From a model to a structural OpenAPI schema as apiextensions.k8s.io/v1 takes it, with descriptions (CC-002)."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from aim_domain.bounds import bounded
from controller_runtime import ApiModel, CelRule, JsonObject, OpenEnum, Resource, Schema

_REFERENCES: Final = re.compile(r" \((?:shape S|[A-Z]{2}-)[^)]*\)")


def field_description(model: type[ApiModel], attribute: str) -> str | None:
    """The text below the attribute, in the class that declares it."""
    for owner in model.__mro__:
        text = _of_class(owner).get(attribute)
        if text is not None:
            return text
    return None


def model_description(model: type[ApiModel]) -> str:
    """The first paragraph of the class docstring on one line, without its references to the specification."""
    paragraph = inspect.cleandoc(model.__doc__ or "").split("\n\n")[0]
    return _REFERENCES.sub("", " ".join(paragraph.split()))


def _of_class(owner: type) -> dict[str, str]:
    return _of_module(owner.__module__).get(owner.__name__, {})


@cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    if not name.startswith(("aim_domain.api.", "controller_runtime.api.", "controller_runtime.core.")):
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    return {node.name: _below_fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _below_fields(node: ast.ClassDef) -> dict[str, str]:
    texts: dict[str, str] = {}
    for statement, follower in pairwise(node.body):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        if isinstance(follower, ast.Expr) and isinstance(follower.value, ast.Constant):
            texts[statement.target.id] = " ".join(str(follower.value.value).split())
    return texts


_SCALARS: Final[dict[object, JsonObject]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string"},
}
_KEYWORDS: Final = {
    "format": "format",
    "pattern": "pattern",
    "minimum": "minimum",
    "maximum": "maximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_items": "minItems",
    "max_items": "maxItems",
    "max_properties": "maxProperties",
}
# Standard members whose content the API server checks itself (CC-007).
_STANDARD: Final[JsonObject] = {
    "apiVersion": {"type": "string", "description": "API version of this representation of the object."},
    "kind": {"type": "string", "description": "Kind of the object."},
    "metadata": {"type": "object"},
}


def resource_schema(model: type[Resource]) -> JsonObject:
    """The schema of a whole object of a kind."""
    schema = _object(model)
    schema["description"] = model_description(model)
    schema["properties"] |= _STANDARD
    return schema


def unwrap(annotation: object) -> tuple[object, Schema]:
    """The plain type of an annotation, without `Annotated` and `| None`, and all its constraints merged."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        plain, schema = unwrap(inner)
        return plain, _merged(schema, metadata)
    if get_origin(annotation) in {Union, types.UnionType}:
        members = [member for member in get_args(annotation) if member is not types.NoneType]
        if len(members) == 1:
            return unwrap(members[0])
    return annotation, Schema()


def field_schema(field: FieldInfo) -> Schema:
    """All constraints of a field."""
    return _merged(unwrap(field.annotation)[1], field.metadata)


def _merged(schema: Schema, metadata: list[Any]) -> Schema:
    for item in metadata:
        if isinstance(item, Schema):
            schema = schema.merged(item)
    return schema


def _object(model: type[ApiModel]) -> JsonObject:
    properties = {}
    required = []
    for attribute, field in model.model_fields.items():
        name = field.alias or attribute
        constraints = field_schema(field)
        plain, _ = unwrap(field.annotation)
        node = _node(plain, constraints)
        description = field_description(model, attribute)
        if description:
            node["description"] = description
        if constraints.defaulted:
            node["default"] = _plain_value(field.default)
        if constraints.required:
            required.append(name)
        properties[name] = node
    schema: JsonObject = {"type": "object", "properties": properties}
    if required:
        schema["required"] = sorted(required)
    return _constrained(schema, model.schema_info)


def _plain_value(value: object) -> object:
    if isinstance(value, ApiModel):
        # Its members have defaults of their own, which the API server fills in below.
        return {}
    return value.value if isinstance(value, OpenEnum) else value


def _node(plain: object, constraints: Schema, *, in_map: bool = False) -> JsonObject:
    if constraints.free_form:
        # Rules see no field without a type.
        typed = {"type": "object"} if get_origin(plain) is dict else {}
        return {**typed, "x-kubernetes-preserve-unknown-fields": True}
    if constraints.int_or_string:
        node: JsonObject = {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        }
    elif plain in _SCALARS:
        node = dict(_SCALARS[plain])
    else:
        node = _composite(plain, constraints)
    return bounded(_constrained(node, constraints), in_map=in_map)


def _composite(plain: object, constraints: Schema) -> JsonObject:
    arguments = get_args(plain)
    if get_origin(plain) is tuple:
        return {"type": "array", "items": _element(arguments[0])}
    if get_origin(plain) is dict:
        return {"type": "object", "additionalProperties": _element(arguments[1], in_map=True)}
    if isinstance(plain, type) and issubclass(plain, OpenEnum):
        values = constraints.enum or tuple(plain)
        return {"type": "string"} | ({} if constraints.any_value else {"enum": [str(value) for value in values]})
    if isinstance(plain, type) and issubclass(plain, ApiModel):
        return _object(plain)
    raise TypeError(f"no CRD schema for {plain!r}; use one of the types of controller_runtime.api.base")


def _element(annotation: object, *, in_map: bool = False) -> JsonObject:
    plain, constraints = unwrap(annotation)
    node = _node(plain, constraints, in_map=in_map)
    if isinstance(plain, type) and issubclass(plain, ApiModel):
        node["description"] = model_description(plain)
    return node


def _constrained(node: JsonObject, constraints: Schema) -> JsonObject:
    for attribute, keyword in _KEYWORDS.items():
        value = getattr(constraints, attribute)
        if value is not None:
            node[keyword] = value
    if constraints.atomic_map:
        node["x-kubernetes-map-type"] = "atomic"
    if constraints.list_type:
        node["x-kubernetes-list-type"] = constraints.list_type.value
    if constraints.map_keys:
        node["x-kubernetes-list-map-keys"] = list(constraints.map_keys)
    if constraints.rules:
        rules = node.get("x-kubernetes-validations", [])
        node["x-kubernetes-validations"] = [*rules, *(_rule(rule) for rule in constraints.rules)]
    return node


def _rule(rule: CelRule) -> JsonObject:
    entry = {"rule": rule.rule, "message": rule.message}
    return entry | ({"fieldPath": rule.field_path} if rule.field_path else {})
