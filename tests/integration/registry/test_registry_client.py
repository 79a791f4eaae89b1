"""The registry client against the local registry, over real HTTP."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from aim_local.registry import BasicAuth, BearerAuth, Fault, ImageStore, LocalRegistry
from aim_shared.registry.client import RegistryClient
from aim_shared.registry.config_file import RegistriesFile
from aim_shared.registry.credentials import DOCKER_CONFIG_JSON, CredentialSet, parse_pull_secret
from aim_shared.registry.errors import RegistryError, RegistryErrorCategory, RegistryErrorCode
from aim_shared.registry.image_reference import ImageReference, Repository, canonical_repository, parse_image
from aim_shared.registry.mirrors import Registries, parse_registries
from aim_shared.registry.settings import RegistrySettings
from aim_shared.registry.transport import USER_AGENT

REPOSITORY = "team/model"


def settings(**values: object) -> RegistrySettings:
    return RegistrySettings.model_validate({"registry_request_timeout": 5.0, "inspection_timeout": 5.0, **values})


def store_with_tags(*tags: str) -> ImageStore:
    store = ImageStore()
    for tag in tags or ("1.0.0",):
        store.put(REPOSITORY, tag, labels={"a": "b"}, env=["X=1"])
    return store


def at(registry: LocalRegistry) -> Repository:
    return canonical_repository(registry.host, REPOSITORY)


def image(registry: LocalRegistry, version: str = ":1.0.0") -> ImageReference:
    return parse_image(f"{registry.host}/{REPOSITORY}{version}")


def token_secret(host: str, **entry: str) -> CredentialSet:
    document = json.dumps({"auths": {host: entry}})
    data = base64.b64encode(document.encode()).decode()
    return parse_pull_secret(DOCKER_CONFIG_JSON, {".dockerconfigjson": data})


def pull_secret(host: str, username: str, password: str) -> CredentialSet:
    return token_secret(host, auth=base64.b64encode(f"{username}:{password}".encode()).decode())


@pytest.fixture
async def client() -> AsyncIterator[RegistryClient]:
    async with RegistryClient(settings()) as opened:
        yield opened


@pytest.fixture
async def registry() -> AsyncIterator[LocalRegistry]:
    async with LocalRegistry(store=store_with_tags(), auth=None) as running:
        yield running


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


@pytest.mark.spec("MS-117")
async def test_next_page_on_another_origin_is_refused(client: RegistryClient, registry: LocalRegistry) -> None:
    link = {"Link": '<http://127.0.0.1:1/v2/team/model/tags/list>; rel="next"'}
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
        async with RegistryClient(settings(docker_registry_url=address, docker_hub_api_url=address)) as client:
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
    async with RegistryClient(settings(inspection_timeout=0.2)) as client:
        with pytest.raises(RegistryError, match="AIM_INSPECTION_TIMEOUT"):
            await client.image_config(image(registry))


async def test_refused_connection_is_unreachable_at_once(client: RegistryClient, unused_tcp_port: int) -> None:
    started = asyncio.get_running_loop().time()
    with pytest.raises(RegistryError, match=f"127.0.0.1:{unused_tcp_port} can not be reached") as caught:
        await client.list_tags(canonical_repository(f"127.0.0.1:{unused_tcp_port}", REPOSITORY))
    assert caught.value.code is RegistryErrorCode.UNREACHABLE
    assert asyncio.get_running_loop().time() - started < 0.9


@pytest.mark.spec("MS-153")
async def test_too_large_a_body_is_refused(registry: LocalRegistry) -> None:
    registry.fail("tags", Fault(200, body=b'{"tags": ["' + b"x" * 4096 + b'"]}'))
    async with RegistryClient(settings(registry_max_body_bytes=1024)) as client:
        with pytest.raises(RegistryError, match="AIM_REGISTRY_MAX_BODY_BYTES"):
            await client.list_tags(at(registry))


@pytest.mark.spec("MS-253")
async def test_requests_per_host_are_limited(registry: LocalRegistry) -> None:
    registry.fail("tags", *(Fault(200, body=b"{}", delay=0.05) for _ in range(12)))
    async with RegistryClient(settings(registry_max_connections=3)) as client:
        await client.list_repositories(registry.host)
        async with asyncio.TaskGroup() as group:
            for _ in range(12):
                group.create_task(client.list_tags(at(registry)))
    assert registry.concurrent_peak == 3


def mirrored(first: LocalRegistry, *, upstream: bool) -> Registries:
    return parse_registries(
        json.dumps(
            {
                "registries": {
                    "ghcr.io": {
                        "mirrors": [{"url": "http://127.0.0.1:1"}, {"url": f"http://{first.host}/proxy"}],
                        "upstream": {"enabled": upstream},
                    }
                }
            }
        )
    )


@pytest.mark.spec("FW-384", "FW-388", "FW-391")
async def test_mirrors_are_asked_in_order(client: RegistryClient) -> None:
    store = ImageStore()
    store.put("proxy/team/model", "1.0.0")
    store.put("elsewhere/model", "1.0.0")
    async with LocalRegistry(store=store, auth=None) as registry:
        client.use(mirrored(registry, upstream=False))
        assert (await client.list_tags(Repository("ghcr.io", REPOSITORY))).names == ("1.0.0",)
        assert (await client.list_repositories("ghcr.io", owner="team")).names == ("team/model",)


@pytest.mark.spec("FW-389", "FW-390")
async def test_when_no_endpoint_answers_the_outage_decides(client: RegistryClient, registry: LocalRegistry) -> None:
    client.use(mirrored(registry, upstream=False))
    with pytest.raises(RegistryError, match=r"127.0.0.1:1: .*NAME_UNKNOWN") as caught:
        await client.list_tags(Repository("ghcr.io", "team/none"))
    assert caught.value.code is RegistryErrorCode.UNREACHABLE
    client.use(parse_registries('registries: {"*": {upstream: {enabled: false}}}'))
    with pytest.raises(RegistryError, match="switched off") as caught:
        await client.list_tags(at(registry))
    assert caught.value.code is RegistryErrorCode.UNREACHABLE
    assert caught.value.category is RegistryErrorCategory.GENERIC


@pytest.mark.spec("FW-392")
async def test_credentials_of_the_registry_are_not_sent_to_its_mirror() -> None:
    auth = BasicAuth("mirror", "m")
    store = ImageStore()
    store.put("proxy/team/model", "1.0.0")
    async with LocalRegistry(store=store, auth=auth) as registry:

        async def secret(name: str) -> CredentialSet:
            assert name == "harbor-pull"
            return pull_secret(registry.host, "mirror", "m")

        mirror = {"url": f"http://{registry.host}/proxy", "secretName": "harbor-pull"}
        rules = json.dumps({"registries": {"ghcr.io": {"mirrors": [mirror], "upstream": {"enabled": False}}}})
        async with RegistryClient(settings(), parse_registries(rules), mirror_secrets=secret) as client:
            own = pull_secret("ghcr.io", "mirror", "m")
            assert (await client.list_tags(Repository("ghcr.io", REPOSITORY), own)).names == ("1.0.0",)
        async with RegistryClient(settings(), parse_registries(rules)) as client:
            with pytest.raises(RegistryError) as caught:
                await client.list_tags(Repository("ghcr.io", REPOSITORY), own)
    assert caught.value.code is RegistryErrorCode.AUTH_FAILED


@pytest.mark.spec("MS-140")
async def test_github_listing_needs_a_token(client: RegistryClient) -> None:
    with pytest.raises(RegistryError) as caught:
        await client.list_repositories("ghcr.io", owner="silogen")
    assert caught.value.code is RegistryErrorCode.MISSING_CREDENTIALS


@pytest.mark.spec("FW-395")
async def test_a_changed_configuration_file_is_taken_up_and_a_faulty_one_is_not(
    client: RegistryClient, registry: LocalRegistry, tmp_path: Path
) -> None:
    path = tmp_path / "registries.yaml"
    follower = RegistriesFile(path, client)
    path.write_text('registries: {"*": {upstream: {enabled: false}}}')
    await follower.read()
    with pytest.raises(RegistryError, match="switched off"):
        await client.list_tags(at(registry))
    path.write_text("registries: {")
    await follower.read()
    assert follower.failures == 1
    with pytest.raises(RegistryError, match="switched off"):
        await client.list_tags(at(registry))
    path.write_text("")
    await follower.read()
    assert (await client.list_tags(at(registry))).names == ("1.0.0",)


@pytest.mark.spec("FW-387")
async def test_unprotected_endpoints_are_counted_once(client: RegistryClient, registry: LocalRegistry) -> None:
    client.use(parse_registries(f'registries: {{"{registry.host}": {{upstream: {{plainHttp: true}}}}}}'))
    for _ in range(2):
        await client.list_tags(at(registry))
    assert client.insecure_endpoints == 1


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
    # One probe over TLS that the server never understood, then three requests per inspection and the platform manifest.
    assert statistics.requests == {registry.host: 1 + 3 * 3}
    assert registry.total_requests == 3 * 3


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


@pytest.mark.spec("MS-137", "MS-138", "MS-139", "MS-140", "MS-141")
@pytest.mark.parametrize("owner", ["silogen", "someone"])
async def test_github_packages_of_organisations_and_users(owner: str) -> None:
    stub = GithubStub()
    async with TestServer(stub.application()) as server:
        address = str(server.make_url("")).rstrip("/")
        async with RegistryClient(settings(github_api_url=address)) as client:
            secret = pull_secret("https://ghcr.io", "me", "token")
            listing = await client.list_repositories("ghcr.io", secret, owner=owner)
    assert len(listing.names) == 101
    assert listing.names[0] == f"{owner}/aim-1-0"
    assert set(stub.headers) == {"Bearer token"}


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
