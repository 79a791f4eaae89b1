"""The broker's answers to a publish."""

import pytest

from controller_runtime.log.broker.connection import (
    MessageRefusal,
    PubAck,
    PublishOutcome,
    Unknown,
    WrongSequence,
    read_ack,
)


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (b'{"stream":"S","seq":5}', PubAck(5)),
        (b'{"stream":"S","seq":5,"duplicate":true}', PubAck(5, duplicate=True)),
        (b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"}}', WrongSequence(7)),
        (b'{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}', WrongSequence(None)),
        (b'{"error":{"code":400,"err_code":10054,"description":"too large"}}', MessageRefusal(10054, "too large")),
    ],
)
def test_answers(data: bytes, outcome: PublishOutcome) -> None:
    assert read_ack(data) == outcome


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"garbage",
        b'{"error":{"code":503,"err_code":10008,"description":"temporarily unavailable"}}',
        b'{"error":{"code":400,"err_code":10002,"description":"resource limits exceeded for account"}}',
        b'{"error":{"code":400,"err_code":10077,"description":"maximum bytes exceeded"}}',
    ],
)
def test_what_tells_nothing_is_unknown(data: bytes) -> None:
    assert isinstance(read_ack(data), Unknown)
