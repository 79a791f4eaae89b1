"""Reading the cluster for one answer: each collection once, nothing kept, nothing written.

Not the client of the services: that one brings retries, metrics and an event loop, and its import alone takes longer
than an answer may (FW-603).
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import urlencode

import urllib3

from aim_cli.cluster.refs import NO_SUCH_KIND, JsonObject, Ref, describe_error, unanswered
from aim_cli.errors import TargetError, UnreachableError
from aim_domain.kind_names import KindName
from controller_runtime import ApiError, KubeError, environment_proxy, load_connection, object_path
from controller_runtime.kind_names import collection_path
from controller_runtime.kube import Connection, api_error

T = TypeVar("T")

_PAGE: Final = 500
_TIMEOUT: Final = urllib3.Timeout(connect=5, read=30)
_RETRIES: Final = 2
_REFUSED: Final = 403
_REHEARSAL: Final = "dryRun=All&fieldManager=aim-plan&force=true"
_ERRORS: Final = 400
_NOT_UNDERSTOOD: Final = 400
_CHUNK: Final = 4096
_CONNECTIONS: Final = 16


@dataclass(slots=True)
class KubeReader:
    """A cluster over HTTP.

    Attributes:
        unasked: kinds that this user may not read, or that this cluster does not know.
    """

    server: str
    pool: urllib3.PoolManager
    headers: Mapping[str, str]
    unasked: dict[str, str] = field(default_factory=dict)
    lists: dict[tuple[str, str, str, str], list[JsonObject]] = field(default_factory=dict)

    def find(self, ref: Ref) -> JsonObject | None:
        """See `Cluster`."""
        try:
            path = object_path(ref.kind, ref.name, ref.namespace or None)
        except ValueError as error:
            raise TargetError(str(error)) from error
        try:
            return self.read(path)
        except ApiError as error:
            if error.code == _REFUSED:
                self.unasked[str(ref)] = error.message
            elif not error.is_not_found:
                raise
            return None

    def search(
        self,
        kind: KindName,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        owner: str = "",  # noqa: ARG002 - an API server cannot select by it
    ) -> list[JsonObject]:
        """See `Cluster`."""
        where = (kind.resource, namespace, labels, fields)
        if where not in self.lists:
            self.lists[where] = list(self.select(kind, namespace, labels, fields))
        return self.lists[where]

    def each(self, kind: KindName, namespace: str, make: Callable[[KindName, JsonObject], T]) -> list[T]:
        """See `Cluster`."""
        return [make(kind, one) for one in self.search(kind, namespace)]

    def knows(self, kind: KindName) -> bool:
        """Whether there are objects of a kind at all."""
        try:
            self.read(f"{collection_path(kind, None)}?limit=1")
        except ApiError as error:
            return not error.is_not_found
        return True

    def select(self, kind: KindName, namespace: str = "", labels: str = "", fields: str = "") -> Iterator[JsonObject]:
        """The objects of a collection, page by page, with what lists leave out."""
        token = ""
        while True:
            options = {"limit": _PAGE, "labelSelector": labels, "fieldSelector": fields, "continue": token}
            query = urlencode({key: value for key, value in options.items() if value})
            try:
                page = self.read(f"{collection_path(kind, namespace or None)}?{query}")
            except ApiError as error:
                if error.code != _REFUSED and not error.is_not_found:
                    raise
                self.unasked[kind.plural] = error.message if error.code == _REFUSED else NO_SUCH_KIND
                return
            yield from ({"apiVersion": kind.api_version, "kind": kind.kind, **one} for one in page["items"])
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def read(self, path: str) -> JsonObject:
        """The answer to a GET.

        Raises:
            ApiError: the server refuses.
        """
        return _decoded(path, self._send("GET", path))

    def lines(self, path: str) -> Iterator[str]:
        """The answer to a GET line by line as it comes, for as long as it takes.

        Raises:
            ApiError: the server refuses.
        """
        url = f"{self.server}{path}"
        endless = urllib3.Timeout(connect=5, read=None)
        answer = self.pool.request("GET", url, headers=self.headers, preload_content=False, timeout=endless)
        if answer.status >= _ERRORS:
            raise api_error(f"GET {path}", answer.status, answer.data)
        yield from split_lines(answer.stream(_CHUNK))

    def ask(self, path: str, question: JsonObject) -> JsonObject:
        """The answer to a review: it is sent by POST, and the server keeps nothing of it."""
        return _decoded(path, self._send("POST", path, json.dumps(question)))

    def rehearse(self, kind: KindName, obj: JsonObject) -> JsonObject:
        """What the server would store if the object were applied; it keeps nothing.

        Raises:
            ApiError: it would refuse.
        """
        path = object_path(kind, obj["metadata"]["name"], obj["metadata"].get("namespace"))
        answer = self._send("PATCH", f"{path}?{_REHEARSAL}", json.dumps(obj), "application/apply-patch+yaml")
        return _decoded(path, answer)

    def _send(self, method: str, path: str, body: str | None = None, form: str = "application/json") -> bytes:
        headers = {**self.headers, **({"Content-Type": form} if body else {})}
        answer = self.pool.request(method, f"{self.server}{path}", body=body, headers=headers)
        if answer.status >= _ERRORS:
            raise api_error(f"{method} {path}", answer.status, answer.data)
        return answer.data


def _decoded(path: str, answer: bytes) -> JsonObject:
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UnreachableError(f"{path}: the answer is no JSON object; check that this is an API server")
    return found


def split_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Whole lines of a stream that is cut anywhere, also within a character."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")


@contextmanager
def reading(
    kubeconfig: str | None, context: str | None, *, timeout: urllib3.Timeout = _TIMEOUT, retries: int = _RETRIES
) -> Iterator[KubeReader]:
    """The cluster of a kubeconfig, chosen as kubectl does.

    Raises:
        UnreachableError: it cannot be asked, or refuses.
        TargetError: it does not understand what it is asked.
    """
    server = ""
    try:
        connection, authorization = asyncio.run(_connection(kubeconfig, context))
        server = connection.server
        headers = {"Authorization": authorization} if authorization else {}
        with _pool(connection, timeout, retries) as pool:
            yield KubeReader(connection.server, pool, headers)
    except KubeError as error:
        # A selector that is none, or an object that cannot be one.
        wrong = isinstance(error, ApiError) and error.code == _NOT_UNDERSTOOD
        raise (TargetError if wrong else UnreachableError)(describe_error(server, error)) from error
    except urllib3.exceptions.HTTPError as error:
        cause = getattr(error, "reason", None) or error
        raise UnreachableError(unanswered(server, cause)) from error


async def _connection(kubeconfig: str | None, context: str | None) -> tuple[Connection, str | None]:
    connection = await load_connection(kubeconfig, context)
    return connection, await connection.credentials.authorization()


def _pool(connection: Connection, timeout: urllib3.Timeout, retries: int) -> urllib3.PoolManager:
    named = {"server_hostname": connection.tls_server_name} if connection.tls_server_name else {}
    make: Callable[..., urllib3.PoolManager] = urllib3.PoolManager
    proxy = connection.proxy or environment_proxy(connection.server)
    if proxy:
        make = _through(proxy)
    secure = {} if connection.tls is None else {"ssl_context": connection.tls, **named}
    again = urllib3.Retry(retries, redirect=0, raise_on_status=False)
    return make(maxsize=_CONNECTIONS, timeout=timeout, retries=again, **secure)


def _through(proxy: str) -> Callable[..., urllib3.PoolManager]:
    def make(**options: object) -> urllib3.PoolManager:
        return urllib3.ProxyManager(proxy, **options)  # type: ignore[arg-type]

    return make
