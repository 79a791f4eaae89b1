"""Create, read, update: names, system metadata, optimistic locking, generation, status isolation, validation."""

import pytest
from support.suite import SuiteApi
from support.suite_widgets import WIDGETS, widget

from controller_runtime import JsonObject

CONFIG_MAPS = "/api/v1/namespaces/$ns/configmaps"


async def test_a_created_object_gets_system_metadata(widgets: SuiteApi) -> None:
    made = await widgets.created(WIDGETS, widget("a"))
    metadata = made["metadata"]
    assert (made["apiVersion"], made["kind"]) == ("test.example.com/v1", "Widget")
    assert metadata["uid"]
    assert metadata["generation"] == 1
    assert metadata["namespace"] == "$ns"
    assert metadata["creationTimestamp"].endswith("Z")
    assert made["spec"] == {"size": 3, "colour": "red"}
    assert (await widgets.get(f"{WIDGETS}/a")).body == made


async def test_a_taken_name_is_refused(api: SuiteApi) -> None:
    await api.created(CONFIG_MAPS, {"metadata": {"name": "a"}})
    reply = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (reply.status, reply.reason) == (409, "AlreadyExists")
    assert reply.message == 'configmaps "a" already exists'
    assert reply.body["details"] == {"name": "a", "kind": "configmaps"}


async def test_what_does_not_exist_is_not_found(widgets: SuiteApi) -> None:
    reply = await widgets.get(f"{WIDGETS}/nope")
    assert (reply.status, reply.reason) == (404, "NotFound")
    assert reply.message == 'widgets.test.example.com "nope" not found'
    assert (await widgets.get("/apis/nope/v1/things")).status == 404


async def test_generate_name_makes_distinct_names(api: SuiteApi) -> None:
    names = {
        (await api.created(CONFIG_MAPS, {"metadata": {"generateName": "x-"}}))["metadata"]["name"] for _ in range(20)
    }
    assert len(names) == 20
    assert all(name.startswith("x-") and len(name) == 7 for name in names)


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "x" * 254])
async def test_a_name_has_to_be_a_dns_subdomain(api: SuiteApi, name: str) -> None:
    reply = await api.post(CONFIG_MAPS, {"metadata": {"name": name}})
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.body["details"]["causes"][0]["field"] == "metadata.name"


async def test_a_namespace_has_to_exist_and_to_match(api: SuiteApi) -> None:
    missing = await api.post("/api/v1/namespaces/nope/configmaps", {"metadata": {"name": "a"}})
    assert (missing.status, missing.message) == (404, 'namespaces "nope" not found')
    other = await api.post(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "kube-system"}})
    assert other.status == 400


async def test_an_update_needs_the_present_version(widgets: SuiteApi) -> None:
    made = await widgets.created(WIDGETS, widget("a"))
    first = await widgets.put(f"{WIDGETS}/a", made | {"spec": {"size": 4}})
    assert first.status == 200
    second = await widgets.put(f"{WIDGETS}/a", made | {"spec": {"size": 5}})
    assert (second.status, second.reason) == (409, "Conflict")
    assert second.message.endswith("please apply your changes to the latest version and try again")
    unversioned = await widgets.put(f"{WIDGETS}/a", widget("a"))
    assert (unversioned.status, unversioned.body["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")


async def test_another_uid_is_another_object(widgets: SuiteApi) -> None:
    made = await widgets.created(WIDGETS, widget("a"))
    patched = await widgets.merge(f"{WIDGETS}/a", {"metadata": {"uid": "other"}})
    assert (patched.status, patched.body["details"]["causes"][0]["field"]) == (422, "metadata.uid")
    replaced = await widgets.put(f"{WIDGETS}/a", made | {"metadata": made["metadata"] | {"uid": "other"}})
    assert (replaced.status, replaced.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: other" in replaced.message


async def test_only_a_change_of_the_spec_raises_the_generation(widgets: SuiteApi) -> None:
    await widgets.created(WIDGETS, widget("a"))

    async def generation(path: str, patch: JsonObject) -> int:
        reply = await widgets.merge(path, patch)
        assert reply.status == 200
        return int(reply.body["metadata"]["generation"])

    assert await generation(f"{WIDGETS}/a", {"metadata": {"labels": {"a": "b"}}}) == 1
    assert await generation(f"{WIDGETS}/a/status", {"status": {"phase": "Ready"}}) == 1
    assert await generation(f"{WIDGETS}/a", {"spec": {"size": 4}}) == 2


async def test_status_and_spec_are_written_apart(widgets: SuiteApi) -> None:
    made = await widgets.created(WIDGETS, widget("a") | {"status": {"phase": "Ignored"}})
    assert "status" not in made
    wanted = {"spec": {"size": 9}, "status": {"phase": "Ready"}}
    main = (await widgets.merge(f"{WIDGETS}/a", wanted)).body
    assert main["spec"]["size"] == 9
    assert "status" not in main
    status = (await widgets.merge(f"{WIDGETS}/a/status", {"spec": {"size": 5}, "status": {"phase": "Ready"}})).body
    assert status["spec"]["size"] == 9
    assert status["status"] == {"phase": "Ready"}


async def test_a_write_without_change_keeps_the_version(widgets: SuiteApi) -> None:
    made = await widgets.created(WIDGETS, widget("a"))
    again = await widgets.merge(f"{WIDGETS}/a", {"spec": {"size": 3}})
    assert again.body == made


async def test_a_dry_run_stores_nothing(widgets: SuiteApi) -> None:
    reply = await widgets.post(WIDGETS, widget("a"), dryRun="All")
    assert reply.status == 201
    assert reply.body["spec"]["colour"] == "red"
    assert (await widgets.get(f"{WIDGETS}/a")).status == 404


async def test_schema_errors_are_listed_as_causes(widgets: SuiteApi) -> None:
    reply = await widgets.post(WIDGETS, widget("a", size=0, colour="green"))
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.message.startswith('Widget.test.example.com "a" is invalid: [')
    assert {cause["field"] for cause in reply.body["details"]["causes"]} >= {"spec.size", "spec.colour"}


async def test_rules_and_transition_rules_hold(widgets: SuiteApi) -> None:
    unlucky = await widgets.post(WIDGETS, widget("a", size=13))
    assert unlucky.status == 422
    assert "13 is unlucky" in unlucky.message
    await widgets.created(WIDGETS, widget("b", owner="me"))
    moved = await widgets.merge(f"{WIDGETS}/b", {"spec": {"owner": "you"}})
    assert moved.status == 422
    assert "owner is immutable" in moved.message


async def test_unknown_fields_follow_the_field_validation(widgets: SuiteApi) -> None:
    body = widget("a", flavour="sweet")
    strict = await widgets.post(WIDGETS, body, fieldValidation="Strict")
    assert (strict.status, strict.reason) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.flavour"' in strict.message
    warned = await widgets.post(WIDGETS, body)
    assert warned.status == 201
    assert warned.headers["Warning"] == '299 - "unknown field \\"spec.flavour\\""'
    assert "flavour" not in warned.body["spec"]
    silent = await widgets.post(WIDGETS, widget("b", flavour="sweet"), fieldValidation="Ignore")
    assert "Warning" not in silent.headers


async def test_scale_reads_and_writes_replicas(widgets: SuiteApi) -> None:
    await widgets.created(WIDGETS, widget("a", replicas=1))
    scale = await widgets.merge(f"{WIDGETS}/a/scale", {"spec": {"replicas": 4}})
    assert (scale.body["kind"], scale.body["spec"]) == ("Scale", {"replicas": 4})
    live = (await widgets.get(f"{WIDGETS}/a")).body
    assert live["spec"]["replicas"] == 4
    assert any(entry.get("subresource") == "scale" for entry in live["metadata"]["managedFields"])


async def test_replicas_that_no_scale_could_carry_are_refused(widgets: SuiteApi) -> None:
    reply = await widgets.post(WIDGETS, widget("a", replicas=2**31))
    assert (reply.status, reply.body["details"]["causes"][0]["field"]) == (422, ".spec.replicas")
    assert "should be less than or equal to 2147483647" in reply.message


async def test_secrets_take_plain_text_and_keep_base64(api: SuiteApi) -> None:
    made = await api.created("/api/v1/namespaces/$ns/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert made["data"] == {"a": "Yg=="}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


async def test_events_of_both_groups_are_one_store(api: SuiteApi) -> None:
    event = {
        "metadata": {"name": "e", "namespace": "$ns"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "$ns"},
        "reason": "Started",
        "message": "it runs",
        "type": "Normal",
        "count": 7,
    }
    await api.created("/api/v1/namespaces/$ns/events", event)
    view = (await api.get("/apis/events.k8s.io/v1/namespaces/$ns/events/e")).body
    assert (view["apiVersion"], view["note"], view["regarding"]["name"]) == ("events.k8s.io/v1", "it runs", "p")
    assert view["deprecatedCount"] == 7
    new = {
        "metadata": {"name": "f"},
        "regarding": view["regarding"],
        "note": "again",
        "reason": "Started",
        "action": "Start",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "example.com/suite",
        "reportingInstance": "one",
    }
    await api.created("/apis/events.k8s.io/v1/namespaces/$ns/events", new)
    core = (await api.get("/api/v1/namespaces/$ns/events/f")).body
    assert (core["apiVersion"], core["message"], core["involvedObject"]["name"]) == ("v1", "again", "p")


async def test_a_job_selects_its_pods_by_its_uid(api: SuiteApi) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = await api.created(
        "/apis/batch/v1/namespaces/$ns/jobs", {"metadata": {"name": "j"}, "spec": {"template": template}}
    )
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"
    changed = await api.merge(
        "/apis/batch/v1/namespaces/$ns/jobs/j", {"spec": {"template": {"spec": {"nodeName": "x"}}}}
    )
    assert (changed.status, changed.body["details"]["causes"][0]["message"][-18:]) == (422, "field is immutable")


async def test_reviews_allow_everything(api: SuiteApi) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}}
    reply = await api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert (reply.status, reply.body["status"]["allowed"]) == (201, True)


async def test_a_binding_gives_a_pod_its_node_once(api: SuiteApi) -> None:
    pods = "/api/v1/namespaces/$ns/pods"
    await api.created(pods, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n1"},
    }
    assert (await api.post(f"{pods}/p/binding", binding)).status == 201
    pod = (await api.get(f"{pods}/p")).body
    assert pod["spec"]["nodeName"] == "n1"
    assert [c["type"] for c in pod["status"]["conditions"]] == ["PodScheduled"]
    assert (await api.post(f"{pods}/p/binding", binding)).status == 409
    assert (await api.merge(f"{pods}/p", {"spec": {"nodeName": "n2"}})).status == 422
