"""`values.yaml` and `values.schema.json`, from the models of the values."""

import json
from collections.abc import Iterator

import yaml
from pydantic import BaseModel

from aim_packaging.values import Values


def schema_json() -> str:
    """The schema by which Helm refuses wrong values."""
    schema = Values.model_json_schema()
    # Overrides are any of the values of a workload, without its defaults.
    for override in schema["$defs"]["Services"]["properties"].values():
        override.clear()
        override["$ref"] = "#/$defs/Workload"
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def values_yaml() -> str:
    """Every value with its default, and its meaning above it."""
    return "".join(_lines(Values(), "")).lstrip("\n")


def _lines(values: BaseModel, indent: str) -> Iterator[str]:
    for name, field in type(values).model_fields.items():
        value, alias = getattr(values, name), field.alias or name
        nested = isinstance(value, BaseModel)
        meaning = field.description or (nested and type(value).__doc__) or ""
        gap = "" if indent else "\n"
        yield gap + (f"{indent}# {meaning}\n" if meaning else "")
        if nested:
            yield f"{indent}{alias}:\n"
            yield from _lines(value, indent + "  ")
        else:
            yield from (f"{indent}{line}\n" for line in _plain(alias, value))


def _plain(name: str, value: object) -> list[str]:
    return yaml.safe_dump({name: value}, sort_keys=False, width=1000).splitlines()
