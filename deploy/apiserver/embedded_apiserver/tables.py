"""The columns of a type's Tables: its own printer columns, those of a built-in kind, or name and age."""

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from controller_runtime import JsonObject
from embedded_apiserver.builtins import AGE, BUILTIN_COLUMNS, NAME
from embedded_apiserver.resources import Column, ResourceType
from embedded_apiserver.values import age

Step: TypeAlias = Callable[[object], Iterable[object]]

_TOKEN: Final = re.compile(
    r"""\.(?P<key>(?:\\.|[^.\[\\])+)
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<all>\*)\s*\]
      | \[\s*['"](?P<quoted>[^'"]+)['"]\s*\]
      | \[\?\(\s*@\.(?P<field>[\w.\-/]+)\s*==\s*['"]?(?P<value>[^'")]*)['"]?\s*\)\]""",
    re.VERBOSE,
)


def compile_path(path: str) -> Callable[[object], list[object]]:
    """A function that gives all values at a path such as `.status.conditions[?(@.type=="Ready")].status`.

    Raises:
        ValueError: the path is not of the supported subset.
    """
    text = path.strip().removeprefix("{").removesuffix("}")
    if text and text[0] not in ".[":
        text = "." + text
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f'JSONPath "{path}" is not supported from position {position}: "{text[position:]}"')
        steps.append(_step(match))
        position = match.end()
    return lambda value: _walk(value, steps)


def _walk(value: object, steps: list[Step]) -> list[object]:
    found = [value]
    for step in steps:
        found = [inner for outer in found for inner in step(outer)]
    return found


def _step(match: re.Match[str]) -> Step:
    if match["index"] is not None:
        return _index_step(int(match["index"]))
    if match["field"] is not None:
        return _filter_step(match["field"].split("."), match["value"])
    key = match["quoted"] or (match["key"] and re.sub(r"\\(.)", r"\1", match["key"]))
    if key is None or key == "*":
        return _all
    return lambda value: [value[key]] if isinstance(value, dict) and key in value else []


def _all(value: object) -> Iterable[object]:
    if isinstance(value, list):
        return value
    return value.values() if isinstance(value, dict) else []


def _index_step(index: int) -> Step:
    def step(value: object) -> Iterable[object]:
        return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []

    return step


def _filter_step(path: list[str], wanted: str) -> Step:
    def field(value: object) -> object:
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def step(value: object) -> Iterable[object]:
        return [item for item in value if str(field(item)) == wanted] if isinstance(value, list) else []

    return step


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
