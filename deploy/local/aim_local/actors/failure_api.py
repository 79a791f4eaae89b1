"""The HTTP API of the actors: failures by rule, listed, added and taken back while everything runs.

`GET /failures`, `POST /failures` with a rule, `DELETE /failures/<id>`, `DELETE /failures` for all.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from aim_local.actors.failure_rules import RuleError, parse_rule
from aim_local.actors.failures import Failure
from aim_local.actors.wanted_failures import WantedFailures
from aim_shared.json import dumps, loads

_HOST: Final = "127.0.0.1"


@asynccontextmanager
async def failure_api(failures: WantedFailures, port: int = 0) -> AsyncIterator[str]:
    """Serve the rules on the loopback; yields the URL."""
    handlers = _Handlers(failures)
    application = web.Application()
    application.add_routes(
        [
            web.get("/failures", handlers.list),
            web.post("/failures", handlers.add),
            web.delete("/failures", handlers.clear),
            web.delete("/failures/{id}", handlers.remove),
        ]
    )
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, port).start()
        yield f"http://{_HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class _Handlers:
    def __init__(self, failures: WantedFailures) -> None:
        self._failures = failures

    async def list(self, _: web.Request) -> web.Response:
        """All rules, and what can be asked for."""
        rules = {name: rule.to_json() for name, rule in self._failures.rules.items()}
        return _json(200, {"rules": rules, "failures": list(Failure)})

    async def add(self, request: web.Request) -> web.Response:
        """One more rule; the answer has its id."""
        try:
            rule = parse_rule(loads(await request.read()))
        except ValueError as error:
            cause = str(error) if isinstance(error, RuleError) else f"the body is no JSON object: {error}"
            return _json(400, {"error": cause})
        return _json(201, {"id": self._failures.add(rule), "rule": rule.to_json()})

    async def remove(self, request: web.Request) -> web.Response:
        """Take one back."""
        name = request.match_info["id"]
        if self._failures.remove(name):
            return web.Response(status=204)
        present = ", ".join(self._failures.rules) or "none"
        return _json(404, {"error": f"no rule {name}; there are: {present}"})

    async def clear(self, _: web.Request) -> web.Response:
        """Take all back."""
        self._failures.clear()
        return web.Response(status=204)


def _json(status: int, body: dict[str, object]) -> web.Response:
    return web.Response(status=status, body=dumps(body), content_type="application/json")
