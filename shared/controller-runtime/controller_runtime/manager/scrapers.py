"""Who may read the metrics: those whom the API server knows and allows to get ``/metrics`` (FW-348, FW-557, FW-558)."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import sha256
from typing import Final

import structlog

from controller_runtime.api.meta import Kind, Resource
from controller_runtime.json import JsonObject
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import KubeError

TOKEN_REVIEW: Final = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False, model=Resource)
SUBJECT_ACCESS_REVIEW: Final = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False, model=Resource
)
PATH: Final = "/metrics"
ALLOWED_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 10.0
OUTAGE_SECONDS: Final = 600.0
"""How long an answer that allowed counts while the API server cannot be asked: metrics are wanted most then."""
_REMEMBERED: Final = 256
_LONGEST_TOKEN: Final = 16 * 1024
_AT_ONCE: Final = 2
"""Reviews under way at the same time, so that a flood of wrong tokens takes no turn of the service's own requests."""

_log = structlog.get_logger(__name__)


class Verdict(IntEnum):
    """The answer, as the status of HTTP."""

    ALLOWED = 200
    UNKNOWN = 401
    FORBIDDEN = 403
    UNDECIDED = 503
    """The API server could not be asked."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """An answer of the API server, and when it was given."""

    verdict: Verdict
    at: float


def still_counts(known: Remembered, now: float) -> bool:
    """Whether an answer is young enough not to ask again."""
    return now - known.at < (ALLOWED_SECONDS if known.verdict is Verdict.ALLOWED else REFUSED_SECONDS)


def in_outage(known: Remembered | None, now: float) -> Verdict:
    """What counts while the API server cannot be asked."""
    if known is not None and known.verdict is Verdict.ALLOWED and now - known.at < OUTAGE_SECONDS:
        return Verdict.ALLOWED
    return Verdict.UNDECIDED


def bearer_token(authorization: str) -> str:
    """The token of an Authorization header; empty when it carries none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def access_review(user: JsonObject) -> JsonObject:
    """The question whether a user of a TokenReview may get the metrics."""
    spec = {
        "user": user.get("username", ""),
        "uid": user.get("uid", ""),
        "groups": user.get("groups") or [],
        "extra": user.get("extra") or {},
        "nonResourceAttributes": {"path": PATH, "verb": "get"},
    }
    return _question(SUBJECT_ACCESS_REVIEW, spec)


def _question(kind: Kind[Resource], spec: JsonObject) -> JsonObject:
    return {"apiVersion": f"{kind.group}/{kind.version}", "kind": kind.kind, "metadata": {}, "spec": spec}


@dataclass(slots=True)
class Scrapers:
    """Asks the API server about tokens, and remembers its answers for a short time; tokens are kept as digests."""

    kube: KubeClient
    field_manager: str
    clock: Callable[[], float] = time.monotonic
    _known: OrderedDict[bytes, Remembered] = field(default_factory=OrderedDict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def verdict(self, authorization: str) -> Verdict:
        """Whether a request with this Authorization header gets the page."""
        token = bearer_token(authorization)
        if not token or len(token) > _LONGEST_TOKEN:
            return Verdict.UNKNOWN
        digest = sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._counting(digest)
        if known is not None:
            return known
        async with self._turns:
            # Once more: a request before this one may have brought the answer.
            known = self._counting(digest)
            return await self._ask_and_keep(token, digest) if known is None else known

    def _counting(self, digest: bytes) -> Verdict | None:
        known = self._known.get(digest)
        return known.verdict if known is not None and still_counts(known, self.clock()) else None

    async def _ask_and_keep(self, token: str, digest: bytes) -> Verdict:
        try:
            verdict = await self._ask(token)
        except (KubeError, ValueError) as error:
            _log.warning("cannot tell whether a client may read the metrics", error=str(error))
            return in_outage(self._known.get(digest), self.clock())
        self._remember(digest, verdict)
        return verdict

    async def _ask(self, token: str) -> Verdict:
        review = await self._answer(TOKEN_REVIEW, _question(TOKEN_REVIEW, {"token": token}))
        if review.get("authenticated") is not True:
            return Verdict.UNKNOWN
        access = await self._answer(SUBJECT_ACCESS_REVIEW, access_review(review.get("user") or {}))
        return Verdict.ALLOWED if access.get("allowed") is True else Verdict.FORBIDDEN

    async def _answer(self, kind: Kind[Resource], question: JsonObject) -> JsonObject:
        answer: JsonObject = (await self.kube.create(kind, question, self.field_manager)).get("status") or {}
        return answer

    def _remember(self, digest: bytes, verdict: Verdict) -> None:
        self._known[digest] = Remembered(verdict, self.clock())
        self._known.move_to_end(digest)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
