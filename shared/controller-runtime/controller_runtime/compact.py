"""Memory: one copy of texts that many objects hold, and bodies compressed against another one of the same kind."""

import zlib
from sys import getrefcount
from typing import Final, final

_FEWEST: Final = 4_096
"""Number of texts up to which unused ones are not looked for."""
_OWN: Final = 4
"""References to a text without other holders, while it is looked at: key, value, loop variable, argument."""


@final
class Texts:
    """Texts in use, each once, and at most as many that are no longer held; for one thread."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._room = _FEWEST

    def __len__(self) -> int:
        return len(self._texts)

    def shared(self, text: str) -> str:
        """An equal text, the same object for all callers while it is held."""
        if len(self._texts) >= self._room:
            self._forget_unheld()
        return self._texts.setdefault(text, text)

    def _forget_unheld(self) -> None:
        self._texts = {text: text for text in self._texts if getrefcount(text) > _OWN}
        # Twice as many as are in use, so that looking costs each new text no more than one look.
        self._room = max(_FEWEST, 2 * len(self._texts))


shared: Final = Texts().shared
"""An equal text, the same object for all callers of this process while it is held."""


_SHORTEST: Final = 200
"""Bytes below which packing gains nothing."""
_POOR: Final = 0.25
"""Share of its size that a body may keep before it is taken for a better pattern than the present one."""
_PATIENCE: Final = 256
"""Bodies packed against a pattern before another one is tried. Patterns live as long as what is packed against them,
so they must be few where no two bodies resemble each other."""
_LEVEL: Final = 1
_REACH: Final = 512
"""Bytes by which a body may have grown against its pattern and still be found in it."""
_NARROWEST: Final = 9


@final
class Packed:
    """A body, packed."""

    __slots__ = ("_data", "_pattern")

    def __init__(self, data: bytes, pattern: bytes) -> None:
        self._data = data
        self._pattern = pattern

    @property
    def size(self) -> int:
        """Bytes that it takes, its share of the pattern left out."""
        return len(self._data)

    def unpack(self) -> bytes:
        """The body."""
        return zlib.decompressobj(-zlib.MAX_WBITS, self._pattern).decompress(self._data)


@final
class Packer:
    """Packs bodies that resemble each other; chooses which of them the others are compared with."""

    def __init__(self) -> None:
        self._pattern = b""
        self._packed = 0
        self._primed = _compressor(self._pattern, _NARROWEST)

    def pack(self, body: bytes) -> Packed | bytes:
        """The body, packed if that makes it smaller."""
        if len(body) < _SHORTEST:
            return body
        if not self._pattern:
            self._choose(body)
        pattern, data = self._pattern, self._deflated(body)
        self._packed += 1
        if len(data) > _POOR * len(body) and self._packed > _PATIENCE:
            self._choose(body)
        return Packed(data, pattern) if len(data) < len(body) else body

    def _choose(self, body: bytes) -> None:
        self._pattern, self._packed = body, 0
        self._primed = _compressor(body, _window(len(body)))

    def _deflated(self, body: bytes) -> bytes:
        window = _window(len(body))
        # To note what is where in the pattern takes longer than to copy the notes.
        fits = window <= _window(len(self._pattern))
        packer = self._primed.copy() if fits else _compressor(self._pattern, window)
        return packer.compress(body) + packer.flush()


def unpacked(held: Packed | bytes) -> bytes:
    """The body, however it is held."""
    return held.unpack() if isinstance(held, Packed) else held


def _window(size: int) -> int:
    """Bits of the window in which a body of this size, or a little more, is found as a whole."""
    return min(max((size + _REACH).bit_length(), _NARROWEST), zlib.MAX_WBITS)


def _compressor(pattern: bytes, window: int) -> "zlib._Compress":
    # What zlib sets up for a window that no body fills takes five times as long as the packing.
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, -window, window - 7, zlib.Z_DEFAULT_STRATEGY, pattern)
