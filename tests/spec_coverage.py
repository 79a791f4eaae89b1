"""Which requirements of docs/spec the tests show: ``make spec-coverage``.

A requirement, a scenario (``FW-S01``) or a pitfall (``SV-P12``) is *defined* where its ID opens a bullet or a table row
of docs/spec, unless ``(retired`` or ``(no requirement`` follows: then there is nothing to show. It is *cited* by
``@pytest.mark.spec("FW-044", …)`` on a test, or by a table of cases whose marks are made from it
(``marks=pytest.mark.spec(name)``): then each text of that file that is an ID counts. A citation of an ID that no
document defines is an error.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
_ID: Final = r"(?:FW|CC|CEL|RC|MS|DI|AR|SV|RT|LA|PR|AC|SC|AT)-[SP]?\d+"
_NOTHING_TO_SHOW: Final = r"[\s|*]*\((?:retired|no requirement)\b"
_DEFINITION: Final = re.compile(rf"^\s*(?:[-*]\s+|\|\s*)\*{{0,2}}({_ID})\b(?!{_NOTHING_TO_SHOW})\*{{0,2}}[\s|]")


def defined_ids(document: Path) -> list[str]:
    """IDs in the order in which a document defines them."""
    lines = document.read_text(encoding="utf-8").splitlines()
    return list(dict.fromkeys(match[1] for line in lines if (match := _DEFINITION.match(line))))


def cited_ids(tests: Path) -> dict[str, list[str]]:
    """Each cited ID with the places that cite it."""
    places: dict[str, list[str]] = {}
    for file in sorted(tests.rglob("test_*.py")):
        for identifier, line in _citations(ast.parse(file.read_text(encoding="utf-8"))):
            places.setdefault(identifier, []).append(f"{file.relative_to(ROOT)}:{line}")
    return places


def _citations(tree: ast.AST) -> Iterator[tuple[str, int]]:
    nodes = list(ast.walk(tree))
    marks = (node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.spec")
    arguments = [argument for mark in marks for argument in mark.args]
    yield from _texts(arguments)
    if not all(isinstance(argument, ast.Constant) for argument in arguments):
        yield from ((text, line) for text, line in _texts(nodes) if re.fullmatch(_ID, text))


def _texts(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node.lineno


def main() -> int:
    """Print the coverage; 1 when a test cites an ID that does not exist."""
    cited = cited_ids(ROOT / "tests")
    known: set[str] = set()
    for document in sorted((ROOT / "docs" / "spec").glob("*.md")):
        ids = [one for one in defined_ids(document) if one not in known]
        if not ids or document.name == "README.md":
            continue
        known.update(ids)
        missing = [one for one in ids if one not in cited]
        print(f"{document.name:22} {len(ids) - len(missing):4} of {len(ids):4} cited by tests")
        if "--missing" in sys.argv:
            print("    not cited:", ", ".join(missing))
    unknown = {one: places for one, places in cited.items() if one not in known}
    for one, places in sorted(unknown.items()):
        print(f"unknown ID {one} cited at {', '.join(places)}", file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
