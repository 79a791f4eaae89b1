"""Who may see the pages: by a token, a form or a proxy in front (FW-634, FW-678)."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import parse_qs

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from aim_cli.errors import UnreachableError
from aim_console.access import Access
from aim_console.sessions import Sessions, User, Viewers
from aim_console.templating import render
from aim_console.tokens import Tokens, TooManyTokensError, UnaskedError, UnknownTokenError
from controller_runtime import KubeClient
from controller_runtime.manager import bearer_token

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": with that, browsers do not say either which origin a form is from.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


async def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Viewer:
    """The viewer who asks for a page.

    Attributes:
        access: what they may see.
        person: the same for all requests of one person.
        name: what they are called, where the pages show it.
        is_still_in: whether a stream that they opened may go on.
        client: of the API server, with the viewer's own credentials (FW-872).
    """

    access: Access
    client: Callable[[], AbstractAsyncContextManager[KubeClient]]
    person: Hashable = ""
    name: str = ""
    is_still_in: Callable[[], Awaitable[bool]] = _always


class Door(Protocol):
    """Lets viewers in.

    Attributes:
        hosts: names under which the pages may be asked for.
        routes: addresses of its own.
    """

    @property
    def hosts(self) -> Sequence[str]: ...

    @property
    def routes(self) -> Sequence[BaseRoute]: ...

    async def admit(self, request: Request) -> Viewer | Response:
        """Who asks, or what they are answered in place of a page."""


@dataclass(frozen=True, slots=True)
class PrivateDoor:
    """For the one who started the console on their machine.

    Attributes:
        token: who has it is the viewer; others on this machine reach the port as well.
        kube: their client, which is open.
    """

    access: Access
    token: str
    kube: KubeClient

    @property
    def hosts(self) -> Sequence[str]:
        """See `Door`. A name that resolves to this machine is not this machine's: else any page could read this one."""
        return LOOPBACK

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """See `Door`."""
        return ()

    async def admit(self, request: Request) -> Viewer | Response:
        """See `Door`."""
        given = request.query_params.get("token")
        if given is not None and self._is_token(given):
            return self._welcome(request)
        if not self._is_token(request.cookies.get(cookie_of(request), "")):
            return PlainTextResponse("open the address that `aim console` printed", 403, HEADERS)
        return Viewer(self.access, lambda: nullcontext(self.kube))

    def _welcome(self, request: Request) -> Response:
        # The token is not to stay in the address bar, in bookmarks and in histories.
        answer = RedirectResponse(request.url.path, 303, HEADERS)
        answer.set_cookie(cookie_of(request), self.token, httponly=True, samesite="strict")
        return answer

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


def cookie_of(request: Request) -> str:
    """Cookies know no ports: consoles of two clusters would take each other's place (FW-645)."""
    return f"aim-console-{request.url.port or request.url.scheme}"


_LARGEST_FORM: Final = 32 * 1024
_FORM_SECONDS: Final = 10.0
_UNKNOWN: Final = "the API server does not know this token: it may have expired, or be of another cluster"
_UNASKED: Final = "the API server cannot be asked who you are; the log of the console says why"
_ENDED: Final = (
    "Your session has ended, or the console was restarted, which keeps no sessions. Log in again to be where you were."
)
_FOREIGN: Final = "log in and out on the console's own pages"
_FORM: Final = "application/x-www-form-urlencoded"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoginRefusal:
    """Why a viewer is not let in, in a line."""

    status: HTTPStatus
    why: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class LoginDoor:
    """For everybody whom the API server recognises.

    Attributes:
        names: of the host, besides the loopback, to which a port-forward leads.
        kube: the console's own client.
    """

    tokens: Tokens
    sessions: Sessions
    viewers: Viewers
    names: Sequence[str]
    kube: KubeClient

    @property
    def hosts(self) -> Sequence[str]:
        """See `Door`."""
        return (*LOOPBACK, *self.names)

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """See `Door`."""
        return (Route("/login", self._log_in, methods=["POST"]), Route("/logout", self._log_out, methods=["POST"]))

    async def admit(self, request: Request) -> Viewer | Response:
        """See `Door`; a token that a proxy sends goes before the cookie of a session."""
        by_token = bool(bearer_token(request.headers.get("authorization", "")))
        found = await self._who(request)
        if isinstance(found, LoginRefusal):
            return PlainTextResponse(found.why, found.status, {**HEADERS, **found.headers})
        if found is None:
            had_one = bool(request.cookies.get(_cookie(request), ""))
            return _form(_asked_for(request), HTTPStatus.UNAUTHORIZED, note=_ENDED if had_one else "")

        async def is_still_in() -> bool:
            now = await self._who(request)
            # That the API server is away ends no session.
            return (
                now is not None if not isinstance(now, LoginRefusal) else now.status == HTTPStatus.SERVICE_UNAVAILABLE
            )

        def client() -> KubeClient:
            own = bearer_token(request.headers.get("authorization", ""))
            token = own or self.sessions.token(request.cookies.get(_cookie(request), ""))
            if token is None:
                raise UnreachableError("your session has ended; log in again")
            return self.kube.as_bearer(token)

        person = (found.name, found.uid)
        # Whom a proxy names cannot log out here.
        return Viewer(self.viewers.access(found), client, person, "" if by_token else found.name, is_still_in)

    async def _who(self, request: Request) -> User | LoginRefusal | None:
        token = bearer_token(request.headers.get("authorization", ""))
        if token:
            return await self._user_of(token, request)
        try:
            return await self.sessions.user(request.cookies.get(_cookie(request), ""))
        except UnaskedError:
            return LoginRefusal(HTTPStatus.SERVICE_UNAVAILABLE, _UNASKED, {})

    async def _user_of(self, token: str, request: Request) -> User | LoginRefusal:
        try:
            return await self.tokens.user(token, _address(request))
        except UnknownTokenError:
            return LoginRefusal(HTTPStatus.UNAUTHORIZED, _UNKNOWN, {"www-authenticate": "Bearer"})
        except TooManyTokensError as error:
            return LoginRefusal(HTTPStatus.TOO_MANY_REQUESTS, str(error), {"retry-after": str(error.seconds)})
        except UnaskedError:
            return LoginRefusal(HTTPStatus.SERVICE_UNAVAILABLE, _UNASKED, {})

    async def _log_in(self, request: Request) -> Response:
        if not _is_own(request):
            return PlainTextResponse(_FOREIGN, HTTPStatus.FORBIDDEN, HEADERS)
        fields = await _fields(request)
        if fields is None:
            return PlainTextResponse("no form, or too large a one", HTTPStatus.BAD_REQUEST, HEADERS)
        after = _own_path(fields.get("next", ""))
        # Copied from a terminal it may have been broken into lines, of which no token has any.
        token = "".join(fields.get("token", "").split())
        found = await self._user_of(token, request)
        if isinstance(found, LoginRefusal):
            return _form(after, found.status, found.why, found.headers)
        self.sessions.close(request.cookies.get(_cookie(request), ""))
        answer = RedirectResponse(after, HTTPStatus.SEE_OTHER, HEADERS)
        secret = self.sessions.open(token, found)
        answer.set_cookie(_cookie(request), secret, path="/", secure=True, httponly=True, samesite="strict")
        _log.info("a viewer logged in", user=found.name, address=_address(request))
        return answer

    async def _log_out(self, request: Request) -> Response:
        if not _is_own(request):
            return PlainTextResponse(_FOREIGN, HTTPStatus.FORBIDDEN, HEADERS)
        user = self.sessions.close(request.cookies.get(_cookie(request), ""))
        if user is not None:
            _log.info("a viewer logged out", user=user.name, address=_address(request))
        answer = RedirectResponse("/", HTTPStatus.SEE_OTHER, HEADERS)
        answer.delete_cookie(_cookie(request), path="/", secure=True, httponly=True, samesite="strict")
        return answer


def _form(
    after: str, status: HTTPStatus, why: str = "", headers: dict[str, str] | None = None, note: str = ""
) -> Response:
    page = render("login.html", {"after": after, "why": why, "note": note})
    return HTMLResponse(page, status, {**HEADERS, **(headers or {})})


def _is_own(request: Request) -> bool:
    """Whether a form was sent from a page of this origin; browsers say so of every form."""
    return request.headers.get("origin", "") == f"https://{request.headers.get('host', '')}"


def _asked_for(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _own_path(path: str) -> str:
    """The path, if it leads nowhere else. Browsers take a backslash for a slash, and leave tabs out."""
    is_path = path.startswith("/") and not path.startswith("//")
    return path if is_path and path.isprintable() and "\\" not in path else "/"


async def _fields(request: Request) -> dict[str, str] | None:
    """The fields of a form; ``None`` if it is none, too large, or too slow."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM:
        return None
    body = bytearray()
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _LARGEST_FORM:
                    return None
        found = parse_qs(body.decode("ascii"), max_num_fields=8)
    except (TimeoutError, ValueError, ClientDisconnect):
        return None
    return {name: values[-1] for name, values in found.items()}


def _cookie(request: Request) -> str:
    return f"__Host-{cookie_of(request)}"


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host
