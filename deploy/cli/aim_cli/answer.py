"""What a command answers: data for programs, lines for people. Imports nothing heavy (FW-603)."""

import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from aim_cli.errors import CliError, Exit

Data: TypeAlias = dict[str, Any] | list[Any]
"""Plain JSON."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form in which an answer is printed, as kubectl calls it (FW-600, FW-880).

    Attributes:
        word: what follows ``-o``.
        template: of ``jsonpath``; empty in any other form.
    """

    word: str
    template: str = ""

    TABLE: ClassVar["Form"]
    WIDE: ClassVar["Form"]
    NAME: ClassVar["Form"]
    JSON: ClassVar["Form"]
    YAML: ClassVar["Form"]
    DOT: ClassVar["Form"]

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.word}={self.template}" if self.template else self.word

    @property
    def of_lines(self) -> bool:
        """Whether people read it line by line."""
        return self.word in (Form.TABLE.word, Form.WIDE.word)

    @property
    def of_data(self) -> bool:
        """Whether it is made of the answer's data."""
        return self.word in (Form.JSON.word, Form.YAML.word, JSONPATH)


Form.TABLE, Form.WIDE, Form.NAME = Form("table"), Form("wide"), Form("name")
Form.JSON, Form.YAML, Form.DOT = Form("json"), Form("yaml"), Form("dot")
JSONPATH: Final = "jsonpath"


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that a command has to say.

    Attributes:
        data: what ``-o json`` and ``-o yaml`` print, and what a JSONPath selects from.
        lines: what people read.
        code: how the command ends.
        remarks: what could not be found out, for standard error in every form.
        wide: what people read who want nothing left out; the same lines where empty.
        names: of the objects that it is about, as ``kind/namespace/name``, for ``-o name``.
        graph: for ``-o dot``.
    """

    data: Data
    lines: tuple[str, ...]
    code: Exit = Exit.WELL
    remarks: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    graph: tuple[str, ...] = ()


def plain(text: str) -> str:
    """Text of users, for a line of a terminal: nothing that one would obey (FW-554)."""
    return "".join(character if character.isprintable() else " " for character in text)


def count_of(number: int, what: str) -> str:
    """A number with its noun."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def complain(text: str) -> None:
    """One line on standard error."""
    print(plain(text), file=sys.stderr)


def announce(text: str, form: Form) -> None:
    """What is about to be done, for people who would otherwise wait for the first line of the answer (FW-728)."""
    if form.of_lines or sys.stderr.isatty():
        complain(text)


_INDENT: Final = 8
_COLOURS: Final = {"because": "31", "do": "32", "held": "33", "so": "2", "also": "2", "decided": "2"}
"""Of lines that begin with these words: red, green, yellow, and dim for what only follows."""


def for_terminal(line: str, width: int, *, colour: bool) -> str:
    """A line for a terminal: one of a lead and its text is folded beside the lead, and coloured by it (FW-866)."""
    lead = line[:_INDENT].rstrip()
    if lead not in _COLOURS or len(line) <= _INDENT:
        return line
    # A command is copied from the terminal, which knows where it wrapped a line and not where this did.
    most = len(line) if lead == "do" else max(width - _INDENT, 3 * _INDENT)
    text = textwrap.wrap(line[_INDENT:], most, break_long_words=False, break_on_hyphens=False)
    folded = f"{lead:{_INDENT}}" + f"\n{' ' * _INDENT}".join(text)
    return f"\x1b[{_COLOURS[lead]}m{folded}\x1b[0m" if colour else folded


def print_answer(answer: Answer, form: Form, *, again: bool = False) -> None:
    """Print an answer.

    Args:
        again: one was printed before, from which a blank line parts it for people.

    Raises:
        TargetError: the JSONPath cannot be applied.
    """
    for remark in answer.remarks:
        complain(remark)
    if not form.of_lines:
        print(text_of(answer, form), end="")
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    lines = (form == Form.WIDE and answer.wide) or answer.lines
    for line in (*([""] if again else []), *lines):
        print(for_terminal(plain(line), width, colour=colour) if width else plain(line))


def text_of(answer: Answer, form: Form) -> str:
    """An answer for a program."""
    if form in (Form.NAME, Form.DOT):
        lines = answer.names if form == Form.NAME else answer.graph
        if not lines:
            # Standard output has names alone; why there is none stands beside it.
            for line in answer.lines[:1]:
                complain(line)
        return "".join(f"{plain(line)}\n" for line in lines)
    if form.word == JSONPATH:
        # Only a user of a template pays for it.
        from aim_cli.jsonpath import Template  # noqa: PLC0415

        return Template.parse(form.template).applied(answer.data)
    return f"{render(answer.data, form)}\n"


def render(data: Data, form: Form) -> str:
    """Data as JSON or YAML, in ASCII: whatever else users wrote stands as an escape of that format (FW-554)."""
    if form == Form.JSON:
        return json.dumps(data, indent=2)
    # Only who asks for YAML pays for it.
    import yaml  # noqa: PLC0415

    return yaml.safe_dump(data, sort_keys=False).rstrip("\n")


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Rows under their headings, as kubectl prints them; none without rows."""
    table = [tuple(plain(cell) for cell in row) for row in rows]
    if not table:
        return ()
    widths = [max(map(len, column)) for column in zip(header, *table, strict=True)]
    return tuple(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (tuple(header), *table)
    )


_PAUSE: Final = 2.0
"""Seconds between two looks of a command that watches."""


def answered(ask: Callable[[], Answer], form: Form, *, watch: bool = False) -> Exit:
    """Ask, print, and the code to end with; an error that a user can do something about is one line (FW-602).

    Args:
        watch: ask again and print what is new, as long as something is in the way (FW-879).
    """
    known: Data | None = None
    while True:
        try:
            answer = ask()
            if answer.data != known:
                print_answer(answer, form, again=known is not None)
                known = answer.data
        except CliError as error:
            complain(f"aim: {error}")
            return error.code
        if not watch or answer.code is not Exit.FOUND:
            return answer.code
        time.sleep(_PAUSE)
