"""Templates of ``-o jsonpath=`` as kubectl has them: text, paths, quoted text and ranges (FW-881)."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from jsonpath import JSONPathEnvironment
from jsonpath.exceptions import JSONPathError

from aim_cli.answer import Data, plain
from aim_cli.errors import TargetError

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath

    _Path: TypeAlias = JSONPath | CompoundJSONPath

_TAGS: Final = re.compile(r"""\{((?:[^{}'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*)\}""")
_QUOTED: Final = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
# Names that RFC 9535 has in brackets only: kubectl takes them behind a dot, with dots of their own escaped.
_NAMES: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\.((?:[A-Za-z_]|\\.)(?:[\w/-]|\\.)*)""")
_ESCAPES: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "t": "\t"}
_PATHS: Final = JSONPathEnvironment()


@dataclass(frozen=True, slots=True)
class _Loop:
    """What is printed for each value of a path."""

    path: "_Path"
    body: "tuple[_Part, ...]"


_Part: TypeAlias = "str | _Path | _Loop"


@dataclass(frozen=True, slots=True)
class Template:
    """A template that can be applied to an answer's data."""

    parts: tuple[_Part, ...]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Read a template; a path alone needs no braces.

        Raises:
            TargetError: it is none, and why.
        """
        if not text:
            raise TargetError("the template of jsonpath is empty; give one, such as jsonpath={.status}")
        pieces = deque(_pieces(text if "{" in text else f"{{{text}}}"))
        parts = _parts_of(pieces, within="")
        if pieces:
            raise TargetError(f"jsonpath {text!r} cannot be read: {{end}} without {{range}}")
        return cls(parts)

    def applied(self, data: Data) -> str:
        """What it makes of data: several values stand with a blank between them, what is missing is left out.

        Raises:
            TargetError: a path cannot be applied to them.
        """
        return "".join(_apply(self.parts, data))


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Text and what stands in braces, in turn."""
    place = 0
    for found in _TAGS.finditer(text):
        yield text[place : found.start()], found[1].strip()
        place = found.end()
    rest = text[place:]
    if "{" in rest:
        raise TargetError(f"jsonpath {text!r} cannot be read: a brace is not closed in {rest!r}")
    yield rest, ""


def _parts_of(pieces: deque[tuple[str, str]], within: str) -> tuple[_Part, ...]:
    """Parts up to the end of the loop that they stand in, or of all."""
    parts: list[_Part] = []
    while pieces:
        text, tag = pieces[0]
        parts.append(text)
        if tag == "end" and not within:
            return tuple(parts)
        pieces.popleft()
        if tag == "end":
            return tuple(parts)
        if tag.startswith("range "):
            path = tag.removeprefix("range ")
            parts.append(_Loop(_path(path), _parts_of(pieces, within=path)))
        elif (quoted := _QUOTED.fullmatch(tag)) is not None:
            parts.append(_ESCAPES.sub(lambda one: _ESCAPED.get(one[1], one[1]), quoted[1] or quoted[2] or ""))
        elif tag:
            parts.append(_path(tag))
    if within:
        raise TargetError(f"jsonpath cannot be read: {{range {within}}} has no {{end}}")
    return tuple(parts)


def _path(text: str) -> "_Path":
    """A path as kubectl has it: behind `$`, `@`, a dot, or nothing at all."""
    rest = text[1:] if text[0] in "$@" else text
    rest = "" if rest == "." else rest if rest.startswith((".", "[")) or not rest else f".{rest}"
    try:
        return _PATHS.compile(f"${_NAMES.sub(_in_brackets, rest)}")
    except JSONPathError as error:
        (reason, *_) = str(error).splitlines()
        raise TargetError(f"jsonpath {text!r} cannot be read: {reason}") from error


def _in_brackets(found: re.Match[str]) -> str:
    """A name behind a dot in a form that any path may have; text in quotes as it is."""
    name = found[1]
    if name is None or name.isidentifier():
        return found[0]
    return f"[{json.dumps(_ESCAPES.sub(lambda one: one[1], name))}]"


def _apply(parts: Iterable[_Part], data: object) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Loop):
            for value in _values(part.path, data):
                yield from _apply(part.body, value)
        else:
            yield " ".join(map(_text_of, _values(part, data)))


def _values(path: "_Path", data: object) -> list[object]:
    if isinstance(data, dict | list):
        try:
            return path.findall(data)
        except JSONPathError as error:
            raise TargetError(f"jsonpath {path} cannot be applied: {error}") from error
    # Of a single value there is nothing but itself.
    return [data] if str(path) == "$" else []


def _text_of(value: object) -> str:
    return plain(value) if isinstance(value, str) else json.dumps(value)
