"""The client against the habits of Docker Hub, GHCR, GCR, Quay and Harbor, by their own names and over TLS."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from support.named_hosts import NamedHosts
from support.oci import pull_secret, settings, token_secret
from support.public_registries import DockerHub, Gcr, Ghcr, Harbor, PlayedRegistry, Quay

from oci_registry import CredentialSet, RegistryClient, RegistryError, RegistryErrorCode, canonical_repository

TAGS = ("0.8.4", "0.8.5", "0.9.0-rc1", "latest", "v1.0.0")
CONTENT = {"library/ubuntu": ("24.04",), "org/aim-a": TAGS, "org/aim-b": ("1.0.0",), "org/secret": ("1.0.0",)}
KINDS = (DockerHub, Ghcr, Gcr, Quay, Harbor)
each = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))


@asynccontextmanager
async def playing(
    registries: Iterable[PlayedRegistry], folder: Path, environment: pytest.MonkeyPatch
) -> AsyncIterator[tuple[NamedHosts, RegistryClient]]:
    sites = {host: site for one in registries for host, site in one.sites().items()}
    async with AsyncExitStack() as stack:
        hosts = await stack.enter_async_context(NamedHosts(sites, folder))
        hosts.lead_here(environment)
        yield hosts, await stack.enter_async_context(RegistryClient(settings(registry_ca_file=hosts.authority)))


@each
@pytest.mark.spec("MS-116", "MS-121", "MS-122", "MS-124", "MS-125", "MS-118", "MS-155", "MS-S074")
async def test_public_tags_come_page_by_page_for_everybody(
    kind: type[PlayedRegistry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing([kind(CONTENT)], tmp_path, monkeypatch) as (hosts, client):
        listing = await client.list_tags(canonical_repository(kind.host, "org/aim-a"))
        assert listing.names == TAGS
        assert hosts.asked(f"GET https://{kind.host}/v2/org/aim-a/tags/list?") == 1 + 3
        assert [one for one in hosts.requests if kind.realm in one] == [
            f"GET {kind.realm}?service={kind.service}&scope=repository:org/aim-a:pull"
        ]


@each
@pytest.mark.spec("MS-122", "MS-268")
async def test_private_tags_need_the_account(
    kind: type[PlayedRegistry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing([kind(CONTENT, ["org/secret"])], tmp_path, monkeypatch) as (_, client):
        repository = canonical_repository(kind.host, "org/secret")
        for refused in (CredentialSet(), pull_secret(kind.host, "me", "wrong")):
            with pytest.raises(RegistryError) as caught:
                await client.list_tags(repository, refused)
            assert caught.value.code is RegistryErrorCode.AUTH_FAILED
        assert (await client.list_tags(repository, pull_secret(kind.host, "me", "pass"))).names == ("1.0.0",)


@pytest.mark.spec("MS-058", "MS-118", "MS-125", "MS-162")
@pytest.mark.parametrize("key", ["https://index.docker.io/v1/", "docker.io", "registry-1.docker.io"])
async def test_docker_hub_has_many_names_and_implies_its_library(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing([DockerHub(CONTENT, ["library/ubuntu"])], tmp_path, monkeypatch) as (hosts, client):
        credentials = pull_secret(key, "me", "pass")
        for spelling in ("docker.io", "registry.hub.docker.com"):
            assert (await client.list_tags(canonical_repository(spelling, "ubuntu"), credentials)).names == ("24.04",)
        assert hosts.asked("https://index.docker.io/v2/library/ubuntu/tags/list?n=1000") == 3
        assert hosts.asked("https://auth.docker.io/token?") == 1


@pytest.mark.spec("MS-130", "MS-132", "MS-134", "MS-135")
async def test_docker_hub_lists_public_repositories_without_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Private ones are not found by patterns, and no credential is sent to where none is asked for."""
    hub = DockerHub(CONTENT | {"org/aim-c": ("1",)}, ["org/secret"])
    async with playing([hub], tmp_path, monkeypatch) as (hosts, client):
        credentials = pull_secret("docker.io", "me", "pass")
        listing = await client.list_repositories("docker.io", credentials, owner="org")
        assert listing.names == ("org/aim-a", "org/aim-b", "org/aim-c")
        assert [one.partition("hub.docker.com")[2] for one in hosts.requests] == [
            "/v2/namespaces/org/repositories?page_size=100",
            "/v2/namespaces/org/repositories?page_size=100&page=2",
        ]
        with pytest.raises(RegistryError, match="'nobody'") as caught:
            await client.list_repositories("docker.io", owner="nobody")
        assert caught.value.code is RegistryErrorCode.NOT_FOUND


@pytest.mark.spec("MS-136", "MS-137", "MS-139", "MS-140", "MS-163", "MS-373")
async def test_ghcr_is_listed_by_github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ghcr = Ghcr(CONTENT | {"someone/aim-x": ("1",)})
    ghcr.users = ("someone",)
    async with playing([ghcr], tmp_path, monkeypatch) as (hosts, client):
        credentials = pull_secret("https://ghcr.io", "me", "pass")
        for _ in range(2):
            names = (await client.list_repositories("ghcr.io", credentials, owner="org")).names
            assert names == ("org/aim-a", "org/aim-b", "org/secret")
        assert (await client.list_repositories("ghcr.io", credentials, owner="someone")).names == ("someone/aim-x",)
        assert hosts.asked("https://ghcr.io/v2/_catalog") == 0
        with pytest.raises(RegistryError) as caught:
            await client.list_repositories("ghcr.io", pull_secret("ghcr.io", "me", "expired"), owner="org")
        assert caught.value.code is RegistryErrorCode.AUTH_FAILED


@pytest.mark.spec("MS-147", "MS-146")
async def test_gcr_refuses_its_catalog_and_takes_a_json_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = json.dumps({"type": "service_account", "private_key": "-----BEGIN:\nx\n"})
    gcr = Gcr(CONTENT, ["org/secret"], user="_json_key", password=key)
    async with playing([gcr], tmp_path, monkeypatch) as (_, client):
        credentials = token_secret("https://gcr.io", username="_json_key", password=key)
        assert (await client.list_tags(canonical_repository("gcr.io", "org/secret"), credentials)).names == ("1.0.0",)
        with pytest.raises(RegistryError, match="administrators: list repositories explicitly") as caught:
            await client.list_repositories("gcr.io", credentials)
    assert caught.value.code is RegistryErrorCode.AUTH_FAILED


@pytest.mark.spec("MS-123", "MS-144", "MS-146")
async def test_quay_shows_its_catalog_to_a_robot_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quay = Quay(CONTENT, user="org+robot")
    async with playing([quay], tmp_path, monkeypatch) as (hosts, client):
        robot = pull_secret("quay.io", "org+robot", "pass")
        assert (await client.list_repositories("quay.io", robot)).names == tuple(CONTENT)
        assert hosts.asked("scope=registry:catalog:*") == 1
        with pytest.raises(RegistryError, match="administrators") as caught:
            await client.list_repositories("quay.io")
    assert caught.value.code is RegistryErrorCode.AUTH_FAILED


@pytest.mark.spec("MS-121", "MS-146")
async def test_harbor_asks_an_administrator_for_the_password_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses the token that it gave for the catalog, and asks for Basic: both challenges are answered."""
    async with playing([Harbor(CONTENT, user="admin")], tmp_path, monkeypatch) as (hosts, client):
        admin = pull_secret(Harbor.host, "admin", "pass")
        assert (await client.list_repositories(Harbor.host, admin)).names == tuple(CONTENT)
        before = len(hosts.requests)
        assert (await client.list_tags(canonical_repository(Harbor.host, "org/aim-b"), admin)).names == ("1.0.0",)
        assert len(hosts.requests) == before + 1, "what was learned about the registry is used at once"
        with pytest.raises(RegistryError, match="administrators") as caught:
            await client.list_repositories(Harbor.host)
        assert caught.value.code is RegistryErrorCode.AUTH_FAILED
        assert (await client.list_tags(canonical_repository(Harbor.host, "org/aim-b"))).names == ("1.0.0",)


@pytest.mark.spec("MS-161", "MS-164")
async def test_one_set_of_secrets_serves_several_registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each registry sees its own account and never another one's; a longer key is more specific."""
    played = [Ghcr(CONTENT, CONTENT, password="g"), Quay(CONTENT, CONTENT, password="q"), Harbor(CONTENT, CONTENT)]
    async with playing(played, tmp_path, monkeypatch) as (_, client):
        credentials = CredentialSet.merge(
            [
                pull_secret("ghcr.io", "me", "g"),
                pull_secret("quay.io", "me", "wrong"),
                pull_secret("quay.io/org", "me", "q"),
                pull_secret("*.example.com", "me", "pass"),
            ]
        )
        for one in played:
            assert (await client.list_tags(canonical_repository(one.host, "org/secret"), credentials)).names == (
                "1.0.0",
            )
