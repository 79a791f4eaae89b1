"""Who is let in to the pages, and by what they are known (FW-634)."""

import hmac
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from aim_cli.console.access import Access

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
    """Whoever asks for a page.

    Attributes:
        access: what they may see.
        person: the same for all requests of one person.
        name: what they are called, where that is told on the pages.
        is_still_in: whether a stream that they opened may go on.
    """

    access: Access
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
    """

    access: Access
    token: str

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
        return Viewer(self.access)

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
