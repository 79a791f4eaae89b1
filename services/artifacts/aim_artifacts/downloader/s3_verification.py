"""Whether what came from S3 is what is stored there (AR-756…AR-758)."""

import hashlib
import re
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from awscrt import checksums

from aim_artifacts.downloader.failure import DownloadError, log
from aim_artifacts.downloader.s3 import RemoteObject, note_of, unquoted
from aim_artifacts.downloader_contract import ExitCode

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import HeadObjectOutputTypeDef

_BLOCK: Final = 1 << 20
_PLAIN_MD5: Final = re.compile(r"[0-9a-f]{32}")
_WHOLE: Final = "FULL_OBJECT"
"""Of an object in parts; a checksum of checksums can only be compared where the sizes of the parts are known."""
_OWN_KEYS: Final = "AES256"
_NAMED: Final = 5


class Checksum(Protocol):
    """A sum over blocks."""

    def update(self, block: bytes, /) -> None:
        """Take the next block into account."""

    def digest(self) -> bytes:
        """The sum of all."""


class _Crc:
    """A cyclic sum, as S3 stores it: most significant byte first."""

    def __init__(self, function: Callable[[bytes, int], int], size: int) -> None:
        self._function, self._size, self._sum = function, size, 0

    def update(self, block: bytes, /) -> None:
        self._sum = self._function(block, self._sum)

    def digest(self) -> bytes:
        return self._sum.to_bytes(self._size, "big")


def _md5() -> Checksum:
    return hashlib.md5(usedforsecurity=False)


def _sha1() -> Checksum:
    return hashlib.sha1(usedforsecurity=False)


ALGORITHMS: Final[Mapping[str, Callable[[], Checksum]]] = MappingProxyType(
    {
        "ChecksumSHA256": hashlib.sha256,
        "ChecksumCRC64NVME": lambda: _Crc(checksums.crc64nvme, 8),
        "ChecksumCRC32C": lambda: _Crc(checksums.crc32c, 4),
        "ChecksumCRC32": lambda: _Crc(zlib.crc32, 4),
        "ChecksumSHA1": _sha1,
    }
)
"""Checksums that S3 stores, by their name in an answer; the first that there is decides."""


def verify(client: "S3Client", bucket: str, objects: Sequence[RemoteObject], target: Path, workers: int) -> None:
    """Compare sizes and checksums, and remove what differs. Blocks.

    Raises:
        DownloadError: an object is missing or differs.
    """
    with ThreadPoolExecutor(workers) as pool:
        intact = pool.map(lambda item: is_intact(client, bucket, item, target), objects)
    bad = [item for item, good in zip(objects, intact, strict=True) if not good]
    for item in bad:
        (target / item.path).unlink(missing_ok=True)
        note_of(item, target).unlink(missing_ok=True)
    if bad:
        named = ", ".join(item.key for item in bad[:_NAMED])
        raise DownloadError(
            ExitCode.VERIFICATION_FAILED,
            f"{len(bad)} of {len(objects)} objects are missing or differ from the source and were removed: {named}",
        )
    log(f"verified {len(objects)} objects")


def is_intact(client: "S3Client", bucket: str, item: RemoteObject, target: Path) -> bool:
    """Whether the file is the object: by its MD5 where the ETag is one, else by a stored checksum, else by its size."""
    path, etag = target / item.path, unquoted(item.etag)
    if not path.is_file() or path.stat().st_size != item.size:
        return False
    may_be_md5 = _PLAIN_MD5.fullmatch(etag) is not None
    if may_be_md5 and _sum_of(path, _md5()).hex() == etag:
        return True
    stored = client.head_object(Bucket=bucket, Key=item.key, ChecksumMode="ENABLED")
    for name, algorithm in ALGORITHMS.items():
        expected = stored.get(name)
        if expected is not None and stored.get("ChecksumType", _WHOLE) == _WHOLE:
            return b64encode(_sum_of(path, algorithm())).decode() == expected
    return not may_be_md5 or _has_other_etags(stored)


def _has_other_etags(stored: "HeadObjectOutputTypeDef") -> bool:
    """ETags of objects under a key of KMS or of the customer look like an MD5 and are none."""
    return stored.get("ServerSideEncryption", _OWN_KEYS) != _OWN_KEYS or "SSECustomerAlgorithm" in stored


def _sum_of(path: Path, checksum: Checksum) -> bytes:
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(_BLOCK):
            checksum.update(block)
    return checksum.digest()
