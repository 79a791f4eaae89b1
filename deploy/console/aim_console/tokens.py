"""Whose a token is, and how much strangers and viewers may ask for (FW-680, FW-682)."""

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, TypeAlias, TypeVar

import structlog

from aim_cli.cluster.refs import JsonObject
from aim_console.sessions import User, token_review, user_of
from controller_runtime import KubeError

OF_AN_ADDRESS: Final = (5, 2.0)
OF_ALL: Final = (20, 0.2)
"""Refusals at once, and seconds for each after these."""
_ADDRESSES: Final = 1024
STREAMS: Final = (8, 500)
"""Of a viewer, and in all."""
READINGS: Final = (2, 4)
"""Pages that are made from the log at once, of a viewer, and in all: each may be much work for the one thread."""


@dataclass(slots=True)
class Bucket:
    """So many at once, then one every so many seconds.

    Attributes:
        full_at: when it will hold as many as it can again, if nothing is taken.
    """

    burst: int
    seconds: float
    full_at: float = 0.0

    def wait(self, now: float) -> float:
        """Seconds until there is one to take; 0 = there is."""
        return max(0.0, self.full_at - now - (self.burst - 1) * self.seconds)

    def take(self, now: float) -> None:
        """Take one, also of what is not there yet."""
        self.full_at = max(self.full_at, now) + self.seconds


@dataclass(slots=True)
class Refusals:
    """Counts unknown tokens, by the address that they came from and in all."""

    clock: Callable[[], float] = time.monotonic
    _all: Bucket = field(default_factory=lambda: Bucket(*OF_ALL))
    _of: OrderedDict[str, Bucket] = field(default_factory=OrderedDict)

    def wait(self, address: str) -> float:
        """Seconds until an unknown token from there may be asked about; 0 = now."""
        now, own = self.clock(), self._of.get(address)
        return max(self._all.wait(now), 0.0 if own is None else own.wait(now))

    def add(self, address: str) -> None:
        """One was refused."""
        now = self.clock()
        self._all.take(now)
        self._of.setdefault(address, Bucket(*OF_AN_ADDRESS)).take(now)
        self._of.move_to_end(address)
        while len(self._of) > _ADDRESSES:
            self._of.popitem(last=False)


@dataclass(slots=True)
class Places:
    """What is under way, by whose it is."""

    of_a_viewer: int
    in_all: int
    _taken: Counter[Hashable] = field(default_factory=Counter)

    def take(self, who: Hashable) -> bool:
        """Take a place; whether there was one."""
        if self._taken[who] >= self.of_a_viewer or self._taken.total() >= self.in_all:
            return False
        self._taken[who] += 1
        return True

    def leave(self, who: Hashable) -> None:
        """Give it back."""
        self._taken[who] -= 1
        if not self._taken[who]:
            del self._taken[who]


KNOWN_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 10.0
_KNOWN: Final = 256
_REFUSED: Final = 1024
_LONGEST: Final = 16 * 1024
_AT_ONCE: Final = 2

T = TypeVar("T")

Review: TypeAlias = Callable[[JsonObject], Awaitable[JsonObject]]
"""Creates a TokenReview and returns the answer."""

_log = structlog.get_logger(__name__)


class UnknownTokenError(Exception):
    """The API server knows no user by a token."""


class TooManyTokensError(Exception):
    """So many were refused that this one is not asked about yet."""

    def __init__(self, seconds: float) -> None:
        self.seconds: Final = math.ceil(seconds)
        super().__init__(f"too many tokens that the API server does not know; try again in {self.seconds} s")


class UnaskedError(Exception):
    """The API server could not be asked; the log says why."""


@dataclass(slots=True)
class Tokens:
    """Asks about tokens; keeps answers by digests."""

    review: Review
    clock: Callable[[], float] = time.monotonic
    _known: OrderedDict[bytes, tuple[User, float]] = field(default_factory=OrderedDict)
    _refused: OrderedDict[bytes, float] = field(default_factory=OrderedDict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _refusals: Refusals = field(init=False)

    def __post_init__(self) -> None:
        self._refusals = Refusals(self.clock)

    async def user(self, token: str, address: str) -> User:
        """Whose a token is that came from an address.

        Raises:
            UnknownTokenError: it has no user.
            TooManyTokensError: as of FW-680.
            UnaskedError: the API server could not be asked.
        """
        if not token or len(token) > _LONGEST:
            raise UnknownTokenError
        digest = sha256(token.encode("utf-8", "surrogateescape")).digest()
        if (user := self._answered(digest)) is not None:
            return user
        # Who was known before is asked about at once, however many strangers are there.
        if digest in self._known:
            return await self._ask(token, digest, address)
        async with self._turns:
            # Once more: a request before this one may have brought the answer, or taken the last attempt.
            if (user := self._answered(digest)) is not None:
                return user
            if seconds := self._refusals.wait(address):
                raise TooManyTokensError(seconds)
            return await self._ask(token, digest, address)

    def _answered(self, digest: bytes) -> User | None:
        now = self.clock()
        if digest in self._refused and now - self._refused[digest] < REFUSED_SECONDS:
            raise UnknownTokenError
        known = self._known.get(digest)
        return known[0] if known is not None and now - known[1] < KNOWN_SECONDS else None

    async def _ask(self, token: str, digest: bytes, address: str) -> User:
        user = await self.reviewed(token)
        if user is None:
            self._known.pop(digest, None)
            _keep(self._refused, digest, self.clock(), _REFUSED)
            self._refusals.add(address)
            _log.info("refused a token that the API server does not know", address=address)
            raise UnknownTokenError
        _keep(self._known, digest, (user, self.clock()), _KNOWN)
        return user

    async def reviewed(self, token: str) -> User | None:
        """Whose a token is, asked again; ``None`` = it has no user.

        Raises:
            UnaskedError: the API server could not be asked.
        """
        try:
            return user_of(await self.review(token_review(token)))
        except (KubeError, ValueError) as error:
            # Whatever answered in place of the API server may have repeated what it was sent.
            reported = str(error).replace(token, "***")
            _log.warning("cannot ask the API server whose a token is", error=reported)
            raise UnaskedError from None


def _keep(known: OrderedDict[bytes, T], digest: bytes, value: T, most: int) -> None:
    known[digest] = value
    known.move_to_end(digest)
    while len(known) > most:
        known.popitem(last=False)
