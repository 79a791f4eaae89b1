"""The account of download pods, made at the embedded control plane."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from support.controlplane import RawApi

from aim_artifacts.download_account import AccountMaker, AccountParams
from controller_runtime import EffectError, JsonObject, KubeClient
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.transport import TransportSettings
from embedded_apiserver import ControlPlane

NAME = "aim-engine-downloader"
READING = AccountParams(namespace="default", account=NAME)
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest_asyncio.fixture
async def maker(controlplane: ControlPlane) -> AsyncIterator[AccountMaker]:
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="artifacts") as kube:
        yield AccountMaker(kube)


async def account(api: RawApi, name: str, *secrets: str) -> JsonObject:
    body: JsonObject = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    return await api.created(ACCOUNTS, {**body, "imagePullSecrets": [{"name": one} for one in secrets]})


@pytest.mark.spec("AR-810", "FW-720")
async def test_it_is_made_once_and_holds_nothing(controlplane: ControlPlane, api: RawApi, maker: AccountMaker) -> None:
    assert (await maker(READING)).pull_secrets == ()
    made = (await api.get(f"{ACCOUNTS}/{NAME}")).body
    assert made["automountServiceAccountToken"] is False
    assert "imagePullSecrets" not in made
    controlplane.requests.reset()
    assert (await maker(READING)).pull_secrets == ()
    assert {one["verb"] for one in controlplane.requests.report()["requests"]} == {"get"}


@pytest.mark.spec("AR-811")
async def test_pull_secrets_of_default_are_read_anew_each_time(api: RawApi, maker: AccountMaker) -> None:
    await account(api, "default", "one", "two")
    assert (await maker(READING)).pull_secrets == ("one", "two")
    await api.merge(f"{ACCOUNTS}/default", {"imagePullSecrets": [{"name": "three"}]})
    assert (await maker(READING)).pull_secrets == ("three",)


@pytest.mark.spec("AR-810", "AR-811")
async def test_an_account_that_somebody_made_is_used_as_it_is(api: RawApi, maker: AccountMaker) -> None:
    await account(api, "default", "of-default")
    before = await account(api, NAME, "its-own")
    assert (await maker(READING)).pull_secrets == (), "its pods get its own from the API server"
    after = (await api.get(f"{ACCOUNTS}/{NAME}")).body
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@pytest.mark.spec("AR-810")
async def test_whoever_makes_it_at_the_same_moment_made_it(
    api: RawApi, maker: AccountMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = KubeClient.create

    async def too_late(kube: KubeClient, *arguments: object) -> JsonObject:
        await account(api, NAME, "its-own")
        return await create(kube, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(KubeClient, "create", too_late)
    assert (await maker(READING)).pull_secrets == ()


@pytest.mark.spec("AR-810")
async def test_a_server_that_does_not_answer_fails_the_reading() -> None:
    quick = TransportSettings(attempts=1)
    async with KubeClient(Connection("http://127.0.0.1:1", NoCredentials()), service="a", settings=quick) as kube:
        with pytest.raises(EffectError, match=f"ServiceAccount default/{NAME} of download pods cannot be made sure of"):
            await AccountMaker(kube)(READING)
