"""Every command of ``aim`` with its words, options and codes, from the command itself."""

import inspect
from collections.abc import Iterator
from typing import Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from aim_cli.__main__ import app
from aim_packaging.reference.tables import code, table

_HEAD: Final = """\
# Commands of aim

As `aim COMMAND --help` says it. With examples, by question: [the aim command](../cli.md).
"""


def page() -> str:
    """All commands, in the order of `aim --help`."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    context = typer.Context(group, info_name="aim")
    lines = [_HEAD]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert isinstance(command, TyperCommand)
        lines += [f"## aim {name}", "", *_command(command, typer.Context(command, context, name)), ""]
    return "\n".join(lines)


def _command(command: TyperCommand, context: typer.Context) -> Iterator[str]:
    yield f"```text\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield ""
    yield inspect.cleandoc(command.help or "").replace("<", "\\<")
    rows = [row for parameter in command.params if (row := _row(parameter))]
    if rows:
        yield ""
        yield from table(("option", "means", "default", "variable"), rows)


def _row(parameter: object) -> tuple[str, str, str, str] | None:
    if isinstance(parameter, TyperArgument):
        return code(parameter.metavar or (parameter.name or "").upper()), _help(parameter), "", ""
    if not isinstance(parameter, TyperOption) or parameter.hidden or "--help" in parameter.opts:
        return None
    names = ", ".join(map(code, (*parameter.opts, *parameter.secondary_opts)))
    variable = parameter.envvar if isinstance(parameter.envvar, str) else ""
    return names, _help(parameter), _default(parameter), code(variable)


def _help(parameter: TyperArgument | TyperOption) -> str:
    choices = parameter.type_descriptor.choices or ()
    return " ".join(filter(None, (parameter.help or "", f"One of {', '.join(map(code, choices))}." if choices else "")))


def _default(parameter: TyperOption) -> str:
    value = parameter.default
    if value is None or value is False or value == "" or callable(value) or parameter.required:
        return ""
    return code(getattr(value, "value", value))
