"""Reasons that the services' code tells, found in its syntax: what is given where a reason is asked for."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).parents[2]
_FOLDERS: Final = ("services", "shared/controller-runtime/controller_runtime/reconcile", "shared/domain/aim_domain")
_REASON: Final = re.compile(r"[A-Z][A-Za-z]+")
_STATES: Final = frozenset({"State", "Category", "StatusValue", "ConditionStatus", "EventType"})
_MAKERS: Final[Mapping[str, int]] = {
    "Component": 2,
    "Cause": 0,
    "condition": 2,
    "Fault": 0,
    "broken": 0,
}
"""Who from another module is given a reason, and as which argument; functions of one module are found by a name."""
Constants: TypeAlias = Mapping[str, ast.expr]


def reported_reasons() -> Mapping[str, set[str]]:
    """Each reason with the files that tell it."""
    modules = {path: ast.parse(path.read_text("utf-8")) for path in _paths()}
    constants = {_dotted(path): dict(_constants(tree)) for path, tree in modules.items()}
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in modules.items():
        for reason in _Module(tree, {**dict(_imported(tree, constants)), **constants[_dotted(path)]}).reasons():
            found[reason].add(str(path.relative_to(ROOT)))
    return found


def all_words() -> set[str]:
    """Every text of the code that could be a reason."""
    trees = (ast.parse(path.read_text("utf-8")) for path in _paths())
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and _REASON.fullmatch(text)}


def _paths() -> list[Path]:
    return [path for folder in _FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def _dotted(path: Path) -> str:
    """Name of a module: its packages are folders with an ``__init__``."""
    names = [path.stem] if path.stem != "__init__" else []
    folder = path.parent
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names)


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and isinstance(value, ast.expr):
                yield target.id, value


def _imported(tree: ast.Module, constants: Mapping[str, Constants]) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                value = constants.get(node.module or "", {}).get(alias.name)
                if value is not None:
                    yield alias.asname or alias.name, value


class _Module:
    """One file: its constants, and where its own functions take a reason."""

    def __init__(self, tree: ast.Module, constants: Constants) -> None:
        self._tree = tree
        self._constants = constants
        self._makers = {**_MAKERS, **dict(self._own_makers())}

    def reasons(self) -> set[str]:
        given = [one for node in ast.walk(self._tree) for one in self._given(node)]
        texts = {text for one in given for text in self._texts(one)}
        return {text for text in texts if _REASON.fullmatch(text)}

    def _own_makers(self) -> Iterator[tuple[str, int]]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef):
                names = [one.arg for one in node.args.args if one.arg not in ("self", "cls")]
                if "reason" in names:
                    yield node.name, names.index("reason")

    def _given(self, node: ast.AST) -> Iterator[ast.expr]:
        """What stands where a reason is asked for: an argument, behind a state, a default, a member of an enum."""
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            yield from (word.value for word in node.keywords if word.arg == "reason")
            place = self._makers.get(name)
            if place is not None and len(node.args) > place:
                yield node.args[place]
            yield from self._behind_a_state(node.args)
        elif isinstance(node, ast.Tuple):
            yield from self._behind_a_state(node.elts)
        elif isinstance(node, ast.FunctionDef):
            named = dict(zip(reversed(node.args.args), reversed(node.args.defaults), strict=False))
            yield from (default for argument, default in named.items() if argument.arg == "reason")
        elif isinstance(node, ast.ClassDef) and node.name in {"Reason", "Refusal"}:
            yield from (one.value for one in node.body if isinstance(one, ast.Assign))

    def _behind_a_state(self, words: list[ast.expr]) -> Iterator[ast.expr]:
        for word, following in pairwise(words):
            if isinstance(word, ast.Attribute) and isinstance(word.value, ast.Name) and word.value.id in _STATES:
                yield following

    def _texts(self, node: ast.expr) -> Iterator[str]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name) and node.id in self._constants:
            yield from self._texts(self._constants[node.id])
        elif isinstance(node, ast.Subscript):
            yield from self._texts(node.value)
        else:
            for one in self._parts(node):
                yield from self._texts(one)

    @staticmethod
    def _parts(node: ast.expr) -> list[ast.expr]:
        """What a value is one of."""
        if isinstance(node, ast.IfExp):
            return [node.body, node.orelse]
        if isinstance(node, ast.BoolOp):
            return node.values
        if isinstance(node, ast.Dict):
            return node.values
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr == "get":
            return [called.value]
        if isinstance(node, ast.Call) and isinstance(called, ast.Name) and called.id == "MappingProxyType":
            return node.args
        return []
