"""Retries, credentials, time limits and the concurrency bound, over real connections."""

import asyncio
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from support.fake_apiserver import (
    Handler,
    config_map,
    dropped_connection,
    fake_apiserver,
    json_answer,
    status_answer,
    watch_answer,
)

from aim_domain.kind_names import CONFIG_MAP
from aim_local.ports import HOST, free_port
from controller_runtime import ApiError, KubeClient, TransportSettings
from controller_runtime.backoff import Backoff
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.errors import ApiConnectionError, ConnectionFailure

QUICK = TransportSettings(backoff=Backoff(base=0.001), concurrency=3)
OK = json_answer(config_map("a"))
BUSY = status_answer(503, "ServiceUnavailable")


@dataclass
class RotatingToken:
    """Credentials that become valid when refreshed."""

    token: str = "old"
    refreshes: int = 0

    async def authorization(self) -> str | None:
        return f"Bearer {self.token}"

    async def refresh(self) -> None:
        self.refreshes += 1
        self.token = f"new-{self.refreshes}"


@dataclass
class Observed:
    """A request observer that remembers."""

    requests: list[tuple[str, str, int]] = field(default_factory=list)

    def on_request(self, verb: str, resource: str, code: int, seconds: float) -> None:
        assert seconds >= 0
        self.requests.append((verb, resource, code))


async def unauthorized_unless_new(request: web.BaseRequest) -> web.StreamResponse:
    answer = OK if "new" in request.headers["Authorization"] else status_answer(401, "Unauthorized")
    return await answer(request)


async def test_idempotent_calls_are_repeated_and_every_attempt_is_observed() -> None:
    observed = Observed()
    async with (
        fake_apiserver(BUSY, dropped_connection(), status_answer(429, "TooManyRequests"), OK) as server,
        KubeClient(server.connection, service="t", settings=QUICK, observer=observed) as client,
    ):
        assert await client.apply(CONFIG_MAP, config_map("a"), "aim-t") == config_map("a")
        assert client.statistics().retries == 3

    assert observed.requests == [("apply", "configmaps", code) for code in (503, 0, 429, 200)]


async def test_after_the_last_attempt_the_error_comes_out() -> None:
    async with (
        fake_apiserver(BUSY) as server,
        KubeClient(server.connection, service="t", settings=QUICK) as client,
    ):
        with pytest.raises(ApiError, match="503"):
            await client.get(CONFIG_MAP, "a", "team")
    assert len(server.seen) == QUICK.attempts


@pytest.mark.parametrize("failure", [BUSY, dropped_connection()], ids=["503", "dropped"])
async def test_calls_of_unknown_outcome_are_not_repeated(failure: Handler) -> None:
    async with (
        fake_apiserver(failure) as server,
        KubeClient(server.connection, service="t", settings=QUICK) as client,
    ):
        with pytest.raises((ApiError, ApiConnectionError)):
            await client.create(CONFIG_MAP, config_map("a"), "aim-t")
        with pytest.raises((ApiError, ApiConnectionError)):
            await client.merge_patch(CONFIG_MAP, "a", "team", {}, resource_version="1", field_manager="aim-t")
    assert len(server.seen) == 2


@pytest.mark.spec("FW-044")
async def test_a_schema_error_of_server_side_apply_is_not_repeated() -> None:
    typed = status_answer(500, "InternalError", "failed to create typed patch object (team/a): bad")
    async with (
        fake_apiserver(typed) as server,
        KubeClient(server.connection, service="t", settings=QUICK) as client,
    ):
        with pytest.raises(ApiError) as caught:
            await client.apply(CONFIG_MAP, config_map("a"), "aim-t")
    assert caught.value.is_typed_patch_failure
    assert len(server.seen) == 1


async def test_the_servers_advice_to_wait_is_followed() -> None:
    throttled = status_answer(429, "TooManyRequests", headers={"Retry-After": "0.2"})
    loop = asyncio.get_running_loop()
    async with (
        fake_apiserver(throttled, OK) as server,
        KubeClient(server.connection, service="t", settings=QUICK) as client,
    ):
        started = loop.time()
        await client.get(CONFIG_MAP, "a", "team")
        assert loop.time() - started >= 0.2


async def test_advice_to_wait_very_long_is_reported_instead() -> None:
    throttled = status_answer(429, "TooManyRequests", headers={"Retry-After": "600"})
    async with (
        fake_apiserver(throttled) as server,
        KubeClient(server.connection, service="t", settings=QUICK) as client,
    ):
        with pytest.raises(ApiError) as caught:
            await client.get(CONFIG_MAP, "a", "team")
    assert caught.value.retry_after == 600
    assert len(server.seen) == 1


async def test_a_rejected_token_is_read_again_once_also_for_calls_that_are_not_repeated() -> None:
    credentials = RotatingToken()
    async with (
        fake_apiserver(unauthorized_unless_new) as server,
        KubeClient(Connection(server.url, credentials), service="t", settings=QUICK) as client,
    ):
        await client.create(CONFIG_MAP, config_map("a"), "aim-t")
        assert client.statistics().credential_refreshes == 1
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer old", "Bearer new-1"]


async def test_a_token_that_stays_rejected_is_an_error() -> None:
    credentials = RotatingToken()
    async with (
        fake_apiserver(status_answer(401, "Unauthorized")) as server,
        KubeClient(Connection(server.url, credentials), service="t", settings=QUICK) as client,
    ):
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await client.get(CONFIG_MAP, "a", "team")
    assert (len(server.seen), credentials.refreshes) == (2, 1)


async def test_a_silent_server_is_given_up() -> None:
    settings = TransportSettings(read_timeout=0.1, attempts=1)
    async with (
        fake_apiserver(watch_answer(then_hang=True)) as server,
        KubeClient(server.connection, service="t", settings=settings) as client,
    ):
        with pytest.raises(ApiConnectionError) as caught:
            await client.get(CONFIG_MAP, "a", "team")
    assert caught.value.failure is ConnectionFailure.TIMEOUT


@pytest.mark.spec("FW-045")
async def test_a_closed_port_is_a_refused_connection() -> None:
    nobody = Connection(f"http://{HOST}:{free_port()}", NoCredentials())
    settings = TransportSettings(attempts=1)
    async with KubeClient(nobody, service="t", settings=settings) as client:
        with pytest.raises(ApiConnectionError, match="check that it is reachable") as caught:
            await client.version()
    assert (caught.value.failure, caught.value.operation) == (ConnectionFailure.REFUSED, "dial")


async def test_no_more_calls_are_in_flight_than_allowed_but_lease_calls_overtake() -> None:
    release = asyncio.Event()

    async def hold(request: web.BaseRequest) -> web.StreamResponse:
        if "urgent" not in request.path:
            await release.wait()
        return await OK(request)

    async with (
        fake_apiserver(hold) as server,
        KubeClient(server.connection, service="t", settings=QUICK) as client,
        asyncio.TaskGroup() as group,
    ):
        for number in range(7):
            group.create_task(client.get(CONFIG_MAP, f"n{number}", "team"))
        await server.wait_for_requests(3)
        limiter = client.statistics().limiter
        assert (limiter.in_flight, limiter.waiting) == (3, 4)
        await client.for_leases().get(CONFIG_MAP, "urgent", "team")
        assert len(server.seen) == 4
        release.set()


async def test_a_client_that_was_not_opened_says_so() -> None:
    client = KubeClient(Connection("http://127.0.0.1:1", NoCredentials()), service="t")
    with pytest.raises(Exception, match="async with"):
        await client.version()
