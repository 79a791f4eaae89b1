"""The pages over HTTP (FW-630…FW-636)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from aim_cli.answer import plain
from aim_cli.cluster.refs import KNOWN, JsonObject
from aim_cli.errors import CliError, TargetError
from aim_cli.log.targets import Target, target_of
from aim_console import decision, events_page, home_page, log_pages, pages, past
from aim_console.access import Sight
from aim_console.bus_page import bus_page
from aim_console.capacity_page import Others, capacity, others_of
from aim_console.login import HEADERS, Door, Viewer
from aim_console.mirror import OBJECT_PARTS, Mirror
from aim_console.newest import Newest, visible_rows
from aim_console.templating import render
from aim_console.tokens import READINGS, STREAMS, Places
from aim_domain.kind_names import NODE
from controller_runtime import KubeError
from controller_runtime.log import BusError

_HERE: Final = Path(__file__).parent
_PULSE: Final = 15.0
_BETWEEN: Final = 1.0
"""Seconds between two news of a change: readers cannot follow more."""
_KINDS: Final = tuple(kind for kind in KNOWN if any(part.kind.resource == kind.resource for part in OBJECT_PARTS))
_BUSY: Final = "as many pages are being made from the event log as can be at once; try again in a moment"

Handler = Callable[[Request, Sight], Awaitable[Response]]
AskingHandler = Callable[[Request, Sight, Viewer], Awaitable[Response]]


@dataclass(slots=True)
class Console:
    """The pages, for whom the door lets in.

    Attributes:
        trace_url: address of a trace, with ``{trace}`` for its id; empty where traces are not kept (FW-878).
    """

    mirror: Mirror
    door: Door
    trace_url: str = ""
    newest: Newest = field(init=False)
    streams: Places = field(default_factory=lambda: Places(*STREAMS))
    readings: Places = field(default_factory=lambda: Places(*READINGS))

    def __post_init__(self) -> None:
        self.newest = Newest(self.mirror.history)

    def application(self) -> Starlette:
        """The ASGI application."""
        about = "/objects/{plural}/{namespace}/{name}"
        routes = [
            Route("/", self._guarded(self._home)),
            Route("/catalogue", self._guarded(self._catalogue)),
            Route("/capacity", self._guarded(self._capacity)),
            Route("/capacity/others", self._asking(self._capacity_of_all)),
            Route("/bus", self._guarded(self._bus)),
            Route("/bus/holes", self._reading(self._bus)),
            Route(about, self._guarded(self._object)),
            Route(f"{about}/events", self._asking(self._events)),
            Route(f"{about}/story", self._reading(self._story)),
            Route(f"{about}/past", self._reading(self._past)),
            Route(f"{about}/replay", self._reading(self._replay)),
            Route(f"{about}/replay/{{decision}}", self._reading(self._decision)),
            Route("/live", self._live),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
            *self.door.routes,
        ]
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=list(self.door.hosts), www_redirect=False)
        nowhere = self._guarded(self._nowhere)

        async def absent(request: Request, _: Exception) -> Response:
            return await nowhere(request)

        return Starlette(routes=routes, middleware=[hosts], exception_handlers={404: absent})

    # The viewer

    def _guarded(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            viewer = await self.door.admit(request)
            return viewer if isinstance(viewer, Response) else await self._answer(handler, request, viewer)

        return handle

    def _reading(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """For pages that are made from the log, of which a few are made at once (FW-682)."""

        async def handle(request: Request) -> Response:
            viewer = await self.door.admit(request)
            return viewer if isinstance(viewer, Response) else await self._in_turn(handler, request, viewer)

        return handle

    def _asking(self, handler: AskingHandler) -> Callable[[Request], Awaitable[Response]]:
        """For pages that ask the API server as the viewer, of which a few are made at once (FW-682)."""

        async def handle(request: Request) -> Response:
            viewer = await self.door.admit(request)
            if isinstance(viewer, Response):
                return viewer
            return await self._in_turn(lambda request, sight: handler(request, sight, viewer), request, viewer)

        return handle

    async def _in_turn(self, handler: Handler, request: Request, viewer: Viewer) -> Response:
        if not self.readings.take(viewer.person):
            return _page("trouble.html", self._frame("", trouble=_BUSY), 429, {"retry-after": "1"})
        try:
            return await self._answer(handler, request, viewer)
        finally:
            self.readings.leave(viewer.person)

    async def _answer(self, handler: Handler, request: Request, viewer: Viewer) -> Response:
        try:
            return await handler(request, await self._sight(viewer))
        except (KubeError, BusError, CliError) as error:
            code = 400 if isinstance(error, TargetError) else 503
            return _page("trouble.html", self._frame("", trouble=plain(str(error))), code)

    async def _sight(self, viewer: Viewer) -> Sight:
        rights = await viewer.access.rights(_KINDS, sorted(self.mirror.namespaces))
        made = self.mirror.creation_times({namespace for _, namespace in rights.within})
        return Sight(self.mirror, replace(rights, made=made), viewer.name)

    # Pages

    async def _home(self, request: Request, sight: Sight) -> Response:
        found = home_page.home(sight, home_page.Filter.of_query(request.query_params), _now())
        decided = None
        # The page says since when the broker is away.
        with suppress(BusError):
            decided = visible_rows(await self.newest.decisions(), sight.rights)
        return _page("home.html", self._frame("home", sight) | found | {"decided": decided, "stale": self.mirror.stale})

    async def _catalogue(self, request: Request, sight: Sight) -> Response:
        found = pages.catalogue(sight, request.query_params.get("q", ""), _now(), _last(request))
        return _page("catalogue.html", self._frame("catalogue", sight) | found)

    async def _capacity(self, request: Request, sight: Sight, others: Others | None = None) -> Response:
        about = request.query_params
        found = capacity(sight, _now(), about.get("q", ""), about.get("sort", ""), others)
        return _page("capacity.html", self._frame("capacity", sight) | found)

    async def _capacity_of_all(self, request: Request, sight: Sight, viewer: Viewer) -> Response:
        return await self._capacity(request, sight, await others_of(viewer.client(), sight))

    async def _bus(self, request: Request, sight: Sight) -> Response:
        # A viewer who may list nodes runs the cluster; the others see their namespaces, not of its broker.
        if not sight.rights.admits(NODE.resource, ""):
            refused = "only who may list nodes sees this page"
            return _page("trouble.html", self._frame("bus", sight, refused), 403)
        found = await bus_page(self.mirror, holes=request.url.path.endswith("/holes"))
        return _page("bus.html", self._frame("bus", sight) | found)

    async def _object(self, request: Request, sight: Sight) -> Response:
        ref = pages.ref_at(**request.path_params)
        found = None if ref is None else pages.one_object(sight, ref, _now())
        if found is None:
            return _missing(self._frame("", sight), request)
        return _page("object.html", self._frame("", sight) | found | {"up": request.url.path})

    async def _events(self, request: Request, sight: Sight, viewer: Viewer) -> Response:
        ref = pages.ref_at(**request.path_params)
        found = None
        if ref is not None:
            found = await events_page.events_page(viewer.client(), sight, ref, _now(), _last(request))
        if found is None:
            return _missing(self._frame("", sight), request)
        return _page("events.html", self._frame("", sight) | found | {"up": _above(request)})

    async def _story(self, request: Request, sight: Sight) -> Response:
        wanted = _target(request, sight)
        if wanted is None:
            return _missing(self._frame("", sight), request)
        last = _last(request)
        found = await past.story(self.mirror.history, wanted, sight.rights, pages.since(last, _now()))
        found |= {"title": str(wanted), "up": _above(request), "last": last, "ranges_of": pages.RANGES}
        return _page("story.html", self._frame("", sight) | found)

    async def _past(self, request: Request, sight: Sight) -> Response:
        asked = log_pages.request_of(request.path_params, request.query_params, sight.rights)
        found = None
        if asked is not None:
            found = await log_pages.past_page(self.mirror.history, self.mirror, asked, _now())
        if found is None:
            return _missing(self._frame("", sight), request)
        return _page("object.html", self._frame("", sight) | found | {"up": _above(request)})

    async def _decision(self, request: Request, sight: Sight) -> Response:
        asked = log_pages.request_of(request.path_params, request.query_params, sight.rights)
        wanted = request.path_params["decision"]
        found = None if asked is None else await decision.decision_page(self.mirror.history, asked, wanted)
        if asked is None or found is None:
            return _missing(self._frame("", sight), request)
        return _page("decision.html", self._frame("", sight) | found | {"up": pages.href(asked.ref)})

    async def _replay(self, request: Request, sight: Sight) -> Response:
        wanted = _target(request, sight)
        if wanted is None:
            return _missing(self._frame("", sight), request)
        found = await past.replayed(self.mirror.history, wanted, sight.rights)
        return _page("replay.html", self._frame("", sight) | found | {"title": str(wanted), "up": _above(request)})

    async def _nowhere(self, request: Request, sight: Sight) -> Response:
        trouble = {"title": "Not found", "trouble": f"there is no page {plain(request.url.path)}"}
        return _page("trouble.html", self._frame("", sight) | trouble, 404)

    def _frame(self, place: str, sight: Sight | None = None, trouble: str = "") -> JsonObject:
        return {
            "place": place,
            "version": self.mirror.version,
            "complete": self.mirror.complete,
            "lost_at": self.mirror.lost_at,
            "refused": self.mirror.refused,
            "unasked": {} if sight is None else sight.unasked,
            "trouble": trouble,
            "viewer": "" if sight is None else sight.viewer,
            "trace_url": self.trace_url,
        }

    async def _live(self, request: Request) -> Response:
        viewer = await self.door.admit(request)
        if isinstance(viewer, Response):
            return viewer
        if not self.streams.take(viewer.person):
            return PlainTextResponse("too many of these are open", 429, HEADERS)
        news = self._news(viewer)
        return _EventStream(news, lambda: self.streams.leave(viewer.person))

    async def _news(self, viewer: Viewer) -> AsyncIterator[str]:
        version = self.mirror.version
        yield f"data: {version}\n\n"
        while await viewer.is_still_in():
            try:
                async with asyncio.timeout(_PULSE):
                    version = await self.mirror.wait_changed(version)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            if self.mirror.ended.is_set():
                return
            yield f"data: {version}\n\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(_BETWEEN):
                    await self.mirror.ended.wait()


class _EventStream(StreamingResponse):
    """Events, and what is to be done when they end, at either end."""

    def __init__(self, news: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(news, media_type="text/event-stream", headers=HEADERS)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def _page(template: str, content: JsonObject, code: int = 200, headers: Mapping[str, str] = HEADERS) -> Response:
    return HTMLResponse(render(template, content), code, {**HEADERS, **headers})


def _missing(frame: JsonObject, request: Request) -> Response:
    plural, namespace, name = (request.path_params[one] for one in ("plural", "namespace", "name"))
    ref = pages.ref_at(plural, namespace, name)
    wanted = request.path_params.get("decision")
    named = f"kind {plural}" if ref is None else f"decision {wanted} about {ref}" if wanted else str(ref)
    trouble = {"title": "Not found", "trouble": f"there is no {plain(named)}, or you may not list it"}
    return _page("trouble.html", frame | trouble, 404)


def _target(request: Request, sight: Sight) -> Target | None:
    """The object of the address, if the viewer may see it; one that is gone still has a story."""
    ref = pages.ref_at(**request.path_params)
    if ref is None or not sight.rights.admits(ref.kind.resource, ref.namespace):
        return None
    return target_of(ref)


def _last(request: Request) -> str:
    """The range of time that an address asks for, one of `RANGES`; empty for all."""
    last = request.query_params.get("last", "")
    return last if last in pages.RANGES else ""


def _above(request: Request) -> str:
    return request.url.path.rpartition("/")[0]


def _now() -> datetime:
    return datetime.now(UTC)
