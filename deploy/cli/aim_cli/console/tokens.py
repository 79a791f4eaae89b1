"""Whose a token is: asked of the API server, and remembered for a short time without the token (FW-678, FW-680)."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, TypeAlias, TypeVar

import structlog

from aim_cli.cluster.refs import JsonObject
from aim_cli.console.identity import User, token_review, user_of
from aim_cli.console.limits import Refusals
from controller_runtime import KubeError

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
    """The API server knows nobody by a token."""


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
            UnknownTokenError: nobody's.
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
        """Whose a token is, asked anew; ``None`` = nobody's.

        Raises:
            UnaskedError: the API server could not be asked.
        """
        try:
            return user_of(await self.review(token_review(token)))
        except (KubeError, ValueError) as error:
            # Whatever answered in place of the API server may have repeated what it was sent.
            told = str(error).replace(token, "***")
            _log.warning("cannot ask the API server whose a token is", error=told)
            raise UnaskedError from None


def _keep(known: OrderedDict[bytes, T], digest: bytes, value: T, most: int) -> None:
    known[digest] = value
    known.move_to_end(digest)
    while len(known) > most:
        known.popitem(last=False)
