"""The end of every process of the downloader, as its libraries' threads would meet it."""

from pathlib import Path

import pytest
from support.downloads import FakeS3, Program

URI = "s3://models/models/tiny"
ABORTS = """
import atexit, os, sys

def abort():
    print("taken apart", file=sys.stderr, flush=True)
    os.abort()

atexit.register(abort)
"""
"""Stands for a thread that asks for the interpreter's lock while the interpreter goes away."""


def aborting(program: Program, bucket: FakeS3) -> dict[str, str | Path]:
    (program.directory / "sitecustomize.py").write_text(ABORTS)
    return {
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "not-a-secret",
        "AWS_ENDPOINT_URL": bucket.url,
        "PYTHONPATH": program.directory,
    }


@pytest.mark.spec("AR-767")
@pytest.mark.parametrize("source", [URI, "s3://models/missing"])
async def test_a_size_that_was_reported_can_not_become_an_abort(program: Program, bucket: FakeS3, source: str) -> None:
    ended = await program.check_size(source, **aborting(program, bucket))
    assert (ended.code, "taken apart" in ended.err) == (0 if source == URI else 11, False)


@pytest.mark.spec("AR-767")
async def test_a_complete_download_can_not_become_an_abort(program: Program, bucket: FakeS3) -> None:
    ended = await program.download(URI, **aborting(program, bucket))
    assert (ended.code, "taken apart" in ended.err) == (0, False), ended.err
    assert program.files() == {"a.bin": b"a" * 10, "sub/b.json": b"{}"}
