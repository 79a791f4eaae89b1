"""Answers of programs that others run: whatever they send, they are read within a limit."""

from collections.abc import AsyncIterable
from typing import Final

LONGEST: Final = 1 << 20
"""Bytes of an answer that are read."""


async def read_answer(chunks: AsyncIterable[bytes], remedy: str = "") -> bytes:
    """The whole answer.

    Raises:
        ValueError: it is longer; with the remedy, if there is one.
    """
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > LONGEST:
            raise ValueError(f"the answer has more than {LONGEST} bytes" + (f"; {remedy}" if remedy else ""))
    return bytes(body)
