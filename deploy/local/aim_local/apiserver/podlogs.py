"""Pod logs, fetched from the kubelet endpoint that the pod's Node reports, as the real server does."""

import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Final

import aiohttp
from starlette.responses import Response, StreamingResponse

from aim_local.apiserver import status
from aim_local.apiserver.objects.errors import FieldError, FieldErrorKind
from aim_local.apiserver.resources import ResourceType
from aim_local.apiserver.store import Store
from aim_local.apiserver.values import dig
from controller_runtime import JsonObject

_PASSED_ON: Final = ("follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes")


class PodLogs:
    """The `log` subresource; use as a context to hold the HTTP session."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, resource: ResourceType, pod: JsonObject, query: Mapping[str, str]) -> Response:
        """The log of a container as a streamed plain text response.

        Raises:
            ApiError: no such container, not scheduled yet, or the kubelet refuses or can't be reached.
        """
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        container = _container(pod, query.get("container", ""))
        _check(name, query)
        host = dig(pod, "spec.nodeName")
        if not host:
            return Response(status_code=204)
        url = f"{self._kubelet(resource, str(host))}/containerLogs/{namespace}/{name}/{container}"
        passed = {key: query[key] for key in _PASSED_ON if key in query}
        try:
            reply = await self._client().get(url, params=passed)
        except aiohttp.ClientError as error:
            raise status.internal(f'Get "{url}": {error}') from error
        if reply.status != 200:
            text = (await reply.text()).strip()
            reply.release()
            if reply.status == 404:
                raise status.ApiError(
                    404, status.Reason.NOT_FOUND, text or f"the log of {resource.plural}/{name} was not found"
                )
            raise status.bad_request(text or f'container "{container}" in pod "{name}" is not available')
        return StreamingResponse(_chunks(reply), headers={"content-type": "text/plain"})

    async def close(self) -> None:
        """Close the session to the kubelets."""
        if self._session is not None:
            await self._session.close()

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Kubelets serve self-signed certificates; the real server does not verify them by default either.
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
            connector = aiohttp.TCPConnector(ssl=context, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False)
        return self._session

    def _kubelet(self, resource: ResourceType, node_name: str) -> str:
        node = self._store.get("nodes", ("", node_name))
        if node is None:
            # The real server, too, calls the pod what is its node's name.
            raise status.not_found(resource, node_name)
        port = dig(node.obj, "status.daemonEndpoints.kubeletEndpoint.Port") or 10250
        addresses = dig(node.obj, "status.addresses")
        for address in addresses if isinstance(addresses, list) else []:
            if address.get("type") == "InternalIP":
                return f"https://{address['address']}:{port}"
        raise status.internal(f"no preferred addresses found for node {node_name}; known addresses: {addresses or []}")


def _check(name: str, query: Mapping[str, str]) -> None:
    for option in ("tailLines", "limitBytes", "sinceSeconds"):
        text = query.get(option, "")
        if not text:
            continue
        if not text.lstrip("-").isdigit():
            raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        least = 0 if option == "tailLines" else 1
        if int(text) < least:
            detail = "must be greater than 0" if least else "must be greater than or equal to 0"
            error = FieldError(option, FieldErrorKind.INVALID, detail, int(text))
            raise status.invalid_kind("PodLogOptions", name, error)


def _container(pod: JsonObject, asked: str) -> str:
    spec, name = pod.get("spec", {}), pod["metadata"]["name"]
    containers = [c["name"] for c in spec.get("containers", [])]
    inits = [c["name"] for c in spec.get("initContainers", [])]
    if not asked:
        if len(containers) == 1:
            return str(containers[0])
        choice = " ".join(inits + containers)
        raise status.bad_request(f"a container name must be specified for pod {name}, choose one of: [{choice}]")
    if asked not in containers + inits:
        raise status.bad_request(f"container {asked} is not valid for pod {name}")
    return asked


async def _chunks(reply: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """As the real server does, it ends as if all had been said where the kubelet is lost."""
    try:
        async for chunk in reply.content.iter_any():
            yield chunk
    except aiohttp.ClientError:
        return
    finally:
        reply.close()
