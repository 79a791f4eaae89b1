"""The language of path templates: literal text with JSONPath placeholders (RT-073…RT-079).

It is the part of JSONPath that leads to one value; whatever could lead to several is refused, so that a path never
depends on the order of a list.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias


class PathTemplateError(Exception):
    """The template cannot be rendered; the message names the expression and the cause (RT-113)."""


@dataclass(frozen=True, slots=True)
class Field:
    """Member of an object."""

    name: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Element:
    """Element of a list; negative numbers count from the end."""

    index: int


@dataclass(frozen=True, slots=True)
class Slice:
    """A section of a list, which must hold exactly one element to have a value."""

    start: int | None
    stop: int | None


@dataclass(frozen=True, slots=True)
class Filter:
    """The elements of a list whose member stands in a relation to a literal."""

    member: tuple[str, ...]
    operator: str
    literal: str | float | bool


Step: TypeAlias = Field | Element | Slice | Filter

PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
MAX_TEMPLATE: Final = 1024
"""Characters of a template that is read; the definitions refuse longer ones, which an older object may still hold."""
_MAX_DIGITS: Final = 9
"""Of an index: no list that an object can hold has more elements."""
_OPERATORS: Final = ("==", "!=", "<=", ">=", "<", ">")
_ROOTS: Final = (".metadata.", ".metadata[", ".spec.", ".spec[", ".status.", ".status[")
_ENDS_NAME: Final = frozenset(".[]*")
_UNSTEADY: Final = frozenset(
    {
        ("metadata", "managedFields"),
        ("metadata", "resourceVersion"),
        ("status", "conditions"),
        ("status", "observedGeneration"),
        ("status", "routing"),
    }
)
"""What changes with health or with each write, also with that of the path itself: the route would never rest."""


def template_problems(template: str) -> list[str]:
    """What is wrong with a template whatever service it is for, one text per placeholder; empty for a good one."""
    try:
        check_length(template)
    except PathTemplateError as error:
        return [str(error)]
    expressions = [problem for match in PLACEHOLDER.finditer(template) if (problem := _problem(match[1].strip()))]
    return [*_literal_problems(template), *expressions]


def check_template(template: str) -> None:
    """Refuse what is no template, whatever its expressions are.

    Raises:
        PathTemplateError: the template has more than 1,024 characters (RC-166), or literal text that is a part of an
            expression (RT-075).
    """
    check_length(template)
    for problem in _literal_problems(template):
        raise PathTemplateError(problem)


def check_length(template: str) -> None:
    """Refuse what is too long to be read.

    Raises:
        PathTemplateError: the template has more than 1,024 characters (RC-166).
    """
    if len(template) > MAX_TEMPLATE:
        raise PathTemplateError(
            f"the template has {len(template)} characters, {MAX_TEMPLATE} are allowed; shorten pathTemplate"
        )


def _literal_problems(template: str) -> Iterator[str]:
    """Braces without their other half, and expressions without braces: as literal text each would become a path."""
    for place, text in enumerate(PLACEHOLDER.split(template)[::2]):
        if "{}" in text:
            yield "invalid expression, the braces {} are empty"
        elif "{" in text or "}" in text:
            yield f"invalid expression, braces do not match at {text!r}"
        # What follows an expression belongs to its segment.
        for segment in text.split("/")[1 if place else 0 :]:
            if segment.removeprefix("$").startswith(_ROOTS) and "{" not in segment and "}" not in segment:
                yield f"invalid expression {segment!r}, it has no braces; write {{{segment.removeprefix('$')}}}"


def _problem(expression: str) -> str:
    try:
        parse(expression)
    except PathTemplateError as error:
        return str(error)
    return ""


def parse(expression: str) -> tuple[Step, ...]:
    """The steps of an expression; a leading ``$`` is optional.

    Raises:
        PathTemplateError: the expression is empty, not of the supported forms, or follows what never rests.
    """
    scanner = _Scanner(expression, len(expression) - len(expression.removeprefix("$")))
    steps: list[Step] = []
    while not scanner.at_end:
        start = scanner.position
        step = _step(scanner)
        if step is None:
            raise PathTemplateError(f"expression {{{expression}}}: invalid expression at {expression[start:]!r}")
        steps.append(step)
    if not steps:
        raise PathTemplateError(f"expression {{{expression}}}: invalid expression, it is empty")
    fields = tuple(step.name for step in steps[:2] if isinstance(step, Field))
    if fields in _UNSTEADY:
        raise PathTemplateError(f"expression {{{expression}}}: invalid expression, a path cannot follow {fields[1]}")
    return tuple(steps)


class _Scanner:
    """An expression, read from left to right; what was read is never read again (RC-166)."""

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self.position = position

    @property
    def at_end(self) -> bool:
        return self.position >= len(self._text)

    def take(self, *words: str) -> str:
        """The first of the words that stands here, and go behind it; empty when none does."""
        word = next((word for word in words if self._text.startswith(word, self.position)), "")
        self.position += len(word)
        return word

    def take_while(self, accepts: Callable[[str], bool]) -> str:
        start = self.position
        while not self.at_end and accepts(self._text[self.position]):
            self.position += 1
        return self._text[start : self.position]

    def skip_space(self) -> None:
        self.take_while(str.isspace)

    def take_quoted(self) -> str | None:
        """The text between two quotes of one kind, ``None`` when no quote stands here.

        A backslash makes the next character literal, as kubectl needs it before each dot of a key (RT-077).
        """
        quote = self.take("'", '"')
        if not quote:
            return None
        found: list[str] = []
        while not self.at_end:
            character = self._text[self.position]
            self.position += 1
            if character == quote:
                return "".join(found)
            if character == "\\":
                character = self._text[self.position : self.position + 1]
                self.position += 1
            found.append(character)
        self.refuse()
        return None

    def take_number(self) -> int | None:
        """The number that begins here, ``None`` when none does."""
        sign = self.take("-")
        digits = self.take_while(lambda character: "0" <= character <= "9")
        if len(digits) > _MAX_DIGITS or (sign and not digits):
            self.refuse()
            return None
        return int(sign + digits) if digits else None

    def refuse(self) -> None:
        """Go where nothing follows that could complete a step."""
        self.position = len(self._text)

    def take_name(self) -> str:
        """A name up to a dot, a bracket, a star or white space that no backslash escapes; empty when there is none."""
        name = []
        while not self.at_end:
            character = self._text[self.position]
            if character == "\\":
                self.position += 1
                character = self._text[self.position : self.position + 1]
                if not character:
                    return ""
            elif character in _ENDS_NAME or character.isspace():
                break
            name.append(character)
            self.position += 1
        return "".join(name)


def _step(scanner: _Scanner) -> Step | None:
    """The step that begins here, ``None`` when it is none."""
    if scanner.take("."):
        name = scanner.take_name()
        return Field(name) if name else None
    if scanner.take("[?("):
        return _filter(scanner)
    if not scanner.take("["):
        return None
    scanner.skip_space()
    step = _bracketed(scanner)
    scanner.skip_space()
    return step if scanner.take("]") else None


def _bracketed(scanner: _Scanner) -> Step | None:
    quoted = scanner.take_quoted()
    if quoted is not None:
        return Field(quoted, quoted=True)
    start = scanner.take_number()
    scanner.skip_space()
    if not scanner.take(":"):
        return None if start is None else Element(start)
    scanner.skip_space()
    return Slice(start, scanner.take_number())


def _filter(scanner: _Scanner) -> Filter | None:
    scanner.skip_space()
    if not scanner.take("@."):
        return None
    member = scanner.take_while(lambda character: character.isalnum() or character in "_.")
    scanner.skip_space()
    operator = scanner.take(*_OPERATORS)
    scanner.skip_space()
    quoted = scanner.take_quoted()
    words = scanner.take_while(lambda character: not character.isspace() and character != ")") if quoted is None else ""
    scanner.skip_space()
    if not (member and operator and (words or quoted is not None) and scanner.take(")]")):
        return None
    return Filter(tuple(member.split(".")), operator, _literal(words) if quoted is None else quoted)


def _literal(text: str) -> str | float | bool:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text
