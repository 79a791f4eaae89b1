"""The proxy to the API server, looked up once: asked for at every request, it costs a thread each time."""

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def environment_proxy(url: str) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for a server (FW-274); ``None`` = go directly."""
    server = urlsplit(url)
    proxies = getproxies()
    if not server.hostname or proxy_bypass(server.netloc):
        return None
    return proxies.get(server.scheme) or proxies.get("all")
