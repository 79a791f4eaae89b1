"""`x-kubernetes-validations`: rules of a schema with Kubernetes' CEL functions, compiled once and evaluated again."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

import cel

from controller_runtime import JsonObject, canonical
from embedded_apiserver.objects.errors import FieldError, FieldErrorKind
from embedded_apiserver.objects.schema import with_object_meta
from embedded_apiserver.objects.schema_node import ListType, Node, compile_node, go_pattern
from embedded_apiserver.objects.values import JsonValue, same


def _is_url(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and (parts.netloc or parts.path.startswith("/"))) or text.startswith("/")


def _url(text: str) -> str:
    if not _is_url(text):
        raise ValueError(f"URL parse error during conversion from string: {text}")
    return text


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise ValueError(f"index out of range: {start}")
    return text[start:stop]


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    pieces = limit - 1 if limit > 0 else -1
    return text.split(separator, pieces) if separator else list(text)


def _index_of(within: JsonValue, part: JsonValue, start: int = 0) -> int:
    if isinstance(within, str):
        return within.find(part, start)
    return within.index(part) if part in within else -1


def _last_index_of(within: JsonValue, part: JsonValue) -> int:
    if isinstance(within, str):
        return within.rfind(part)
    return max((index for index, item in enumerate(within) if item == part), default=-1)


def _find(text: str, pattern: str) -> str:
    found = go_pattern(pattern).search(text)
    return found.group() if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group() for match in re.finditer(go_pattern(pattern), text)]
    return found if limit < 0 else found[:limit]


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(change(char) if char.isascii() else char for char in text)


def _is_sorted(items: Sequence[JsonValue]) -> bool:
    return all(left <= right for left, right in pairwise(items))


FUNCTIONS: Final[dict[str, Callable[..., object]]] = {
    "charAt": lambda text, index: text[index : index + 1],
    "find": _find,
    "findAll": _find_all,
    "getEscapedPath": lambda url: urlsplit(url).path,
    "getHost": lambda url: urlsplit(url).netloc.rpartition("@")[2],
    "getHostname": lambda url: urlsplit(url).hostname or "",
    "getPort": lambda url: str(urlsplit(url).port or ""),
    "getQuery": lambda url: parse_qs(urlsplit(url).query, keep_blank_values=True),
    "getScheme": lambda url: urlsplit(url).scheme,
    "indexOf": _index_of,
    "isSorted": _is_sorted,
    "isURL": _is_url,
    "join": lambda items, separator="": separator.join(items),
    "lastIndexOf": _last_index_of,
    "lowerAscii": _ascii(str.lower),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "sum": sum,
    "trim": str.strip,
    "upperAscii": _ascii(str.upper),
    "url": _url,
}
"""By name; for a method call the receiver is the first argument."""

NATIVE: Final = frozenset(
    {
        "bool", "bytes", "contains", "double", "duration", "dyn", "endsWith", "getDate", "getDayOfMonth",
        "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth",
        "getSeconds", "int", "matches", "max", "min", "size", "startsWith", "string", "timestamp", "type", "uint",
    }
)  # fmt: skip
"""Functions of the engine itself; its macros are no functions."""

VARIABLES: Final = frozenset(
    {"self", "oldSelf", "bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
)
"""What a rule may name: the two values, and the types."""


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


_Convert = Callable[[JsonValue], JsonValue]

_KINDS: Final = {
    kind.value: kind
    for kind in (
        FieldErrorKind.INVALID,
        FieldErrorKind.FORBIDDEN,
        FieldErrorKind.REQUIRED,
        FieldErrorKind.DUPLICATE,
    )
}


class CelCompileError(ValueError):
    """A rule can't be compiled; `path` is its schema node (`spec.items[*]`), `rule` its text."""

    def __init__(self, path: str, rule: str, reason: str) -> None:
        """Name the node, the rule and the cause."""
        self.path = path
        self.rule = rule
        self.reason = reason
        super().__init__(f"{path or '<root>'}: rule {rule!r} does not compile: {reason}; correct it in the CRD")


@dataclass(frozen=True, slots=True)
class _Program:
    """A compiled expression with the functions and the members of `self` and `oldSelf` that it needs."""

    program: JsonValue
    functions: dict[str, Callable[..., object]]
    members: frozenset[str] | None
    old_members: frozenset[str] | None

    def run(self, value: object, old: object, has_old: bool) -> object:
        names = dict(self.functions) if self.functions else {}
        context: dict[str, object] = {**names, "self": _select(value, self.members)}
        if has_old:
            context["oldSelf"] = _select(old, self.old_members)
        return self.program.execute(context)


def _select(value: object, members: frozenset[str] | None) -> object:
    # The engine converts everything it is given, so it is given only what the rule reads.
    if members is None or not isinstance(value, dict):
        return value
    return {name: value[name] for name in members if name in value}


@dataclass(frozen=True, slots=True)
class _Rule:
    source: str
    program: _Program
    transition: bool
    trivial_if_equal: bool
    message: str
    message_program: _Program | None
    field_path: str
    kind: FieldErrorKind

    def check(self, node: "_RuleNode", value: object, old: object, path: str) -> FieldError | None:
        try:
            if self.program.run(value, old, old is not None) is True:
                return None
            detail = self._message(value, old)
        except (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError) as error:
            reason = f"no such key: {error}" if isinstance(error, KeyError) else str(error)
            detail = f"{reason} evaluating rule: {self.message}"
        return FieldError(path + self.field_path, self.kind, detail, node.type_name)

    def _message(self, value: object, old: object) -> str:
        if self.message_program is not None:
            text = self.message_program.run(value, old, old is not None)
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text.strip()
        return self.message


@dataclass(slots=True)
class _RuleNode:
    """A schema position with rules on it or below it."""

    type_name: str
    rules: tuple[_Rule, ...]
    convert: _Convert | None
    properties: "dict[str, _RuleNode]"
    additional: "_RuleNode | None"
    items: "_RuleNode | None"
    list_keys: tuple[str, ...]
    correlates: bool

    def check(self, value: JsonValue, old: JsonValue, path: str, errors: list[FieldError]) -> None:
        """Evaluate the rules here and below; `old` is the correlated former value or None."""
        if value is None:
            return
        equal = old is not None and same(value, old)
        if self.rules:
            self._check_here(value, old, equal, path, errors)
        if isinstance(value, dict):
            self._check_members(value, old if self.correlates and isinstance(old, dict) else {}, path, errors)
        elif isinstance(value, list) and self.items is not None:
            self._check_items(self.items, value, old if isinstance(old, list) else [], path, errors)

    def _check_here(self, value: JsonValue, old: JsonValue, equal: bool, path: str, errors: list[FieldError]) -> None:
        # What did not change was accepted before: only rules about the change itself are evaluated.
        due = [
            rule
            for rule in self.rules
            if (rule.transition and old is not None and not (equal and rule.trivial_if_equal))
            or (not rule.transition and not equal)
        ]
        if not due:
            return
        shown = self.convert(value) if self.convert else value
        before = self.convert(old) if self.convert and old is not None else old
        for rule in due:
            error = rule.check(self, shown, before, path)
            if error is not None:
                errors.append(error)

    def _check_members(
        self, value: dict[str, JsonValue], old: dict[str, JsonValue], path: str, errors: list[FieldError]
    ) -> None:
        prefix = f"{path}." if path else ""
        if self.additional is not None:
            for key, member in value.items():
                self.additional.check(member, old.get(key), prefix + key, errors)
        for key, child in self.properties.items():
            if key in value:
                child.check(value[key], old.get(key), prefix + key, errors)

    def _check_items(
        self, items: "_RuleNode", value: list[JsonValue], old: list[JsonValue], path: str, errors: list[FieldError]
    ) -> None:
        former = {self._key(item): item for item in old} if self.list_keys else {}
        for index, item in enumerate(value):
            before = former.get(self._key(item)) if former else None
            items.check(item, before, f"{path}[{index}]", errors)

    def _key(self, item: JsonValue) -> bytes:
        return canonical([item.get(key) for key in self.list_keys] if isinstance(item, dict) else item)


@dataclass(frozen=True, slots=True)
class CelRules:
    """All rules of one schema."""

    root: _RuleNode | None

    @classmethod
    def compile(cls, openapi_v3: Mapping[str, JsonValue]) -> Self:
        """Compile every rule in a CRD's schema.

        Raises:
            CelCompileError: a rule is malformed, uses an unknown function or a field that the schema lacks.
        """
        if not _has_rules(openapi_v3):
            return cls(None)
        source = with_object_meta(openapi_v3)
        meta = source["properties"]["metadata"]["properties"]
        # Rules see nothing of the metadata but the names.
        source["properties"]["metadata"] = {
            "type": "object",
            "properties": {"name": meta["name"], "generateName": meta["generateName"]},
        }
        return cls(_compile(source, compile_node(source), ""))

    def validate(self, new: JsonObject, old: JsonObject | None) -> list[FieldError]:
        """Violated rules; rules with `oldSelf` run only where the old object has the same position."""
        errors: list[FieldError] = []
        if self.root is not None:
            self.root.check(new, old, "", errors)
        return errors


def _has_rules(source: object) -> bool:
    if isinstance(source, Mapping):
        return bool(source.get("x-kubernetes-validations")) or any(map(_has_rules, source.values()))
    return isinstance(source, list) and any(map(_has_rules, source))


def _compile(source: Mapping[str, JsonValue], node: Node, path: str) -> _RuleNode | None:
    prefix = f"{path}." if path else ""
    properties = {
        key: rules
        for key, child in source.get("properties", {}).items()
        if (rules := _compile(child, node.properties[key], prefix + key)) is not None
    }
    additional = items = None
    if node.additional is not None:
        additional = _compile(source["additionalProperties"], node.additional, f"{prefix}*")
    if node.items is not None:
        items = _compile(source["items"], node.items, f"{path}[*]")
    own = tuple(_compile_rule(rule, node, path) for rule in source.get("x-kubernetes-validations", ()))
    if not own and not properties and additional is None and items is None:
        return None
    return _RuleNode(
        node.type or "object",
        own,
        _converter(node) if own else None,
        properties,
        additional,
        items,
        node.list_keys if node.list_type is ListType.MAP else (),
        not node.atomic_map,
    )


def _compile_rule(rule: Mapping[str, JsonValue], node: Node, path: str) -> _Rule:
    source = str(rule["rule"]).strip()
    program = _compile_program(source, node, path)
    transition = any(root == "oldSelf" for root, _ in selections(source))
    expression = rule.get("messageExpression")
    return _Rule(
        source=source,
        program=program,
        transition=transition,
        trivial_if_equal="".join(source.split()) in {"self==oldSelf", "oldSelf==self"},
        message=str(rule.get("message", "")).strip() or f"failed rule: {source}",
        message_program=_compile_program(str(expression), node, path) if expression else None,
        field_path=str(rule.get("fieldPath", "")),
        kind=_KINDS.get(str(rule.get("reason", "")), FieldErrorKind.INVALID),
    )


def _compile_program(source: str, node: Node, path: str) -> _Program:
    try:
        program = cel.compile(source)
    except ValueError as error:
        raise CelCompileError(path, source, str(error)) from error
    # Operators are functions, too, with names that are no identifiers (`_&&_`, `@in`).
    names = {name for name in program.functions() if name.isidentifier() and not name.startswith("_")}
    variables = set(program.variables()) - bound_variables(source)
    unknown = sorted(names - NATIVE - FUNCTIONS.keys()) + sorted(variables - VARIABLES)
    if unknown:
        raise CelCompileError(path, source, f"undeclared reference to {unknown[0]!r} (in container '')")
    member = unknown_member(source, node)
    if member is not None:
        raise CelCompileError(path, source, f"undefined field {member!r}")
    return _Program(
        program,
        {name: FUNCTIONS[name] for name in names & FUNCTIONS.keys()},
        members_used(source, "self"),
        members_used(source, "oldSelf"),
    )


def _converter(node: Node) -> _Convert | None:
    """How a value of this node becomes what CEL sees; None when it is seen as it is.

    Names are escaped, date-times become timestamps, and members that the schema does not name are hidden.
    """
    if node.int_or_string:
        return None
    if node.format == "date-time":
        return _timestamp
    if node.items is not None:
        return _list_converter(_converter(node.items))
    if node.additional is not None:
        return _map_converter(_converter(node.additional))
    if node.type == "object" and node.properties:
        return _object_converter(node)
    return None


def _timestamp(value: object) -> object:
    return datetime.fromisoformat(value.upper()) if isinstance(value, str) else value


def _list_converter(convert: _Convert | None) -> _Convert | None:
    if convert is None:
        return None
    return lambda value: [convert(item) for item in value] if isinstance(value, list) else value


def _map_converter(convert: _Convert | None) -> _Convert | None:
    if convert is None:
        return None
    return lambda value: {key: convert(item) for key, item in value.items()} if isinstance(value, dict) else value


def _object_converter(node: Node) -> _Convert | None:
    plan = {key: (escape(key), _converter(child)) for key, child in node.properties.items()}
    plain = all(key == name and convert is None for key, (name, convert) in plan.items())
    if plain and not node.preserve and not node.embedded and "metadata" not in plan:
        return None

    def convert_object(value: JsonValue) -> JsonValue:
        if not isinstance(value, dict):
            return value
        return {
            name: convert(value[key]) if convert else value[key]
            for key, (name, convert) in plan.items()
            if key in value
        }

    return convert_object
