"""Labels, annotations and finalizers, from the module that spells them out and its docstrings."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from aim_domain import labels
from aim_packaging import reserved
from aim_packaging.reference.tables import code, table

_HEAD: Final = """\
# Labels and annotations

Keys on objects of the platform and on what it makes. What is *refused* may be written by services alone where the
admission policy is on ([security](../security.md#what-a-namespace-editor-can-do)); without it a change by hand is put
back or believed a little, so leave these alone.
"""
_REFUSED: Final = frozenset({*reserved.LABELS, *reserved.ANNOTATIONS})
_UNUSED: Final = "Reserved"
"""How the docstring of a key begins that nothing sets today."""


def page() -> str:
    """Every key with where it stands and what it says; last those that are kept free."""
    reported = documented()
    used = {key: text for key, text in reported.items() if not text.startswith(_UNUSED)}
    annotations = {key for key in reported if _names()[key].startswith("ANNOTATION_")}
    finalizers = {key for key in reported if _names()[key].startswith("FINALIZER_")}
    theirs = {key for key in reported if not key.startswith(labels.PREFIX)} - {labels.TEMPLATE_CREATED}
    yours = {key for key in annotations - _REFUSED if _section(key).startswith("Annotations that users")}
    own = used.keys() - finalizers - theirs
    parts: Iterable[tuple[str, Iterable[str]]] = (
        ("Annotations that you set", yours),
        ("Labels that the platform sets", own - annotations),
        ("Annotations that the platform sets", own & annotations - yours),
        ("Keys of others that it sets or reads", theirs),
        ("Finalizers", finalizers),
    )
    lines = [_HEAD]
    for title, keys in parts:
        lines += [f"## {title}", "", *_rows(used, set(keys)), ""]
    free = ", ".join(code(key) for key in reported if key not in used)
    return "\n".join([*lines, f"Kept free, set by nothing today: {free}.", ""])


def documented() -> Mapping[str, str]:
    """Each key with its docstring, in the order of the module."""
    return {str(getattr(labels, name)): text for name, _, text in _assigned() if text}


def _rows(reported: Mapping[str, str], keys: set[str]) -> Iterator[str]:
    rows = ((code(key), text, "refused" if key in _REFUSED else "") for key, text in reported.items() if key in keys)
    if keys & _REFUSED:
        return table(("key", "on what, and what it says", "written by others"), rows)
    return table(("key", "on what, and what it says"), (row[:2] for row in rows))


def _names() -> Mapping[str, str]:
    return {str(getattr(labels, name)): name for name, _, text in _assigned() if text}


def _section(key: str) -> str:
    return next(section for name, section, _ in _assigned() if getattr(labels, name) == key)


def _assigned() -> Iterator[tuple[str, str, str]]:
    """Name, comment above its section, and docstring of each constant."""
    source = Path(labels.__file__).read_text(encoding="utf-8")
    body, lines, section = ast.parse(source).body, source.splitlines(), ""
    for number, statement in enumerate(body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        above = lines[statement.lineno - 2]
        section = above.removeprefix("# ") if above.startswith("# ") else section
        follows = body[number + 1] if number + 1 < len(body) else None
        yield statement.target.id, section, _docstring(follows)


def _docstring(statement: ast.stmt | None) -> str:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return str(value.value) if isinstance(value, ast.Constant) else ""
