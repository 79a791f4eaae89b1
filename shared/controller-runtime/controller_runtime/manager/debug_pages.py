"""The pages below `/debug` of the probe port: what a process holds, waits for and why it last reconciled (FW-289)."""

from typing import Final

from fastapi import FastAPI, Response
from fastapi.responses import PlainTextResponse, RedirectResponse

from controller_runtime.json import JsonObject, dumps
from controller_runtime.log.wire.part import Key
from controller_runtime.manager.state import ServiceState

_UNKNOWN: Final = (
    "this process has not reconciled the object: check controller, namespace and name, and which replica leads"
)


def application(state: ServiceState) -> FastAPI:
    """The pages of one process, with paths as below `/debug`."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/cache")
    async def cache() -> Response:
        return _json(state.cache_page())

    @app.get("/world")
    async def former_cache() -> Response:
        # The former name, which scripts ask for; it goes with 0.2.
        return RedirectResponse("/debug/cache", 308)

    @app.get("/queue")
    async def queue() -> Response:
        return _json(state.queue_page())

    @app.get("/why-woken")
    async def why_woken(controller: str, name: str, namespace: str = "") -> Response:
        page = state.why_woken_page(controller, Key(namespace, name))
        return _json(page) if page is not None else PlainTextResponse(_UNKNOWN, 404)

    return app


def _json(page: JsonObject) -> Response:
    return Response(dumps(page), media_type="application/json")
