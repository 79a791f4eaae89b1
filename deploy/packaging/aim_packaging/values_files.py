"""`values.yaml` and `values.schema.json`, from the models of the values."""

import json
from collections.abc import Iterator

import yaml
from pydantic import BaseModel

from aim_packaging.values import Values, Workload


def schema_json() -> str:
    """The schema by which Helm refuses wrong values."""
    schema = Values.model_json_schema()
    # Overrides are any of the values of a workload, without its defaults.
    for override in schema["$defs"]["Services"]["properties"].values():
        override.clear()
        override["$ref"] = "#/$defs/Workload"
    # `null` takes a default away, of which templates would only say that nothing is there. Of `manager` parts may be
    # taken away.
    schema["required"] = sorted(set(schema["properties"]) - {"global"})
    for name in sorted(_sections(Values()) - _sections(Workload()) - {"Workload"}):
        whole = schema["$defs"][name]
        whole["required"] = sorted(whole["properties"])
    # What others share with a chart through Helm is theirs.
    schema["$defs"]["Global"].update(additionalProperties=True, required=[])
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def _sections(values: BaseModel) -> set[str]:
    """The names of the models of these values."""
    nested = [
        one for one in (getattr(values, name) for name in type(values).model_fields) if isinstance(one, BaseModel)
    ]
    return {type(one).__name__ for one in nested}.union(*(_sections(one) for one in nested))


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
