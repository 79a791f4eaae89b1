"""Viewers of the console: who they are, who has logged in, and what is known of their rights (FW-678, FW-679)."""

import asyncio
import base64
import binascii
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aim_cli.cluster.refs import JsonObject
from aim_console.access import REMEMBERED_SECONDS, Access, Review
from controller_runtime.manager import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW

REVIEWS: Final = (TOKEN_REVIEW, SUBJECT_ACCESS_REVIEW)
"""What the console creates at the API server, and all that it does there."""
_PARTS_OF_A_JWT: Final = 3


@dataclass(frozen=True, slots=True)
class User:
    """A user of the cluster, by all that its authorizers judge by."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def user_of(review: JsonObject) -> User | None:
    """The user of an answered TokenReview; ``None`` if the token has no user."""
    status = review.get("status") or {}
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    extra = sorted((user.get("extra") or {}).items())
    return User(
        user["username"],
        user.get("uid") or "",
        tuple(user.get("groups") or ()),
        tuple((name, tuple(values)) for name, values in extra),
    )


def token_review(token: str) -> JsonObject:
    """The question whose a token is."""
    return _question(TOKEN_REVIEW.kind, f"{TOKEN_REVIEW.group}/{TOKEN_REVIEW.version}", {"token": token})


def access_review(user: User, attributes: JsonObject) -> JsonObject:
    """The question whether a user may do something with a resource."""
    spec = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {name: list(values) for name, values in user.extra},
        "resourceAttributes": attributes,
    }
    version = f"{SUBJECT_ACCESS_REVIEW.group}/{SUBJECT_ACCESS_REVIEW.version}"
    return _question(SUBJECT_ACCESS_REVIEW.kind, version, spec)


def _question(kind: str, api_version: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {}, "spec": spec}


def end_of(token: str) -> float | None:
    """When a token ends by its own word, in seconds since 1970; ``None`` where it says nothing of that.

    Nothing is verified: that the token is good says the API server, this only makes its time shorter.
    """
    parts = token.split(".")
    if len(parts) != _PARTS_OF_A_JWT:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        ends = claims.get("exp")
    except (binascii.Error, ValueError, AttributeError, RecursionError):
        return None
    return float(ends) if isinstance(ends, int | float) and not isinstance(ends, bool) else None


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
        review: whose a token is now; ``None`` = no longer anyone's.
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

    def token(self, secret: str) -> str | None:
        """The token of an open session, for requests of its user (FW-872); ``None`` if it has ended."""
        session = self._open.get(_digest(secret))
        return None if session is None else _unsealed(secret, session.sealed)

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
    # What else is known of a user differs from token to token, as the name of the token does.
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


_MOST: Final = 256


@dataclass(slots=True)
class Viewers:
    """Rights by user.

    Attributes:
        review: creates a SubjectAccessReview and returns the answer.
    """

    review: Review
    clock: Callable[[], float] = time.monotonic
    _known: OrderedDict[User, tuple[Access, float]] = field(default_factory=OrderedDict)

    def access(self, user: User) -> Access:
        """What a user may see."""
        now = self.clock()
        found = self._known.pop(user, None)
        access = Access(self._asked_about(user), self.clock) if found is None else found[0]
        self._known[user] = access, now
        # The order is that of the last visits, and no answer counts for longer than this.
        while len(self._known) > _MOST or now - next(iter(self._known.values()))[1] > REMEMBERED_SECONDS:
            self._known.popitem(last=False)
        return access

    def _asked_about(self, user: User) -> Review:
        async def review(question: JsonObject) -> JsonObject:
            return await self.review(access_review(user, question["spec"]["resourceAttributes"]))

        return review

    def __len__(self) -> int:
        return len(self._known)
