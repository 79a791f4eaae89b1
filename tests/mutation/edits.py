"""What a mutation tester changes: one small thing in the body of one function at a time.

Words of messages (texts with a space, and those between the values of an f-string) are left alone: tests name what a
message must say, not each of its letters.

The code of a function that exists is replaced (`planted`), so nothing is imported again, whoever holds the function has
the change, and taking it back is as cheap. What runs while a module is imported (tables, defaults, decorators, the
fields of a class) stays as it is.
"""

import ast
import contextlib
import copy
import gc
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

Function = ast.FunctionDef | ast.AsyncFunctionDef
REACHED: Final = "__reached__"
"""The name, among the builtins, of the bytes that say which lines were come to."""
_TEXT_LENGTH: Final = 110
_OTHER_COMPARISON: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OTHER_OPERATOR: Final[Mapping[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A function as its code names it."""

    file: str
    function: str
    first_line: int


@dataclass(frozen=True, slots=True)
class Edit:
    """One change: where, which of the changes there are in its file, its lines, and how it reads."""

    place: Place
    number: int
    lines: frozenset[int]
    line: int
    what: str


@dataclass(frozen=True, slots=True)
class _Site:
    place: Place
    statement: ast.stmt
    node: ast.AST
    instead: ast.AST


def edits(file: Path) -> list[Edit]:
    """All changes of a file, in an order that follows from its text alone."""
    return [_described(site, number) for number, site in enumerate(_sites_of(str(file)))]


def changed_code(edit: Edit) -> dict[Place, CodeType]:
    """The code of the function with this change in it, and of the functions that it makes."""
    site = _sites_of(edit.place.file)[edit.number]
    tree = _tree(edit.place.file)
    memo: dict[int, object] = {id(site.node): ast.copy_location(site.instead, site.node)}
    changed = copy.deepcopy(tree, memo)
    for node in ast.walk(changed):
        if isinstance(node, Function) and (names := _from_around(edit.place.file).get((node.name, _first_line(node)))):
            # What lives is bound to these variables, whether or not the change still mentions them.
            node.body.extend(ast.parse(f"if False: {', '.join(names)}").body)
    ast.fix_missing_locations(changed)
    [(found, code)] = [one for one in _codes(compile(changed, edit.place.file, "exec")) if one[0] == edit.place]
    return {found: code, **dict(_codes(code))}


def living_functions(files: Collection[str]) -> dict[Place, list[FunctionType]]:
    """The functions of these files, as this process holds them: wrapped, bound and registered ones included."""
    found: dict[Place, list[FunctionType]] = defaultdict(list)
    gc.unfreeze()  # what is frozen is not among the objects
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename in files:
            found[_place(one.__code__)].append(one)
    gc.freeze()
    return found


@contextlib.contextmanager
def planted(codes: Mapping[Place, CodeType], functions: Mapping[Place, Sequence[FunctionType]]) -> Iterator[None]:
    """Have functions do what these codes do; one that would need other variables from around it stays as it is."""
    before: list[tuple[FunctionType, CodeType]] = []
    try:
        for place, code in codes.items():
            for one in functions.get(place, ()):
                before.append((one, one.__code__))
                with contextlib.suppress(ValueError):
                    one.__code__ = code
        yield
    finally:
        for one, was in before:
            one.__code__ = was


def with_probes(file: str, first_line: int) -> dict[Place, CodeType]:
    """The code of each function of a file, noting in `REACHED` every statement that it comes to, by its line."""
    tree = copy.deepcopy(_tree(file))
    for _, function in _functions(tree, file, ""):
        for node in ast.walk(function):
            for name in ("body", "orelse", "finalbody"):
                statements = getattr(node, name, None)
                if isinstance(statements, list):
                    setattr(node, name, [one for each in statements for one in (_probe(first_line, each), each)])
    return dict(_codes(compile(ast.fix_missing_locations(tree), file, "exec")))


@cache
def _from_around(file: str) -> Mapping[tuple[str, int], tuple[str, ...]]:
    codes = _codes(compile(_tree(file), file, "exec"))
    return {(code.co_name, code.co_firstlineno): code.co_freevars for _, code in codes}


def _first_line(function: Function) -> int:
    return min(one.lineno for one in (function, *function.decorator_list))


def _probe(first_line: int, statement: ast.stmt) -> ast.stmt:
    (probe,) = ast.parse(f"{REACHED}[{first_line + statement.lineno}] = 1").body
    return ast.copy_location(probe, statement)


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"), file)


@cache
def _sites_of(file: str) -> tuple[_Site, ...]:
    return tuple(site for place, function in _functions(_tree(file), file, "") for site in _sites(place, function))


def _functions(node: ast.AST, file: str, prefix: str) -> Iterator[tuple[Place, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield Place(file, prefix + child.name, _first_line(child)), child
        else:
            yield from _functions(child, file, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)


def _place(code: CodeType) -> Place:
    return Place(code.co_filename, code.co_qualname, code.co_firstlineno)


def _codes(code: CodeType) -> Iterator[tuple[Place, CodeType]]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if not one.co_name.startswith("<"):  # of which a line may have several
                yield _place(one), one
            yield from _codes(one)


def _described(site: _Site, number: int) -> Edit:
    line, end = (getattr(site.node, name, site.statement.lineno) for name in ("lineno", "end_lineno"))
    what = f"{_text(site.node)}  ->  {_text(site.instead)}"
    return Edit(site.place, number, frozenset((site.statement.lineno, *range(line, end + 1))), line, what)


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _TEXT_LENGTH else text[:_TEXT_LENGTH] + " …"


def _sites(place: Place, function: Function) -> Iterator[_Site]:
    for statement in function.body:
        for owner, node in _nodes(statement, statement):
            for instead in (*_of_statement(node), *_of_expression(node)):
                yield _Site(place, owner, node, instead)
            for condition, instead in _conditions(node):
                yield _Site(place, owner, condition, instead)


def _nodes(node: ast.AST, owner: ast.stmt, *, in_text: bool = False) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """What decides when the function runs: no assert or cast (for the type checker), no words between values."""
    match node:
        case ast.Assert() | ast.Expr(value=ast.Constant()) | ast.Pass() | ast.arguments():
            return
        case ast.Call(func=ast.Name(id="cast")):
            yield from _nodes(node.args[1], owner)
            return
    if not isinstance(node, ast.Constant) or not in_text:
        yield owner, node
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns", "format_spec", "decorator_list"}:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    inner = child if isinstance(child, ast.stmt) else owner
                    yield from _nodes(child, inner, in_text=isinstance(node, ast.JoinedStr))


def _of_statement(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Return(value=ast.expr() as value) if not _is_falsehood(value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()


def _of_expression(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, ops, comparators):
            for at, one in enumerate(ops):
                yield ast.Compare(left, [*ops[:at], _OTHER_COMPARISON[type(one)](), *ops[at + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in _OTHER_OPERATOR:
            yield ast.BinOp(left, _OTHER_OPERATOR[type(op)](), right)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(str() as value) if " " not in value:
            yield ast.Constant(value + "~")
        case ast.Call():
            yield from _of_call(node)


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    match node.args:
        case [first, second, *others] if _order_counts(node.func, first, second):
            yield ast.Call(node.func, [second, first, *others], node.keywords)
    for at in range(len(node.keywords)):
        yield ast.Call(node.func, node.args, node.keywords[:at] + node.keywords[at + 1 :])


def _conditions(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Conditions turned round; of comparisons and negations that is done elsewhere."""
    match node:
        case ast.If(test) | ast.IfExp(test) | ast.While(test) if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield test, ast.UnaryOp(ast.Not(), test)
        case ast.comprehension(ifs=conditions):
            for one in conditions:
                yield one, ast.Constant(True)


def _order_counts(function: ast.expr, first: ast.expr, second: ast.expr) -> bool:
    if isinstance(first, ast.Starred) or isinstance(second, ast.Starred) or ast.dump(first) == ast.dump(second):
        return False
    return not (isinstance(function, ast.Name) and function.id in {"min", "max"})


def _is_falsehood(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in (None, False)
