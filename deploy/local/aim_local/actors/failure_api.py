"""The HTTP API of the actors: failures by rule, listed, added and taken back while everything runs.

`GET /failures`, `POST /failures` with a rule, `DELETE /failures/<id>`, `DELETE /failures` for all.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aim_local.actors.failure_rules import RuleError, parse_rule
from aim_local.actors.failures import Failure
from aim_local.actors.wanted_failures import WantedFailures
from aim_local.serving import HOST, json_response, serving
from controller_runtime import loads


@asynccontextmanager
async def failure_api(failures: WantedFailures, port: int = 0) -> AsyncIterator[str]:
    """Serve the rules on the loopback; yields the URL."""
    handlers = _Handlers(failures)
    application = Starlette(
        routes=[
            Route("/failures", handlers.list),
            Route("/failures", handlers.add, methods=["POST"]),
            Route("/failures", handlers.clear, methods=["DELETE"]),
            Route("/failures/{id}", handlers.remove, methods=["DELETE"]),
        ]
    )
    async with serving(application, port) as bound:
        yield f"http://{HOST}:{bound}"


class _Handlers:
    def __init__(self, failures: WantedFailures) -> None:
        self._failures = failures

    async def list(self, _: Request) -> Response:
        """All rules, and what can be asked for."""
        rules = {name: rule.to_json() for name, rule in self._failures.rules.items()}
        return json_response({"rules": rules, "failures": list(Failure)})

    async def add(self, request: Request) -> Response:
        """One more rule; the answer has its id."""
        try:
            rule = parse_rule(loads(await request.body()))
        except ValueError as error:
            cause = str(error) if isinstance(error, RuleError) else f"the body is not a JSON object: {error}"
            return json_response({"error": cause}, 400)
        return json_response({"id": self._failures.add(rule), "rule": rule.to_json()}, 201)

    async def remove(self, request: Request) -> Response:
        """Take one back."""
        name = request.path_params["id"]
        if self._failures.remove(name):
            return Response(status_code=204)
        present = ", ".join(self._failures.rules) or "none"
        return json_response({"error": f"no rule {name}; there are: {present}"}, 404)

    async def clear(self, _: Request) -> Response:
        """Take all back."""
        self._failures.clear()
        return Response(status_code=204)
