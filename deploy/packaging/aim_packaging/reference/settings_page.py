"""The settings of each service, by environment variable or flag, from its settings."""

from collections.abc import Iterator
from typing import Final

from pydantic.fields import FieldInfo

from aim_cli.services import services
from aim_domain.settings import AimSettings
from aim_packaging.reference.tables import code, table

_HEAD: Final = """\
# Settings of the services

Each is an environment variable and a flag: `AIM_LOG_LEVEL=debug` is `--log-level debug`; a flag wins. The chart sets
most of them from its [values](values.md). Durations are seconds or as `2h30m`, sizes are bytes or as `512Mi`. A wrong
value ends the process with one line that names it.
"""


def page() -> str:
    """The settings of all services, then what one alone has."""
    return "\n".join([_HEAD, "## Of every service", "", *_rows(AimSettings.model_fields), *_own(), ""])


def _own() -> Iterator[str]:
    for name, code_ in services().items():
        fields = {
            one: field for one, field in code_.settings.model_fields.items() if one not in AimSettings.model_fields
        }
        if fields:
            yield from ("", f"## Of {name} alone", "")
            yield from _rows(fields)


def _rows(fields: dict[str, FieldInfo]) -> Iterator[str]:
    rows = (
        (code(f"AIM_{name.upper()}"), code(_flag(name)), _default(field), _meaning(field))
        for name, field in fields.items()
    )
    return table(("variable", "flag", "default", "meaning"), rows)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "from the pod"
    return "" if field.default is None else code(field.default)


def _meaning(field: FieldInfo) -> str:
    return field.description or ""
