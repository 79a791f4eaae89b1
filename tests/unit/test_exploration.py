"""Properties explore the same examples each time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.spec("FW-468")
def test_the_same_examples_each_time() -> None:
    def explore() -> list[str]:
        seen: list[str] = []

        @given(st.text())
        def property_of_texts(text: str) -> None:
            seen.append(text)

        property_of_texts()
        return seen

    # Also at random: then by the seed that the header names.
    assert explore() == explore()
