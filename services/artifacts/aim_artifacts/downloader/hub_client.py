"""HTTP to the Hub's endpoint: where credentials, links and requests go (AR-808, AR-815…AR-817).

The Hub client follows what answers contain: redirects, the `Link` of a list's next page, the route that renews a token
of Xet. All of it passes the transport here, so that no rule depends on which part of the client follows.
"""

import os
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Final, final
from urllib.parse import urljoin, urlsplit

from httpx2 import BaseTransport, Client, HTTPTransport, Limits, Request, Response, TransportError
from huggingface_hub import constants, set_client_factory

from controller_runtime import environment_proxy, plain_no_proxy

_FOLLOWED: Final = ("next", "xet-auth")
"""Relations of links that the Hub client follows with its token."""
_REFRESH_ROUTE: Final = "x-xet-refresh-route"
_CREDENTIALS: Final = ("authorization", "cookie", "proxy-authorization")
_LIMITS: Final = Limits(max_connections=None, max_keepalive_connections=32)


def use_endpoint(variables: Mapping[str, str] = os.environ) -> None:
    """Let the Hub client send everything by `EndpointTransport`."""
    known = dict(variables)
    set_client_factory(lambda: _client(known))


def prepare_xet(variables: MutableMapping[str, str] = os.environ) -> None:
    """Give Xet, which reads the environment itself, a NO_PROXY that it understands (FW-792)."""
    plain = plain_no_proxy(variables)
    if plain:
        variables["NO_PROXY"] = variables["no_proxy"] = plain


def _client(variables: Mapping[str, str]) -> Client:
    # Without the environment, of which the client would read proxies in its own way.
    transport = EndpointTransport(constants.ENDPOINT, variables)
    return Client(transport=transport, trust_env=False, follow_redirects=True, timeout=None)


def at_endpoint(endpoint: str, link: str) -> str:
    """A link in an answer as a request to the endpoint: the endpoint's host and prefix, the link's path and query.

    A mirror hands on the links of the Hub that it copies. They name a host that the token is not for, and that may not
    be reachable from the cluster (AR-815).
    """
    base, parts = urlsplit(endpoint), urlsplit(link)
    prefix, path = base.path.rstrip("/"), f"/{parts.path.lstrip('/')}"
    if prefix and not path.startswith(f"{prefix}/"):
        path = prefix + path
    return base._replace(path=path, query=parts.query, fragment="").geturl()


@final
class EndpointTransport(BaseTransport):
    """Sends requests of the Hub client, those to the endpoint with credentials and all others without."""

    def __init__(self, endpoint: str, variables: Mapping[str, str]) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._variables = variables
        self._by_proxy: dict[str | None, HTTPTransport] = {}

    def handle_request(self, request: Request) -> Response:
        """Send one request; see the class."""
        url = str(request.url)
        is_ours = may_have_credentials(self._endpoint, url)
        if not is_ours:
            for name in _CREDENTIALS:
                request.headers.pop(name, None)
        proxy = environment_proxy(url, self._variables)
        try:
            response = self._transport(proxy).handle_request(request)
        except TransportError as error:
            way = f" through the proxy {urlsplit(proxy).netloc.rpartition('@')[2]}" if proxy else ""
            # The client's own text names no host, and after a redirect the endpoint's would be the wrong one (AR-817).
            raise type(error)(f"{request.url.netloc.decode()} cannot be reached{way}: {error}") from error
        if is_ours:
            self._lead_back(response, url)
        return response

    def close(self) -> None:
        """Close all connections."""
        for transport in self._by_proxy.values():
            transport.close()

    def _transport(self, proxy: str | None) -> HTTPTransport:
        transport = self._by_proxy.get(proxy)
        if transport is None:
            # Threads of a download may come here at once; one of two equal transports is kept.
            # Of the environment it reads the authorities alone (SSL_CERT_FILE).
            made = HTTPTransport(proxy=proxy, limits=_LIMITS)
            transport = self._by_proxy.setdefault(proxy, made)
        return transport

    def _lead_back(self, response: Response, url: str) -> None:
        """Let the links of an answer that the client follows lead to the endpoint."""
        links = [
            f'<{at_endpoint(self._endpoint, urljoin(url, link))}>; rel="{relation}"'
            for relation, link in _followed_links(response)
        ]
        if "link" in response.headers:
            response.headers["link"] = ", ".join(links)
        if _REFRESH_ROUTE in response.headers:
            route = urljoin(url, response.headers[_REFRESH_ROUTE])
            response.headers[_REFRESH_ROUTE] = at_endpoint(self._endpoint, route)


def _followed_links(response: Response) -> Iterator[tuple[str, str]]:
    for relations, link in response.links.items():
        for relation in (relations or "").lower().split():
            if relation in _FOLLOWED and "url" in link:
                yield relation, link["url"]


def may_have_credentials(endpoint: str, url: str) -> bool:
    """Whether a URL is at the endpoint: host, scheme and port are the same, or its plain HTTP became HTTPS (AR-816)."""
    asked, own = _origin(url), _origin(endpoint)
    return asked == own or (asked[1] == own[1] and own[::2] == ("http", 80) and asked[::2] == ("https", 443))


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)
