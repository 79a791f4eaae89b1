"""Downloads from an S3 store, by the real program as a process."""

import asyncio
import hashlib
from pathlib import Path

import pytest
from support.downloads import FakeS3, Program, kill_all, serving
from support.nats import eventually

from controller_runtime import dumps

URI = "s3://models/models/tiny"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "not-a-secret"}


def access(bucket: FakeS3) -> dict[str, str | Path]:
    return {**KEYS, "AWS_ENDPOINT_URL": bucket.url}


@pytest.mark.spec("AR-164", "AR-155", "AR-771", "SC-121", "SC-122")
async def test_size_counts_what_is_below_the_key(program: Program, bucket: FakeS3) -> None:
    ended = await program.check_size(URI, **access(bucket))
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[-1] == '{"url":"s3://models/models/tiny","sizeBytes":12}'


@pytest.mark.spec("AR-735", "AR-745", "AR-746", "SC-055", "SC-123")
async def test_objects_are_copied_once(program: Program, bucket: FakeS3) -> None:
    ended = await program.download(URI, **access(bucket))
    assert ended.code == 0, ended.err
    assert program.files() == {"a.bin": b"a" * 10, "sub/b.json": b"{}"}
    assert not list(program.target.rglob("*.part"))
    bucket.downloads.clear()
    (program.target / "a.bin").write_bytes(b"torn")
    assert (await program.download(URI, **access(bucket))).code == 0
    assert bucket.downloads == ["models/tiny/a.bin"]


@pytest.mark.spec("AR-736")
async def test_a_single_object_keeps_its_last_segment(program: Program, bucket: FakeS3) -> None:
    assert (await program.download("s3://models/models/tiny/a.bin", **access(bucket))).code == 0
    assert program.files() == {"a.bin": b"a" * 10}


@pytest.mark.spec("AR-736", "AR-766", "SC-032", "SC-125", "AR-P15")
@pytest.mark.parametrize(
    ("uri", "error", "code"),
    [
        ("s3://models/nothing", None, 11),
        ("s3://absent/x", None, 11),
        (URI, (403, "InvalidAccessKeyId"), 10),
        (URI, (403, "SignatureDoesNotMatch"), 10),
        (URI, (403, "AccessDenied"), 10),
    ],
)
async def test_refusals_of_the_store(
    program: Program, bucket: FakeS3, uri: str, error: tuple[int, str] | None, code: int
) -> None:
    bucket.error = error
    ended = await program.download(uri, **access(bucket))
    assert ended.code == code, ended.err
    assert "not-a-secret" not in ended.err


@pytest.mark.spec("AR-756")
async def test_content_that_differs_from_its_etag_is_refused(program: Program, bucket: FakeS3) -> None:
    assert (await program.download(URI, **access(bucket))).code == 0
    (program.target / "a.bin").write_bytes(b"x" * 10)
    ended = await program.download(URI, **access(bucket))
    assert ended.code == 13
    assert not (program.target / "a.bin").exists()


@pytest.mark.spec("AR-738", "AR-806")
async def test_objects_that_would_be_one_file_are_refused(program: Program, bucket: FakeS3) -> None:
    bucket.objects["models/tiny/A.bin"] = b"other"
    ended = await program.download(URI, **access(bucket))
    assert ended.code == 2, ended.err
    assert "'A.bin' and 'a.bin' are one file" in ended.err
    assert (bucket.downloads, program.files()) == ([], {})


@pytest.mark.spec("AR-737", "AR-745")
async def test_content_that_breaks_off_is_continued(program: Program, bucket: FakeS3) -> None:
    key = "models/tiny/a.bin"
    bucket.faults.broken = {key: 1}
    ended = await program.download(URI, **access(bucket))
    assert ended.code == 0, ended.err
    assert program.files()["a.bin"] == b"a" * 10
    assert len([first for name, first in bucket.faults.ranges if name == key]) == 2


@pytest.mark.spec("AR-739")
async def test_credentials_are_on_no_command_line(program: Program, bucket: FakeS3) -> None:
    bucket.faults.hanging = True
    process = await program.start("aim_artifacts.downloader", URI, access(bucket))
    async with asyncio.timeout(60):
        await bucket.faults.asked.wait()
    lines = _command_lines()
    process.terminate()
    assert (await program.ended(process)).code == 143
    assert any("aim_artifacts.downloader.transfer" in line for line in lines), "the transfer is a process of its own"
    assert not [line for line in lines if KEYS["AWS_SECRET_ACCESS_KEY"] in line]


def _command_lines() -> list[str]:
    return [_command_line(one) for one in Path("/proc").iterdir() if one.name.isdecimal()]


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.spec("AR-761", "AR-772", "AR-P31")
async def test_the_size_is_all_that_is_printed_whatever_is_simulated_and_without_a_home(
    program: Program, bucket: FakeS3
) -> None:
    debug = {"AIM_DEBUG_CAUSE_FAILURE": "1", "AIM_DEBUG_CAUSE_HANG": "1", "AIM_DEBUG_SIMULATE_DOWNLOAD": "1"}
    nowhere = {"HOME": str(program.directory / "absent"), "PYTHONWARNINGS": "always"}
    ended = await program.check_size(URI, **access(bucket), **debug, **nowhere)
    assert (ended.code, ended.out) == (0, '{"url":"s3://models/models/tiny","sizeBytes":12}\n'), ended.err


@pytest.mark.spec("AR-807", "AR-746")
@pytest.mark.parametrize("changed", [False, True])
async def test_an_object_is_continued_after_a_kill_unless_it_is_another_one(
    program: Program, bucket: FakeS3, *, changed: bool
) -> None:
    key = "models/tiny/a.bin"
    bucket.objects[key], bucket.faults.half = b"a" * (8 << 20), {key}
    process = await program.start("aim_artifacts.downloader", URI, access(bucket))
    await eventually(lambda: any(program.sizes("*.part")), "half of it is there")
    kill_all(process.pid)
    await program.ended(process)
    bucket.faults.half = set()
    bucket.faults.ranges.clear()
    if changed:
        bucket.objects[key] = b"b" * (8 << 20)
    ended = await program.download(URI, **access(bucket))
    assert ended.code == 0, ended.err
    [start] = [first for name, first in bucket.faults.ranges if name == key]
    assert (start == 0) is changed
    assert program.files()["a.bin"] == bucket.objects[key]


@pytest.mark.spec("AR-807")
async def test_an_object_that_changed_since_the_listing_ends_the_transfer_and_comes_with_the_next(
    program: Program, bucket: FakeS3
) -> None:
    bucket.listed = {"models/tiny/a.bin": '"of-an-older-one"'}
    ended = await program.download(URI, **access(bucket))
    assert ended.code == 15, ended.err
    assert "models/tiny/a.bin has changed since it was listed" in ended.err
    assert "a.bin" not in program.files()
    bucket.listed = {}
    assert (await program.download(URI, **access(bucket))).code == 0
    assert program.files()["a.bin"] == b"a" * 10


def leave_part(program: Program, content: bytes) -> None:
    """What a process that was killed has left of ``a.bin``, ten times an ``a``."""
    notes = program.target / ".cache/aim-s3"
    notes.mkdir(parents=True)
    (notes / "a.bin.part").write_bytes(content)
    etag = hashlib.md5(b"a" * 10, usedforsecurity=False).hexdigest()
    (notes / "a.bin.json").write_bytes(dumps({"etag": f'"{etag}"', "size": 10}))


@pytest.mark.spec("AR-807", "AR-757")
@pytest.mark.parametrize(
    ("part", "ignored", "asked"),
    [(b"aaa", False, [3]), (b"aaa", True, [0]), (b"a" * 10, False, []), (b"a" * 11, False, [0]), (b"", False, [0])],
)
async def test_what_was_begun_is_continued_as_far_as_it_is_there(
    program: Program, bucket: FakeS3, part: bytes, asked: list[int], *, ignored: bool
) -> None:
    leave_part(program, part)
    bucket.faults.ranges_ignored = ignored
    ended = await program.download(URI, **access(bucket))
    assert ended.code == 0, ended.err
    assert [first for name, first in bucket.faults.ranges if name == "models/tiny/a.bin"] == asked
    assert program.files()["a.bin"] == b"a" * 10


@pytest.mark.spec("AR-808")
async def test_a_store_that_redirects_elsewhere_is_not_followed(program: Program, bucket: FakeS3) -> None:
    other = FakeS3(objects=bucket.objects)
    async with serving(other):
        bucket.elsewhere = other.url
        ended = await program.download(URI, **access(bucket))
    assert ended.code == 15, ended.err
    assert (other.authorizations, program.files()) == (set(), {})


@pytest.mark.spec("AR-703")
@pytest.mark.parametrize(
    ("variables", "begin"),
    [
        (KEYS, "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/"),
        ({**KEYS, "AIM_S3_SIGNATURE_VERSION": "s3"}, "AWS AKIAEXAMPLE:"),
        ({}, ""),
        ({"AWS_PROFILE": "somebody"}, ""),
    ],
)
async def test_how_requests_are_signed(program: Program, bucket: FakeS3, variables: dict[str, str], begin: str) -> None:
    ended = await program.check_size(URI, AWS_ENDPOINT_URL=bucket.url, **variables)
    assert ended.code == 0, ended.err
    [authorization] = bucket.authorizations
    assert authorization.startswith(begin)
    assert bool(authorization) is bool(begin)


@pytest.mark.spec("AR-703")
async def test_an_unknown_way_to_sign_is_named(program: Program, bucket: FakeS3) -> None:
    ended = await program.check_size(URI, **access(bucket), AIM_S3_SIGNATURE_VERSION="v9")
    assert ended.code == 2
    assert "AIM_S3_SIGNATURE_VERSION is 'v9'; known are s3v4 and s3" in ended.err
