"""The envelope: what is written is read back, and garbage is refused with one error."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from support.epochs import E0, E1

from controller_runtime import Key
from controller_runtime.log.wire.messages import (
    EnvelopeError,
    LogMessage,
    StateMessage,
    Verb,
    decode_log,
    decode_state,
    is_traceparent,
    message_id,
    trace_of,
)
from controller_runtime.log.wire.subjects import FACTS_PART

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
KEY = Key("ml", "chat")
END_OF_TIME = "99991231T235959.999Z-ffffff"
MESSAGE = StateMessage(
    part="aimservices",
    key=KEY,
    verb=Verb.UPSERT,
    epoch=E1,
    store_id=E0,
    uid="u1",
    resource_version="17",
    previous=4,
    body=b'{"spec":{}}',
    traceparent=TRACE,
    time=datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
    source="aim-serving-0",
    id=message_id(E1, "u1", "17", Verb.UPSERT),
)


def test_cloudevents_headers() -> None:
    headers = {str(name): value for name, value in MESSAGE.headers().items()}
    assert headers == {
        "ce-specversion": "1.0",
        "ce-id": f"{E1}/u1/17/upsert",
        "ce-source": "aim-serving-0",
        "ce-type": "com.amd.eai.aim.object.upserted",
        "ce-subject": "aimservices/ml/chat",
        "ce-time": "2026-01-02T03:04:05.678+00:00",
        "content-type": "application/json",
        "traceparent": TRACE,
        "Nats-Msg-Id": f"{E1}/u1/17/upsert",
        "Aim-Epoch": E1,
        "Aim-Era": E0,
        "Aim-Uid": "u1",
        "Aim-Rv": "17",
        "Aim-Verb": "upsert",
        "Aim-Prev": "4",
    }


def test_a_version_comes_back() -> None:
    assert decode_state("aimservices", KEY, MESSAGE.headers(), MESSAGE.body) == MESSAGE
    assert MESSAGE.json() == {"spec": {}}


def test_a_logged_version_comes_back() -> None:
    logged = LogMessage(MESSAGE, 9)
    assert decode_log("aimservices", KEY, logged.headers(), MESSAGE.body) == logged


def test_a_tombstone_has_no_body() -> None:
    tombstone = replace(MESSAGE, verb=Verb.DELETE, body=b"")
    decoded = decode_state("aimservices", KEY, tombstone.headers(), b"whatever")
    assert decoded.deleted
    assert decoded.json() is None


def test_a_repair_has_another_id_than_a_retry() -> None:
    assert message_id("e", "u", "1", Verb.UPSERT, attempt=1) != message_id("e", "u", "1", Verb.UPSERT)


@pytest.mark.parametrize(
    "name", ["Aim-Epoch", "Aim-Era", "Aim-Uid", "Aim-Rv", "Aim-Verb", "Aim-Prev", "ce-time", "ce-id"]
)
@pytest.mark.parametrize(
    "value",
    [None, "", "-1", "garbage", pytest.param("9" * 5000, id="5000 digits"), "\u0663", "1_0", "zzzz", END_OF_TIME],
)
@pytest.mark.spec("FW-486")
def test_garbage_raises_one_error(name: str, value: str | None) -> None:
    headers = {str(key): found for key, found in MESSAGE.headers().items() if key != name}
    if value is not None:
        headers[name] = value
    opaque = {"Aim-Uid", "ce-id"}
    if name in opaque and value:
        assert decode_state("aimservices", KEY, headers, b"{}").key == KEY
    else:
        with pytest.raises(EnvelopeError, match=r"aimservices ml/chat"):
            decode_state("aimservices", KEY, headers, b"{}")


@pytest.mark.spec("FW-486")
def test_only_a_fact_may_lack_a_resource_version() -> None:
    headers = {**MESSAGE.headers(), "Aim-Rv": ""}
    assert decode_state(FACTS_PART, KEY, headers, b"{}").resource_version == ""
    with pytest.raises(EnvelopeError):
        decode_log("aimservices", KEY, {**headers, "Aim-Seq": "3"}, b"{}")


def test_no_headers_at_all_are_garbage() -> None:
    with pytest.raises(EnvelopeError):
        decode_state("aimservices", KEY, None, b"{}")


@pytest.mark.parametrize("sequence", [None, "x", "-3"])
def test_a_logged_version_needs_its_sequence(sequence: str | None) -> None:
    headers = {**MESSAGE.headers()} | ({"Aim-Seq": sequence} if sequence else {})
    with pytest.raises(EnvelopeError):
        decode_log("aimservices", KEY, headers, b"{}")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff"])
def test_a_body_that_is_no_object_is_garbage(body: bytes) -> None:
    with pytest.raises(EnvelopeError):
        replace(MESSAGE, body=body).json()


def test_a_trace_goes_on_from_the_annotation() -> None:
    assert trace_of({"metadata": {"uid": "u", "annotations": {"aim.eai.amd.com/traceparent": TRACE}}}) == TRACE


@pytest.mark.parametrize("annotation", ["", "nonsense", "00-" + "0" * 32 + "-b7ad6b7169203331-01", TRACE.upper()])
def test_an_invalid_annotation_is_ignored(annotation: str) -> None:
    obj = {"metadata": {"uid": "u", "generation": 1, "annotations": {"aim.eai.amd.com/traceparent": annotation}}}
    assert trace_of(obj) == trace_of({"metadata": {"uid": "u", "generation": 1}})


def test_a_generation_is_a_trace() -> None:
    first = trace_of({"metadata": {"uid": "u", "generation": 1, "resourceVersion": "5"}})
    assert is_traceparent(first)
    assert trace_of({"metadata": {"uid": "u", "generation": 1, "resourceVersion": "6"}}) == first
    assert trace_of({"metadata": {"uid": "u", "generation": 2}}) != first
    assert trace_of({"metadata": {"uid": "v", "generation": 1}}) != first
