"""Hugging Face repositories: listing, transfer and verification (AR-720, AR-728, AR-729, AR-755…AR-758)."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from httpx2 import TransportError
from huggingface_hub import HfApi, constants, get_hf_file_metadata, hf_hub_download, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.file_download import http_get
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # documented there

from aim_artifacts.downloader.failure import DownloadError, log
from aim_artifacts.downloader.hub_client import prepare_xet, use_endpoint
from aim_artifacts.downloader.retries import may_be_another, with_retries
from aim_artifacts.downloader.workers import for_each
from aim_artifacts.exit_codes import ExitCode
from aim_artifacts.file_selection import FileSelection
from controller_runtime import JsonObject

_BLOCK: Final = 1 << 20
BOOKKEEPING: Final = Path(".cache", "huggingface", "download")
_BY_HTTP: Final = Path(".cache", "huggingface", "aim-http")
"""Present where the last transfer was one by HTTP."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository.

    Attributes:
        size: bytes; 0 when the Hub does not know (AR-163).
        sha256: checksum of a large file; regular files have only ``blob_id``, a git object id.
    """

    path: str
    size: int
    blob_id: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at one commit, reduced to the selected files."""

    repo_id: str
    commit: str
    files: tuple[RemoteFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> JsonObject:
        """For the transfer process."""
        return asdict(self)


def list_repository(repo_id: str, revision: str, selection: FileSelection) -> Repository:
    """Resolve the revision once, and list what the filter selects. Blocks.

    Args:
        revision: branch, tag or commit; empty for the default branch (AR-826).

    Raises:
        DownloadError: nothing is selected (AR-410).
        Exception: whatever the Hub client raises; see `error_mapping`.
    """
    use_endpoint()
    api = HfApi()
    commit = api.repo_info(repo_id, revision=revision or None).sha
    entries = api.list_repo_tree(repo_id, recursive=True, revision=commit)
    files = tuple(_remote_file(entry) for entry in entries if isinstance(entry, RepoFile))
    selected = tuple(file for file in files if selection.selects(file.path))
    if not selected:
        raise DownloadError(
            ExitCode.NO_MATCHING_FILES,
            f"none of the {len(files)} files of {repo_id} is selected by the download filter; correct downloadFilter",
        )
    return Repository(repo_id, str(commit), selected)


def _remote_file(entry: RepoFile) -> RemoteFile:
    return RemoteFile(entry.path, entry.size or 0, entry.blob_id, entry.lfs.sha256 if entry.lfs else None)


def transfer(repo_id: str, commit: str, files: Sequence[RemoteFile], target: Path, workers: int) -> None:
    """Download the files; complete ones are skipped, those that HTTP began are continued (AR-807). Blocks."""
    use_endpoint()
    prepare_xet()
    begun = _begun(files, target) if _by_http(target) else {}
    drop_incomplete(target, keep=begun.values())

    def one(file: RemoteFile) -> None:
        part = begun.get(file.path)
        if part is not None and part.exists():
            url = hf_hub_url(repo_id, file.path, revision=commit)
            _continue(part, url, file.size, target / file.path)
        hf_hub_download(repo_id, file.path, revision=commit, local_dir=target)

    for_each(files, lambda file: with_retries(file.path, lambda: one(file), _may_pass), workers)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, HfHubHTTPError):
        return may_be_another(error.response.status_code)
    return isinstance(error, TransportError)


def _by_http(target: Path) -> bool:
    """Whether HTTP is used, and was used before; what Xet has begun nobody else can continue."""
    marker = target / _BY_HTTP
    if not constants.HF_HUB_DISABLE_XET and find_spec("hf_xet") is not None:
        marker.unlink(missing_ok=True)
        return False
    before = marker.exists()
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    return before


def _begun(files: Sequence[RemoteFile], target: Path) -> dict[str, Path]:
    """By path, what an earlier process left of large files; the client gives each process names of its own for them.

    A part tells its checksum; of files with the same content each gets another one.
    """
    found: dict[str, Path] = {}
    for file in files:
        if file.sha256 is not None and not (target / file.path).exists():
            folder = (target / BOOKKEEPING / file.path).parent
            parts = [(one.stat().st_size, one) for one in folder.glob(f"*.{file.sha256}.*incomplete")]
            fitting = [part for part in parts if part[0] <= file.size and part[1] not in found.values()]
            if fitting:
                found[file.path] = max(fitting)[1]
    return found


def _continue(part: Path, url: str, size: int, final: Path) -> None:
    """Fetch the rest by range; what it finds complete the Hub client compares and takes (AR-745)."""
    place = get_hf_file_metadata(url).location
    with part.open("ab") as stream:
        # The token goes to no other place than the Hub (`EndpointTransport`).
        http_get(place, stream, resume_size=stream.tell(), headers=build_hf_headers(), expected_size=size)
    final.parent.mkdir(parents=True, exist_ok=True)
    part.replace(final)


def drop_incomplete(target: Path, keep: Iterable[Path] = ()) -> None:
    """Remove what cannot be continued: it takes the room of what is missing (AR-724, AR-807)."""
    kept = set(keep)
    for leftover in (target / BOOKKEEPING).rglob("*.incomplete"):
        if leftover not in kept:
            leftover.unlink(missing_ok=True)


def verify(repository: Repository, target: Path, workers: int) -> None:
    """Compare every file with the Hub's checksum, and remove those that differ (AR-755, AR-757). Blocks.

    Raises:
        DownloadError: a file is missing or differs.
    """
    with ThreadPoolExecutor(workers) as pool:
        intact = pool.map(lambda file: is_intact(file, target), repository.files)
    bad = [file.path for file, good in zip(repository.files, intact, strict=True) if not good]
    for path in bad:
        _remove(path, target)
    if bad:
        named = ", ".join(bad[:5])
        raise DownloadError(
            ExitCode.VERIFICATION_FAILED,
            f"{len(bad)} of {len(repository.files)} files of {repository.repo_id} are missing or differ from the "
            f"source and were removed: {named}",
        )
    log(f"verified {len(repository.files)} files of {repository.repo_id} at {repository.commit}")


def is_intact(file: RemoteFile, target: Path) -> bool:
    """Whether the local file has the Hub's checksum."""
    path = target / file.path
    if not path.is_file():
        return False
    if file.sha256 is not None:
        return _digest(hashlib.sha256(), path) == file.sha256
    header = f"blob {path.stat().st_size}\0".encode()
    # Git's object ids are SHA-1; this proves completeness, not authenticity.
    return _digest(hashlib.sha1(header, usedforsecurity=False), path) == file.blob_id


def _digest(digest: "hashlib._Hash", path: Path) -> str:
    for block in _blocks(path):
        digest.update(block)
    return digest.hexdigest()


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            yield block


def _remove(path: str, target: Path) -> None:
    """The file and the client's note that it is complete."""
    leftovers: Iterable[Path] = (target / path, target / BOOKKEEPING / f"{path}.metadata")
    for leftover in leftovers:
        leftover.unlink(missing_ok=True)
