"""Who has logged in, by the secret of a cookie that is nowhere else (FW-679)."""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aim_cli.console.identity import User, end_of

LONGEST_SECONDS: Final = 8 * 3600.0
REVIEWED_SECONDS: Final = 120.0
"""How long the API server is not asked again whether a token is still good."""
OF_A_USER: Final = 8
OF_ALL: Final = 1000
_NONCE: Final = 12


@dataclass(slots=True)
class _Session:
    user: User
    sealed: bytes
    ends: float
    reviewed: float
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Sessions:
    """Sessions of this process, the least recently used first.

    Attributes:
        review: whose a token is now; ``None`` = nobody's any more.
        clock: seconds since 1970, because tokens say their end so.
    """

    review: Callable[[str], Awaitable[User | None]]
    clock: Callable[[], float] = time.time
    _open: OrderedDict[bytes, _Session] = field(default_factory=OrderedDict)

    def open(self, token: str, user: User) -> str:
        """Begin a session of a user whom the API server recognised; its secret, for the cookie."""
        self._make_room(user)
        secret, now = secrets.token_urlsafe(32), self.clock()
        own = end_of(token)
        ends = now + LONGEST_SECONDS if own is None else min(own, now + LONGEST_SECONDS)
        self._open[_digest(secret)] = _Session(user, _sealed(secret, token), ends, now)
        return secret

    def _make_room(self, user: User) -> None:
        own = [one for one, session in self._open.items() if _person(session.user) == _person(user)]
        for one in own[: max(0, len(own) - OF_A_USER + 1)]:
            del self._open[one]
        while len(self._open) >= OF_ALL:
            self._open.popitem(last=False)

    async def user(self, secret: str) -> User | None:
        """Whose session it is; ``None`` if it has ended or never was.

        Raises:
            UnaskedError: whether the token is still good could not be asked; the session stays.
        """
        digest = _digest(secret)
        session = self._open.get(digest)
        if session is None:
            return None
        if self.clock() >= session.ends:
            del self._open[digest]
            return None
        self._open.move_to_end(digest)
        async with session.turn:
            if self.clock() - session.reviewed >= REVIEWED_SECONDS:
                await self._renew(session, digest, secret)
        return session.user if digest in self._open else None

    async def _renew(self, session: _Session, digest: bytes, secret: str) -> None:
        now = self.clock()
        user = await self.review(_unsealed(secret, session.sealed))
        if user is None or _person(user) != _person(session.user):
            self._open.pop(digest, None)
        else:
            session.user, session.reviewed = user, now

    def close(self, secret: str) -> User | None:
        """End a session; whose it was."""
        session = self._open.pop(_digest(secret), None)
        return None if session is None else session.user

    def __len__(self) -> int:
        return len(self._open)


def _person(user: User) -> tuple[str, str]:
    # What else is told of a user differs from token to token, as the name of the token does.
    return user.name, user.uid


def _digest(secret: str) -> bytes:
    return sha256(b"session:" + secret.encode("utf-8", "surrogateescape")).digest()


def _key(secret: str) -> AESGCM:
    return AESGCM(sha256(b"token:" + secret.encode()).digest())


def _sealed(secret: str, token: str) -> bytes:
    nonce = secrets.token_bytes(_NONCE)
    return nonce + _key(secret).encrypt(nonce, token.encode(), None)


def _unsealed(secret: str, sealed: bytes) -> str:
    return _key(secret).decrypt(sealed[:_NONCE], sealed[_NONCE:], None).decode()
