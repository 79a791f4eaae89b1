"""What a sync takes from its surroundings: settings, Secrets of one namespace, nothing of the machine; what it logs."""

import json
from base64 import b64encode
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs
from support.fake_apiserver import fake_apiserver, json_answer, status_answer
from support.oci import ON_LOOPBACK

from aim_local.registry import BasicAuth, ImageStore, LocalRegistry
from aim_model_sync.outcome import SyncOutcome
from aim_model_sync.pull_secrets import SecretReader
from aim_model_sync.selectors import SelectorText
from aim_model_sync.settings import ModelSyncSettings
from aim_model_sync.sync import SYNC, SyncParams, SyncRunner, open_clients
from controller_runtime import EffectError, JsonObject, KubeClient, dumps, to_json
from oci_registry import ANONYMOUS, CredentialSet, Listing, RegistryClient, Repository
from oci_registry.listing import Keep, everything

NAMESPACE = "aim-system"
NOBODY = status_answer(404, "NotFound")
FORBIDDEN = status_answer(403, "Forbidden", 'secrets "pull" is forbidden')


def content() -> ImageStore:
    store = ImageStore()
    for repository in ("org/aim-a", "org/aim-b"):
        store.put(repository, "1.0.0")
    return store


def params(*texts: str, registry: str = "", secrets: tuple[str, ...] = (), **more: Any) -> SyncParams:
    given: dict[str, Any] = {"generation": 1, "attempt": 1, "interval": 3600.0, **more}
    selectors = tuple(SelectorText(text=text, wildcards=True) for text in texts)
    return SyncParams(source="catalog", uid="u", registry=registry, selectors=selectors, secrets=secrets, **given)


def pull_secret(host: str, password: str = "sesame") -> JsonObject:
    auths = {"auths": {host: {"username": "me", "password": password}}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull", "namespace": NAMESPACE, "uid": "s", "resourceVersion": "7"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": b64encode(dumps(auths)).decode()},
    }


class Scene:
    """A runner with an API server that answers as told."""

    def __init__(self, client: RegistryClient, kube: KubeClient) -> None:
        self.runner = SyncRunner(client, SecretReader(kube, NAMESPACE), 600.0)

    async def sync(self, *texts: str, **more: Any) -> SyncOutcome:
        return await self.runner(params(*texts, **more))


@pytest.mark.spec("MS-156")
async def test_the_listing_apis_are_where_the_settings_say() -> None:
    """Docker Hub's two addresses and GitHub's, with the prefix that an enterprise server has."""
    seen: list[str] = []

    async def packages(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.json_response([])

    github = web.Application()
    github.router.add_get("/api/v3/{kind}/{owner}/packages", packages)
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(LocalRegistry(store=content(), auth=None))
        enterprise = await stack.enter_async_context(TestServer(github))
        kube = await stack.enter_async_context(fake_apiserver(json_answer(pull_secret("ghcr.io"))))
        settings = ModelSyncSettings.model_validate(
            {
                **ON_LOOPBACK,
                "docker_hub_api_url": f"http://{registry.host}/",
                "docker_registry_url": f"http://{registry.host}",
                "github_api_url": str(enterprise.make_url("/api/v3/")),
            }
        )
        client = await stack.enter_async_context(KubeClient(kube.connection, service="model-sync"))
        clients = await stack.enter_async_context(open_clients(settings, client))
        asked = params("org/aim-*", "ghcr.io/org/aim-*", secrets=("pull",))
        outcome = await SYNC.runner(clients)(asked)
    assert [str(image) for image in outcome.images()] == ["org/aim-a:1.0.0", "org/aim-b:1.0.0"]
    assert [one.code for one in outcome.selectors] == [None, None]
    assert seen == ["/api/v3/orgs/org/packages"]
    assert registry.requests["hub"] == 1


@pytest.mark.spec("MS-035", "MS-362", "MS-158", "MS-168")
async def test_secrets_are_read_in_one_namespace_at_every_sync() -> None:
    async with (
        LocalRegistry(store=content(), auth=BasicAuth("me", "sesame")) as registry,
        fake_apiserver(NOBODY, json_answer(pull_secret(registry.host))) as api,
        KubeClient(api.connection, service="model-sync") as kube,
        RegistryClient(ModelSyncSettings.model_validate(ON_LOOPBACK)) as client,
    ):
        scene = Scene(client, kube)
        refused = await scene.sync("org/aim-a", registry=registry.host, secrets=("pull",))
        assert [one.code for one in refused.selectors] == ["AuthFailed"]
        assert f"pull Secret {NAMESPACE}/pull: does not exist" in refused.selectors[0].message
        granted = await scene.sync("org/aim-a", registry=registry.host, secrets=("pull",))
        assert [one.code for one in granted.selectors] == [None]
        assert {(one.method, one.path) for one in api.seen} == {("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/pull")}


@pytest.mark.spec("MS-167", "MS-267")
async def test_a_secret_that_may_not_be_read_is_blamed_where_it_was_needed() -> None:
    async with (
        LocalRegistry(store=content(), auth=BasicAuth("me", "sesame", "org/aim-a")) as registry,
        fake_apiserver(FORBIDDEN) as api,
        KubeClient(api.connection, service="model-sync") as kube,
        RegistryClient(ModelSyncSettings.model_validate(ON_LOOPBACK)) as client,
    ):
        outcome = await Scene(client, kube).sync("org/aim-a", "org/aim-b", registry=registry.host, secrets=("pull",))
    assert [one.code for one in outcome.selectors] == ["SecretAccessFailed", None]
    assert "allow the service's role to get it" in outcome.selectors[0].message


@pytest.mark.spec("MS-370")
async def test_without_kubernetes_no_registry_is_asked() -> None:
    async with (
        LocalRegistry(store=content(), auth=None) as registry,
        fake_apiserver(status_answer(503, "ServiceUnavailable")) as api,
        KubeClient(api.connection, service="model-sync") as kube,
        RegistryClient(ModelSyncSettings.model_validate(ON_LOOPBACK)) as client,
    ):
        with pytest.raises(EffectError, match="pull secrets cannot be read"):
            await Scene(client, kube).sync("org/aim-a", registry=registry.host, secrets=("pull",))
        assert registry.total_requests == 0


@pytest.mark.spec("MS-169")
async def test_credentials_of_the_machine_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        LocalRegistry(store=content(), auth=BasicAuth("me", "sesame")) as registry,
        fake_apiserver(NOBODY) as api,
        KubeClient(api.connection, service="model-sync") as kube,
        RegistryClient(ModelSyncSettings.model_validate(ON_LOOPBACK)) as client,
    ):
        auths = {"auths": {registry.host: {"auth": b64encode(b"me:sesame").decode()}}}
        (tmp_path / ".docker").mkdir()
        (tmp_path / ".docker" / "config.json").write_text(json.dumps(auths))
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password sesame\n")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / ".docker"))
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        outcome = await Scene(client, kube).sync("org/aim-a", registry=registry.host)
    assert [one.code for one in outcome.selectors] == ["AuthFailed"]


@pytest.mark.spec("MS-369", "MS-170")
async def test_the_result_names_what_was_found_and_no_credential() -> None:
    """The fact: selectors with repositories and tags or the code, by the source's UID and generation."""
    async with (
        LocalRegistry(store=content(), auth=BasicAuth("me", "sesame")) as registry,
        fake_apiserver(json_answer(pull_secret(registry.host))) as api,
        KubeClient(api.connection, service="model-sync") as kube,
        RegistryClient(ModelSyncSettings.model_validate(ON_LOOPBACK)) as client,
    ):
        asked = params("org/aim-a", "org/none", registry=registry.host, secrets=("pull",), generation=3)
        with capture_logs() as logs:
            reported = to_json(await Scene(client, kube).runner(asked))
    found, missing = reported["selectors"]
    assert found["found"] == [{"registry": registry.host, "repository": "org/aim-a", "versions": ["1.0.0"]}]
    assert (missing["code"], reported["generation"]) == ("NotFound", 3)
    everything_reported = f"{dumps(reported).decode()} {asked} {logs}"
    for secret in ("sesame", b64encode(b"me:sesame").decode(), "Authorization"):
        assert secret not in everything_reported


class BuggyClient(RegistryClient):
    """A client with a fault that nobody foresaw."""

    async def list_tags(
        self, repository: Repository, credentials: CredentialSet = ANONYMOUS, *, keep: Keep = everything
    ) -> Listing:
        if repository.path == "org/aim-a":
            raise ZeroDivisionError("a bug")
        return await super().list_tags(repository, credentials, keep=keep)


@pytest.mark.spec("MS-277", "MS-278", "MS-349", "MS-350")
async def test_a_bug_costs_one_selector_and_is_logged() -> None:
    async with (
        LocalRegistry(store=content(), auth=None) as registry,
        fake_apiserver(NOBODY) as api,
        KubeClient(api.connection, service="model-sync") as kube,
        BuggyClient(ModelSyncSettings.model_validate(ON_LOOPBACK)) as client,
    ):
        with capture_logs() as logs:
            outcome = await Scene(client, kube).sync("org/aim-a", "org/aim-b", "org/none", registry=registry.host)
    assert [one.code for one in outcome.selectors] == ["InternalError", None, "NotFound"]
    assert outcome.available == 1
    failed = [line for line in logs if line["event"] == "selector failed"]
    assert [(one["log_level"], one["source"], one["index"], one["selector"]) for one in failed] == [
        ("error", "catalog", 0, "org/aim-a"),
        ("error", "catalog", 2, "org/none"),
    ]
    (listed,) = (line for line in logs if line["event"] == "listed tags")
    assert (listed["log_level"], listed["repository"]) == ("debug", f"{registry.host}/org/aim-b")


@pytest.mark.spec("MS-032")
async def test_a_short_interval_is_warned_about_once_per_generation() -> None:
    async with (
        LocalRegistry(store=content(), auth=None) as registry,
        fake_apiserver(NOBODY) as api,
        KubeClient(api.connection, service="model-sync") as kube,
        RegistryClient(ModelSyncSettings.model_validate(ON_LOOPBACK)) as client,
    ):
        scene = Scene(client, kube)
        with capture_logs() as logs:
            for generation in (1, 1, 2):
                await scene.sync("org/aim-a", registry=registry.host, interval=60.0, generation=generation)
            await scene.sync("org/aim-a", registry=registry.host, interval=900.0, generation=3)
    warned = [line["generation"] for line in logs if line["log_level"] == "warning"]
    assert warned == [1, 2]
