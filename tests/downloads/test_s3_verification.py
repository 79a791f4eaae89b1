"""What a stored checksum says about a file that came from S3 (AR-756)."""

import asyncio
import base64
import hashlib
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.downloads import FakeS3, serving

from aim_artifacts.downloader.s3 import RemoteObject
from aim_artifacts.downloader.s3_client import open_client
from aim_artifacts.downloader.s3_verification import ALGORITHMS, is_intact

CONTENT = b"123456789"
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
OF_PARTS = f"{MD5}-2"
OTHER = "0" * 32
KMS = {"x-amz-server-side-encryption": "aws:kms"}


@pytest_asyncio.fixture
async def bucket() -> AsyncIterator[FakeS3]:
    store = FakeS3(objects={"a": CONTENT})
    async with serving(store):
        yield store


async def intact(bucket: FakeS3, folder: Path, etag: str, *, content: bytes = CONTENT) -> bool:
    (folder / "a").write_bytes(content)
    client = open_client({"AWS_ENDPOINT_URL": bucket.url})
    return await asyncio.to_thread(is_intact, client, "models", RemoteObject("a", "a", len(CONTENT), etag), folder)


def checksum(name: str, content: bytes) -> dict[str, str]:
    sums = ALGORITHMS[name]()
    sums.update(content[:4])
    sums.update(content[4:])
    return {f"x-amz-checksum-{name.removeprefix('Checksum').lower()}": base64.b64encode(sums.digest()).decode()}


@pytest.mark.spec("AR-756")
def test_the_sums_themselves() -> None:
    """The check values that each algorithm is known by."""
    known = {
        "ChecksumCRC32": "cbf43926",
        "ChecksumCRC32C": "e3069283",
        "ChecksumCRC64NVME": "ae8b14860a799888",
        "ChecksumSHA256": hashlib.sha256(CONTENT).hexdigest(),
        "ChecksumSHA1": hashlib.sha1(CONTENT, usedforsecurity=False).hexdigest(),
    }
    assert zlib.crc32(CONTENT) == int(known["ChecksumCRC32"], 16)
    for name, algorithm in ALGORITHMS.items():
        sums = algorithm()
        for first in range(0, len(CONTENT), 2):
            sums.update(CONTENT[first : first + 2])
        assert sums.digest().hex() == known[name]


@pytest.mark.spec("AR-756")
@pytest.mark.parametrize("name", ALGORITHMS)
async def test_a_stored_checksum_decides_where_the_etag_is_none(bucket: FakeS3, tmp_path: Path, name: str) -> None:
    bucket.stored = {"a": checksum(name, CONTENT) | {"x-amz-checksum-type": "FULL_OBJECT"}}
    assert await intact(bucket, tmp_path, OF_PARTS)
    assert not await intact(bucket, tmp_path, OF_PARTS, content=b"12345678x")


@pytest.mark.spec("AR-756")
@pytest.mark.parametrize(
    ("etag", "stored", "content", "good"),
    [
        pytest.param(MD5, {}, CONTENT, True, id="md5"),
        pytest.param(MD5, {}, b"12345678x", False, id="another md5"),
        pytest.param(MD5, {"x-amz-server-side-encryption": "AES256"}, b"12345678x", False, id="keys of the store"),
        pytest.param(OTHER, KMS, CONTENT, True, id="an etag of kms is no md5"),
        pytest.param(
            OTHER, {"x-amz-server-side-encryption-customer-algorithm": "AES256"}, CONTENT, True, id="a customer's key"
        ),
        pytest.param(
            OTHER, KMS | checksum("ChecksumCRC32", CONTENT), b"12345678x", False, id="a checksum decides for kms too"
        ),
        pytest.param(OF_PARTS, {}, b"12345678x", True, id="of parts the size alone"),
        pytest.param(OF_PARTS, {}, CONTENT[1:], False, id="another size"),
        pytest.param(
            OF_PARTS,
            checksum("ChecksumSHA256", b"of parts") | {"x-amz-checksum-type": "COMPOSITE"},
            CONTENT,
            True,
            id="a checksum of checksums",
        ),
    ],
)
async def test_what_a_file_is_compared_with(
    bucket: FakeS3, tmp_path: Path, etag: str, stored: dict[str, str], content: bytes, *, good: bool
) -> None:
    bucket.stored = {"a": stored}
    assert await intact(bucket, tmp_path, etag, content=content) is good
