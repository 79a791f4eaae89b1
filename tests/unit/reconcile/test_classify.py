"""Classification of failed calls."""

import asyncio

import pytest

from controller_runtime import ApiError, Category, ClassifiedError, EffectError, Verb, classify
from controller_runtime.kube.errors import ApiConnectionError, ConnectionFailure, StatusCause
from controller_runtime.reconcile.status_writer import is_quiet


def api(code: int, reason: str = "", message: str = "", **more: bool) -> ApiError:
    return ApiError("PATCH /x", code, reason, message, has_details=more.get("details", True))


TERMINATING = ApiError("POST /x", 403, "Forbidden", "no", causes=(StatusCause("NamespaceTerminating", "", ""),))


@pytest.mark.spec("FW-044", "FW-043", "FW-S30", "FW-040")
@pytest.mark.parametrize(
    ("error", "category", "reason"),
    [
        (api(500, message="failed to create typed patch object (x)"), Category.INVALID_SPEC, "InvalidSpec"),
        (api(403, message='admission webhook "x" denied the request: y'), Category.INVALID_SPEC, "AdmissionDenied"),
        (
            api(422, message="ValidatingAdmissionPolicy 'p' with binding 'b' denied request: y"),
            Category.INVALID_SPEC,
            "AdmissionDenied",
        ),
        (
            api(403, message='c "x" is forbidden: create not allowed while custom resource definition is terminating'),
            Category.INFRASTRUCTURE,
            "NotFound",
        ),
        (
            api(403, message='claims "x" is forbidden: exceeded quota: team, requested: claims=1, limited: claims=0'),
            Category.INFRASTRUCTURE,
            "QuotaExceeded",
        ),
        (
            api(403, message='claims "x" is forbidden: maximum storage usage is 1Gi, but request is 2Gi'),
            Category.INVALID_SPEC,
            "AdmissionDenied",
        ),
        (
            api(403, message='jobs.batch is forbidden: User "a" cannot create resource "jobs" in API group "batch"'),
            Category.AUTH,
            "Forbidden",
        ),
        (api(404), Category.MISSING_DOWNSTREAM, "NotFound"),
        (api(401), Category.AUTH, "Unauthorized"),
        (api(403), Category.AUTH, "Forbidden"),
        (api(422), Category.INVALID_SPEC, "InvalidSpec"),
        (api(409, "AlreadyExists"), Category.INVALID_SPEC, "AlreadyExists"),
        (api(409, "Conflict"), Category.INFRASTRUCTURE, "Conflict"),
        (api(504), Category.INFRASTRUCTURE, "Timeout"),
        (api(503), Category.INFRASTRUCTURE, "ServiceUnavailable"),
        (api(500), Category.INFRASTRUCTURE, "ServiceUnavailable"),
        (api(429), Category.INFRASTRUCTURE, "RateLimited"),
        (api(502), Category.INFRASTRUCTURE, "ServerError"),
        (api(400), Category.INVALID_SPEC, "ClientError"),
    ],
)
def test_answers_of_the_api_server(error: ApiError, category: Category, reason: str) -> None:
    classified = classify(error)
    assert (classified.category, classified.reason) == (category, reason)


@pytest.mark.spec("FW-044")
def test_a_failed_test_of_a_json_patch_is_a_conflict() -> None:
    failed = api(422, details=False)
    assert classify(failed, verb=Verb.PATCH).reason == "Conflict"
    assert classify(failed, verb=Verb.APPLY).reason == "InvalidSpec"


@pytest.mark.spec("FW-045", "FW-S30")
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (ConnectionFailure.REFUSED, "ConnectionRefused"),
        (ConnectionFailure.TIMEOUT, "NetworkTimeout"),
        (ConnectionFailure.RESET, "ConnectionReset"),
        (ConnectionFailure.DNS, "DNSFailure"),
        (ConnectionFailure.OTHER, "NetworkError"),
    ],
)
def test_network_failures(failure: ConnectionFailure, reason: str) -> None:
    classified = classify(ApiConnectionError("GET /x", failure, "api.example:6443", "dial", "why"))
    assert (classified.category, classified.reason) == (Category.INFRASTRUCTURE, reason)
    assert "api.example:6443" in classified.message
    assert "dial" in classified.message


@pytest.mark.spec("FW-042", "FW-S30")
def test_what_is_classified_stays_so_even_when_wrapped() -> None:
    inner = ClassifiedError(Category.AUTH, "MyReason", "mine")
    wrapped = RuntimeError("outside")
    wrapped.__cause__ = EffectError(inner)
    assert classify(wrapped) is inner


@pytest.mark.spec("FW-046", "FW-S30")
def test_anything_else_is_unknown() -> None:
    assert classify(ValueError("odd")) == ClassifiedError(Category.UNKNOWN, "UnknownError", "odd")


@pytest.mark.spec("FW-811")
@pytest.mark.parametrize("verb", [Verb.CREATE, Verb.APPLY, Verb.PATCH])
def test_a_write_that_finds_no_place_for_its_object_is_no_missing_child(verb: Verb) -> None:
    assert classify(api(404), verb=verb).category is Category.INFRASTRUCTURE
    assert classify(api(404), verb=Verb.GET).category is Category.MISSING_DOWNSTREAM


@pytest.mark.spec("FW-048")
def test_a_shutdown_is_no_error() -> None:
    with pytest.raises(asyncio.CancelledError):
        classify(asyncio.CancelledError())


@pytest.mark.spec("FW-044", "FW-012", "FW-007")
@pytest.mark.parametrize(
    ("error", "verb", "quiet"),
    [
        (api(404), Verb.DELETE, True),
        (api(409, "Conflict"), Verb.DELETE, True),
        (api(409, "Conflict"), Verb.STATUS, True),
        (api(404), Verb.STATUS, True),
        (TERMINATING, Verb.CREATE, True),
        (api(403), Verb.CREATE, False),
        (api(409, "Conflict"), Verb.APPLY, False),
        (api(503), Verb.DELETE, False),
        (api(422, "Invalid", "test failed", details=False), Verb.STATUS, True),
        (api(422, "Invalid", "bad"), Verb.STATUS, False),
    ],
)
def test_what_ends_a_pass_quietly(error: ApiError, verb: Verb, quiet: bool) -> None:
    assert is_quiet(error, verb) is quiet
