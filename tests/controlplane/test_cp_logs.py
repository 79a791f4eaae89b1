"""Pod logs through the kubelet endpoint of the pod's node."""

import asyncio

from aiohttp import web
from support.controlplane import Kubectl
from support.kubelet_logs import kubelet, node_status
from support.suite import SuiteApi

PODS = "/api/v1/namespaces/$ns/pods"


async def _pod_on_node(api: SuiteApi, port: int) -> None:
    await api.created("/api/v1/nodes", {"metadata": {"name": "$ns-n1"}})
    await api.merge("/api/v1/nodes/$ns-n1/status", {"status": node_status(port)})
    spec = {"nodeName": "$ns-n1", "containers": [{"name": "main", "image": "i"}]}
    await api.created(PODS, {"metadata": {"name": "p"}, "spec": spec})


async def test_logs_come_from_thekubelet(api: SuiteApi, kubectl: Kubectl) -> None:
    async def logs(request: web.Request) -> web.Response:
        where = "/".join(request.match_info.values())
        return web.Response(text=f"{where} {dict(request.query)}\n")

    async with kubelet(logs) as port:
        await _pod_on_node(api, port)
        async with api.session.get(
            api.path(f"{PODS}/p/log"), params={"tailLines": "5", "previous": "true"}
        ) as response:
            assert response.content_type == "text/plain"
            assert await response.text() == f"{api.namespace}/p/main {{'previous': 'true', 'tailLines': '5'}}\n"
        assert (await kubectl("logs", "p")).out == "$ns/p/main {}\n"


async def test_following_streams_as_lines_come(api: SuiteApi) -> None:
    more = asyncio.Event()

    async def logs(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await more.wait()
        await response.write(b"two\n")
        return response

    async with kubelet(logs) as port:
        await _pod_on_node(api, port)
        async with (
            api.session.get(api.path(f"{PODS}/p/log"), params={"follow": "true"}) as response,
            asyncio.timeout(60),
        ):
            assert await response.content.readline() == b"one\n"
            more.set()
            assert await response.content.readline() == b"two\n"
            assert await response.content.readline() == b""


async def test_a_kubelet_that_is_not_there_is_named(api: SuiteApi) -> None:
    await _pod_on_node(api, 1)
    reply = await api.get(f"{PODS}/p/log")
    assert (reply.status, reply.reason) == (500, "")
    assert "https://127.0.0.1:1/containerLogs/$ns/p/main" in reply.message


async def test_logs_need_a_node_and_a_known_container(api: SuiteApi) -> None:
    containers = [{"name": "one", "image": "i"}, {"name": "two", "image": "i"}]
    await api.created(PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers}})
    assert "choose one of: [one two]" in (await api.get(f"{PODS}/p/log")).message
    assert (await api.get(f"{PODS}/p/log", container="three")).message == "container three is not valid for pod p"
    assert (await api.get(f"{PODS}/p/log", container="one")).status == 204
