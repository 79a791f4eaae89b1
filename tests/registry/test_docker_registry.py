"""The registry client and model-sync against a real registry: `make test-registry`."""

from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer
from support.controlplane import RawApi
from support.docker_registry import DockerRegistry, running
from support.model_sync_service import SOURCES, condition, models, running_service, source, until
from support.oci import pull_secret
from support.token_server import ISSUER, SERVICE, TokenServer

from aim_local.registry.auth import basic_header
from controller_runtime import JsonObject, dumps
from embedded_apiserver import ControlPlane
from oci_registry import (
    ImageReference,
    RegistryClient,
    RegistryError,
    RegistryErrorCode,
    Repository,
    canonical_repository,
)

LABELS = {
    "org.opencontainers.image.version": "0.9.0",
    "com.amd.aim.model.canonicalName": "Qwen/Qwen3-32B",
    "com.amd.aim.model.recommendedDeployments": "[{'gpuModel': 'MI300X', 'gpuCount': 1}]",
}
TAGS = ("0.8.4", "0.8.5", "0.9.0", "latest")
HTPASSWD = "me:$2y$05$abcdefghijklmnopqrstuuQ1r5cG1iNx7gU/7PdnUErse9Ii7K/WW"
"""User `me`, password `correct-password`, as `htpasswd -B` writes it."""
PASSWORD = "correct-password"


def of(registry: DockerRegistry, path: str) -> Repository:
    return canonical_repository(registry.host, path)


def fill(registry: DockerRegistry, authorization: str = "") -> None:
    for tag in TAGS:
        registry.push("org/aim-a", tag, LABELS, authorization=authorization)
    registry.push("org/aim-b", "1.0.0", LABELS, authorization=authorization, as_index=False)
    registry.push("org/base", "1.0.0", {}, authorization=authorization)


@pytest.fixture(scope="module")
def public(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerRegistry]:
    """Open to everybody; gives two repositories per page of its catalog at most."""
    with running(program, tmp_path_factory.mktemp("public"), catalog={"maxentries": 2}) as registry:
        fill(registry)
        yield registry


@pytest.fixture(scope="module")
def basic(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerRegistry]:
    """Protected by a file of passwords."""
    folder = tmp_path_factory.mktemp("basic")
    (folder / "htpasswd").write_text(HTPASSWD + "\n")
    auth: JsonObject = {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}
    with running(program, folder, auth=auth) as registry:
        fill(registry, basic_header("me", PASSWORD))
        yield registry


@dataclass(frozen=True)
class Guarded:
    registry: DockerRegistry
    tokens: TokenServer


@pytest.fixture
async def guarded(program: Path, tmp_path: Path) -> AsyncIterator[Guarded]:
    """Protected by tokens of our own server."""
    tokens = TokenServer("me", PASSWORD)
    tokens.write_authority(tmp_path / "authority.pem")
    async with TestServer(tokens.application(), host="127.0.0.1") as server:
        token: JsonObject = {
            "realm": str(server.make_url("/token")),
            "service": SERVICE,
            "issuer": ISSUER,
            "rootcertbundle": str(tmp_path / "authority.pem"),
        }
        with running(program, tmp_path, auth={"token": token}) as registry:
            for repository in ("org/aim-a", "public/aim-b"):
                writer = tokens.signed(f"repository:{repository}:pull,push")
                registry.push(repository, "1.0.0", LABELS, authorization=f"Bearer {writer}")
            yield Guarded(registry, tokens)


@pytest.mark.spec("MS-114", "MS-120")
async def test_tags_are_listed_and_a_missing_repository_is_not_found(
    public: DockerRegistry, client: RegistryClient
) -> None:
    assert sorted((await client.list_tags(of(public, "org/aim-a"))).names) == sorted(TAGS)
    with pytest.raises(RegistryError, match="NAME_UNKNOWN") as caught:
        await client.list_tags(of(public, "org/none"))
    assert caught.value.code is RegistryErrorCode.NOT_FOUND


@pytest.mark.spec("MS-115", "MS-116", "MS-144")
async def test_the_catalog_is_read_page_by_page(public: DockerRegistry, client: RegistryClient) -> None:
    """This registry refuses the size that is asked for first."""
    assert (await client.list_repositories(public.host)).names == ("org/aim-a", "org/aim-b", "org/base")


@pytest.mark.spec("DI-083", "DI-084", "DI-086", "MS-374")
@pytest.mark.parametrize(("repository", "tag"), [("org/aim-a", "0.9.0"), ("org/aim-b", "1.0.0")])
async def test_labels_are_read_once_and_then_confirmed(
    public: DockerRegistry, client: RegistryClient, repository: str, tag: str
) -> None:
    image = ImageReference(of(public, repository), tag)
    config = await client.image_config(image)
    assert (config.labels, config.env) == (LABELS, ("AIM_MODEL=x",))
    before = client.statistics().requests[public.host]
    assert await client.image_config(image) == config
    assert client.statistics().requests[public.host] == before + 1
    digest = ImageReference(of(public, repository), digest=config.digest)
    assert await client.image_config(digest) == config


@pytest.mark.spec("MS-374")
async def test_a_tag_that_moved_is_read_again(public: DockerRegistry, client: RegistryClient) -> None:
    image = ImageReference(of(public, "org/moving"), "stable")
    for version in ("1", "2"):
        digest = public.push("org/moving", "stable", {"v": version}, as_index=False)
        config = await client.image_config(image)
        assert (config.digest, config.labels) == (digest, {"v": version})


@pytest.mark.spec("MS-373")
async def test_a_manifest_is_confirmed_by_its_etag(public: DockerRegistry, client: RegistryClient) -> None:
    """The configuration has to be read for a new reference; the manifest behind it is known already."""
    image = ImageReference(of(public, "org/aim-a"), "0.9.0")
    config = await client.image_config(image)
    await client.image_config(ImageReference(image.repository, digest=config.digest))
    await client.image_config(ImageReference(image.repository, "0.8.5"))
    answers = client.statistics().answers
    assert answers[public.host, "3xx"] >= 2


@pytest.mark.spec("DI-090")
async def test_a_missing_image_is_not_found(public: DockerRegistry, client: RegistryClient) -> None:
    with pytest.raises(RegistryError, match="MANIFEST_UNKNOWN") as caught:
        await client.image_config(ImageReference(of(public, "org/aim-a"), "7.7.7"))
    assert caught.value.code is RegistryErrorCode.NOT_FOUND


@pytest.mark.spec("MS-121", "MS-268")
async def test_basic_authentication_of_a_real_registry(basic: DockerRegistry, client: RegistryClient) -> None:
    right = pull_secret(basic.host, "me", PASSWORD)
    assert len((await client.list_repositories(basic.host, right)).names) == 3
    assert sorted((await client.list_tags(of(basic, "org/aim-a"), right)).names) == sorted(TAGS)
    assert (await client.image_config(ImageReference(of(basic, "org/aim-a"), "0.9.0"), right)).labels == LABELS
    for wrong in (pull_secret(basic.host, "me", "wrong"), pull_secret("ghcr.io", "me", PASSWORD)):
        with pytest.raises(RegistryError, match="pull secret") as caught:
            await client.list_tags(of(basic, "org/aim-a"), wrong)
        assert caught.value.code is RegistryErrorCode.AUTH_FAILED


@pytest.mark.spec("MS-121", "MS-122", "MS-123", "MS-129")
async def test_token_authentication_of_a_real_registry(guarded: Guarded, client: RegistryClient) -> None:
    registry, tokens = guarded.registry, guarded.tokens
    right = pull_secret(registry.host, "me", PASSWORD)
    assert (await client.list_tags(of(registry, "public/aim-b"))).names == ("1.0.0",)
    with pytest.raises(RegistryError) as caught:
        await client.list_tags(of(registry, "org/aim-a"))
    assert caught.value.code is RegistryErrorCode.AUTH_FAILED
    with pytest.raises(RegistryError) as caught:
        await client.list_tags(of(registry, "org/aim-a"), pull_secret(registry.host, "me", "wrong"))
    assert caught.value.code is RegistryErrorCode.AUTH_FAILED
    tokens.scopes.clear()
    for _ in range(2):
        assert (await client.list_tags(of(registry, "org/aim-a"), right)).names == ("1.0.0",)
        assert (await client.list_repositories(registry.host, right)).names == ("org/aim-a", "public/aim-b")
    assert (await client.image_config(ImageReference(of(registry, "org/aim-a"), "1.0.0"), right)).labels == LABELS
    assert tokens.scopes == ["repository:org/aim-a:pull", "registry:catalog:*"]


@pytest.mark.spec("MS-105", "MS-279", "MS-S101")
async def test_a_source_is_synced_from_real_registries(
    public: DockerRegistry, guarded: Guarded, controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    await api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "aim-system"}})
    auths = {"auths": {guarded.registry.host: {"username": "me", "password": PASSWORD}}}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": b64encode(dumps(auths)).decode()},
    }
    await api.created("/api/v1/namespaces/aim-system/secrets", secret)
    filters: list[JsonObject] = [
        {"image": "org/aim-*", "versions": [">=0.8.5"]},
        {"image": f"{guarded.registry.host}/org/aim-*"},
        {"image": "org/none"},
    ]
    spec: JsonObject = {"registry": public.host, "imagePullSecrets": [{"name": "pull"}], "filters": filters}
    async with running_service(controlplane, tmp_path):
        await api.created(SOURCES, source(**spec))
        status = await until(api, "Degraded")
    assert "[2] org/none: NotFound" in condition(status, "FiltersReady")["message"]
    assert sorted(await models(api)) == sorted(
        [
            f"{public.host}/org/aim-a:0.8.5",
            f"{public.host}/org/aim-a:0.9.0",
            f"{public.host}/org/aim-b:1.0.0",
            f"{guarded.registry.host}/org/aim-a:1.0.0",
        ]
    )
