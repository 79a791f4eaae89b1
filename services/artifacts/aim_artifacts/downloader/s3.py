"""S3 buckets: listing and copy (AR-164, AR-735…AR-737, AR-745, AR-746, AR-807)."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError, ResponseStreamingError

from aim_artifacts.downloader.failure import DownloadError
from aim_artifacts.downloader.names import at_most
from aim_artifacts.downloader.parallel import for_each, may_be_another, with_retries
from aim_artifacts.downloader_contract import ExitCode
from aim_artifacts.source import Source
from controller_runtime import JsonObject, dumps

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import GetObjectRequestTypeDef

_BLOCK: Final = 1 << 18
"""Bytes of one write; larger ones leave the processor's cache before they are written."""
_BOOKKEEPING: Final = Path(".cache", "aim-s3")
_MISSING: Final = frozenset({"404", "NoSuchKey"})
_BROKEN_OFF: Final = (HTTPClientError, IncompleteReadError, ResponseStreamingError)


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """An object to copy; ``path`` is where it goes below the target."""

    key: str
    path: str
    size: int
    etag: str

    @property
    def version(self) -> bytes:
        """What the note beside the data says."""
        return dumps({"etag": self.etag, "size": self.size})


def list_objects(client: "S3Client", source: Source) -> tuple[RemoteObject, ...]:
    """Everything below the key, or the object of that very name. Blocks.

    Raises:
        DownloadError: there is neither.
        Exception: whatever the client raises; see `error_mapping`.
    """
    prefix = f"{source.key}/" if source.key else ""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=source.bucket, Prefix=prefix)
    entries = (entry for page in pages for entry in page.get("Contents", ()))
    objects = tuple(
        RemoteObject(entry["Key"], entry["Key"].removeprefix(prefix), entry["Size"], entry.get("ETag", ""))
        for entry in at_most(entries, f"s3://{source.path}")
        if not (entry["Size"] == 0 and entry["Key"].endswith("/"))
    )
    return objects or (_single(client, source),)


def _single(client: "S3Client", source: Source) -> RemoteObject:
    try:
        entry = client.head_object(Bucket=source.bucket, Key=source.key) if source.key else None
    except ClientError as error:
        if error.response["Error"]["Code"] not in _MISSING:
            raise
        entry = None
    if entry is None:
        raise DownloadError(
            ExitCode.SOURCE_NOT_FOUND, f"nothing exists at s3://{source.path}; check bucket and key (NoSuchKey)"
        )
    name = PurePosixPath(source.key).name
    return RemoteObject(source.key, name, entry["ContentLength"], entry.get("ETag", ""))


def copy(client: "S3Client", bucket: str, objects: Sequence[RemoteObject], target: Path, workers: int) -> None:
    """Copy the objects, several at a time; the first that cannot be copied ends it (AR-737). Blocks."""

    def one(item: RemoteObject) -> None:
        if not is_complete(item, target):
            with_retries(item.key, lambda: _copy(client, bucket, item, target), _may_pass)

    for_each(objects, one, workers)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, ClientError):
        return may_be_another(error.response["ResponseMetadata"]["HTTPStatusCode"])
    return isinstance(error, _BROKEN_OFF)


def _copy(client: "S3Client", bucket: str, item: RemoteObject, target: Path) -> None:
    part, note, final = _part(item, target), note_of(item, target), target / item.path
    part.parent.mkdir(parents=True, exist_ok=True)
    final.parent.mkdir(parents=True, exist_ok=True)
    have = _begun(item, target)
    # Together with the note it would count as complete.
    final.unlink(missing_ok=True)
    note.write_bytes(item.version)
    if have < item.size or not have:
        _fetch(client, bucket, item, part, have)
    os.replace(part, final)  # noqa: PTH105 - Path.replace says the same


def _fetch(client: "S3Client", bucket: str, item: RemoteObject, part: Path, have: int) -> None:
    """Append to the first ``have`` bytes what is missing."""
    wanted: GetObjectRequestTypeDef = {"Bucket": bucket, "Key": item.key}
    if have:
        wanted["Range"] = f"bytes={have}-"
    answer = client.get_object(**wanted)
    if unquoted(answer["ETag"]) != unquoted(item.etag):
        raise DownloadError(
            ExitCode.DOWNLOAD_FAILED, f"{item.key} has changed since it was listed; what was begun of it is dropped"
        )
    with part.open("ab") as stream:
        # Some stores say 200 to a range that they serve, and others serve all in spite of it.
        stream.truncate(have if answer.get("ContentRange", "").startswith(f"bytes {have}-") else 0)
        for block in answer["Body"].iter_chunks(_BLOCK):
            stream.write(block)


def _begun(item: RemoteObject, target: Path) -> int:
    """Bytes of exactly this version that an earlier process has left (AR-807)."""
    try:
        size = _part(item, target).stat().st_size
        return size if note_of(item, target).read_bytes() == item.version and size <= item.size else 0
    except OSError:
        return 0


def unquoted(etag: str) -> str:
    """The ETag itself, also of one that is called weak."""
    return etag.removeprefix("W/").strip('"')


def is_complete(item: RemoteObject, target: Path) -> bool:
    """Whether an earlier run copied exactly this version (AR-745)."""
    final = target / item.path
    try:
        return note_of(item, target).read_bytes() == item.version and final.stat().st_size == item.size
    except OSError:
        return False


def _part(item: RemoteObject, target: Path) -> Path:
    return target / _BOOKKEEPING / f"{item.path}.part"


def note_of(item: RemoteObject, target: Path) -> Path:
    """The note about what is complete, or begun."""
    return target / _BOOKKEEPING / f"{item.path}.json"


def to_json(objects: Sequence[RemoteObject]) -> list[JsonObject]:
    """For the transfer process."""
    return [asdict(item) for item in objects]
