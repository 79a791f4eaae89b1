"""What each kind of selector asks of which host, on registries that go by their public names."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from support.named_hosts import NamedHosts
from support.oci import pull_secret
from support.public_registries import DockerHub, Gcr, Ghcr, Harbor, PlayedRegistry, Quay

from aim_model_sync.codes import SelectorError
from aim_model_sync.selectors import SelectorText, resolve
from aim_model_sync.settings import ModelSyncSettings
from aim_model_sync.sync import Evaluation, Evaluator
from oci_registry import ANONYMOUS, CredentialSet, RegistryClient, RegistryErrorCode

CONTENT = {
    "org/aim-a": ("1.0.0", "0.9.0", "latest"),
    "org/aim-b": ("1.0.0",),
    "org/aim-base": ("1.0.0",),
    "org/other": ("1.0.0",),
}
SECRETS = CredentialSet.merge(
    [pull_secret("ghcr.io", "me", "pass"), pull_secret("quay.io", "me", "pass"), pull_secret(Harbor.host, "me", "pass")]
)


@asynccontextmanager
async def evaluating(
    registries: Iterable[PlayedRegistry],
    folder: Path,
    environment: pytest.MonkeyPatch,
    *,
    credentials: CredentialSet = SECRETS,
    delay: float = 0.0,
    connections: int = 10,
) -> AsyncIterator[tuple[NamedHosts, Evaluator]]:
    sites = {host: site for one in registries for host, site in one.sites().items()}
    async with AsyncExitStack() as stack:
        hosts = await stack.enter_async_context(NamedHosts(sites, folder, delay=delay))
        hosts.lead_here(environment)
        settings = ModelSyncSettings(registry_ca_file=hosts.authority, registry_max_connections=connections)
        client = await stack.enter_async_context(RegistryClient(settings))
        yield hosts, Evaluator(client, credentials, asyncio.get_running_loop().time() + 60)


async def evaluate(evaluator: Evaluator, text: str, **more: tuple[str, ...]) -> Evaluation:
    return await evaluator.evaluate(resolve(SelectorText(text=text, wildcards=True, **more), "docker.io"))


def images(evaluation: Evaluation) -> list[str]:
    return [str(image) for group in evaluation.images for image in group.images()]


def asked(hosts: NamedHosts) -> list[str]:
    """Addresses without query, without those of tokens and without attempts that were refused for want of one."""
    paths = (one.removeprefix("GET https://").partition("?")[0] for one in hosts.requests)
    return sorted({path for path in paths if not path.endswith(("/token", "/auth"))})


def played() -> list[PlayedRegistry]:
    return [DockerHub(CONTENT), Ghcr(CONTENT), Gcr(CONTENT), Quay(CONTENT), Harbor(CONTENT)]


@pytest.mark.spec("MS-099", "MS-101", "MS-102", "MS-103", "MS-104", "MS-105", "MS-098", "MS-133", "MS-141")
@pytest.mark.parametrize(
    ("text", "listing", "tags"),
    [
        ("org/aim-a:7", None, None),
        ("org/aim-a", None, "index.docker.io"),
        ("org/aim-*", "hub.docker.com/v2/namespaces/org/repositories", "index.docker.io"),
        ("ghcr.io/org/aim-*", "api.github.com/orgs/org/packages", "ghcr.io"),
        ("quay.io/org/aim-*", "quay.io/v2/_catalog", "quay.io"),
        ("harbor.example.com/*/aim-*", "harbor.example.com/v2/_catalog", "harbor.example.com"),
        ("gcr.io/org/aim-a", None, "gcr.io"),
    ],
)
async def test_strategies(
    text: str, listing: str | None, tags: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the listing and the tags of what matches and is not excluded."""
    async with evaluating(played(), tmp_path, monkeypatch) as (hosts, evaluator):
        found = await evaluate(evaluator, text, exclude=("org/aim-base",), versions=(">=1.0.0",))
    assert found.error is None
    repositories = ["org/aim-a", "org/aim-b"] if "*" in text else ["org/aim-a"]
    expected = [f"{tags}/v2/{one}/tags/list" for one in repositories] if tags else []
    assert asked(hosts) == sorted([*expected, *([listing] if listing else [])])
    prefix = "" if text.startswith("org/") else f"{text.partition('/')[0]}/"
    version = "1.0.0" if tags else "7"
    assert images(found) == [f"{prefix}{one}:{version}" for one in repositories]


@pytest.mark.spec("MS-063", "MS-070", "MS-147", "MS-146", "MS-282", "MS-P17", "MS-P44")
async def test_where_nothing_can_be_listed_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an exact repository beside it is found all the same."""
    async with evaluating(played(), tmp_path, monkeypatch, credentials=ANONYMOUS) as (_, evaluator):
        for host in ("gcr.io", "quay.io", "harbor.example.com"):
            refused = await evaluate(evaluator, f"{host}/org/aim-*")
            assert isinstance(refused.error, SelectorError)
            assert refused.error.code is RegistryErrorCode.AUTH_FAILED
            assert "administrators: list repositories explicitly" in str(refused.error)
            assert images(await evaluate(evaluator, f"{host}/org/aim-b")) == [f"{host}/org/aim-b:1.0.0"]


@pytest.mark.spec("MS-142", "MS-148", "MS-143")
@pytest.mark.parametrize("text", ["ghcr.io/org/aim-*", "quay.io/org/aim-*"])
async def test_ten_repositories_are_listed_at_a_time(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many connections a host may get; and the order is that of the names."""
    many = {f"org/aim-{number:02}": ("1.0.0",) for number in range(40)}
    kinds = [Ghcr(many, page=100), Quay(many, page=100)]
    async with evaluating(kinds, tmp_path, monkeypatch, delay=0.1, connections=100) as (hosts, evaluator):
        found = await evaluate(evaluator, text)
    assert 2 <= hosts.peak <= 10
    assert [group.repository for group in found.images] == list(many)


@pytest.mark.spec("FW-397", "MS-328", "MS-112", "MS-113")
async def test_a_registry_that_named_its_repositories_is_reachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it cannot answer for one of them."""

    class Ailing(Harbor):
        def tags(self, request: web.Request, repository: str) -> web.Response:
            if repository == "org/aim-b":
                return web.Response(status=501)
            return super().tags(request, repository)

    async with evaluating([Ailing(CONTENT)], tmp_path, monkeypatch) as (_, evaluator):
        found = await evaluate(evaluator, f"{Harbor.host}/org/aim-*", exclude=("org/aim-base",), versions=(">=1.0.0",))
    assert images(found) == [f"{Harbor.host}/org/aim-a:1.0.0"]
    assert found.error is not None
    assert found.error.code is RegistryErrorCode.SERVER_ERROR
    assert found.error.reached


@pytest.mark.spec("MS-132", "MS-157")
@pytest.mark.parametrize(
    "target", ["https://evil.example.com/v2/namespaces/org/repositories?page=2", "http://hub.docker.com/x", "https://["]
)
async def test_docker_hub_can_not_lead_elsewhere(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Misled(DockerHub):
        async def hub(self, _request: web.Request) -> web.Response:
            return web.json_response({"next": target, "results": [{"name": "aim-a"}]})

    async with evaluating([Misled(CONTENT)], tmp_path, monkeypatch) as (hosts, evaluator):
        found = await evaluate(evaluator, "org/aim-*")
    assert found.error is not None
    assert found.error.code is RegistryErrorCode.INVALID_RESPONSE
    assert len(hosts.requests) == 1


@pytest.mark.spec("MS-134", "MS-P21")
async def test_a_private_repository_of_docker_hub_has_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = DockerHub(CONTENT, ["org/aim-b"])
    credentials = pull_secret("docker.io", "me", "pass")
    async with evaluating([hub], tmp_path, monkeypatch, credentials=credentials) as (_, evaluator):
        assert "org/aim-b:1.0.0" not in images(await evaluate(evaluator, "org/aim-*"))
        assert images(await evaluate(evaluator, "org/aim-b")) == ["org/aim-b:1.0.0"]
