"""Authentication of the registry client, over real HTTP."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from support.oci import REPOSITORY, at, image, pull_secret, settings, store_with_tags, token_secret

from aim_local.registry import BasicAuth, BearerAuth, Fault, LocalRegistry
from oci_registry import RegistryClient, RegistryError, RegistryErrorCategory, RegistryErrorCode, canonical_repository


@pytest.mark.spec("MS-121", "DI-082")
async def test_basic_authentication(client: RegistryClient) -> None:
    async with LocalRegistry(store=store_with_tags(), auth=BasicAuth("me", "pass")) as registry:
        with pytest.raises(RegistryError) as caught:
            await client.list_tags(at(registry))
        assert caught.value.code is RegistryErrorCode.AUTH_FAILED
        wrong = pull_secret(registry.host, "me", "wrong")
        with pytest.raises(RegistryError) as caught:
            await client.image_config(image(registry), wrong)
        assert caught.value.category is RegistryErrorCategory.AUTH
        assert "wrong" not in str(caught.value)
        right = pull_secret(registry.host, "me", "pass")
        assert (await client.list_tags(at(registry), right)).names == ("1.0.0",)


@pytest.mark.spec("MS-121", "MS-122", "MS-129")
async def test_bearer_tokens_are_asked_for_once_per_scope(client: RegistryClient) -> None:
    async with LocalRegistry(store=store_with_tags(), auth=BearerAuth("me", "pass", "team/")) as registry:
        with pytest.raises(RegistryError) as caught:
            await client.list_tags(at(registry))
        assert caught.value.code is RegistryErrorCode.AUTH_FAILED
        credentials = pull_secret(registry.host, "me", "pass")
        await client.list_tags(at(registry), credentials)
        await client.image_config(image(registry), credentials)
        assert registry.requests["token"] == 2


@pytest.mark.spec("MS-129")
async def test_a_refused_token_is_replaced(client: RegistryClient) -> None:
    auth = BearerAuth("me", "pass", "private/")
    async with LocalRegistry(store=store_with_tags(), auth=auth) as registry:
        await client.list_tags(at(registry))
        auth.revoke_all()
        assert (await client.list_tags(at(registry))).names == ("1.0.0",)
        assert registry.requests["token"] == 2


@pytest.mark.spec("MS-127")
async def test_credentials_are_not_sent_to_a_foreign_realm(client: RegistryClient, registry: LocalRegistry) -> None:
    challenge = {"WWW-Authenticate": 'Bearer realm="https://auth.example.com/token",service="x"'}
    registry.fail("tags", Fault(401, challenge))
    with pytest.raises(RegistryError, match="another domain") as caught:
        await client.list_tags(at(registry), pull_secret(registry.host, "me", "pass"))
    assert caught.value.code is RegistryErrorCode.INVALID_RESPONSE


@pytest.mark.spec("MS-126")
async def test_an_identity_token_is_refreshed_and_a_registry_token_is_sent_as_it_is() -> None:
    seen: list[str] = []

    async def token(request: web.Request) -> web.Response:
        form = await request.post()
        seen.append(" ".join(str(form[name]) for name in ("grant_type", "refresh_token", "scope")))
        return web.json_response({"access_token": "fresh"})

    async def tags(request: web.Request) -> web.Response:
        bearer = request.headers.get("Authorization")
        if bearer in ("Bearer fresh", "Bearer given"):
            return web.json_response({"tags": [bearer.removeprefix("Bearer ")]})
        challenge = f'Bearer realm="http://{request.host}/token",service="s"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    application = web.Application()
    application.router.add_post("/token", token)
    application.router.add_get("/v2/team/model/tags/list", tags)
    async with TestServer(application) as server, RegistryClient(settings()) as client:
        host = f"{server.host}:{server.port}"
        repository = canonical_repository(host, REPOSITORY)
        given = token_secret(host, registrytoken="given")
        assert (await client.list_tags(repository, given)).names == ("given",)
        identity = token_secret(host, identitytoken="long-lived")
        assert (await client.list_tags(repository, identity)).names == ("fresh",)
    assert seen == ["refresh_token long-lived repository:team/model:pull"]


@pytest.mark.spec("MS-128", "DI-086")
async def test_a_redirected_blob_gets_no_credentials() -> None:
    seen: list[str | None] = []
    auth = BasicAuth("me", "pass")
    async with LocalRegistry(store=store_with_tags(), auth=auth) as registry:
        found = registry.store.manifest(REPOSITORY, "1.0.0")
        assert found is not None

        async def storage(request: web.Request) -> web.Response:
            seen.append(request.headers.get("Authorization"))
            digest = request.match_info["digest"]
            return web.Response(body=registry.store.blob(REPOSITORY, digest))

        application = web.Application()
        application.router.add_get("/{digest}", storage)
        config = registry.store.put(REPOSITORY, "1.0.0", labels={"a": "b"}).config_digest
        async with TestServer(application) as server, RegistryClient(settings()) as client:
            registry.fail("blob", Fault(307, {"Location": str(server.make_url(f"/{config}"))}))
            inspected = await client.image_config(image(registry), pull_secret(registry.host, "me", "pass"))
    assert inspected.labels == {"a": "b"}
    assert seen == [None]
