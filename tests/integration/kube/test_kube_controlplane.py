"""Client, reflector and leases against the embedded control plane."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from structlog.testing import capture_logs

from aim_domain.pull_secrets import SecretsParams, read_secret_versions
from controller_runtime import ApiError, JsonObject, Kind, KubeClient, Resource
from controller_runtime.kinds import CONFIG_MAP, SECRET
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.lease import Identity, LeaderElector, LeaseSettings
from controller_runtime.kube.reflector import Delete, Event, Reflector, Restarted, Upsert, as_sent
from controller_runtime.kube.transport import Request, Transport
from embedded_apiserver import Limits
from embedded_apiserver.controlplane import ControlPlane

CANARY = b64encode(b"hf_canary")
QUICK = LeaseSettings(duration=1.0, renew_deadline=0.6, retry_period=0.1)
MANAGER = "aim-test"


@dataclass
class Setting:
    plane: ControlPlane
    client: KubeClient


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    async with ControlPlane() as plane, KubeClient(Connection(plane.url, NoCredentials()), service="t") as client:
        yield Setting(plane, client)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"colour": data.get("colour", "none")}},
        "data": data,
    }


async def take(reflector: Reflector[JsonObject], count: int) -> list[Event[JsonObject]]:
    async with asyncio.timeout(60):
        return [await anext(reflector) for _ in range(count)]


@pytest.mark.spec("FW-096", "AR-820")
async def test_the_version_of_a_secret_is_read_without_its_data(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = {"name": "hub", "namespace": "default"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"token": CANARY.decode()}}
    version = (await setting.client.create(SECRET, secret, "t"))["metadata"]
    received: list[bytes] = []
    call = Transport.call

    async def recorded(transport: Transport, request: Request) -> bytes:
        received.append(await call(transport, request))
        return received[-1]

    monkeypatch.setattr(Transport, "call", recorded)
    found = await read_secret_versions(setting.client, SecretsParams(namespace="default", secrets=("hub", "missing")))

    assert found.versions == {"hub": f"{version['uid']}/{version['resourceVersion']}", "missing": None}
    (answer,) = received
    assert b"resourceVersion" in answer
    assert CANARY not in answer


@pytest.mark.spec("FW-202", "FW-410", "FW-411")
async def test_verbs(setting: Setting) -> None:
    client = setting.client
    created = await client.create(CONFIG_MAP, config_map("a", x="1"), MANAGER)
    with pytest.raises(ApiError) as taken:
        await client.create(CONFIG_MAP, config_map("a"), MANAGER)
    assert taken.value.is_already_exists
    applied = await client.apply(CONFIG_MAP, config_map("a", x="2"), "aim-other")
    assert applied["data"] == {"x": "2"}
    stale = created["metadata"]["resourceVersion"]
    with pytest.raises(ApiError) as conflict:
        await client.merge_patch(
            CONFIG_MAP, "a", "default", {"data": {"y": "1"}}, resource_version=stale, field_manager=MANAGER
        )
    assert conflict.value.is_conflict
    patched = await client.merge_patch(
        CONFIG_MAP,
        "a",
        "default",
        {"data": {"y": "1"}},
        resource_version=applied["metadata"]["resourceVersion"],
        field_manager=MANAGER,
    )
    assert patched["data"] == {"x": "2", "y": "1"}
    test_failing = [{"op": "test", "path": "/data/x", "value": "9"}]
    with pytest.raises(ApiError) as untrue:
        await client.json_patch(CONFIG_MAP, "a", "default", test_failing, field_manager=MANAGER)
    assert untrue.value.code == 422
    with pytest.raises(ApiError) as other:
        await client.delete(CONFIG_MAP, "a", "default", uid="another")
    assert other.value.is_conflict
    await client.delete(CONFIG_MAP, "a", "default", uid=created["metadata"]["uid"])
    with pytest.raises(ApiError) as gone:
        await client.get(CONFIG_MAP, "a", "default")
    assert gone.value.is_not_found


async def test_pages(setting: Setting) -> None:
    for number in range(5):
        await setting.client.create(CONFIG_MAP, config_map(f"n{number}"), MANAGER)
    first = await setting.client.list(CONFIG_MAP, "default", limit=3)
    second = await setting.client.list(CONFIG_MAP, "default", limit=3, continue_token=first.continue_token)
    names = [item["metadata"]["name"] for item in first.items + second.items]
    assert names == ["n0", "n1", "n2", "n3", "n4"]
    assert second.continue_token == ""
    assert {item["kind"] for item in first.items} == {"ConfigMap"}


async def test_a_reflector_follows_creation_change_deselection_and_deletion(setting: Setting) -> None:
    client = setting.client
    await client.create(CONFIG_MAP, config_map("a", colour="red"), MANAGER)
    async with Reflector(client, CONFIG_MAP, as_sent, "default", label_selector="colour=red") as reflector:
        (first,) = await take(reflector, 1)
        assert isinstance(first, Restarted)
        assert [obj["metadata"]["name"] for obj in first.objects] == ["a"]

        b = await client.create(CONFIG_MAP, config_map("b", colour="red"), MANAGER)
        assert await take(reflector, 1) == [Upsert(b, b["metadata"]["resourceVersion"])]

        blue = await client.apply(CONFIG_MAP, config_map("a", colour="blue"), MANAGER)
        (left,) = await take(reflector, 1)
        assert isinstance(left, Delete)
        assert left.resource_version == blue["metadata"]["resourceVersion"]
        assert left.obj["data"] == {"colour": "red"}

        await client.delete(CONFIG_MAP, "b", "default", uid=b["metadata"]["uid"])
        (deleted,) = await take(reflector, 1)
        assert isinstance(deleted, Delete)
        assert deleted.obj["metadata"]["name"] == "b"

        reflector.relist()
        (compared,) = await take(reflector, 1)
        assert isinstance(compared, Restarted)
        assert compared.objects == ()
        assert int(compared.resource_version) >= int(deleted.resource_version)


async def test_a_reflector_loses_nothing_under_load_with_comparisons_in_between(setting: Setting) -> None:
    client = setting.client
    seen: dict[str, str] = {}

    async def follow(reflector: Reflector[JsonObject]) -> None:
        async for event in reflector:
            match event:
                case Restarted(objects):
                    seen.clear()
                    seen.update({obj["metadata"]["name"]: obj["data"].get("x", "") for obj in objects})
                case Upsert(obj):
                    seen[obj["metadata"]["name"]] = obj["data"]["x"]
                case Delete(obj):
                    seen.pop(obj["metadata"]["name"], None)
            if "end" in seen:
                return

    async with (
        asyncio.timeout(30),
        Reflector(client, CONFIG_MAP, as_sent, "default") as reflector,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(follow(reflector))
        for number in range(120):
            name = f"n{number % 7}"
            stored = await client.apply(CONFIG_MAP, config_map(name, x=str(number)), MANAGER)
            if number % 5 == 0:
                await client.delete(CONFIG_MAP, name, "default", uid=stored["metadata"]["uid"])
            if number % 11 == 0:
                reflector.relist()
        await client.create(CONFIG_MAP, config_map("end", x="end"), MANAGER)
    stored_now = await client.list(CONFIG_MAP, "default")
    assert seen == {item["metadata"]["name"]: item["data"]["x"] for item in stored_now.items}


async def test_an_expired_version_lists_again() -> None:
    async with (
        ControlPlane(limits=Limits(events=5)) as plane,
        KubeClient(Connection(plane.url, NoCredentials()), service="t") as client,
        Reflector(client, CONFIG_MAP, as_sent, "default") as reflector,
    ):
        first = await client.create(CONFIG_MAP, config_map("a"), MANAGER)
        assert isinstance((await take(reflector, 1))[0], Restarted)
        await client.delete(CONFIG_MAP, "a", "default", uid=first["metadata"]["uid"])
        for number in range(20):
            await client.create(CONFIG_MAP, config_map(f"n{number}"), MANAGER)
        deleted, restarted = await take(reflector, 2)

    assert isinstance(deleted, Delete)
    assert deleted.synthetic
    assert isinstance(restarted, Restarted)
    assert len(restarted.objects) == 20


@pytest.mark.spec("FW-281")
async def test_two_candidates_never_lead_at_once_and_the_second_takes_over(setting: Setting) -> None:
    first, second = (
        LeaderElector(setting.client, "default", "aim-test", Identity(pod), settings=QUICK) for pod in "ab"
    )
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        tasks = {first: group.create_task(first.run()), second: group.create_task(second.run())}
        leader, other = await first_leader(first, second)
        assert not other.is_leader
        tasks[leader].cancel()
        await other.gained()
        assert not leader.is_leader
        tasks[other].cancel()


async def first_leader(first: LeaderElector, second: LeaderElector) -> tuple[LeaderElector, LeaderElector]:
    waiting = {asyncio.ensure_future(first.gained()): first, asyncio.ensure_future(second.gained()): second}
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    leader = waiting[done.pop()]
    return leader, second if leader is first else first


def gauge_definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gauges.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"kind": "Gauge", "plural": "gauges", "singular": "gauge", "listKind": "GaugeList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


@pytest.mark.spec("RC-150")
async def test_an_optional_kind_has_no_objects_until_it_is_defined_and_again_when_it_is_no_more(
    setting: Setting,
) -> None:
    definitions = Kind(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, model=Resource
    )
    gauges = Kind("example.org", "v1", "Gauge", "gauges", True, model=Resource)
    with capture_logs() as logs:
        async with Reflector(setting.client, gauges, as_sent, optional=True) as reflector:
            [nothing] = await take(reflector, 1)
            assert isinstance(nothing, Restarted)
            assert nothing.objects == ()
            upcoming = asyncio.create_task(take(reflector, 1))
            defined = await setting.client.create(definitions, gauge_definition(), MANAGER)
            [served] = await upcoming
            assert isinstance(served, Restarted)
            upcoming = asyncio.create_task(take(reflector, 1))
            body = {"apiVersion": "example.org/v1", "kind": "Gauge", "metadata": {"name": "a", "namespace": "default"}}
            await setting.client.create(gauges, body, MANAGER)
            [seen] = await upcoming
            assert isinstance(seen, Upsert)
            upcoming = asyncio.create_task(take(reflector, 2))
            await setting.client.delete(definitions, "gauges.example.org", uid=defined["metadata"]["uid"])
            gone, again = await upcoming
            assert isinstance(gone, Delete)
            assert isinstance(again, Restarted)
            assert again.objects == ()
    assert [line for line in logs if line["log_level"] == "warning"] == []
