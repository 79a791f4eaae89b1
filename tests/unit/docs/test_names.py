"""Names of classes and functions say a thing or an act (docs/glossary.md)."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
PARTICIPLE: Final = re.compile(
    "_*(asked|built|called|changed|closed|counted|described|ended|filled|found|given|gone|granted|held|judged|kept|known"
    "|left|listed|lost|made|meant|missed|moved|named|needed|noted|opened|planned|referenced|refused|reported|said|seen"
    "|sent|settled|shown|stored|taken|told|used|wanted|written)"
)
"""Alone they leave open what a function returns or does. A property reads as a member: it may be one."""


@pytest.mark.parametrize("package", ["shared", "services", "deploy"])
def test_no_function_is_called_by_a_bare_participle(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and PARTICIPLE.fullmatch(node.name.lower())
        and not _is_property(node)
    ]
    assert found == []


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any("property" in ast.unparse(one) for one in node.decorator_list)
