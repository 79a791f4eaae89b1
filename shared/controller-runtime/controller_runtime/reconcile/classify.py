"""The one classification of failed calls to the API server and of everything else (FW-040…FW-048)."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.kube.errors import ApiConnectionError, ApiError, ConnectionFailure
from controller_runtime.reconcile.reconciler import EffectError
from controller_runtime.reconcile.verb import Verb


@dataclass(frozen=True, slots=True)
class _Rule:
    """One row of the table of FW-044; the first row that applies decides."""

    applies: Callable[[ApiError], bool]
    category: Category
    reason: str


def _code(*codes: int) -> Callable[[ApiError], bool]:
    return lambda error: error.code in codes


_RULES: Final = (
    _Rule(lambda error: error.is_typed_patch_failure, Category.INVALID_SPEC, "InvalidSpec"),
    _Rule(lambda error: error.is_admission_denial, Category.INVALID_SPEC, "AdmissionDenied"),
    _Rule(_code(404), Category.MISSING_DOWNSTREAM, "NotFound"),
    _Rule(_code(401), Category.AUTH, "Unauthorized"),
    _Rule(_code(403), Category.AUTH, "Forbidden"),
    _Rule(_code(422), Category.INVALID_SPEC, "InvalidSpec"),
    _Rule(lambda error: error.is_already_exists, Category.INVALID_SPEC, "AlreadyExists"),
    _Rule(_code(409), Category.INFRASTRUCTURE, "Conflict"),
    _Rule(_code(504), Category.INFRASTRUCTURE, "Timeout"),
    _Rule(_code(503, 500), Category.INFRASTRUCTURE, "ServiceUnavailable"),
    _Rule(_code(429), Category.INFRASTRUCTURE, "RateLimited"),
    _Rule(lambda error: error.code >= 500, Category.INFRASTRUCTURE, "ServerError"),
    _Rule(lambda error: 400 <= error.code < 500, Category.INVALID_SPEC, "ClientError"),
)

_CONNECTION_REASONS: Final[Mapping[ConnectionFailure, str]] = MappingProxyType(
    {
        ConnectionFailure.REFUSED: "ConnectionRefused",
        ConnectionFailure.TIMEOUT: "NetworkTimeout",
        ConnectionFailure.RESET: "ConnectionReset",
        ConnectionFailure.DNS: "DNSFailure",
        ConnectionFailure.OTHER: "NetworkError",
    }
)

_PLACING: Final = frozenset({Verb.CREATE, Verb.APPLY, Verb.PATCH})


def classify(error: BaseException, *, verb: Verb | None = None) -> ClassifiedError:
    """The error as a value. What is classified already, even when wrapped, keeps its classification (FW-042).

    Args:
        verb: what was asked; a failed JSON-patch test is a conflict, not an invalid object.

    Raises:
        asyncio.CancelledError: a shutdown is no error of the object (FW-048).
    """
    for cause in _chain(error):
        if isinstance(cause, asyncio.CancelledError):
            raise cause
        if isinstance(cause, EffectError):
            return cause.error
        if isinstance(cause, ApiError):
            return _classify_answer(cause, verb)
        if isinstance(cause, ApiConnectionError):
            return ClassifiedError(Category.INFRASTRUCTURE, _CONNECTION_REASONS[cause.failure], str(cause))
    return ClassifiedError(Category.UNKNOWN, "UnknownError", str(error) or type(error).__name__)


def _classify_answer(error: ApiError, verb: Verb | None) -> ClassifiedError:
    if verb in _PLACING and error.is_not_found:
        # What a write does not find is where it would write: the CRD or the namespace, which come back (FW-810).
        return ClassifiedError(Category.INFRASTRUCTURE, "NotFound", str(error))
    if verb is Verb.PATCH and error.is_failed_json_patch_test:
        return ClassifiedError(Category.INFRASTRUCTURE, "Conflict", str(error))
    rule = next((rule for rule in _RULES if rule.applies(error)), None)
    if rule is None:
        return ClassifiedError(Category.UNKNOWN, "UnknownError", str(error))
    return ClassifiedError(rule.category, rule.reason, str(error), error.retry_after)


def is_quiet(error: BaseException, verb: Verb) -> bool:
    """Whether the failure ends the pass without an error: its cause brings an event of its own.

    A terminating namespace refuses creates; a delete whose UID no longer fits has nothing left to do, and so has
    one that finds nothing (FW-007, FW-044); a status conflict means a newer version is on its way (FW-012).
    """
    if not isinstance(error, ApiError):
        return False
    if verb is Verb.DELETE:
        return error.is_not_found or error.is_conflict
    if verb is Verb.STATUS and (error.is_conflict or error.is_not_found or error.is_failed_json_patch_test):
        return True
    return error.is_namespace_terminating


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it wraps, outermost first."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain
