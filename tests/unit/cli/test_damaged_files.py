"""Files that are no log, or no longer one: each is told in one line."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from aim_cli.errors import UnreadableError
from aim_cli.log.file import read, write
from controller_runtime import JsonObject

HEAD = b'{"aimlog": 1, "parts": [], "begins": "2026-11-24T00:00:00+00:00", "completeSince": {}}\n'
LINES = (
    b"",
    b"[1]\n",
    b"{}\n",
    b"not json\n",
    HEAD + b"[]\n",
    HEAD + b'{"is": "version", "part": "p", "namespace": "", "name": "n", "sequence": 1, "headers": 3, "body": {}}\n',
    HEAD + b'{"is": "decision", "record": {}, "stored": "x", "sequence": 1}\n',
    HEAD + b"[" * 100_000,
    b'{"aimlog": "\\u001b[31m"}\n',
)
WHOLE = gzip.compress(HEAD * 50)


@pytest.mark.spec("FW-687")
@pytest.mark.parametrize(
    "content",
    [
        *(gzip.compress(lines) for lines in LINES),
        b"plain",
        WHOLE[:-9],
        WHOLE[:12] + bytes(one ^ 0xFF for one in WHOLE[12:30]) + WHOLE[30:],
        gzip.compress(bytes(65 << 20)),
    ],
    ids=lambda content: f"{len(content)} bytes",
)
def test_a_file_that_is_no_log_is_reported_in_one_line(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "night.aimlog"
    file.write_bytes(content)
    with pytest.raises(UnreadableError) as reported:
        read(file)
    assert str(file) in str(reported.value)


@pytest.mark.spec("FW-687")
def test_an_empty_log_is_one(tmp_path: Path) -> None:
    file = tmp_path / "night.aimlog"
    file.write_bytes(gzip.compress(HEAD))
    assert read(file).decisions == ()


@pytest.mark.spec("FW-619")
def test_a_file_is_there_once_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "night.aimlog"
    file.write_bytes(b"of yesterday")

    def interrupted() -> Iterator[JsonObject]:
        yield {"aimlog": 1}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(file, interrupted())
    assert file.read_bytes() == b"of yesterday"
    write(file, [{"aimlog": 1}])
    assert gzip.decompress(file.read_bytes()) == b'{"aimlog":1}\n'
    assert list(tmp_path.iterdir()) == [file]
