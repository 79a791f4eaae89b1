"""The page of the tests' helpers has each file of `tests/support`, with the first sentence of its docstring."""

import ast
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs/development/test-support.md"


def test_the_page_has_every_helper_once_as_its_docstring_says() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted((one.stem, _first_line(one)) for one in (ROOT / "tests/support").glob("*.py"))


def test_every_helper_is_used() -> None:
    helpers = set((ROOT / "tests/support").glob("*.py"))
    used = {
        helper
        for path in (*(ROOT / "tests").rglob("*.py"), ROOT / "Makefile", ROOT / ".ci/run")
        for name in set(re.findall(r"\bsupport\.(\w+)", path.read_text("utf-8")))
        if (helper := ROOT / f"tests/support/{name}.py") != path
    }
    assert helpers - used == set()


def _first_line(module: Path) -> str:
    docstring = ast.get_docstring(ast.parse(module.read_text("utf-8")))
    assert docstring is not None
    return docstring.partition("\n")[0].rstrip(".")
