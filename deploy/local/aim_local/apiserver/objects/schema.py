"""`Schema`: one compiled structural schema with pruning, defaulting and validation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from aim_local.apiserver.objects.errors import FieldError
from aim_local.apiserver.objects.schema_node import Node, compile_node
from aim_local.apiserver.objects.shaping import apply_defaults, prune
from aim_local.apiserver.objects.upstream import object_meta
from aim_local.apiserver.objects.validation import validate
from aim_local.apiserver.objects.values import clone
from controller_runtime import JsonObject


@dataclass(frozen=True)
class Schema:
    """The schema of one version of one kind.

    Attributes:
        openapi: the source with the standard ObjectMeta put in, fit for publishing.
        builtin: numbers have to fit their formats, as Go decodes them into types that narrow.
        conditional: fills in, after the plain defaults, those that depend on other fields.
    """

    openapi: JsonObject
    builtin: bool = False
    conditional: Callable[[JsonObject], None] | None = None

    @classmethod
    def compile(cls, openapi_v3: Mapping[str, Any]) -> Self:
        """Compile the `openAPIV3Schema` of a definition.

        Raises:
            ValueError: a pattern or a list type in the schema is malformed.
        """
        schema = cls(with_object_meta(openapi_v3))
        schema.root  # noqa: B018 - compiled now, so that it is refused together with its definition
        return schema

    @cached_property
    def root(self) -> Node:
        """The compiled form. Of the built-in kinds most processes meet a few only, so it is made when it is needed."""
        root = compile_node(self.openapi, builtin=self.builtin)
        root.embedded = True
        return root

    def prune(self, obj: JsonObject) -> list[str]:
        """Remove in place what the schema does not name; returns the removed paths."""
        dropped: list[str] = []
        prune(self.root, obj, "", dropped)
        return dropped

    def default(self, obj: JsonObject) -> None:
        """Fill in defaults in place where the parent exists; null stands for absent unless nullable."""
        apply_defaults(self.root, obj)
        if self.conditional is not None:
            self.conditional(obj)

    def validate(self, obj: JsonObject, old: JsonObject | None = None) -> list[FieldError]:
        """All violations. What is unchanged since `old` is not reported again (validation ratcheting)."""
        errors: list[FieldError] = []
        validate(self.root, obj, old, "", errors)
        return errors


def with_object_meta(openapi_v3: Mapping[str, Any]) -> JsonObject:
    """The schema with `apiVersion`, `kind` and a full `metadata`; own limits on the name are kept."""
    result = dict(openapi_v3)
    result.setdefault("type", "object")
    properties = dict(result.get("properties", {}))
    meta = clone(object_meta())
    for name, limits in properties.get("metadata", {}).get("properties", {}).items():
        meta["properties"].setdefault(name, {}).update(limits)
    properties["metadata"] = meta
    properties.setdefault("apiVersion", {"type": "string"})
    properties.setdefault("kind", {"type": "string"})
    result["properties"] = properties
    return result
