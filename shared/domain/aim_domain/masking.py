"""Hiding what looks like a credential before text is stored or shown (AR-352, FW-146, FW-343)."""

import re
from typing import Final

_MASK: Final = "***"
_SECRETS: Final = (
    re.compile(r"hf_[A-Za-z0-9]{4,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{8,}"),
    re.compile(r"(?<=Signature=)[^\s&\"']+", re.IGNORECASE),
    re.compile(r"(?<=X-Amz-Credential=)[^\s&\"']+", re.IGNORECASE),
    re.compile(r"(?<=X-Amz-Security-Token=)[^\s&\"']+", re.IGNORECASE),
    re.compile(r"(?<=Authorization:)\s*.+", re.IGNORECASE),
    re.compile(r"(?<=Bearer )[^\s\"']+", re.IGNORECASE),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
)


def masked(text: str) -> str:
    """The text with credentials replaced."""
    for pattern in _SECRETS:
        text = pattern.sub(_MASK, text)
    return text
