"""Descriptions of fields: the string below a field of a model, read from the source when CRDs are made.

pydantic can collect them, too, but does so whenever a module is imported; services should not pay for that.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from itertools import pairwise
from typing import Final

from controller_runtime import ApiModel

_REFERENCES: Final = re.compile(r" \((?:shape S|[A-Z]{2}-)[^)]*\)")


def of_field(model: type[ApiModel], attribute: str) -> str | None:
    """The text below the attribute, in the class that declares it."""
    for owner in model.__mro__:
        text = _of_class(owner).get(attribute)
        if text is not None:
            return text
    return None


def of_model(model: type[ApiModel]) -> str:
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
