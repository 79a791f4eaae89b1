"""Headers are read as the library reads them, only faster, and measured as the broker counts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client

from controller_runtime.log.broker.connection import BrokerClient, encoded_size, parse_headers

LINES = st.lists(
    st.binary(max_size=12)
    | st.sampled_from([b"A: b", b"a:b", b" A :\tb ", b"A B: c", b"\xc3\xa4: c", b"\x1ca: \x1c", b"a: \xc2\xa0\xc3"])
)


@given(LINES)
def test_any_bytes_read_as_the_library_reads_them(lines: list[bytes]) -> None:
    raw = b"\r\n".join(lines)
    assert parse_headers(raw) == Client._parse_header_lines(raw)


def test_the_connection_reads_them_so() -> None:
    """A release of the library that asks somebody else would be slow in silence."""
    assert "_parse_header_lines" in vars(Client)
    assert BrokerClient._parse_header_lines(b"A: b\r\n") == {"A": "b"}


@pytest.mark.parametrize("value", ["plain", "", "zwölf", "\U0001f600"])
def test_sizes_are_those_on_the_wire(value: str) -> None:
    headers = {"A": value, "Long-Name": "x"}
    wire = b"NATS/1.0\r\n" + b"".join(f"{k}: {v}\r\n".encode() for k, v in headers.items()) + b"\r\n"
    assert encoded_size(headers) == len(wire)
