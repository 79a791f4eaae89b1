"""Effects of discovery against an API server that answers as the test wants: Job logs, Secrets, service accounts."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web
from support.fake_apiserver import Handler, fake_apiserver, json_answer, list_answer, status_answer, text_answer

from aim_discovery.image_effects import PullSecretReader
from aim_discovery.templates.job_log import JobLogParams, JobLogReader
from aim_domain.pull_secrets import SecretsParams
from controller_runtime import ApiModel, EffectError, JsonObject, KubeClient, TransportSettings, dumps, to_json

CORE = "/api/v1/namespaces/ml"
LOG = JobLogParams(namespace="ml", job="j")


def routes(answers: Mapping[str, Handler]) -> Handler:
    """Answer by path; what is not listed is not found."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        found = answers.get(request.path, status_answer(404, "NotFound", "no such object"))
        return await found(request)

    return handler


async def asked(runner: type[Any], answers: Mapping[str, Handler], params: ApiModel) -> tuple[JsonObject, list[str]]:
    """Outcome of a runner, and what was asked of the API server."""
    async with fake_apiserver(routes(answers)) as server, client(server) as kube:
        outcome = to_json(await runner(kube)(params))
        return outcome, [f"{one.path}?{one.query.get('container', '')}" for one in server.seen]


def client(server: Any) -> KubeClient:
    return KubeClient(server.connection, service="test", settings=TransportSettings(attempts=1))


def pod(name: str, phase: str) -> JsonObject:
    return {"metadata": {"name": name, "namespace": "ml"}, "status": {"phase": phase}}


def secret(host: str, **metadata: str) -> JsonObject:
    auths = {"auths": {host: {"username": "u", "password": "p"}}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "ml", "uid": "u1", "resourceVersion": "7", **metadata},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": b64encode(dumps(auths)).decode()},
    }


@pytest.mark.spec("DI-259", "DI-261", "DI-265")
async def test_the_log_of_the_succeeded_pod_is_read() -> None:
    answers = {
        f"{CORE}/pods": list_answer("1", pod("first", "Failed"), pod("second", "Succeeded")),
        f"{CORE}/pods/second/log": text_answer('[{"profile": {}}, {"x": 1}]'),
    }
    outcome, seen = await asked(JobLogReader, answers, LOG)
    assert outcome == {"element": {"profile": {}}}
    assert seen == [f"{CORE}/pods?", f"{CORE}/pods/second/log?discovery"]


@pytest.mark.spec("DI-260")
@pytest.mark.parametrize(
    "pods",
    [list_answer("1", pod("first", "Failed")), list_answer("1", pod("lost", "Succeeded")), status_answer(500, "X")],
)
async def test_a_log_that_can_not_be_read_says_so(pods: Handler) -> None:
    with pytest.raises(EffectError) as caught:
        await asked(JobLogReader, {f"{CORE}/pods": pods}, LOG)
    assert caught.value.error.reason == "ResultUnreadable"
    assert "Job ml/j" in caught.value.error.message


@pytest.mark.spec("DI-266")
async def test_reading_ends_when_it_is_cancelled() -> None:
    async def silent(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(3600)
        return web.Response()

    answers = {f"{CORE}/pods": list_answer("1", pod("p", "Succeeded")), f"{CORE}/pods/p/log": silent}
    async with fake_apiserver(routes(answers)) as server, client(server) as kube:
        reading = asyncio.ensure_future(JobLogReader(kube)(LOG))
        await server.wait_for_requests(2)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


@pytest.mark.spec("DI-076", "DI-077", "DI-078")
async def test_credentials_come_from_the_listed_secrets_then_from_the_service_account() -> None:
    account = {"metadata": {"name": "puller"}, "imagePullSecrets": [{"name": "of-account"}, {"name": "gone"}]}
    answers = {
        f"{CORE}/secrets/listed": json_answer(secret("ghcr.io")),
        f"{CORE}/secrets/of-account": json_answer(secret("quay.io")),
        f"{CORE}/serviceaccounts/puller": json_answer(account),
    }
    async with fake_apiserver(routes(answers)) as server, client(server) as kube:
        found = await PullSecretReader(kube).credentials("ml", ["listed"], "puller")
        assert [found.find(host, "a/b") is not None for host in ("ghcr.io", "quay.io", "x.io")] == [True, True, False]
        none = await PullSecretReader(kube).credentials("ml", ["listed"], "nobody")
    assert none.find("quay.io", "a/b") is None


@pytest.mark.spec("DI-077")
async def test_a_missing_secret_of_the_account_does_not_hide_the_others() -> None:
    account = {"metadata": {"name": "puller"}, "imagePullSecrets": [{"name": "gone"}, {"name": "of-account"}]}
    answers = {
        f"{CORE}/secrets/of-account": json_answer(secret("quay.io")),
        f"{CORE}/serviceaccounts/puller": json_answer(account),
    }
    async with fake_apiserver(routes(answers)) as server, client(server) as kube:
        found = await PullSecretReader(kube).credentials("ml", [], "puller")
    assert found.find("quay.io", "a/b") is not None


@pytest.mark.spec("DI-072", "FW-096")
async def test_only_versions_of_secrets_become_facts() -> None:
    answers = {f"{CORE}/secrets/s": json_answer(secret("ghcr.io"))}
    params = SecretsParams(namespace="ml", secrets=("s", "gone"))
    outcome, _ = await asked(PullSecretReader, answers, params)
    assert outcome == {"versions": {"s": "u1/7", "gone": None}}


@pytest.mark.spec("DI-074", "FW-507")
async def test_a_forbidden_secret_is_an_infrastructure_error() -> None:
    answers = {f"{CORE}/secrets/s": status_answer(403, "Forbidden", "no")}
    effect = SecretsParams(namespace="ml", secrets=("s",))
    with pytest.raises(EffectError) as caught:
        await asked(PullSecretReader, answers, effect)
    assert caught.value.error.reason == "SecretAccessFailed"
    assert "ml/s" in caught.value.error.message
    assert "add it to secrets.allowed of the chart" in caught.value.error.message
