"""S3 buckets: listing, copy and verification (AR-164, AR-735…AR-739, AR-745, AR-746, AR-756, AR-757)."""

import asyncio
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import obstore
from obstore.store import S3Store

from aim_artifacts.downloader.failure import DownloadError, log
from aim_artifacts.exit_codes import ExitCode
from aim_artifacts.source import Source
from controller_runtime import JsonObject, dumps

_BLOCK: Final = 1 << 20
_TRIES: Final = 5
_FIRST_PAUSE: Final = 0.5
_BOOKKEEPING: Final = Path(".cache", "aim-s3")
_PLAIN_MD5: Final = re.compile(r"[0-9a-f]{32}")
_LEGACY: Final = "s3"


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """An object to copy; ``path`` is where it goes below the target."""

    key: str
    path: str
    size: int
    etag: str


def open_store(source: Source, variables: Mapping[str, str]) -> S3Store:
    """The bucket with the credentials and the endpoint of the environment (AR-703).

    Raises:
        DownloadError: legacy signing is asked for.
    """
    if variables.get("AIM_S3_SIGNATURE_VERSION", "") == _LEGACY:
        raise DownloadError(
            ExitCode.USAGE, "AIM_S3_SIGNATURE_VERSION=s3 asks for legacy signing, which is not supported; use s3v4"
        )
    endpoint = _endpoint(variables)
    region = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or "us-east-1"
    insecure = endpoint is not None and endpoint.startswith("http://")
    config: dict[str, str | bool] = {"region": region}
    if endpoint is not None:
        config |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
    if not variables.get("AWS_ACCESS_KEY_ID"):
        # Without keys only public buckets can be read; asking the machine for others would borrow its identity.
        config["skip_signature"] = True
    return S3Store(
        source.bucket,
        config=config,  # type: ignore[arg-type]  # a plain dict of the documented keys
        client_options={"allow_http": insecure},
        retry_config={"max_retries": 3},
    )


def _endpoint(variables: Mapping[str, str]) -> str | None:
    url = variables.get("AWS_ENDPOINT_URL") or ""
    host = variables.get("S3_ENDPOINT") or ""
    if not url and host:
        url = f"{'http' if variables.get('S3_USE_HTTPS') == '0' else 'https'}://{host}"
    if url and "://" not in url:
        url = f"https://{url}"
    if url and variables.get("S3_NO_SSL", "").lower() == "true":
        url = f"http://{url.partition('://')[2]}"
    return url.rstrip("/") or None


async def list_objects(store: S3Store, source: Source) -> tuple[RemoteObject, ...]:
    """Everything below the key, or the object of that very name.

    Raises:
        DownloadError: there is neither.
    """
    found = await obstore.list(store, prefix=source.key or None).collect_async()
    prefix = f"{source.key}/" if source.key else ""
    objects = [
        RemoteObject(entry["path"], entry["path"].removeprefix(prefix), entry["size"], entry["e_tag"] or "")
        for entry in found
        if entry["path"] != source.key and not (entry["size"] == 0 and entry["path"].endswith("/"))
    ]
    if not objects:
        objects = [await _single(store, source)]
    return tuple(objects)


async def _single(store: S3Store, source: Source) -> RemoteObject:
    try:
        entry = await obstore.head_async(store, source.key) if source.key else None
    except FileNotFoundError:
        entry = None
    if entry is None:
        raise DownloadError(
            ExitCode.SOURCE_NOT_FOUND, f"nothing exists at s3://{source.path}; check bucket and key (NoSuchKey)"
        )
    return RemoteObject(source.key, PurePosixPath(source.key).name, entry["size"], entry["e_tag"] or "")


async def copy(store: S3Store, objects: Sequence[JsonObject], target: Path, workers: int) -> None:
    """Copy the objects, several at a time; the first that cannot be copied ends it (AR-737)."""
    slots = asyncio.Semaphore(workers)

    async def one(item: RemoteObject) -> None:
        async with slots:
            if not is_complete(item, target):
                await _copy_with_retries(store, item, target)

    try:
        async with asyncio.TaskGroup() as group:
            for entry in objects:
                group.create_task(one(RemoteObject(**entry)))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _copy_with_retries(store: S3Store, item: RemoteObject, target: Path) -> None:
    for number in range(1, _TRIES + 1):
        try:
            await _copy(store, item, target)
        except FileNotFoundError as error:
            raise DownloadError(ExitCode.SOURCE_NOT_FOUND, f"{item.key} vanished (NoSuchKey)") from error
        except obstore.exceptions.GenericError as error:
            if number == _TRIES:
                raise
            log(f"copying {item.key} failed, try {number} of {_TRIES}: {error}")
            await asyncio.sleep(_FIRST_PAUSE * 2 ** (number - 1))
        else:
            return


async def _copy(store: S3Store, item: RemoteObject, target: Path) -> None:
    part, note, final = _part(item, target), _note(item, target), target / item.path
    part.parent.mkdir(parents=True, exist_ok=True)
    final.parent.mkdir(parents=True, exist_ok=True)
    have = _begun(item, target)
    # Together with the note it would count as complete.
    final.unlink(missing_ok=True)
    note.write_bytes(_version(item))
    answer = await obstore.get_async(store, item.key, options={"range": {"offset": have}}) if have else None
    if answer is None or _unquoted(answer.meta["e_tag"]) != _unquoted(item.etag):
        have, answer = 0, await obstore.get_async(store, item.key)
    with part.open("ab") as stream:
        stream.truncate(have)
        async for block in answer.stream(min_chunk_size=_BLOCK):
            await asyncio.to_thread(stream.write, block)
    os.replace(part, final)  # noqa: PTH105 - Path.replace says the same


def _begun(item: RemoteObject, target: Path) -> int:
    """Bytes of exactly this version that an earlier process has left (AR-807)."""
    try:
        size = _part(item, target).stat().st_size
        return size if _note(item, target).read_bytes() == _version(item) and size < item.size else 0
    except OSError:
        return 0


def _unquoted(etag: str | None) -> str:
    return (etag or "").removeprefix("W/").strip('"')


def _version(item: RemoteObject) -> bytes:
    return dumps({"etag": item.etag, "size": item.size})


def is_complete(item: RemoteObject, target: Path) -> bool:
    """Whether an earlier run copied exactly this version (AR-745)."""
    final = target / item.path
    try:
        return _note(item, target).read_bytes() == _version(item) and final.stat().st_size == item.size
    except OSError:
        return False


def verify(objects: Sequence[RemoteObject], target: Path, workers: int) -> None:
    """Compare sizes, and MD5 where the ETag is one; remove what differs (AR-756…AR-758). Blocks.

    Raises:
        DownloadError: an object is missing or differs.
    """
    with ThreadPoolExecutor(workers) as pool:
        intact = pool.map(lambda item: _is_intact(item, target), objects)
    bad = [item for item, good in zip(objects, intact, strict=True) if not good]
    for item in bad:
        (target / item.path).unlink(missing_ok=True)
        _note(item, target).unlink(missing_ok=True)
    if bad:
        named = ", ".join(item.key for item in bad[:5])
        raise DownloadError(
            ExitCode.VERIFICATION_FAILED,
            f"{len(bad)} of {len(objects)} objects are missing or differ from the source and were removed: {named}",
        )
    log(f"verified {len(objects)} objects")


def _is_intact(item: RemoteObject, target: Path) -> bool:
    path = target / item.path
    if not path.is_file() or path.stat().st_size != item.size:
        return False
    etag = _unquoted(item.etag)
    if not _PLAIN_MD5.fullmatch(etag):
        return True
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() == etag


def _part(item: RemoteObject, target: Path) -> Path:
    return target / _BOOKKEEPING / f"{item.path}.part"


def _note(item: RemoteObject, target: Path) -> Path:
    return target / _BOOKKEEPING / f"{item.path}.json"


def to_json(objects: Sequence[RemoteObject]) -> list[JsonObject]:
    """For the transfer process."""
    return [asdict(item) for item in objects]
