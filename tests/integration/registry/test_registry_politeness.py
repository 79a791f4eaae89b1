"""What the registry client spares registries: transfers that say nothing new, and requests that they do not want."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from support.oci import REPOSITORY, at, image, pull_secret, settings, store_with_tags, token_secret

from aim_local.registry import BearerAuth, Fault, LocalRegistry
from oci_registry import Hubs, RegistryClient, RegistryError, RegistryErrorCode, canonical_repository

TAGS = tuple(f"1.0.{number}" for number in range(5))


@pytest.fixture
async def validating() -> AsyncIterator[LocalRegistry]:
    """A registry that gives each page of a list an `ETag`."""
    async with LocalRegistry(store=store_with_tags(*TAGS), auth=None, page_limit=2, lists_have_etags=True) as running:
        yield running


@pytest.mark.spec("MS-373")
async def test_unchanged_pages_are_confirmed_and_changed_ones_read(
    client: RegistryClient, validating: LocalRegistry
) -> None:
    for _ in range(2):
        assert (await client.list_tags(at(validating))).names == TAGS
    assert validating.answers == {("tags", 200): 3, ("tags", 304): 3}
    validating.store.put(REPOSITORY, "1.0.5")
    assert (await client.list_tags(at(validating))).names == (*TAGS, "1.0.5")
    assert validating.answers == {("tags", 200): 4, ("tags", 304): 5}


@pytest.mark.spec("MS-373")
async def test_what_is_kept_is_given_only_to_who_may_read_it(client: RegistryClient) -> None:
    auth = BearerAuth("me", "pass", "team/")
    store = store_with_tags()
    async with LocalRegistry(store=store, auth=auth, lists_have_etags=True) as registry:
        assert (await client.list_tags(at(registry), pull_secret(registry.host, "me", "pass"))).names == ("1.0.0",)
        with pytest.raises(RegistryError) as caught:
            await client.list_tags(at(registry))
    assert caught.value.code is RegistryErrorCode.AUTH_FAILED


@pytest.mark.spec("MS-373")
async def test_github_is_asked_only_whether_its_list_changed(client: RegistryClient) -> None:
    seen: list[str | None] = []

    async def packages(request: web.Request) -> web.Response:
        seen.append(request.headers.get("If-None-Match"))
        if seen[-1] == '"v1"':
            return web.Response(status=304, headers={"ETag": '"v1"'})
        return web.json_response([{"name": "aim-a"}], headers={"ETag": '"v1"'})

    application = web.Application()
    application.router.add_get("/orgs/org/packages", packages)
    secret = pull_secret("ghcr.io", "me", "token")
    async with TestServer(application) as server:
        address = str(server.make_url("")).rstrip("/")
        async with RegistryClient(settings(), hubs=Hubs(github=address)) as github:
            for _ in range(2):
                assert (await github.list_repositories("ghcr.io", secret, owner="org")).names == ("org/aim-a",)
    assert seen == [None, '"v1"']


@pytest.mark.spec("MS-374")
async def test_a_known_image_is_confirmed_with_one_head(client: RegistryClient) -> None:
    async with LocalRegistry(store=store_with_tags(), auth=None) as registry:
        first = await client.image_config(image(registry))
        transferred = registry.total_requests
        assert await client.image_config(image(registry)) == first
        assert registry.answers["head-manifest", 200] == 1
        assert registry.total_requests == transferred + 1
        registry.store.put(REPOSITORY, "1.0.0", labels={"a": "other"})
        assert (await client.image_config(image(registry))).labels == {"a": "other"}
        registry.store.untag(REPOSITORY, "1.0.0")
        with pytest.raises(RegistryError, match="MANIFEST_UNKNOWN") as caught:
            await client.image_config(image(registry))
        assert caught.value.code is RegistryErrorCode.NOT_FOUND


@pytest.mark.spec("MS-374")
async def test_a_registry_without_head_is_read_again(client: RegistryClient) -> None:
    async with LocalRegistry(store=store_with_tags(), auth=None) as registry:
        first = await client.image_config(image(registry))
        registry.fail("manifest", Fault(405))
        assert await client.image_config(image(registry)) == first


@pytest.mark.spec("MS-374")
async def test_a_known_image_is_not_shown_to_who_may_not_read_it(client: RegistryClient) -> None:
    async with LocalRegistry(store=store_with_tags(), auth=BearerAuth("me", "pass", "team/")) as registry:
        await client.image_config(image(registry), pull_secret(registry.host, "me", "pass"))
        with pytest.raises(RegistryError) as caught:
            await client.image_config(image(registry))
    assert caught.value.code is RegistryErrorCode.AUTH_FAILED


@pytest.mark.spec("MS-257")
async def test_who_stood_in_line_when_a_wait_was_announced_keeps_it(registry: LocalRegistry) -> None:
    registry.fail("tags", Fault(429, {"Retry-After": "120"}, delay=0.1))
    async with RegistryClient(settings(registry_max_connections=1)) as client:
        await client.list_repositories(registry.host)
        answers = await asyncio.gather(*(client.list_tags(at(registry)) for _ in range(8)), return_exceptions=True)
    codes = [one.code for one in answers if isinstance(one, RegistryError)]
    assert codes == [RegistryErrorCode.RATE_LIMITED] * 8
    assert registry.requests["tags"] == 1


@pytest.mark.spec("FW-396")
async def test_limits_of_a_host_are_kept_while_something_is_under_way(
    client: RegistryClient, registry: LocalRegistry
) -> None:
    registry.fail("tags", Fault(429, {"Retry-After": "120"}))
    with pytest.raises(RegistryError):
        await client.list_tags(at(registry))
    assert registry.host in client._transport._blocked_until
    client._transport._blocked_until[registry.host] = client._transport._blocked_until["over"] = 0.0
    registry.fail("tags", Fault(429, {"Retry-After": "120"}))
    answers = await asyncio.gather(*(client.list_tags(at(registry)) for _ in range(4)), return_exceptions=True)
    assert any(isinstance(one, RegistryError) for one in answers)
    del answers
    gc.collect()
    assert list(client._transport._blocked_until) == [registry.host]
    assert not client._transport._slots
    assert not client._schemes._probing


@pytest.mark.spec("MS-151", "MS-152")
@pytest.mark.parametrize(
    "headers", [{"Retry-After": "60"}, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "99999999999"}]
)
async def test_a_limit_that_github_disguises_as_a_refusal(
    client: RegistryClient, registry: LocalRegistry, headers: dict[str, str]
) -> None:
    registry.fail("tags", Fault(403, headers))
    with pytest.raises(RegistryError) as caught:
        await client.list_tags(at(registry))
    assert caught.value.code is RegistryErrorCode.RATE_LIMITED
    assert set(client.statistics().waiting_hosts) == {registry.host}


@pytest.mark.spec("MS-151")
async def test_a_short_wait_is_sat_out(client: RegistryClient, registry: LocalRegistry) -> None:
    registry.fail("tags", Fault(429, {"Retry-After": "1"}))
    started = asyncio.get_running_loop().time()
    assert (await client.list_tags(at(registry))).names == ("1.0.0",)
    assert asyncio.get_running_loop().time() - started >= 0.9
    assert client.statistics().rate_limited == {registry.host: 1}


@pytest.mark.spec("MS-351")
async def test_requests_are_counted_by_host_and_status_class(client: RegistryClient, registry: LocalRegistry) -> None:
    await client.list_tags(at(registry))
    with pytest.raises(RegistryError):
        await client.list_tags(canonical_repository(registry.host, "team/none"))
    host = registry.host
    assert client.statistics().answers == {(host, "none"): 1, (host, "2xx"): 1, (host, "4xx"): 1}


@pytest.mark.spec("MS-159")
async def test_the_identity_token_of_a_credential_helper() -> None:
    """A helper writes the user name `<token>`, and the token where the password belongs."""
    seen: list[str] = []

    async def token(request: web.Request) -> web.Response:
        form = await request.post()
        seen.append(" ".join(str(form[name]) for name in ("grant_type", "refresh_token")))
        return web.json_response({"access_token": "fresh"})

    async def tags(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") == "Bearer fresh":
            return web.json_response({"tags": ["1"]})
        challenge = f'Bearer realm="http://{request.host}/token",service="s"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    application = web.Application()
    application.router.add_post("/token", token)
    application.router.add_get("/v2/team/model/tags/list", tags)
    async with TestServer(application) as server, RegistryClient(settings()) as client:
        host = f"{server.host}:{server.port}"
        given = token_secret(host, username="<token>", password="long-lived")
        assert (await client.list_tags(canonical_repository(host, REPOSITORY), given)).names == ("1",)
    assert seen == ["refresh_token long-lived"]


@pytest.mark.spec("MS-253")
async def test_a_hundred_requests_share_a_few_connections(registry: LocalRegistry) -> None:
    async with RegistryClient(settings(registry_max_connections=3)) as client:
        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(client.list_tags(at(registry)))
        for _ in range(50):
            await client.list_tags(at(registry))
    assert registry.requests["tags"] == 100
    assert len(registry.connections) <= 3


@pytest.mark.spec("MS-115", "MS-116")
async def test_a_registry_that_allows_smaller_pages_only_is_asked_without_a_size(client: RegistryClient) -> None:
    refusal = Fault(400, body=b'{"errors": [{"code": "PAGINATION_NUMBER_INVALID", "message": "at most 2"}]}')
    async with LocalRegistry(store=store_with_tags(*TAGS), auth=None, page_limit=2) as registry:
        registry.fail("tags", refusal)
        assert (await client.list_tags(at(registry))).names == TAGS
        registry.fail("tags", refusal, refusal)
        with pytest.raises(RegistryError, match="PAGINATION_NUMBER_INVALID"):
            await client.list_tags(at(registry))


async def test_only_what_is_wanted_of_a_list_is_kept(client: RegistryClient) -> None:
    async with LocalRegistry(store=store_with_tags(*TAGS), auth=None, page_limit=2) as registry:
        listing = await client.list_tags(at(registry), keep=lambda tag: tag.endswith(("1", "4")))
        assert listing.names == ("1.0.1", "1.0.4")
        catalog = await client.list_repositories(registry.host, keep=lambda name: name.startswith("other/"))
        assert catalog.names == ()
