"""The HTTP face of a service: probes, metrics, and a look inside (FW-282, FW-283)."""

from typing import Final

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from aim_shared.json import JsonObject, dumps
from aim_shared.runtime.state import ServiceState
from aim_shared.telemetry.metrics import Metrics

OFF: Final = "0"
"""Bind address of a server that is switched off."""
_EVERY_INTERFACE: Final = "0.0.0.0"  # noqa: S104  the kubelet probes the pod's address, not loopback


def probes(state: ServiceState, metrics: Metrics | None) -> FastAPI:
    """Probes and debug pages; with metrics when they share the address."""
    app = FastAPI(title=f"aim-{state.definition.name}", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    async def healthz() -> Response:
        alive = state.alive
        return PlainTextResponse("ok" if alive else "the broker connection is closed for good", 200 if alive else 500)

    @app.get("/readyz")
    async def readyz() -> Response:
        return JSONResponse(state.readiness(), 503 if state.not_ready() else 200)

    @app.get("/debug/world")
    async def world() -> Response:
        return _json(state.world_page())

    @app.get("/debug/queue")
    async def queue() -> Response:
        return _json(state.queue_page())

    if metrics is not None:
        _serve_metrics(app, metrics)
    return app


def metrics_only(metrics: Metrics) -> FastAPI:
    """The metrics page on an address of its own."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    _serve_metrics(app, metrics)
    return app


def _serve_metrics(app: FastAPI, metrics: Metrics) -> None:
    @app.get("/metrics")
    async def page() -> Response:
        return Response(metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _json(page: JsonObject) -> Response:
    return Response(dumps(page), media_type="application/json")


class Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the process."""

    def install_signal_handlers(self) -> None:
        """Signals end the whole service, not its HTTP face alone."""


def server(app: FastAPI, address: str) -> Server:
    """A server on ``host:port``; without a host on all interfaces."""
    host, _, port = address.rpartition(":")
    config = uvicorn.Config(
        app,
        host=host.strip("[]") or _EVERY_INTERFACE,
        port=int(port),
        log_level="warning",
        access_log=False,
        lifespan="off",
    )
    return Server(config)
