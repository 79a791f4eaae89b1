"""Looking into the text of a CEL rule: which names it uses, and whether the schema has them."""

import re
from collections.abc import Iterator
from typing import Final

from aim_local.apiserver.objects.schema_node import Node

_LITERAL: Final = re.compile(r"""[rR]?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_ROOTED: Final = re.compile(r"(?<![\w.])(self|oldSelf)((?:\s*\.\s*[A-Za-z_]\w*)*)(\s*\()?")
_BOUND: Final = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,")
_RESERVED: Final = frozenset(
    {
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
        "namespace", "null", "package", "return", "true", "var", "void", "while",
    }
)  # fmt: skip
_SYMBOLS: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def escape(name: str) -> str:
    """A property name as CEL rules write it (`x-y` is `x__dash__y`, `namespace` is `__namespace__`)."""
    if name in _RESERVED:
        return f"__{name}__"
    for symbol, escaped in _SYMBOLS:
        name = name.replace(symbol, escaped)
    return name


def without_literals(source: str) -> str:
    """The rule with all string contents blanked, so that words in messages are not taken for names."""
    return _LITERAL.sub('""', source)


def bound_variables(source: str) -> set[str]:
    """The variables that the rule's macros bind."""
    return set(_BOUND.findall(without_literals(source)))


def selections(source: str) -> Iterator[tuple[str, list[str]]]:
    """Each use of `self` and `oldSelf` with the members selected from it, a called method left out."""
    for found in _ROOTED.finditer(without_literals(source)):
        names = [name.strip() for name in found[2].split(".")[1:]]
        yield found[1], names[:-1] if found[3] and names else names


def members_used(source: str, variable: str) -> frozenset[str] | None:
    """The members that the rule reads from a variable; None when it reads the variable as a whole."""
    used = [names for root, names in selections(source) if root == variable]
    return frozenset(names[0] for names in used) if all(used) else None


def unknown_member(source: str, node: Node) -> str | None:
    """The first member that a rule selects and the schema does not have."""
    for _, names in selections(source):
        position: Node | None = node
        for name in names:
            if position is None or position.type != "object":
                break
            if position.additional is not None:
                position = position.additional
                continue
            children = {escape(key): child for key, child in position.properties.items()}
            if name not in children:
                return name
            position = children[name]
    return None
