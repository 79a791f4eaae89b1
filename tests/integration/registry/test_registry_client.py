"""Listing and inspection against the local registry, over real HTTP."""

import asyncio
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from support.oci import REPOSITORY, at, image, pull_secret, settings, store_with_tags

from aim_local.ports import free_port
from aim_local.registry import DEMO_IMAGES, BearerAuth, Fault, LocalRegistry
from oci_registry import (
    Hubs,
    ImageReference,
    RegistryClient,
    RegistryError,
    RegistryErrorCategory,
    RegistryErrorCode,
    Repository,
    canonical_repository,
)
from oci_registry.transport import USER_AGENT


@pytest.mark.spec("MS-114", "MS-115", "MS-116")
async def test_tags_of_all_pages_are_listed(client: RegistryClient) -> None:
    tags = tuple(f"1.0.{number}" for number in range(5))
    async with LocalRegistry(store=store_with_tags(*tags), auth=None, page_limit=2) as registry:
        listing = await client.list_tags(at(registry))
        assert listing.names == tags
        assert not listing.is_truncated
        assert registry.requests["tags"] == 3


@pytest.mark.spec("MS-153")
async def test_page_cap_marks_the_listing_as_truncated() -> None:
    async with (
        LocalRegistry(store=store_with_tags("1", "2", "3"), auth=None, page_limit=1) as registry,
        RegistryClient(settings(registry_max_pages=2)) as client,
    ):
        listing = await client.list_tags(at(registry))
    assert listing.names == ("1", "2")
    assert listing.is_truncated


@pytest.mark.spec("MS-109")
async def test_null_tags_are_an_empty_list(client: RegistryClient, registry: LocalRegistry) -> None:
    registry.fail("tags", Fault(200, body=b'{"name": "team/model", "tags": null, "child": []}'))
    assert (await client.list_tags(at(registry))).names == ()


@pytest.mark.spec("MS-117", "MS-157")
@pytest.mark.parametrize("target", ["http://127.0.0.1:1/v2/team/model/tags/list", "http://[bad", "http://h:port/"])
async def test_next_page_on_another_origin_is_refused(
    client: RegistryClient, registry: LocalRegistry, target: str
) -> None:
    link = {"Link": f'<{target}>; rel="next"'}
    registry.fail("tags", Fault(200, link, b'{"tags": ["1"]}'))
    with pytest.raises(RegistryError) as caught:
        await client.list_tags(at(registry))
    assert caught.value.code is RegistryErrorCode.INVALID_RESPONSE


@pytest.mark.spec("MS-120", "FW-050", "DI-090")
async def test_unknown_repository_and_tag_are_not_found(client: RegistryClient, registry: LocalRegistry) -> None:
    with pytest.raises(RegistryError) as caught:
        await client.list_tags(canonical_repository(registry.host, "team/other"))
    assert caught.value.code is RegistryErrorCode.NOT_FOUND
    assert "NAME_UNKNOWN" in str(caught.value)
    with pytest.raises(RegistryError) as caught:
        await client.image_config(image(registry, ":2.0.0"))
    assert caught.value.category is RegistryErrorCategory.NOT_FOUND


@pytest.mark.spec("DI-083", "DI-084", "DI-086")
async def test_labels_of_an_image_under_an_index(client: RegistryClient, registry: LocalRegistry) -> None:
    config = await client.image_config(image(registry))
    found = registry.store.manifest(REPOSITORY, "1.0.0")
    assert found is not None
    assert config.digest == found[0]
    assert (config.labels, config.env) == ({"a": "b"}, ("X=1",))
    by_digest = await client.image_config(image(registry, f"@{config.digest}"))
    assert by_digest == config


@pytest.mark.spec("DI-084")
async def test_index_without_our_platform_is_generic(client: RegistryClient, registry: LocalRegistry) -> None:
    index = {"schemaVersion": 2, "manifests": [{"platform": {"os": "linux", "architecture": "arm64"}}]}
    digest = registry.store.put_manifest(
        REPOSITORY, "application/vnd.oci.image.index.v1+json", json.dumps(index).encode()
    )
    registry.store.tag(REPOSITORY, "arm", digest)
    with pytest.raises(RegistryError, match="linux/amd64") as caught:
        await client.image_config(image(registry, ":arm"))
    assert caught.value.category is RegistryErrorCategory.GENERIC


@pytest.mark.spec("DI-086", "FW-394")
@pytest.mark.parametrize("part", ["blob", "manifest"])
async def test_altered_content_is_refused(client: RegistryClient, registry: LocalRegistry, part: str) -> None:
    stored = registry.store.put(REPOSITORY, "2.0.0", labels={"c": "d"})
    if part == "blob":
        registry.store.corrupt_blob(REPOSITORY, stored.config_digest, b'{"config": {"Labels": {"evil": "1"}}}')
    else:
        registry.store.corrupt_manifest(REPOSITORY, stored.manifest_digest, b"{}")
    with pytest.raises(RegistryError, match="has digest") as caught:
        await client.image_config(image(registry, ":2.0.0"))
    assert caught.value.code is RegistryErrorCode.INVALID_RESPONSE


@pytest.mark.spec("MS-157")
@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"tags": [1]}', b'{"tags": "1.0.0"}'])
async def test_malformed_tags_are_an_invalid_response(
    client: RegistryClient, registry: LocalRegistry, body: bytes
) -> None:
    registry.fail("tags", Fault(200, body=body))
    with pytest.raises(RegistryError) as caught:
        await client.list_tags(at(registry))
    assert caught.value.code is RegistryErrorCode.INVALID_RESPONSE


@pytest.mark.spec("MS-144", "MS-145", "MS-123")
async def test_catalog_lists_all_repositories(client: RegistryClient) -> None:
    store = store_with_tags()
    store.put("team/other", "1")
    async with LocalRegistry(store=store, auth=BearerAuth("me", "pass"), page_limit=1) as registry:
        listing = await client.list_repositories(registry.host, pull_secret(registry.host, "me", "pass"))
        assert listing.names == ("team/model", "team/other")


@pytest.mark.spec("MS-146")
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(404), RegistryErrorCode.WILDCARD_UNSUPPORTED),
        (Fault(405), RegistryErrorCode.WILDCARD_UNSUPPORTED),
        (Fault(501), RegistryErrorCode.WILDCARD_UNSUPPORTED),
        (Fault(400, body=b'{"errors": [{"code": "UNSUPPORTED"}]}'), RegistryErrorCode.WILDCARD_UNSUPPORTED),
        (Fault(200, body=b"<html>Welcome</html>"), RegistryErrorCode.WILDCARD_UNSUPPORTED),
        (Fault(403), RegistryErrorCode.AUTH_FAILED),
    ],
)
async def test_registries_without_catalog(
    client: RegistryClient, registry: LocalRegistry, fault: Fault, code: RegistryErrorCode
) -> None:
    registry.fail("catalog", fault)
    with pytest.raises(RegistryError, match="list repositories explicitly") as caught:
        await client.list_repositories(registry.host)
    assert caught.value.code is code


@pytest.mark.spec("MS-130", "MS-131", "MS-133")
async def test_docker_hub_namespace_is_listed_through_the_hub_api() -> None:
    store = store_with_tags()
    store.put("team/other", "1")
    async with LocalRegistry(store=store, auth=None, page_limit=1) as registry:
        address = f"http://{registry.host}"
        async with RegistryClient(settings(docker_registry_url=address), hubs=Hubs(docker=address)) as client:
            listing = await client.list_repositories("index.docker.io", owner="team")
            assert listing.names == ("team/model", "team/other")
            assert (await client.list_tags(canonical_repository("", REPOSITORY))).names == ("1.0.0",)
            with pytest.raises(RegistryError, match="nobody") as caught:
                await client.list_repositories("docker.io", owner="nobody")
            assert caught.value.code is RegistryErrorCode.NOT_FOUND


@pytest.mark.spec("MS-151", "MS-152")
async def test_a_short_announced_wait_is_sat_out(client: RegistryClient, registry: LocalRegistry) -> None:
    registry.fail("tags", Fault(429, {"Retry-After": "1"}))
    started = asyncio.get_running_loop().time()
    assert (await client.list_tags(at(registry))).names == ("1.0.0",)
    assert asyncio.get_running_loop().time() - started >= 0.9


@pytest.mark.spec("MS-151", "MS-257", "FW-396")
async def test_a_long_announced_wait_holds_for_the_whole_host(client: RegistryClient, registry: LocalRegistry) -> None:
    registry.fail("tags", Fault(429, {"Retry-After": "60"}))
    with pytest.raises(RegistryError) as caught:
        await client.list_tags(at(registry))
    assert caught.value.code is RegistryErrorCode.RATE_LIMITED
    assert caught.value.retry_after == 60
    before = registry.total_requests
    with pytest.raises(RegistryError) as caught:
        await client.image_config(image(registry))
    assert caught.value.code is RegistryErrorCode.RATE_LIMITED
    assert registry.total_requests == before


@pytest.mark.spec("MS-150", "DI-087")
async def test_server_errors_are_retried_twice(client: RegistryClient, registry: LocalRegistry) -> None:
    registry.fail("tags", Fault(503))
    assert (await client.list_tags(at(registry))).names == ("1.0.0",)
    assert registry.requests["tags"] == 2


@pytest.mark.spec("MS-149")
async def test_a_silent_registry_times_out(registry: LocalRegistry) -> None:
    registry.fail("tags", Fault(200, delay=1.0))
    async with RegistryClient(settings(registry_request_timeout=0.2)) as client:
        with pytest.raises(RegistryError) as caught:
            await client.list_tags(at(registry))
    assert caught.value.code is RegistryErrorCode.TIMEOUT


@pytest.mark.spec("DI-088")
async def test_the_inspection_as_a_whole_is_bounded(registry: LocalRegistry) -> None:
    registry.fail("manifest", Fault(200, delay=1.0))
    async with RegistryClient(settings(), inspection_timeout=0.2) as client:
        with pytest.raises(RegistryError, match="--inspection-timeout"):
            await client.image_config(image(registry))


async def test_refused_connection_is_unreachable_at_once(client: RegistryClient) -> None:
    port = free_port()
    with pytest.raises(RegistryError, match=f"127.0.0.1:{port} cannot be reached") as caught:
        await client.list_tags(canonical_repository(f"127.0.0.1:{port}", REPOSITORY))
    assert caught.value.code is RegistryErrorCode.UNREACHABLE
    assert not client.statistics().retries


@pytest.mark.spec("MS-153")
async def test_too_large_a_page_truncates_a_listing_and_fails_an_inspection() -> None:
    huge = Fault(200, body=b'{"tags": ["' + b"x" * 4096 + b'"]}')
    tags = tuple(f"1.0.{number}" for number in range(4))
    async with (
        LocalRegistry(store=store_with_tags(*tags), auth=None, page_limit=2) as registry,
        RegistryClient(settings(registry_max_body_bytes=1024)) as client,
    ):
        registry.fail("tags", Fault(200, {"Link": '<?n=2&last=1.0.1>; rel="next"'}, b'{"tags": ["1.0.0"]}'), huge)
        listing = await client.list_tags(at(registry))
        assert (listing.names, listing.is_truncated) == (("1.0.0",), True)
        registry.fail("manifest", huge)
        with pytest.raises(RegistryError, match="--registry-max-body-bytes") as caught:
            await client.image_config(image(registry))
        assert caught.value.code is RegistryErrorCode.TRUNCATED_RESULT


@pytest.mark.spec("MS-253")
async def test_requests_per_host_are_limited(registry: LocalRegistry) -> None:
    registry.fail("tags", *(Fault(200, body=b"{}", delay=0.05) for _ in range(12)))
    async with RegistryClient(settings(registry_max_connections=3)) as client:
        await client.list_repositories(registry.host)
        async with asyncio.TaskGroup() as group:
            for _ in range(12):
                group.create_task(client.list_tags(at(registry)))
    assert registry.concurrent_peak == 3


@pytest.mark.spec("MS-140")
async def test_github_listing_needs_a_token(client: RegistryClient) -> None:
    with pytest.raises(RegistryError) as caught:
        await client.list_repositories("ghcr.io", owner="silogen")
    assert caught.value.code is RegistryErrorCode.MISSING_CREDENTIALS


@pytest.mark.spec("MS-150")
async def test_a_broken_connection_is_retried(client: RegistryClient, registry: LocalRegistry) -> None:
    registry.fail("tags", Fault(200, hangs_up=True))
    assert (await client.list_tags(at(registry))).names == ("1.0.0",)


@pytest.mark.spec("MS-154")
async def test_the_product_introduces_itself(client: RegistryClient, registry: LocalRegistry) -> None:
    await client.list_tags(at(registry))
    assert registry.user_agents == {USER_AGENT}
    assert USER_AGENT.startswith("aim-engine/")


@pytest.mark.spec("MS-119")
async def test_a_local_address_is_probed_for_tls_once(client: RegistryClient, registry: LocalRegistry) -> None:
    for _ in range(3):
        await client.image_config(image(registry))
    statistics = client.statistics()
    # One probe over TLS that the server never understood, two manifests and a blob, and two confirmations.
    assert statistics.requests == {registry.host: 1 + 3 + 2}
    assert registry.total_requests == 3 + 2


class GithubStub:
    """The packages listing of the GitHub API; owners of the set are users, not organisations."""

    def __init__(self) -> None:
        self.headers: list[str] = []

    async def packages(self, request: web.Request) -> web.Response:
        self.headers.append(request.headers["Authorization"])
        if request.match_info["kind"] == "orgs" and request.match_info["owner"] != "silogen":
            return web.json_response({"message": "Not Found"}, status=404)
        size = 100 if request.query["page"] == "1" else 1
        return web.json_response([{"name": f"aim-{request.query['page']}-{number}"} for number in range(size)])

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/{kind}/{owner}/packages", self.packages)
        return application


@pytest.mark.spec("MS-137", "MS-138", "MS-139", "MS-140", "MS-141", "MS-P16")
@pytest.mark.parametrize("owner", ["silogen", "someone"])
async def test_github_packages_of_organisations_and_users(owner: str) -> None:
    stub = GithubStub()
    async with TestServer(stub.application()) as server:
        address = str(server.make_url("")).rstrip("/")
        async with RegistryClient(settings(), hubs=Hubs(github=address)) as client:
            secret = pull_secret("https://ghcr.io", "me", "token")
            listing = await client.list_repositories("ghcr.io", secret, owner=owner)
    assert len(listing.names) == 101
    assert listing.names[0] == f"{owner}/aim-1-0"
    assert set(stub.headers) == {"Bearer token"}


async def test_odd_names_from_a_catalog_stay_inside_their_path(client: RegistryClient, registry: LocalRegistry) -> None:
    for odd in ("a b", "team/model/tags/list?x=", "team/model#", "ümlaut"):
        with pytest.raises(RegistryError) as caught:
            await client.list_tags(Repository(registry.host, odd))
        assert caught.value.code is RegistryErrorCode.NOT_FOUND


@pytest.mark.spec("MS-272")
async def test_the_text_of_a_failure_is_the_same_at_every_attempt(client: RegistryClient) -> None:
    port, texts = free_port(), set[str]()
    for _ in range(3):
        with pytest.raises(RegistryError) as caught:
            await client.list_tags(canonical_repository(f"127.0.0.1:{port}", REPOSITORY))
        texts.add(str(caught.value))
    assert texts == {f"127.0.0.1:{port} cannot be reached: connection refused; check address and network policies"}


async def test_the_demo_catalogue_is_read_end_to_end(client: RegistryClient) -> None:
    async with LocalRegistry() as registry:
        for demo in DEMO_IMAGES:
            secret = pull_secret(registry.host, "demo", "demo-password")
            repository = canonical_repository(registry.host, demo.repository)
            assert set(demo.tags) <= set((await client.list_tags(repository, secret)).names)
            for tag in demo.tags:
                config = await client.image_config(ImageReference(repository, tag), secret)
                assert config.labels == demo.labels(tag)
        with pytest.raises(RegistryError, match="no pull secret matches") as caught:
            await client.list_tags(canonical_repository(registry.host, "private/aim-dummy"))
        assert caught.value.category is RegistryErrorCategory.AUTH


@pytest.mark.spec("FW-596")
async def test_a_registry_that_answers_with_the_password_is_quoted_without() -> None:
    password = "of-somebody"
    body = json.dumps({"errors": [{"code": "DENIED", "message": f"{password} may not"}]}).encode()
    async with LocalRegistry(store=store_with_tags("1"), auth=None) as registry, RegistryClient(settings()) as client:
        registry.fail("tags", Fault(403, body=body))
        with pytest.raises(RegistryError, match=r"DENIED \*\*\* may not") as caught:
            await client.list_tags(at(registry), pull_secret(registry.host, "me", password))
    assert password not in str(caught.value)
