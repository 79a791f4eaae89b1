"""Where a registry, or a name, may lead the client: nowhere that the administrator did not open."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from support.oci import REPOSITORY, at, image, pull_secret, settings, token_secret

from aim_local.registry import Fault, LocalRegistry
from oci_registry import CredentialSet, RegistryClient, RegistryError, RegistryErrorCode, canonical_repository

Target = tuple[str, list[web.Request]]
REGISTRIES = {"registry_allowed_networks": "127.0.0.1"}
"""The machine's second address, 127.0.0.2, stands for whatever an attacker wants to reach."""


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    """A server that must not be asked, and what it was asked."""
    asked: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request)
        return web.json_response({"access_token": "stolen", "tags": ["secret"]})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(application, host="127.0.0.2") as server:
        yield f"127.0.0.2:{server.port}", asked


async def refusal(call: Callable[[], Awaitable[object]]) -> str:
    with pytest.raises(RegistryError) as failed:
        await call()
    assert failed.value.code is RegistryErrorCode.ADDRESS_REFUSED
    return str(failed.value)


@pytest.mark.spec("FW-590")
async def test_an_address_that_a_user_names_is_not_asked(target: Target) -> None:
    host, asked = target
    async with RegistryClient(settings(**REGISTRIES)) as client:
        said = await refusal(lambda: client.list_tags(canonical_repository(host, REPOSITORY)))
    assert "127.0.0.2" in said
    assert asked == []


@pytest.mark.spec("FW-590")
async def test_a_name_that_resolves_to_the_machine_itself_is_not_asked(registry: LocalRegistry) -> None:
    """The system's resolver answers, as it does for any name of an attacker's domain."""
    host = f"localhost:{registry.host.rpartition(':')[2]}"
    async with RegistryClient(settings(registry_allowed_networks="")) as client:
        said = await refusal(lambda: client.list_tags(canonical_repository(host, REPOSITORY)))
    assert "localhost" in said


@pytest.mark.spec("FW-590")
async def test_a_redirect_is_judged(registry: LocalRegistry, target: Target) -> None:
    host, asked = target
    registry.fail("blob", Fault(307, {"Location": f"http://{host}/latest/meta-data"}))
    async with RegistryClient(settings(**REGISTRIES)) as client:
        await refusal(lambda: client.image_config(image(registry)))
    assert asked == []


@pytest.mark.parametrize("credentials", [CredentialSet(), pull_secret("127.0.0.1", "me", "pass")])
@pytest.mark.spec("FW-590", "MS-127")
async def test_a_token_realm_is_judged(target: Target, credentials: CredentialSet) -> None:
    host, asked = target
    challenge = f'Bearer realm="http://{host}/token",service="s"'

    async def tags(_: web.Request) -> web.Response:
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    application = web.Application()
    application.router.add_get("/v2/team/model/tags/list", tags)
    async with TestServer(application) as server, RegistryClient(settings(**REGISTRIES)) as client:
        repository = canonical_repository(f"{server.host}:{server.port}", REPOSITORY)
        with pytest.raises(RegistryError):
            await client.list_tags(repository, credentials)
    assert asked == []


@pytest.mark.spec("FW-591")
async def test_the_api_server_is_never_asked(target: Target) -> None:
    host, asked = target
    async with RegistryClient(settings(), api_server=f"http://{host}") as client:
        assert "API server" in await refusal(lambda: client.list_tags(canonical_repository(host, REPOSITORY)))
    assert asked == []


@pytest.mark.spec("FW-593", "MS-128")
@pytest.mark.parametrize("status", [307, 308])
async def test_a_long_lived_token_is_not_carried_on_by_a_redirect(target: Target, status: int) -> None:
    """A token service is judged by its host (MS-127); where it redirects to, nobody has judged."""
    host, asked = target

    async def token(_: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": f"http://{host}/token"})

    async def tags(request: web.Request) -> web.Response:
        challenge = f'Bearer realm="http://{request.host}/token",service="s"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    application = web.Application()
    application.router.add_post("/token", token)
    application.router.add_get("/v2/team/model/tags/list", tags)
    async with TestServer(application) as server, RegistryClient(settings()) as client:
        own = f"{server.host}:{server.port}"
        with pytest.raises(RegistryError, match="redirect") as failed:
            await client.list_tags(canonical_repository(own, REPOSITORY), token_secret(own, identitytoken="canary"))
    assert failed.value.code is RegistryErrorCode.INVALID_RESPONSE
    assert asked == []


@pytest.mark.spec("FW-590")
async def test_what_is_opened_works(registry: LocalRegistry) -> None:
    async with RegistryClient(settings(**REGISTRIES)) as client:
        assert (await client.list_tags(at(registry))).names == ("1.0.0",)


@pytest.mark.spec("FW-592")
async def test_the_proxy_of_the_administrator_may_be_anywhere(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """It resolves names itself; addresses that are written out are refused in front of it."""
    host, asked = target
    monkeypatch.setenv("http_proxy", f"http://{host}")
    monkeypatch.setenv("no_proxy", "")
    rules = settings(registry_allowed_networks="", docker_registry_url="http://registry.example")
    async with RegistryClient(rules) as client:
        assert (await client.list_tags(canonical_repository("docker.io", "team/model"))).names == ("secret",)
    assert [one.method for one in asked] == ["GET"]
    rules = settings(registry_allowed_networks="", docker_registry_url="http://169.254.169.254")
    async with RegistryClient(rules) as client:
        await refusal(lambda: client.list_tags(canonical_repository("docker.io", "team/model")))
    assert len(asked) == 1
