"""The values of the chart, from their models."""

import json
from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel

from aim_packaging.reference.tables import code, table
from aim_packaging.values import Values

_HEAD: Final = """\
# Values of the chart

`helm show values deploy/charts/aim-engine` prints them as a file. A wrong name or value is refused by the schema,
before anything is installed.
"""
_LONG: Final = 60


def page() -> str:
    """Every value, its default and its meaning."""
    return "\n".join([_HEAD, *table(("value", "default", "meaning"), _rows("", Values())), ""])


def _rows(prefix: str, values: BaseModel) -> Iterator[tuple[str, str, str]]:
    for name, field in type(values).model_fields.items():
        value, path = getattr(values, name), prefix + (field.alias or name)
        if isinstance(value, BaseModel):
            yield code(path), "", field.description or (type(value).__doc__ or "").strip()
            yield from _rows(f"{path}.", value)
        else:
            yield code(path), _default(value), field.description or ""


def _default(value: object) -> str:
    text = json.dumps(value, default=str)
    return code(text) if len(text) <= _LONG else "see the file"
