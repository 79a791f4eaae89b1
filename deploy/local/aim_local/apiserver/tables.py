"""The columns of a type's Tables: its own printer columns, those of a built-in kind, or name and age."""

from aim_local.apiserver.builtincolumns import AGE, BUILTIN_COLUMNS, NAME
from aim_local.apiserver.jsonpath import compile_path
from aim_local.apiserver.resources import Column, ResourceType
from aim_local.apiserver.values import age
from controller_runtime import JsonObject


def columns_of(resource: ResourceType) -> tuple[Column, ...]:
    """The columns of a type: its own, those of the built-in table, or name and age."""
    return resource.columns or BUILTIN_COLUMNS.get(resource.qualified, (NAME, AGE))


def printer_columns(declared: list[JsonObject]) -> tuple[Column, ...]:
    """The columns of a custom resource from its `additionalPrinterColumns`.

    Raises:
        ValueError: a JSONPath is not supported.
    """
    if not declared:
        return ()
    return (NAME, *(_printer_column(column) for column in declared))


def _printer_column(declared: JsonObject) -> Column:
    values = compile_path(declared["jsonPath"])
    kind = declared.get("type", "string")

    def cell(obj: JsonObject, now: float) -> object:
        found = [value for value in values(obj) if value is not None]
        if not found:
            return None
        if kind == "date":
            return age(found[0], now)
        if kind in ("integer", "number", "boolean"):
            return found[0]
        return ",".join(_cell_text(value) for value in found)

    return Column(
        declared["name"],
        cell,
        kind,
        declared.get("format", ""),
        declared.get("description", ""),
        declared.get("priority", 0),
    )


def _cell_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
