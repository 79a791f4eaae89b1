"""Go patterns behave as in Go."""

import re

import pytest

from embedded_apiserver.objects.schema_node import go_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        ("b", "abc", True),
        (r"^[a$]+$", "a$a", True),
        (r"^\$$", "$", True),
        (r"^[[:alnum:]]+$", "aZ9", True),
        (r"^[[:alnum:]]+$", "a-", False),
        (r"^[]a]+$", "]a", True),
        (r"^[^]a$]+$", "b$", False),
        (r"^[^]a]+$", "b", True),
        (r"^\d+\z", "12", True),
        (r"^\d+$", "٣", False),
    ],
)
def test_matching(pattern: str, text: str, matches: bool) -> None:
    assert bool(go_pattern(pattern).search(text)) is matches


def test_a_malformed_pattern_is_an_error() -> None:
    with pytest.raises(re.error):
        go_pattern("(")
