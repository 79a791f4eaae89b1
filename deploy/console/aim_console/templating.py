"""Pages as HTML; whatever users wrote is text there (FW-635)."""

from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aim_cli.answer import plain
from aim_cli.cluster.refs import JsonObject

_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["plain"] = lambda text: plain(str(text))
_TEMPLATES.filters["capital"] = lambda text: text[:1].upper() + text[1:]


def render(template: str, content: JsonObject) -> str:
    """A page as HTML."""
    return _TEMPLATES.get_template(template).render(content)
