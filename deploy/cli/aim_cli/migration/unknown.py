"""Fields that today's schema does not have: the API server would drop them without a word (RC-146)."""

from collections.abc import Callable
from functools import cache
from typing import Any

from aim_domain.crd.structure import resource_schema
from controller_runtime import JsonObject, Kind


def without_unknown(kind: Kind[Any], spec: JsonObject, lose: Callable[[str], None]) -> JsonObject:
    """The spec as far as the kind has its fields; ``lose`` is told the path of each other."""
    known: JsonObject = _spec_schema(kind)
    kept = _known(spec, known, "spec", lose)
    return kept if isinstance(kept, dict) else {}


@cache
def _spec_schema(kind: Kind[Any]) -> JsonObject:
    schema: JsonObject = resource_schema(kind.model)["properties"]["spec"]
    return schema


def _known(value: object, schema: JsonObject, path: str, lose: Callable[[str], None]) -> object:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(value, dict) and "properties" in schema:
        properties = schema["properties"]
        for name in sorted(value.keys() - properties.keys()):
            lose(f"{path}.{name}")
        return {n: _known(v, properties[n], f"{path}.{n}", lose) for n, v in value.items() if n in properties}
    if isinstance(value, list) and "items" in schema:
        return [_known(item, schema["items"], f"{path}[{number}]", lose) for number, item in enumerate(value)]
    return value
