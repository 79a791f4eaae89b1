"""Authentication of the local registry: none, Basic, or Bearer with a token service."""

import base64
import secrets
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from embedded_apiserver.serving import json_response

SIGN_IN_ROUTE: Final = "/token"
SERVICE: Final = "aim-local"


@dataclass(frozen=True, slots=True)
class BasicAuth:
    """Username and password of HTTP Basic authentication, needed for repositories that start with `prefix`."""

    username: str
    password: str
    prefix: str = ""

    def challenge(self, host: str, _scope: str) -> str:
        """Value of `WWW-Authenticate`."""
        return f'Basic realm="{SERVICE} at {host}", charset="UTF-8"'

    def permits(self, authorization: str, scope: str) -> bool:
        """Whether a request with this header may do what the scope says."""
        protected = scope.startswith(f"repository:{self.prefix}") or not self.prefix
        return not protected or authorization == basic_header(self.username, self.password)


@dataclass(slots=True)
class BearerAuth:
    """Tokens from the registry's own token service.

    Every request needs a token; one for repositories that start with `prefix`, or for the catalog if `prefix` is empty,
    is given only for username and password, any other one to everybody.
    """

    username: str
    password: str
    prefix: str = ""
    lifetime: int = 300
    _scopes: dict[str, str] = field(default_factory=dict, repr=False)

    def challenge(self, host: str, scope: str) -> str:
        """Value of `WWW-Authenticate`."""
        return f'Bearer realm="http://{host}{SIGN_IN_ROUTE}",service="{SERVICE}",scope="{scope}"'

    def permits(self, authorization: str, scope: str) -> bool:
        """Whether a request with this header may do what the scope says."""
        # The version check has no scope: any token will do.
        return scope in ("", self._scopes.get(authorization.removeprefix("Bearer "))) and bool(authorization)

    def grant(self, request: Request) -> Response:
        """Answer of the token service."""
        scope = request.query_params.get("scope", "")
        authorization = request.headers.get("Authorization", "")
        known = authorization == basic_header(self.username, self.password)
        if (authorization and not known) or (not known and self._is_private(scope)):
            return json_response({"details": "incorrect username or password"}, 401)
        token = secrets.token_urlsafe(24)
        self._scopes[token] = scope
        return json_response({"token": token, "expires_in": self.lifetime})

    def revoke_all(self) -> None:
        """Forget all tokens given out."""
        self._scopes.clear()

    def _is_private(self, scope: str) -> bool:
        kind, _, rest = scope.partition(":")
        return not self.prefix if kind != "repository" else rest.startswith(self.prefix)


Auth = BasicAuth | BearerAuth


def basic_header(username: str, password: str) -> str:
    """`Authorization` value of scheme Basic."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
