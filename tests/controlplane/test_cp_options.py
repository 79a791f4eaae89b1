"""Options of requests that can't be, and error answers as a whole."""

import pytest
from support.suite import SuiteApi
from support.suite_widgets import WIDGETS, widget

from controller_runtime import JsonObject

UNKNOWN_FORMAT = "the body of the request was in an unknown format - accepted media types include: "
CONFIG_MAPS = "/api/v1/namespaces/$ns/configmaps"


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"resourceVersion": "x"}, 400, 'invalid resource version: resourceVersion: Invalid value: "x"'),
        (
            {"resourceVersionMatch": "Exact"},
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            422,
            '"exact" is forbidden for resourceVersion "0"',
        ),
        (
            {"resourceVersionMatch": "Some", "resourceVersion": "1"},
            422,
            'Unsupported value: "Some": supported values: "Exact", "NotOlderThan", ""',
        ),
        ({"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list"),
        ({"continue": "zzz"}, 400, "invalid continue token: continue key is not valid"),
        ({"labelSelector": "a=b=c"}, 400, ""),
        ({"fieldSelector": "data.x=1"}, 400, ""),
        ({"watch": "1", "sendInitialEvents": "true"}, 422, "requires setting resourceVersionMatch to NotOlderThan"),
        (
            {"watch": "1", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
            422,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        ({"watch": "1", "resourceVersion": "x"}, 500, 'resourceVersion: Invalid value: "x"'),
    ],
)
async def test_options_of_a_list_or_watch(api: SuiteApi, query: dict[str, str], status: int, message: str) -> None:
    refused = await api.get(CONFIG_MAPS, **query)
    assert refused.status == status
    assert message in refused.message


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"dryRun": "Some"}, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        ({"fieldManager": "m" * 129}, "fieldManager: Too long: may not be more than 128 bytes"),
        (
            {"fieldValidation": "Some"},
            'fieldValidation: Unsupported value: "Some": supported values: "", "Ignore", "Strict", "Warn"',
        ),
    ],
)
async def test_options_of_a_write(api: SuiteApi, query: dict[str, str], message: str) -> None:
    refused = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}}, **query)
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.message == f'CreateOptions.meta.k8s.io "" is invalid: {message}'
    assert refused.body["details"]["kind"] == "CreateOptions"


async def test_options_of_a_deletion(api: SuiteApi) -> None:
    made = await api.created(CONFIG_MAPS, {"metadata": {"name": "a"}})
    policy = await api.delete(f"{CONFIG_MAPS}/a", propagationPolicy="Some")
    assert policy.message == (
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Some": '
        'supported values: "Foreground", "Background", "Orphan", "nil"'
    )
    another = await api.delete(f"{CONFIG_MAPS}/a", {"preconditions": {"uid": "other"}})
    assert another.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not match the UID in '
        f"record ({made['metadata']['uid']}). The object might have been deleted and then recreated"
    )
    older = await api.delete(f"{CONFIG_MAPS}/a", {"preconditions": {"resourceVersion": "1"}})
    assert older.status == 409
    assert "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record" in older.message
    kept = await api.delete(f"{CONFIG_MAPS}/a", dryRun="All")
    assert (kept.status, (await api.get(f"{CONFIG_MAPS}/a")).status) == (200, 200)


async def test_a_version_that_is_still_to_come_is_waited_for_in_vain(api: SuiteApi) -> None:
    await api.created(CONFIG_MAPS, {"metadata": {"name": "a"}})
    for path in (CONFIG_MAPS, f"{CONFIG_MAPS}/a"):
        late = await api.get(path, resourceVersion="99999999")
        assert (late.status, late.reason, late.headers["Retry-After"]) == (504, "Timeout", "1")
        assert late.message.startswith("Timeout: Too large resource version: 99999999, current: ")
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        assert late.body["details"] == {"causes": [cause], "retryAfterSeconds": 1}


@pytest.mark.parametrize("path", ["/nope", "/apis/nope/v1/things", "/apis/test.example.com/v1/namespaces/$ns/nopes"])
async def test_what_is_not_served_is_a_plain_page(widgets: SuiteApi, path: str) -> None:
    async with widgets.session.get(widgets.path(path)) as response:
        assert (response.status, await response.text()) == (404, "404 page not found\n")


async def test_subresources_that_a_kind_does_not_have(widgets: SuiteApi) -> None:
    await widgets.created(CONFIG_MAPS, {"metadata": {"name": "a"}})
    built_in = await widgets.get(f"{CONFIG_MAPS}/a/status")
    assert (built_in.status, built_in.message) == (404, "the server could not find the requested resource")
    await widgets.created(WIDGETS, widget("a"))
    custom = await widgets.get(f"{WIDGETS}/a/nope")
    assert (custom.status, custom.message) == (404, 'widgets.test.example.com "a" not found')
    everywhere = await widgets.post("/api/v1/configmaps", {"metadata": {"name": "b"}})
    assert (everywhere.status, everywhere.reason) == (405, "MethodNotAllowed")


async def test_forms_that_the_server_does_not_speak(widgets: SuiteApi) -> None:
    refused = await widgets.send("GET", CONFIG_MAPS, accept="application/xml")
    assert (refused.status, refused.reason) == (406, "NotAcceptable")
    body = await widgets.send("POST", WIDGETS, widget("a"), "text/plain")
    assert (body.status, body.message) == (
        415,
        f"{UNKNOWN_FORMAT}application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
    await widgets.created(WIDGETS, widget("a"))
    patch = await widgets.send("PATCH", f"{WIDGETS}/a", {}, "application/strategic-merge-patch+json")
    assert (patch.status, patch.message) == (
        415,
        f"{UNKNOWN_FORMAT}application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    )


async def test_items_of_built_in_lists_do_not_repeat_their_type(widgets: SuiteApi) -> None:
    await widgets.created(CONFIG_MAPS, {"metadata": {"name": "a"}})
    await widgets.created(WIDGETS, widget("a"))
    built_in, custom = (await widgets.get(CONFIG_MAPS)).body, (await widgets.get(WIDGETS)).body
    assert not {"kind", "apiVersion"} & set(built_in["items"][0])
    assert custom["items"][0]["kind"] == "Widget"
    assert (custom["metadata"]["continue"], "continue" in built_in["metadata"]) == ("", False)


@pytest.mark.parametrize(
    ("patch", "status"),
    [
        ([{"op": "test", "path": "/spec/size", "value": 9}], 422),
        ([{"op": "remove", "path": "/spec/nope"}], 422),
        ([{"op": "add", "path": "/a/b/c", "value": 9}], 422),
        ([{"op": "grow", "path": "/spec/size"}], 422),
        ([{"op": "test", "path": "/spec/owner", "value": None}], 200),
        ([{"op": "replace", "path": "/spec/owner", "value": "me"}], 200),
        ([{"op": "copy", "from": "/spec/size", "path": "/spec/replicas"}], 200),
        ([{"op": "move", "from": "/spec/colour", "path": "/spec/owner"}], 200),
        ([], 200),
        ({"op": "test"}, 400),
    ],
)
async def test_json_patches(widgets: SuiteApi, patch: object, status: int) -> None:
    await widgets.created(WIDGETS, widget("a"))
    reply = await widgets.send("PATCH", f"{WIDGETS}/a", patch, "application/json-patch+json")
    assert reply.status == status
    if status == 422:
        assert reply.message == "the server rejected our request due to an error in our request"


async def test_a_watch_with_bookmarks_gets_one_before_its_end(api: SuiteApi) -> None:
    listed: JsonObject = (await api.get(CONFIG_MAPS)).body
    query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": "4"}
    version = listed["metadata"]["resourceVersion"]
    async with api.session.get(api.path(CONFIG_MAPS), params=query | {"resourceVersion": version}) as response:
        events = [api.decode(line) async for line in response.content]
    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert set(events[-1]["object"]["metadata"]) == {"resourceVersion"}
