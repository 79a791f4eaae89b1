"""Requests reach predictors through the routes that the Gateway controller accepted."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest_asyncio
from support.cluster import NAMESPACE, holds, inference_service, path
from support.controlplane import RawApi

from aim_local.engine import Backends, engine
from aim_local.gateway import RouteTable, gateway, routes_of
from controller_runtime import JsonObject, Key, KubeClient, load_connection, loads
from embedded_apiserver import ControlPlane

CHAT: JsonObject = {"messages": [{"role": "user", "content": "hello there"}]}


def route(prefix: str, name: str = "qwen-chat", *, created: str = "", timeout: str = "") -> JsonObject:
    rewrite = {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}
    rule: JsonObject = {
        "matches": [{"path": {"type": "PathPrefix", "value": prefix}}],
        "filters": [rewrite],
        "backendRefs": [{"name": f"{name}-predictor", "port": 80}],
    }
    if timeout:
        rule["timeouts"] = {"request": timeout}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": NAMESPACE} | ({"creationTimestamp": created} if created else {}),
        "spec": {"parentRefs": [{"name": "public"}], "rules": [rule]},
    }


def table(*routes: JsonObject) -> RouteTable:
    made = RouteTable()
    for one in routes:
        made.put(Key(NAMESPACE, one["metadata"]["name"]), routes_of(one))
    return made


def test_the_longest_prefix_wins_and_is_removed() -> None:
    found = table(route("/team", "a"), route("/team/chat/", "b"))

    deep = found.find("any", "/team/chat/v1/models")
    shallow = found.find("any", "/team/chatty/v1/models")

    assert deep is not None
    assert (deep.route.owner.name, deep.path) == ("b", "/v1/models")
    assert shallow is not None
    assert (shallow.route.owner.name, shallow.path) == ("a", "/chatty/v1/models")


def test_the_prefix_alone_becomes_the_root() -> None:
    found = table(route("/team/chat")).find("any", "/team/chat")

    assert found is not None
    assert found.path == "/"


def test_of_equal_paths_the_oldest_route_wins() -> None:
    found = table(route("/x", "a", created="2026-01-02T00:00:00Z"), route("/x", "b", created="2026-01-01T00:00:00Z"))
    hit = found.find("any", "/x/y")

    assert hit is not None
    assert hit.route.owner.name == "b"


def test_weights_hold_within_a_row_of_requests() -> None:
    canary = route("/x", "a")
    canary["spec"]["rules"][0]["backendRefs"] = [{"name": "old", "weight": 90}, {"name": "new", "weight": 10}]
    routes = table(canary)
    taken = [hit.backend.name for _ in range(100) if (hit := routes.find("any", "/x")) and hit.backend]
    assert [taken[start : start + 20].count("new") for start in range(0, 100, 20)] == [2] * 5
    canary["spec"]["rules"][0]["backendRefs"] = [{"name": "old", "weight": 0}, {"name": "new"}]
    routes.put(Key(NAMESPACE, "a"), routes_of(canary))
    hit = routes.find("any", "/x")
    assert hit is not None
    assert hit.backend == Key(NAMESPACE, "new")


def test_a_removed_route_is_not_found() -> None:
    routes = table(route("/x", "a"))
    routes.put(Key(NAMESPACE, "a"), ())

    assert routes.find("any", "/x") is None
    assert routes.paths() == []


@pytest_asyncio.fixture
async def http(
    controlplane: ControlPlane, backends: Backends, api: RawApi, tmp_path: Path
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the gateway."""
    listener = {"name": "http", "port": 80, "protocol": "HTTP"}
    await api.created(
        path("gateway.networking.k8s.io/v1/gateways"),
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": "public", "namespace": NAMESPACE},
            "spec": {"gatewayClassName": "local", "listeners": [listener]},
        },
    )
    async with (
        KubeClient(await load_connection(str(tmp_path / "kubeconfig")), service="local-gateway") as client,
        engine(backends) as engine_url,
        gateway(client, engine_url) as url,
        aiohttp.ClientSession(url) as session,
    ):
        yield session


async def served(api: RawApi, isvc: JsonObject | None = None) -> None:
    """An InferenceService that is ready, with an accepted route."""
    await api.created(path("serving.kserve.io/v1beta1/inferenceservices"), isvc or inference_service())
    await api.created(path("gateway.networking.k8s.io/v1/httproutes"), route("/team/chat", timeout="5s"))
    where = path("serving.kserve.io/v1beta1/inferenceservices", "qwen-chat")
    if isvc is None:
        await api.until(where, lambda reply: holds(reply.body, "Ready"))
    await api.until(
        path("gateway.networking.k8s.io/v1/httproutes", "qwen-chat"),
        lambda reply: "True" in str(reply.body.get("status")) and "BackendNotFound" not in str(reply.body),
    )


async def eventually_answers(http: aiohttp.ClientSession, url: str, status: int) -> str:
    for _ in range(500):
        async with http.get(url) as answer:
            if answer.status == status:
                return await answer.text()
    raise AssertionError(f"{url} never answered {status}")


async def test_a_chat_is_answered_through_the_route(api: RawApi, http: aiohttp.ClientSession) -> None:
    await served(api)
    await eventually_answers(http, "/team/chat/health", 200)

    async with http.post("/team/chat/v1/chat/completions", json=CHAT) as answer:
        body = await answer.json()

    assert answer.status == 200
    assert body["model"] == "aim-qwen-qwen3-32b"
    assert "hello there" in body["choices"][0]["message"]["content"]


async def test_a_streamed_chat_comes_in_pieces(api: RawApi, http: aiohttp.ClientSession) -> None:
    await served(api)
    await eventually_answers(http, "/team/chat/health", 200)

    async with http.post("/team/chat/v1/chat/completions", json=CHAT | {"stream": True}) as answer:
        lines = [line async for line in answer.content if line.startswith(b"data: {")]

    said = "".join(loads(line[6:])["choices"][0]["delta"].get("content", "") for line in lines)
    assert answer.headers["content-type"] == "text/event-stream"
    assert len(lines) > 5
    assert said.endswith("You said: hello there")


async def test_what_no_route_matches_is_not_found(http: aiohttp.ClientSession) -> None:
    async with http.get("/nothing") as answer:
        assert answer.status == 404
        assert "no accepted HTTPRoute matches /nothing" in (await answer.json())["error"]["message"]


async def test_a_predictor_that_is_not_ready_is_unavailable(api: RawApi, http: aiohttp.ClientSession) -> None:
    isvc = inference_service()
    isvc["metadata"]["annotations"]["local.aim/fail"] = "not-ready"
    await served(api, isvc)

    assert "no pod of Service" in await eventually_answers(http, "/team/chat/v1/models", 503)


async def test_the_model_that_was_asked_for_must_be_served(api: RawApi, http: aiohttp.ClientSession) -> None:
    await served(api)
    await eventually_answers(http, "/team/chat/health", 200)

    async with http.post("/team/chat/v1/chat/completions", json=CHAT | {"model": "other"}) as answer:
        assert answer.status == 404
        assert "other" in (await answer.json())["error"]["message"]
