"""Errors, waits, links, manifests and settings: what is read out of a registry's answers."""

import json

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from controller_runtime import JsonObject
from oci_registry import RegistryError, RegistryErrorCategory, RegistryErrorCode, category_of_text
from oci_registry.authorization import LONGEST_TOKEN, token_of
from oci_registry.endpoints import Endpoint, Scheme, combined_error
from oci_registry.errors import category_of_status, code_of_status
from oci_registry.manifests import config_digest, digest_of, parse_config, platform_digest
from oci_registry.transport import Response, announced_wait, next_page

AUTH, NOT_FOUND, GENERIC = tuple(RegistryErrorCategory)
HERE = URL("https://host/v2/a/tags/list?n=2")


@pytest.mark.spec("FW-050", "DI-090", "AC-11")
def test_categories_of_statuses() -> None:
    assert [category_of_status(status) for status in (401, 403, 404, 400, 500)] == [
        AUTH,
        AUTH,
        NOT_FOUND,
        GENERIC,
        GENERIC,
    ]
    assert code_of_status(429) is RegistryErrorCode.RATE_LIMITED
    assert code_of_status(502) is RegistryErrorCode.SERVER_ERROR


@pytest.mark.spec("FW-051", "DI-091", "DI-092", "AC-11")
@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("pull access denied for x, repository does not exist or may require authorization", AUTH),
        ("Unauthorized: authentication required", AUTH),
        ("failed to authorize: 403 Forbidden", AUTH),
        ("unexpected status code 401", AUTH),
        ("HTTP 403: no", AUTH),
        ("manifest unknown: not found", NOT_FOUND),
        ("unexpected status from HEAD request: 404.", NOT_FOUND),
        ("NAME UNKNOWN", NOT_FOUND),
        ("no such image", NOT_FOUND),
        ("dial tcp: lookup x: no such host", GENERIC),
        ("dial tcp 10.0.0.1:443: i/o timeout", GENERIC),
        ("", GENERIC),
    ],
)
def test_categories_of_texts(text: str, category: RegistryErrorCategory) -> None:
    assert category_of_text(text) is category


@pytest.mark.spec("FW-052", "FW-P11")
@pytest.mark.parametrize(
    "text",
    [
        "dial tcp 10.0.0.1:403: timeout",
        "image host:404/a timed out",
        "pulling sha256:ab401cd: timeout",
        "pulling @sha256:404 timed out",
        "aim-model:1.404 timed out",
        "job-401-x timed out",
        "4040 ms",
    ],
)
def test_numbers_inside_other_things_are_no_statuses(text: str) -> None:
    assert category_of_text(text) is GENERIC


@pytest.mark.spec("MS-152")
@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:16:50 GMT"}, 10.0),
        ({"X-Retry-After": "1020"}, 20.0),
        ({"x-ratelimit-reset": "1030"}, 30.0),
        ({"Retry-After": "7", "x-ratelimit-reset": "1030"}, 7.0),
        ({"Retry-After": "soon", "x-ratelimit-reset": "1030"}, 30.0),
        ({"x-ratelimit-reset": "900"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "²", "x-ratelimit-reset": "inf"}, None),
        ({}, None),
    ],
)
def test_announced_waits(headers: dict[str, str], wait: float | None) -> None:
    assert announced_wait(CIMultiDict(headers), 1000.0) == wait


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "86400"},
        {"Retry-After": "9" * 400},
        {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"},
        {"X-RateLimit-Reset": "1e300"},
    ],
)
@pytest.mark.spec("FW-427")
def test_an_announced_wait_counts_for_an_hour_at_most(headers: dict[str, str]) -> None:
    assert announced_wait(CIMultiDict(headers), 1000.0) == 3600.0


@pytest.mark.spec("MS-116")
@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ('</v2/a/tags/list?n=2&last=b>; rel="next"', "https://host/v2/a/tags/list?n=2&last=b"),
        ("<https://host/x>; rel=next", "https://host/x"),
        ('<list?last=b%2Fc>; rel="next"', "https://host/v2/a/tags/list?last=b%2Fc"),
        ('</first>; rel="first", </second>; title="x"; rel="next"', "https://host/second"),
        ('</first>; rel="prev"', None),
        ("", None),
    ],
)
def test_next_pages(link: str, expected: str | None) -> None:
    assert next_page([link], HERE) == (None if expected is None else URL(expected, encoded=True))


@pytest.mark.spec("DI-084")
def test_choice_of_platform() -> None:
    def child(name: str, **platform: str) -> dict[str, object]:
        return {"digest": f"sha256:{name}", **({"platform": platform} if platform else {})}

    arm, ours = child("arm", os="linux", architecture="arm64"), child("ours", os="linux", architecture="amd64")
    assert platform_digest({"manifests": [arm, ours, child("later")]}, "m") == "sha256:ours"
    assert platform_digest({"manifests": [arm, child("bare"), ours]}, "m") == "sha256:bare"
    assert platform_digest({"config": {}}, "m") is None
    unusable: tuple[JsonObject, ...] = (
        {"manifests": [arm]},
        {"manifests": []},
        {"manifests": "x"},
        {"manifests": [{}]},
    )
    for index in unusable:
        with pytest.raises(RegistryError):
            platform_digest(index, "m")


@pytest.mark.spec("DI-085", "MS-157")
@pytest.mark.parametrize(
    "manifest", [{"schemaVersion": 1}, {}, {"config": []}, {"config": {}}, {"config": {"digest": "md5:x"}}]
)
def test_what_is_no_image_manifest(manifest: dict[str, object]) -> None:
    with pytest.raises(RegistryError) as caught:
        config_digest(manifest, "m")
    assert caught.value.category is GENERIC


@pytest.mark.spec("DI-086")
@pytest.mark.parametrize("document", [{}, {"config": None}, {"config": {"Labels": None, "Env": None}}])
def test_absent_labels_are_empty(document: dict[str, object]) -> None:
    config = parse_config(json.dumps(document).encode(), digest="d", config_digest="c", what="w")
    assert (config.labels, config.env) == ({}, ())


@pytest.mark.spec("MS-157")
@pytest.mark.parametrize(
    "document", [[], {"config": "x"}, {"config": {"Labels": ["a"]}}, {"config": {"Labels": {"a": 1}}}]
)
def test_configurations_of_the_wrong_shape(document: object) -> None:
    with pytest.raises(RegistryError):
        parse_config(json.dumps(document).encode(), digest="d", config_digest="c", what="w")


def test_digest() -> None:
    assert digest_of(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


CODES = RegistryErrorCode


@pytest.mark.spec("FW-389", "FW-390")
@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([CODES.TIMEOUT, CODES.RATE_LIMITED, CODES.AUTH_FAILED], CODES.RATE_LIMITED),
        ([CODES.NOT_FOUND, CODES.AUTH_FAILED, CODES.NOT_FOUND], CODES.AUTH_FAILED),
        ([CODES.NOT_FOUND, CODES.INVALID_RESPONSE], CODES.NOT_FOUND),
        ([CODES.INVALID_RESPONSE], CODES.INVALID_RESPONSE),
        ([], CODES.UNREACHABLE),
    ],
)
def test_the_error_of_all_endpoints(codes: list[RegistryErrorCode], expected: RegistryErrorCode) -> None:
    failures = [
        (Endpoint("r", Scheme.HTTPS, f"h{number}"), RegistryError(code, f"cause {number}"))
        for number, code in enumerate(codes)
    ]
    error = combined_error("r", failures)
    assert error.code is expected
    assert all(f"cause {number}" in str(error) for number in range(len(codes)))


@pytest.mark.spec("MS-262", "MS-270", "MS-271", "MS-272", "MS-273", "MS-274")
def test_transient_codes() -> None:
    assert {code for code in CODES if code.is_transient} == {
        CODES.RATE_LIMITED,
        CODES.TIMEOUT,
        CODES.UNREACHABLE,
        CODES.SERVER_ERROR,
        CODES.INVALID_RESPONSE,
    }


@pytest.mark.spec("MS-129")
def test_a_token_that_fits_no_header_is_refused() -> None:
    def answer(length: int) -> Response:
        body = json.dumps({"token": "x" * length, "expires_in": 10**12}).encode()
        return Response(200, HERE, CIMultiDictProxy(CIMultiDict()), body)

    assert len(token_of(answer(LONGEST_TOKEN), "host").value) == LONGEST_TOKEN
    with pytest.raises(RegistryError, match="fits no header"):
        token_of(answer(LONGEST_TOKEN + 1), "host")


@pytest.mark.spec("FW-S32")
@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("unauthorized: authentication required", AUTH),
        ("manifest unknown", NOT_FOUND),
        ("connection reset", GENERIC),
        ("pulling app@sha256:9f404b1e: i/o timeout", GENERIC),
    ],
)
def test_what_a_registry_says(text: str, category: RegistryErrorCategory) -> None:
    assert category_of_text(text) is category
