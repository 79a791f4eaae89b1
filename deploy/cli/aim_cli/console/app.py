"""The pages over HTTP (FW-630…FW-636)."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from aim_cli.answer import plain
from aim_cli.console import pages, past
from aim_cli.console.access import Access
from aim_cli.console.mirror import SHOWN, Mirror
from aim_cli.console.sight import Sight
from aim_cli.errors import CliError
from aim_cli.log_targets import Target, target_of
from aim_cli.refs import JsonObject
from aim_cli.resources import KNOWN, NODE
from controller_runtime import KubeError
from controller_runtime.bus.connection import BusError

_HERE: Final = Path(__file__).parent
_PULSE: Final = 15.0
_BETWEEN: Final = 1.0
"""Seconds between two news of a change: more often nobody reads."""
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_KINDS: Final = tuple(kind for kind in KNOWN if any(part.kind.resource == kind.resource for part in SHOWN))

Handler = Callable[[Request, Sight], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Console:
    """The pages of one viewer.

    Attributes:
        token: who has it is the viewer; others on this machine reach the port as well.
    """

    mirror: Mirror
    access: Access
    token: str

    def application(self) -> Starlette:
        """The ASGI application."""
        about = "/objects/{plural}/{namespace}/{name}"
        routes = [
            Route("/", self._guarded(self._home)),
            Route("/catalogue", self._guarded(self._catalogue)),
            Route("/capacity", self._guarded(self._capacity)),
            Route("/bus", self._guarded(self._bus)),
            Route(about, self._guarded(self._object)),
            Route(f"{about}/story", self._guarded(self._story)),
            Route(f"{about}/replay", self._guarded(self._replay)),
            Route("/live", self._live),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ]
        # A name that resolves to this machine is not this machine's: else any page in the browser could read this one.
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost", "[::1]"], www_redirect=False)
        return Starlette(routes=routes, middleware=[hosts])

    # Whoever asks

    def _guarded(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            given = request.query_params.get("token")
            if given is not None and self._is_token(given):
                return self._welcome(request)
            if not self._is_viewer(request):
                return PlainTextResponse("open the address that `aim console` printed", 403, _HEADERS)
            try:
                return await handler(request, await self._sight())
            except (KubeError, BusError, CliError) as error:
                return _page("trouble.html", self._frame("", trouble=plain(str(error))), 503)

        return handle

    def _welcome(self, request: Request) -> Response:
        # The token is not to stay in the address bar, in bookmarks and in histories.
        answer = RedirectResponse(request.url.path, 303, _HEADERS)
        answer.set_cookie(_cookie(request), self.token, httponly=True, samesite="strict")
        return answer

    def _is_viewer(self, request: Request) -> bool:
        return self._is_token(request.cookies.get(_cookie(request), ""))

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    async def _sight(self) -> Sight:
        return Sight(self.mirror, await self.access.rights(_KINDS, sorted(self.mirror.namespaces)))

    # Pages

    async def _home(self, request: Request, sight: Sight) -> Response:
        found = pages.home(sight, request.query_params.get("q", ""), _now())
        return _page("home.html", self._frame("home", sight) | found)

    async def _catalogue(self, request: Request, sight: Sight) -> Response:
        found = pages.catalogue(sight, request.query_params.get("q", ""))
        return _page("catalogue.html", self._frame("catalogue", sight) | found)

    async def _capacity(self, _: Request, sight: Sight) -> Response:
        return _page("capacity.html", self._frame("capacity", sight) | pages.capacity(sight, _now()))

    async def _bus(self, _: Request, sight: Sight) -> Response:
        # Whoever may list nodes runs the cluster; the others are told of their namespaces, not of its broker.
        if not sight.rights.admits(NODE.resource, ""):
            refused = "only who may list nodes sees this page"
            return _page("trouble.html", self._frame("bus", sight, refused), 403)
        return _page("bus.html", self._frame("bus", sight) | {"parts": self.mirror.parts})

    async def _object(self, request: Request, sight: Sight) -> Response:
        ref = pages.ref_at(**request.path_params)
        found = None if ref is None else pages.one_object(sight, ref, _now())
        if found is None:
            return _missing(self._frame("", sight), request)
        return _page("object.html", self._frame("", sight) | found | {"path": request.url.path})

    async def _story(self, request: Request, sight: Sight) -> Response:
        wanted = _target(request, sight)
        if wanted is None:
            return _missing(self._frame("", sight), request)
        found = await past.story(self.mirror.history, wanted, sight.rights)
        return _page("story.html", self._frame("", sight) | found | {"title": str(wanted), "up": _above(request)})

    async def _replay(self, request: Request, sight: Sight) -> Response:
        wanted = _target(request, sight)
        if wanted is None:
            return _missing(self._frame("", sight), request)
        found = await past.replayed(self.mirror.history, wanted, sight.rights)
        return _page(
            "replay.html", self._frame("", sight) | {"decisions": found, "title": str(wanted), "up": _above(request)}
        )

    def _frame(self, place: str, sight: Sight | None = None, trouble: str = "") -> JsonObject:
        return {
            "place": place,
            "version": self.mirror.version,
            "complete": self.mirror.complete,
            "lost_at": self.mirror.lost_at,
            "unasked": {} if sight is None else sight.unasked,
            "trouble": trouble,
        }

    async def _live(self, request: Request) -> Response:
        if not self._is_viewer(request):
            return PlainTextResponse("", 403, _HEADERS)
        return StreamingResponse(self._news(), media_type="text/event-stream", headers=_HEADERS)

    async def _news(self) -> AsyncIterator[str]:
        version = self.mirror.version
        yield f"data: {version}\n\n"
        while True:
            try:
                async with asyncio.timeout(_PULSE):
                    version = await self.mirror.wait_changed(version)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            yield f"data: {version}\n\n"
            await asyncio.sleep(_BETWEEN)


_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["plain"] = lambda text: plain(str(text))


def render(template: str, content: JsonObject) -> str:
    """A page as HTML."""
    return _TEMPLATES.get_template(template).render(content)


def _page(template: str, content: JsonObject, code: int = 200) -> Response:
    return HTMLResponse(render(template, content), code, _HEADERS)


def _missing(frame: JsonObject, request: Request) -> Response:
    named = " ".join(request.path_params.values())
    return _page("trouble.html", frame | {"trouble": f"there is no {plain(named)}, or you may not see it"}, 404)


def _target(request: Request, sight: Sight) -> Target | None:
    """The object of the address, if the viewer may see it; one that is gone still has a story."""
    ref = pages.ref_at(**request.path_params)
    if ref is None or not sight.rights.admits(ref.kind.resource, ref.namespace):
        return None
    return target_of(ref)


def _cookie(request: Request) -> str:
    """Cookies know no ports: consoles of two clusters would take each other's place (FW-645)."""
    return f"aim-console-{request.url.port}"


def _above(request: Request) -> str:
    return request.url.path.rpartition("/")[0]


def _now() -> datetime:
    return datetime.now(UTC)
