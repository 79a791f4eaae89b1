"""Texts of others, whose length nobody promises."""


def shortened(text: str, most: int) -> str:
    """A text of at most that many characters, and how many more there were."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"
