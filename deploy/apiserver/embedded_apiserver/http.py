"""Requests as the API handlers see them, and the one middleware seam."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette import requests
from starlette.datastructures import QueryParams
from starlette.responses import Response


class Request(requests.Request):
    """One HTTP request.

    Attributes:
        as_of: the revision that reads show instead of the present; set by fault injection only.
    """

    as_of: int | None = None

    @property
    def path(self) -> str:
        """The decoded path, without the query."""
        return str(self.scope["path"])

    @property
    def query(self) -> QueryParams:
        """The options in the URL."""
        return self.query_params

    def flag(self, name: str) -> bool:
        """True if the query has `name` with a true value, as the Go parser reads booleans."""
        return self.query.get(name, "").lower() in {"1", "true"}


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Middleware: TypeAlias = Callable[[Request, Handler], Awaitable[Response]]
"""Sees every request before the API does, may answer itself, delay, fail, or change the response (fault injection)."""
