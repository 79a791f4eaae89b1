"""The client's verbs: what goes over the wire and what comes back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.fake_apiserver import (
    FakeApiServer,
    Handler,
    config_map,
    fake_apiserver,
    json_answer,
    list_answer,
    status,
    status_answer,
    text_answer,
    watch_answer,
)

from aim_domain.kind_names import AIM_SERVICE, CONFIG_MAP, NAMESPACE
from controller_runtime import ApiError, KubeClient
from controller_runtime.kube.client import Propagation, VersionMatch, WatchEvent, WatchEventType
from controller_runtime.kube.errors import ApiConnectionError, ConnectionFailure


@asynccontextmanager
async def client_of(*handlers: Handler) -> AsyncIterator[tuple[KubeClient, FakeApiServer]]:
    async with (
        fake_apiserver(*handlers) as server,
        KubeClient(server.connection, service="serving", version="1.2") as client,
    ):
        yield client, server


async def drain(client: KubeClient, received: list[WatchEvent]) -> None:
    async with client.watch(CONFIG_MAP, resource_version="1") as stream:
        async for event in stream:
            received += [event]


async def test_get_addresses_one_object_and_names_its_user_agent() -> None:
    async with client_of(json_answer(config_map("a"))) as (client, server):
        assert await client.get(CONFIG_MAP, "a", "team") == config_map("a")

    assert server.seen[0].path == "/api/v1/namespaces/team/configmaps/a"
    assert server.seen[0].headers["User-Agent"] == "aim-serving/1.2"


async def test_cluster_scoped_kinds_and_subresources_have_their_own_paths() -> None:
    async with client_of(json_answer({})) as (client, server):
        await client.get(NAMESPACE, "team")
        await client.get(AIM_SERVICE, "chat", "team", subresource="status")

    assert [seen.path for seen in server.seen] == [
        "/api/v1/namespaces/team",
        "/apis/aim.eai.amd.com/v1alpha1/namespaces/team/aimservices/chat/status",
    ]


async def test_list_pages_and_fills_in_the_type_of_its_items() -> None:
    bare = {"metadata": {"name": "a"}}
    async with client_of(list_answer("7", bare, continue_token="next")) as (client, server):
        page = await client.list(
            CONFIG_MAP,
            label_selector="a=b",
            field_selector="metadata.name=a",
            resource_version="5",
            match=VersionMatch.NOT_OLDER_THAN,
            limit=10,
        )

    assert page.items == ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},)
    assert (page.resource_version, page.continue_token) == ("7", "next")
    assert server.seen[0].path == "/api/v1/configmaps"
    assert server.seen[0].query == {
        "labelSelector": "a=b",
        "fieldSelector": "metadata.name=a",
        "resourceVersion": "5",
        "resourceVersionMatch": "NotOlderThan",
        "limit": "10",
    }


@pytest.mark.spec("FW-202")
async def test_apply_forces_under_the_given_field_manager() -> None:
    async with client_of(json_answer(config_map("a", 2))) as (client, server):
        desired = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "team"}}
        stored = await client.apply(CONFIG_MAP, desired, "aim-serving", subresource="status")

    assert stored["metadata"]["resourceVersion"] == "2"
    seen = server.seen[0]
    assert (seen.method, seen.path) == ("PATCH", "/api/v1/namespaces/team/configmaps/a/status")
    assert seen.headers["Content-Type"] == "application/apply-patch+yaml"
    assert seen.query == {"fieldManager": "aim-serving", "force": "true"}
    assert seen.json() == desired


@pytest.mark.spec("FW-410")
async def test_create_posts_under_the_given_field_manager() -> None:
    async with client_of(json_answer(config_map("a"), 201)) as (client, server):
        await client.create(CONFIG_MAP, config_map("a"), "aim-artifacts")

    seen = server.seen[0]
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/team/configmaps")
    assert seen.query == {"fieldManager": "aim-artifacts"}
    assert seen.headers["Content-Type"] == "application/json"


@pytest.mark.spec("FW-411")
async def test_merge_patch_carries_the_version_it_is_guarded_by() -> None:
    patch: dict[str, Any] = {"metadata": {"finalizers": ["x"]}}
    async with client_of(json_answer(config_map("a"))) as (client, server):
        await client.merge_patch(CONFIG_MAP, "a", "team", patch, resource_version="9", field_manager="aim-x")

    seen = server.seen[0]
    assert seen.headers["Content-Type"] == "application/merge-patch+json"
    assert seen.json() == {"metadata": {"finalizers": ["x"], "resourceVersion": "9"}}
    assert patch == {"metadata": {"finalizers": ["x"]}}


async def test_json_patch_and_replace_have_their_own_media_types() -> None:
    async with client_of(json_answer(config_map("a"))) as (client, server):
        operations = [{"op": "test", "path": "/data/x", "value": "1"}]
        await client.json_patch(CONFIG_MAP, "a", "team", operations, field_manager="aim-x")
        await client.replace(CONFIG_MAP, config_map("a"), "aim-x")

    assert server.seen[0].headers["Content-Type"] == "application/json-patch+json"
    assert server.seen[0].json() == operations
    assert (server.seen[1].method, server.seen[1].headers["Content-Type"]) == ("PUT", "application/json")


async def test_delete_names_the_uid_it_means() -> None:
    async with client_of(json_answer({"kind": "Status", "metadata": {}})) as (client, server):
        assert await client.delete(CONFIG_MAP, "a", "team", uid="u1", propagation=Propagation.FOREGROUND) is None

    assert server.seen[0].method == "DELETE"
    assert server.seen[0].json()["preconditions"] == {"uid": "u1"}
    assert server.seen[0].json()["propagationPolicy"] == "Foreground"


async def test_delete_tells_whether_the_object_lingers() -> None:
    held = config_map("a")
    held["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    async with client_of(json_answer(held)) as (client, _):
        assert await client.delete(CONFIG_MAP, "a", "team", uid="u1") == held
    async with client_of(json_answer(config_map("a"))) as (client, _):
        assert await client.delete(CONFIG_MAP, "a", "team", uid="u1") is None


async def test_an_empty_name_never_addresses_the_collection() -> None:
    async with client_of(json_answer({})) as (client, server):
        with pytest.raises(ValueError, match="is not a name"):
            await client.delete(CONFIG_MAP, "", "team", uid="u1")

    assert server.seen == []


async def test_pod_log_is_text_even_when_the_pod_writes_bytes() -> None:
    async with client_of(text_answer("grüße\n")) as (client, server):
        log = await client.pod_log("team", "p", "main", tail_lines=50, previous=True, limit_bytes=1000)

    assert log == "grüße\n"
    assert server.seen[0].path == "/api/v1/namespaces/team/pods/p/log"
    assert server.seen[0].query == {
        "container": "main",
        "tailLines": "50",
        "previous": "true",
        "limitBytes": "1000",
    }


async def test_an_error_answer_becomes_an_api_error() -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "no", "field": "spec.x"}]
    async with client_of(status_answer(422, "Invalid", "spec.x: bad", causes=causes)) as (client, _):
        with pytest.raises(ApiError, match="GET /api/v1/namespaces/team/configmaps/a: 422 Invalid") as caught:
            await client.get(CONFIG_MAP, "a", "team")

    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.causes[0].field == "spec.x"


async def test_watch_asks_for_bookmarks_and_gives_events_as_they_are() -> None:
    events = (
        {"type": "ADDED", "object": config_map("a", 2)},
        {"type": "BOOKMARK", "object": {"kind": "ConfigMap", "metadata": {"resourceVersion": "9"}}},
    )
    async with (
        client_of(watch_answer(*events)) as (client, server),
        client.watch(CONFIG_MAP, "team", resource_version="1", timeout_seconds=7) as stream,
    ):
        received = [event async for event in stream]

    assert [event.type for event in received] == [WatchEventType.ADDED, WatchEventType.BOOKMARK]
    assert received[0].object == config_map("a", 2)
    assert server.seen[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "1",
        "timeoutSeconds": "7",
    }


async def test_watch_events_larger_than_any_buffer_arrive_whole() -> None:
    big = config_map("a", 2, payload="x" * 5_000_000)
    async with client_of(watch_answer({"type": "ADDED", "object": big})) as (client, _):
        received: list[WatchEvent] = []
        await drain(client, received)

    assert received[0].object == big


async def test_expiry_of_a_watch_is_the_same_error_in_status_line_and_event() -> None:
    gone = status(410, "Expired", "too old resource version")
    for answer in (status_answer(410, "Expired"), watch_answer({"type": "ERROR", "object": gone})):
        async with client_of(answer) as (client, _):
            with pytest.raises(ApiError) as caught:
                await drain(client, [])
            assert caught.value.is_expired


async def test_a_watch_cut_in_the_middle_of_an_event_is_a_connection_error() -> None:
    event = {"type": "ADDED", "object": config_map("a", 2)}
    async with client_of(watch_answer(event, cut=True)) as (client, _):
        received: list[WatchEvent] = []
        with pytest.raises(ApiConnectionError) as caught:
            await drain(client, received)

    assert [each.object["metadata"]["name"] for each in received] == ["a"]
    assert caught.value.failure is ConnectionFailure.RESET


async def test_a_watch_that_is_left_is_closed() -> None:
    event = {"type": "ADDED", "object": config_map("a", 2)}
    async with client_of(watch_answer(event, then_hang=True)) as (client, _):
        async with client.watch(CONFIG_MAP, resource_version="1") as stream:
            assert (await anext(stream)).type is WatchEventType.ADDED
            assert client.statistics().open_watches == 1
        assert client.statistics().open_watches == 0
