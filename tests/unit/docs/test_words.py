"""Pages, help, values, notes and code use the field's words (docs/glossary.md)."""

import re
import tokenize
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
WORDS: Final = re.compile(r"\b(nobody|somebody|whoever|anew|told|untold)\b(?!:)", re.IGNORECASE)
"""Words that leave open which component, user or state is meant. A colon follows the user of a container."""
_BLOCK: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_FREE_TEXT: Final = frozenset({tokenize.COMMENT, tokenize.STRING})


def pages() -> list[Path]:
    chart = ROOT / "deploy" / "charts" / "aim-engine"
    found = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *found, chart / "values.yaml", chart / "templates" / "NOTES.txt"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_who_acts(page: Path) -> None:
    text = _BLOCK.sub(lambda block: "\n" * block[0].count("\n"), page.read_text("utf-8"))
    lines = text.splitlines()
    assert [f"{number}: {line}" for number, line in enumerate(lines, 1) if WORDS.search(line)] == []


@pytest.mark.parametrize("package", ["shared", "services", "deploy"])
def test_comments_docstrings_and_messages_say_who_acts(package: str) -> None:
    assert [place for path in sorted((ROOT / package).rglob("*.py")) for place in vague(path)] == []


def vague(path: Path) -> list[str]:
    with tokenize.open(path) as source:
        texts = [token for token in tokenize.generate_tokens(source.readline) if token.type in _FREE_TEXT]
    return [f"{path.relative_to(ROOT)}:{text.start[0]}: {text.string}" for text in texts if WORDS.search(text.string)]
