"""What the pages for users show: objects, other YAML, and commands."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from controller_runtime import JsonObject

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
_NOT_FOR_USERS: Final = ("spec", "development", "reference")
PAGES: Final = [
    ROOT / "README.md",
    ROOT / "UPGRADING.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if page.relative_to(DOCS).parts[0] not in _NOT_FOR_USERS),
]
"""What contributors run is run by them; the reference is generated."""
PROGRAMS: Final = ("install", "make", "kubectl", "helm", "aim", "curl", ".venv/bin/aim", ".venv/bin/python")
_BLOCK: Final = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`([^`]+)`")
_REMARK: Final = re.compile(r"(^|\s{2,})#.*$")
_PLACEHOLDER: Final = re.compile(r"\b[A-Z]{3,}\b(?![_=])|<[a-z-]+>|…")
_DRAWN: Final = re.compile(r"[│─▶▼]")
_COMMAND_WORDS: Final = 4
"""Fewer words between backquotes name a command rather than giving one."""


def name_of(page: Path) -> str:
    """Path below the repository."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Language and text of every block."""
    yield from _BLOCK.findall(page.read_text(encoding="utf-8"))


def documents(page: Path) -> Iterator[JsonObject]:
    """What stands in the YAML of a page."""
    for language, text in blocks(page):
        if language == "yaml":
            yield from yaml.safe_load_all(text)


def objects(page: Path) -> list[JsonObject]:
    """The objects of a page."""
    return [one for one in documents(page) if "apiVersion" in one]


def lines(page: Path) -> Iterator[str]:
    """What is to be typed, and all else of such a block; remarks are left out."""
    for language, text in blocks(page):
        if language == "console":
            yield from (line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ "))
        elif language in ("", "sh", "bash") and not _DRAWN.search(text):
            yield from filter(None, (_REMARK.sub("", line).strip() for line in _joined(text).splitlines()))


def commands(page: Path) -> list[str]:
    """The commands of its blocks, then those within its lines that are whole."""
    return list(dict.fromkeys((*(line for line in lines(page) if program(line)), *filter(_is_whole, mentioned(page)))))


def program(line: str) -> str:
    """The program that a line runs, behind variables; empty if it runs none."""
    words = [word for word in line.split() if not re.match(r"[A-Z_]+=", word)]
    return words[0] if words and words[0] in PROGRAMS else ""


def mentioned(page: Path) -> list[str]:
    """What its lines name of commands, whole or not."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return [" ".join(found.split()) for found in _INLINE.findall(text) if program(found) and " " in found]


def _is_whole(line: str) -> bool:
    return len(line.split()) >= _COMMAND_WORDS and not _PLACEHOLDER.search(line)


def _joined(text: str) -> str:
    return re.sub(r"\\\n\s*", "", text)
