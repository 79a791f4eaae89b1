"""Errors tell everything that their classification asks for."""

import errno
import socket
from typing import Any

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from support.fake_apiserver import status

from controller_runtime import ApiError, dumps
from controller_runtime.kube.errors import ConnectionFailure, api_error, status_error
from controller_runtime.kube.transport import connection_failure

KEY = ConnectionKey("api", 443, True, True, None, None, None)

PROPERTIES = (
    "is_not_found",
    "is_already_exists",
    "is_conflict",
    "is_expired",
    "is_version_too_large",
    "is_namespace_terminating",
    "is_definition_terminating",
    "is_quota_exceeded",
    "is_admission_denial",
    "is_typed_patch_failure",
    "is_failed_json_patch_test",
    "is_transient",
)


def parsed(code: int, reason: str, message: str = "", **details: Any) -> ApiError:
    return api_error("PATCH /x", code, dumps(status(code, reason, message, **details)))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (parsed(404, "NotFound"), {"is_not_found"}),
        (parsed(409, "AlreadyExists"), {"is_already_exists"}),
        (parsed(409, "Conflict"), {"is_conflict"}),
        (parsed(410, "Expired"), {"is_expired"}),
        (parsed(410, "Gone"), {"is_expired"}),
        (
            parsed(504, "Timeout", "Too large resource version: 9", causes=[{"reason": "ResourceVersionTooLarge"}]),
            {"is_version_too_large"},
        ),
        (parsed(504, "Timeout", "request did not complete"), {"is_transient"}),
        (
            parsed(403, "Forbidden", "being terminated", causes=[{"reason": "NamespaceTerminating"}]),
            {"is_namespace_terminating"},
        ),
        (
            parsed(403, "Forbidden", 'admission webhook "isvc" denied the request: no'),
            {"is_admission_denial"},
        ),
        (parsed(400, "BadRequest", 'admission webhook "kyverno" denied the request: no'), {"is_admission_denial"}),
        (
            parsed(
                422,
                "Invalid",
                "x is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
                causes=[{"message": "no"}],
            ),
            {"is_admission_denial"},
        ),
        (parsed(403, "Forbidden", "cannot list"), set()),
        (
            parsed(500, "InternalError", "failed to create typed patch object (a/b): .spec.x: no field"),
            {"is_typed_patch_failure"},
        ),
        (parsed(500, "InternalError"), {"is_transient"}),
        (parsed(422, "Invalid", "the server rejected our request"), {"is_failed_json_patch_test"}),
        (parsed(422, "Invalid", "spec.x: bad", causes=[{"field": "spec.x"}]), set()),
        (parsed(429, "TooManyRequests"), {"is_transient"}),
        (parsed(401, "Unauthorized"), set()),
    ],
    ids=str,
)
@pytest.mark.spec("FW-044")
def test_facts_of_an_error(error: ApiError, expected: set[str]) -> None:
    assert {name for name in PROPERTIES if getattr(error, name)} == expected


def test_advice_to_wait_comes_from_the_header_or_the_details() -> None:
    assert api_error("GET /x", 429, b"{}", "3").retry_after == 3
    assert parsed(429, "TooManyRequests", retryAfterSeconds=5).retry_after == 5
    assert api_error("GET /x", 429, b"{}", "Wed, 21 Oct 2015 07:28:00 GMT").retry_after is None
    assert api_error("GET /x", 429, b"{}").retry_after is None


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b"[]", b"\xff\xfe"])
def test_bodies_of_proxies_are_quoted(body: bytes) -> None:
    error = api_error("GET /x", 502, body)
    assert (error.code, error.reason) == (502, "")
    assert error.message
    assert str(error).startswith("GET /x: 502")


def test_a_status_inside_a_watch_brings_its_own_code() -> None:
    assert status_error("GET /x", status(410, "Expired")).code == 410
    assert status_error("GET /x", {}).code == 500


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (aiohttp.ClientConnectorError(KEY, ConnectionRefusedError(errno.ECONNREFUSED, "no")), "REFUSED"),
        (aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "unknown")), "DNS"),
        (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), "RESET"),
        (aiohttp.ServerDisconnectedError(), "RESET"),
        (aiohttp.ClientPayloadError("cut"), "RESET"),
        (aiohttp.ServerTimeoutError("slow"), "TIMEOUT"),
        (aiohttp.ConnectionTimeoutError("slow"), "TIMEOUT"),
        (TimeoutError(), "TIMEOUT"),
        (aiohttp.ClientConnectorError(KEY, OSError(errno.ENETUNREACH, "no route")), "OTHER"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.spec("FW-045")
def test_ways_in_which_a_connection_fails(error: Exception, expected: str) -> None:
    assert connection_failure(error) is ConnectionFailure[expected]
