"""Lines out of a byte stream, of whatever length."""

from collections.abc import Iterator
from typing import Final, final

LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes beyond which a line is taken for garbage; etcd refuses objects above 1.5 MB."""


@final
class LineSplitter:
    """Collects chunks and gives back whole lines; linear in the number of bytes, however they are cut."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take a chunk; yield the lines that are complete now, without their ends, empty ones left out.

        Raises:
            ValueError: a line exceeds `LONGEST_LINE`.
        """
        *complete, rest = chunk.split(b"\n")
        for end in complete:
            line = b"".join((*self._parts, end))
            self._parts.clear()
            self._held = 0
            if line:
                yield line
        self._held += len(rest)
        if self._held > LONGEST_LINE:
            raise ValueError(f"a line of more than {LONGEST_LINE} bytes; check that this is a Kubernetes API server")
        if rest:
            self._parts.append(rest)
