"""One sync against a real registry, with pull secrets from a real API."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.controlplane import RawApi
from support.oci import ON_LOOPBACK

from aim_local.registry import BearerAuth, Fault, ImageStore, LocalRegistry
from aim_model_sync.outcome import SelectorState, SyncOutcome
from aim_model_sync.pull_secrets import SecretParams, SecretReader
from aim_model_sync.selectors import SelectorText, resolve
from aim_model_sync.settings import ModelSyncSettings
from aim_model_sync.sync import Evaluator, SyncParams, SyncRunner
from controller_runtime import KubeClient, dumps, load_connection, to_json
from embedded_apiserver import ControlPlane
from oci_registry import ANONYMOUS, Hubs, RegistryClient, RegistryErrorCode, SecretReason
from oci_registry.mirrors import Registries

NAMESPACE = "aim-system"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
AUTH = BearerAuth("user", "correct-password", "private/")


def store() -> ImageStore:
    content = ImageStore()
    for repository, tags in {
        "org/aim-a": ("1.0.0", "1.1.0", "2.0.0", "latest"),
        "org/aim-b": ("0.9.0", "1.0.0"),
        "org/aim-base": ("1.0.0",),
        "org/other": ("1.0.0",),
        "private/aim-x": ("1.0.0",),
    }.items():
        for tag in tags:
            content.put(repository, tag)
    return content


@pytest.fixture
async def registry() -> AsyncIterator[LocalRegistry]:
    async with LocalRegistry(store=store(), auth=AUTH) as running:
        yield running


@pytest.fixture
async def client(registry: LocalRegistry) -> AsyncIterator[RegistryClient]:
    """Docker Hub, too, is the local registry."""
    own = f"http://{registry.host}"
    settings = ModelSyncSettings.model_validate(
        {
            **ON_LOOPBACK,
            "registry_request_timeout": 20.0,
            "docker_registry_url": own,
            "registry_realm_allowlist": (registry.host,),
        }
    )
    async with RegistryClient(settings, hubs=Hubs(docker=own)) as opened:
        yield opened


@pytest.fixture
async def kube(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> AsyncIterator[KubeClient]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await api.post("/api/v1/namespaces", namespace)
    async with KubeClient(await load_connection(str(kubeconfig)), service="model-sync") as opened:
        yield opened


@pytest.fixture
def runner(kube: KubeClient, client: RegistryClient) -> SyncRunner:
    return SyncRunner(client, SecretReader(kube, NAMESPACE), 600.0)


def asked(*selectors: str | SelectorText, **more: Any) -> SyncParams:
    texts = tuple(SelectorText(text=one, wildcards=True) if isinstance(one, str) else one for one in selectors)
    given: dict[str, Any] = {
        "source": "s",
        "uid": "u",
        "generation": 1,
        "attempt": 1,
        "registry": "",
        "interval": 3600.0,
    }
    return SyncParams(**{**given, **more}, selectors=texts)


async def sync(runner: SyncRunner, *selectors: str | SelectorText, **more: Any) -> SyncOutcome:
    return await runner(asked(*selectors, **more))


async def put_secret(api: RawApi, host: str, name: str = "pull", password: str = AUTH.password) -> None:
    auths = {"auths": {host: {"username": AUTH.username, "password": password}}}
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": b64encode(dumps(auths)).decode()},
    }
    await api.created(SECRETS, body)


def found(outcome: SyncOutcome) -> list[str]:
    return [str(image).partition("/")[2] for image in outcome.images()]


@pytest.mark.spec("MS-102", "MS-091", "MS-114", "MS-S071", "MS-S072", "MS-S073")
async def test_an_exact_repository_costs_one_listing(registry: LocalRegistry, runner: SyncRunner) -> None:
    outcome = await sync(runner, SelectorText(text="org/aim-a", versions=("1.0.0", "1.1.0")), registry=registry.host)
    assert found(outcome) == ["org/aim-a:1.1.0", "org/aim-a:1.0.0"]
    assert registry.requests["tags"] <= 2  # the first is answered with a challenge
    again = registry.total_requests
    await sync(runner, "org/aim-a", registry=registry.host)
    assert registry.total_requests - again == 1


@pytest.mark.spec("MS-063", "MS-070", "MS-098", "MS-105", "MS-144", "MS-145", "MS-148")
async def test_a_wildcard_lists_the_catalog_and_what_matches(registry: LocalRegistry, runner: SyncRunner) -> None:
    selector = SelectorText(text="org/aim-*", wildcards=True, exclude=("org/aim-base",), versions=(">=1.0.0",))
    outcome = await sync(runner, selector, registry=registry.host)
    assert found(outcome) == ["org/aim-a:2.0.0", "org/aim-a:1.1.0", "org/aim-a:1.0.0", "org/aim-b:1.0.0"]
    before = registry.requests.copy()
    await sync(runner, selector, registry=registry.host)
    assert registry.requests - before == {"catalog": 1, "tags": 2}


@pytest.mark.spec("MS-103", "MS-130", "MS-131", "MS-118", "MS-060")
async def test_a_wildcard_on_docker_hub(registry: LocalRegistry, runner: SyncRunner) -> None:
    outcome = await sync(runner, "org/aim-*:1.0.0")
    assert [str(image) for image in outcome.images()] == ["org/aim-a:1.0.0", "org/aim-b:1.0.0", "org/aim-base:1.0.0"]
    assert registry.requests["hub"] == 1
    assert outcome.selectors[0].registry == "docker.io"


@pytest.mark.spec("MS-106", "MS-100", "MS-101", "MS-S067", "MS-S102")
async def test_pinned_and_invalid_selectors_send_nothing(registry: LocalRegistry, runner: SyncRunner) -> None:
    texts = (
        SelectorText(text="no/such:1"),
        SelectorText(text="org/aim-*"),
        SelectorText(text="org/x", versions=("~~",)),
    )
    outcome = await sync(runner, *texts, registry=registry.host)
    assert registry.total_requests == 0
    assert [one.state for one in outcome.selectors] == [
        SelectorState.SUCCEEDED,
        SelectorState.FAILED,
        SelectorState.FAILED,
    ]
    assert [one.code for one in outcome.selectors] == [None, "InvalidSelector", "InvalidVersionConstraint"]
    assert not any(one.contacted for one in outcome.selectors)


@pytest.mark.spec("MS-097")
async def test_excluding_what_is_pinned_yields_nothing(runner: SyncRunner) -> None:
    outcome = await sync(runner, SelectorText(text="org/aim-a:1.0.0", wildcards=True, exclude=("org/aim-a",)))
    assert (outcome.available, outcome.selectors[0].code) == (0, None)


@pytest.mark.spec("MS-110", "MS-120", "MS-269", "MS-278")
async def test_a_missing_repository_fails_alone(registry: LocalRegistry, runner: SyncRunner) -> None:
    outcome = await sync(runner, "org/nowhere", "org/aim-b", registry=registry.host)
    assert [one.code for one in outcome.selectors] == ["NotFound", None]
    assert outcome.available == 2
    assert not outcome.is_transient


@pytest.mark.spec("MS-272", "MS-107")
async def test_an_unreachable_registry(runner: SyncRunner) -> None:
    outcome = await sync(runner, "127.0.0.1:1/org/x", "org/aim-a:1.0.0")
    assert [one.code for one in outcome.selectors] == ["Unreachable", None]
    assert outcome.is_transient


@pytest.mark.spec("MS-146", "MS-265", "MS-S103")
async def test_a_registry_without_catalog(registry: LocalRegistry, runner: SyncRunner) -> None:
    registry.fail("catalog", *[Fault(404)] * 3)
    outcome = await sync(runner, "org/aim-*", "org/aim-a:1.0.0", registry=registry.host)
    assert [one.code for one in outcome.selectors] == ["WildcardUnsupported", None]
    assert "explicitly" in outcome.selectors[0].message


@pytest.mark.spec("MS-112", "MS-113", "MS-281", "MS-S094", "MS-P22")
async def test_one_repository_of_a_wildcard_fails(registry: LocalRegistry, runner: SyncRunner) -> None:
    outcome = await sync(runner, "*/aim-*", registry=registry.host)
    (one,) = outcome.selectors
    assert (one.state, one.code) == (SelectorState.PARTIAL, "AuthFailed")
    assert "private/aim-x" in one.message
    assert outcome.available == 7


@pytest.mark.spec("MS-121", "MS-122", "MS-158", "MS-168", "MS-S101")
async def test_a_pull_secret_opens_a_private_repository(
    registry: LocalRegistry, runner: SyncRunner, api: RawApi
) -> None:
    await put_secret(api, registry.host)
    outcome = await sync(runner, "private/aim-x", registry=registry.host, secrets=("pull",))
    assert found(outcome) == ["private/aim-x:1.0.0"]
    assert outcome.secret_problems == ()
    assert outcome.secrets[0].resource_version
    assert AUTH.password not in outcome.model_dump_json()


@pytest.mark.spec("MS-165", "MS-268", "MS-282", "MS-S101", "MS-P20")
async def test_a_missing_secret_is_named_where_it_was_needed(registry: LocalRegistry, runner: SyncRunner) -> None:
    outcome = await sync(runner, "private/aim-x", "org/aim-b", registry=registry.host, secrets=("pull",))
    assert [one.reason for one in outcome.secret_problems] == [SecretReason.NOT_FOUND]
    refused, fine = outcome.selectors
    assert (refused.code, fine.code) == ("AuthFailed", None)
    assert "Secret aim-system/pull" in refused.message
    assert "may not exist or may be private" in refused.message


@pytest.mark.spec("MS-166", "MS-267")
async def test_an_undecodable_secret(registry: LocalRegistry, runner: SyncRunner, api: RawApi) -> None:
    data = {".dockerconfigjson": b64encode(b"sesame{").decode()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"}, "data": data}
    await api.created(SECRETS, {**body, "type": "kubernetes.io/dockerconfigjson"})
    outcome = await sync(runner, "private/aim-x", "org/aim-b", registry=registry.host, secrets=("pull",))
    assert [one.code for one in outcome.selectors] == ["SecretInvalid", None]
    assert "sesame" not in outcome.model_dump_json()


@pytest.mark.spec("MS-266", "MS-140", "MS-S098")
async def test_a_wildcard_on_ghcr_needs_a_token_before_any_request(registry: LocalRegistry, runner: SyncRunner) -> None:
    outcome = await sync(runner, "amd-enterprise-ai/aim-private-*", registry="ghcr.io")
    (one,) = outcome.selectors
    assert (one.code, one.contacted) == ("MissingCredentials", False)


@pytest.mark.spec("MS-151", "MS-257", "MS-270", "MS-S109")
async def test_a_registry_that_wants_a_pause_gets_it(registry: LocalRegistry, runner: SyncRunner) -> None:
    registry.fail("tags", Fault(429, {"Retry-After": "120"}))
    outcome = await sync(runner, "org/aim-a", registry=registry.host)
    assert outcome.selectors[0].code == "RateLimited"
    assert outcome.retry_after is not None
    assert 110 <= outcome.retry_after <= 120
    before = registry.total_requests
    again = await sync(runner, "org/aim-b", registry=registry.host, uid="another")
    assert again.selectors[0].code == "RateLimited"
    assert registry.total_requests == before


@pytest.mark.spec("MS-255", "MS-256")
async def test_a_retry_asks_only_what_may_have_changed(registry: LocalRegistry, runner: SyncRunner) -> None:
    selectors = ("org/aim-a", "org/nowhere", "127.0.0.1:1/org/x")
    first = await sync(runner, *selectors, registry=registry.host)
    before = registry.total_requests
    retry = await sync(runner, *selectors, registry=registry.host, attempt=2)
    assert registry.total_requests == before
    assert retry.selectors == first.selectors
    await sync(runner, *selectors, registry=registry.host, attempt=3, interval=1e-6)
    assert registry.total_requests == before + 2, "results older than the interval are not used"
    await sync(runner, *selectors, registry=registry.host, attempt=2, generation=2)
    assert registry.total_requests == before + 4


@pytest.mark.spec("MS-149", "MS-271")
async def test_whatever_is_unfinished_at_the_deadline_times_out(
    registry: LocalRegistry, client: RegistryClient
) -> None:
    registry.fail("tags", Fault(200, delay=1.5))
    evaluator = Evaluator(client, ANONYMOUS, asyncio.get_running_loop().time() + 0.3)
    slow = await evaluator.evaluate(resolve(SelectorText(text="org/aim-a"), registry.host))
    assert slow.error is not None
    assert slow.error.code is RegistryErrorCode.TIMEOUT
    assert "org/aim-a" in str(slow.error)


@pytest.mark.spec("MS-247", "FW-096")
async def test_versions_of_secrets_are_all_that_is_reported_about_them(
    registry: LocalRegistry, kube: KubeClient, api: RawApi
) -> None:
    await put_secret(api, registry.host)
    reader = SecretReader(kube, NAMESPACE)
    reported = await reader.versions(SecretParams(secrets=("pull", "missing")))
    (there, missing) = to_json(reported)["secrets"]
    assert set(there) == {"name", "uid", "resourceVersion"}
    assert missing == {"name": "missing", "uid": "", "resourceVersion": ""}


@pytest.mark.spec("MS-118", "MS-372", "MS-S111", "FW-393", "FW-S80", "FW-S86", "MS-P45")
async def test_a_mirror_is_asked_and_never_shown(registry: LocalRegistry, kube: KubeClient) -> None:
    rules = {"docker.io": {"mirrors": [{"url": f"http://{registry.host}"}], "upstream": {"enabled": False}}}
    async with RegistryClient(
        ModelSyncSettings.model_validate(ON_LOOPBACK), Registries.model_validate({"registries": rules})
    ) as mirrored:
        runner = SyncRunner(mirrored, SecretReader(kube, NAMESPACE), 600.0)
        outcome = await sync(runner, "org/aim-b", "org/aim-a*:1.0.0")
    assert [str(image) for image in outcome.images()] == ["org/aim-b:1.0.0", "org/aim-b:0.9.0", "org/aim-a:1.0.0"]
    assert {one.registry for one in outcome.selectors} == {"docker.io"}
    assert registry.host not in outcome.model_dump_json()
