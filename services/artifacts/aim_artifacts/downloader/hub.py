"""Downloads from a Hugging Face Hub."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, final
from urllib.parse import urljoin, urlsplit

from httpx2 import BaseTransport, Client, HTTPTransport, Limits, Request, Response, TransportError
from huggingface_hub import HfApi, constants, get_hf_file_metadata, hf_hub_download, hf_hub_url, set_client_factory
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.file_download import http_get
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # documented there

from aim_artifacts.downloader.failure import DownloadError, log
from aim_artifacts.downloader.names import at_most
from aim_artifacts.downloader.parallel import for_each, may_be_another, with_retries
from aim_artifacts.downloader_contract import ExitCode, FileSelection
from controller_runtime import JsonObject, environment_proxy, plain_no_proxy

_FOLLOWED: Final = ("next", "xet-auth")
"""Relations of links that the Hub client follows with its token."""
_REFRESH_ROUTE: Final = "x-xet-refresh-route"
_CREDENTIALS: Final = ("authorization", "cookie", "proxy-authorization")
_LIMITS: Final = Limits(max_connections=None, max_keepalive_connections=32)


def use_endpoint(variables: Mapping[str, str] = os.environ) -> None:
    """Let the Hub client send everything by `EndpointTransport`."""
    known = dict(variables)
    set_client_factory(lambda: _client(known))


def prepare_xet(variables: MutableMapping[str, str] = os.environ) -> None:
    """Give Xet, which reads the environment itself, a NO_PROXY that it understands (FW-792)."""
    plain = plain_no_proxy(variables)
    if plain:
        variables["NO_PROXY"] = variables["no_proxy"] = plain


def _client(variables: Mapping[str, str]) -> Client:
    # Without the environment, of which the client would read proxies in its own way.
    transport = EndpointTransport(constants.ENDPOINT, variables)
    return Client(transport=transport, trust_env=False, follow_redirects=True, timeout=None)


def at_endpoint(endpoint: str, link: str) -> str:
    """A link in an answer as a request to the endpoint: the endpoint's host and prefix, the link's path and query.

    A mirror hands on the links of the Hub that it copies. They name a host that the token is not for, and that may not
    be reachable from the cluster (AR-815).
    """
    base, parts = urlsplit(endpoint), urlsplit(link)
    prefix, path = base.path.rstrip("/"), f"/{parts.path.lstrip('/')}"
    if prefix and not path.startswith(f"{prefix}/"):
        path = prefix + path
    return base._replace(path=path, query=parts.query, fragment="").geturl()


@final
class EndpointTransport(BaseTransport):
    """Sends requests of the Hub client, those to the endpoint with credentials and all others without."""

    def __init__(self, endpoint: str, variables: Mapping[str, str]) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._variables = variables
        self._by_proxy: dict[str | None, HTTPTransport] = {}

    def handle_request(self, request: Request) -> Response:
        """Send one request; see the class."""
        url = str(request.url)
        is_ours = may_have_credentials(self._endpoint, url)
        if not is_ours:
            for name in _CREDENTIALS:
                request.headers.pop(name, None)
        proxy = environment_proxy(url, self._variables)
        try:
            response = self._transport(proxy).handle_request(request)
        except TransportError as error:
            way = f" through the proxy {urlsplit(proxy).netloc.rpartition('@')[2]}" if proxy else ""
            # The client's own text names no host, and after a redirect the endpoint's would be the wrong one (AR-817).
            raise type(error)(f"{request.url.netloc.decode()} cannot be reached{way}: {error}") from error
        if is_ours:
            self._lead_back(response, url)
        return response

    def close(self) -> None:
        """Close all connections."""
        for transport in self._by_proxy.values():
            transport.close()

    def _transport(self, proxy: str | None) -> HTTPTransport:
        transport = self._by_proxy.get(proxy)
        if transport is None:
            # Threads of a download may come here at once; one of two equal transports is kept.
            # Of the environment it reads the authorities alone (SSL_CERT_FILE).
            made = HTTPTransport(proxy=proxy, limits=_LIMITS)
            transport = self._by_proxy.setdefault(proxy, made)
        return transport

    def _lead_back(self, response: Response, url: str) -> None:
        """Let the links of an answer that the client follows lead to the endpoint."""
        links = [
            f'<{at_endpoint(self._endpoint, urljoin(url, link))}>; rel="{relation}"'
            for relation, link in _followed_links(response)
        ]
        if "link" in response.headers:
            response.headers["link"] = ", ".join(links)
        if _REFRESH_ROUTE in response.headers:
            route = urljoin(url, response.headers[_REFRESH_ROUTE])
            response.headers[_REFRESH_ROUTE] = at_endpoint(self._endpoint, route)


def _followed_links(response: Response) -> Iterator[tuple[str, str]]:
    for relations, link in response.links.items():
        for relation in (relations or "").lower().split():
            if relation in _FOLLOWED and "url" in link:
                yield relation, link["url"]


def may_have_credentials(endpoint: str, url: str) -> bool:
    """Whether a URL is at the endpoint: host, scheme and port are the same, or its plain HTTP became HTTPS (AR-816)."""
    asked, own = _origin(url), _origin(endpoint)
    return asked == own or (asked[1] == own[1] and own[::2] == ("http", 80) and asked[::2] == ("https", 443))


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)


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
    entries = at_most(api.list_repo_tree(repo_id, recursive=True, revision=commit), f"hf://{repo_id}")
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
    """Whether HTTP is used, and was used before; no other client can continue what Xet has begun."""
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
