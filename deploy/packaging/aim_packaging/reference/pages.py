"""All reference pages, by the path of their files below ``docs/reference``."""

from collections.abc import Mapping
from pathlib import Path

from aim_packaging.reference import (
    cli_page,
    kinds_pages,
    labels_page,
    metrics_page,
    pictures,
    reasons_page,
    settings_page,
    values_page,
    variables_page,
)


def pages() -> Mapping[str, str]:
    """Every page and picture, with its text."""
    return {
        **{f"api/{name}": text for name, text in kinds_pages.pages().items()},
        **{f"pictures/{name}": text for name, text in pictures.pages().items()},
        "settings.md": settings_page.page(),
        "values.md": values_page.page(),
        "metrics.md": metrics_page.page(),
        "conditions.md": reasons_page.page(),
        "labels.md": labels_page.page(),
        "variables.md": variables_page.page(),
        "cli.md": cli_page.page(),
    }


def write(folder: Path) -> None:
    """Write every page."""
    for name, text in pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def outdated(folder: Path) -> list[Path]:
    """Pages that are missing or differ, and files that no page is any more."""
    wanted = {folder / name: text for name, text in pages().items()}
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    return stale + sorted({path for path in folder.rglob("*") if path.is_file()} - wanted.keys())
