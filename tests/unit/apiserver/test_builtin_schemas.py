"""The built-in kinds: their schemas are upstream's; defaults, merge keys and what is dropped."""

from collections.abc import Mapping
from typing import Any

import pytest
from support.apiserver_ownership import apply, owned

from controller_runtime import JsonObject, loads
from embedded_apiserver import EXTERNAL_CRDS
from embedded_apiserver.objects.builtin import schema_for
from embedded_apiserver.objects.upstream import CHOICES, DEFAULTS, builtin_kinds

IMAGE = "registry.example/a:1"


def defaulted(group: str, version: str, kind: str, **members: Any) -> JsonObject:
    """An object after defaulting."""
    obj = {"apiVersion": f"{group}/{version}".lstrip("/"), "kind": kind, "metadata": {"name": "x"}, **members}
    schema_for(group, version, kind).default(obj)
    return obj


def template(**container: Any) -> JsonObject:
    return {"spec": {"containers": [{"name": "c", "image": IMAGE, **container}]}}


@pytest.mark.spec("FW-515")
@pytest.mark.parametrize("kind", builtin_kinds(), ids=lambda kind: kind[2])
def test_every_schema_compiles_and_drops_unknown_fields(kind: tuple[str, str, str]) -> None:
    schema = schema_for(*kind)
    assert schema.prune({"metadata": {"name": "x"}, "future": {"a": [1]}}) == ["future"]
    assert schema_for(*kind) is schema


@pytest.mark.parametrize("added", [DEFAULTS, CHOICES], ids=["defaults", "choices"])
def test_all_that_is_added_belongs_to_members_of_upstream(added: Mapping[str, Mapping[str, object]]) -> None:
    members = {
        name.rpartition(".pkg.apis.")[2].removeprefix("io.k8s.api."): set(schema.get("properties", ()))
        for name, schema in loads((EXTERNAL_CRDS / "kubernetes.json").read_bytes())["schemas"].items()
    }
    assert {name: set(values) - members[name] for name, values in added.items() if set(values) - members[name]} == {}


def test_a_pod_gets_its_defaults() -> None:
    spec = defaulted("", "v1", "Pod", **template(ports=[{"containerPort": 80}]))["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert spec["containers"][0]["terminationMessagePath"] == "/dev/termination-log"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("localhost:5000/a", "Always"),
        ("a:1", "IfNotPresent"),
        ("localhost:5000/a:1", "IfNotPresent"),
        ("a@sha256:0", "IfNotPresent"),
    ],
)
def test_the_pull_policy_depends_on_the_tag(image: str, policy: str) -> None:
    spec = defaulted("", "v1", "Pod", **template(image=image))["spec"]
    assert spec["containers"][0]["imagePullPolicy"] == policy


def test_limits_are_the_default_of_requests() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    spec = defaulted("", "v1", "Pod", **template(resources=resources))["spec"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_a_job_gets_its_defaults_and_those_of_its_pod() -> None:
    spec = defaulted("batch", "v1", "Job", spec={"template": template()})["spec"]
    assert {name: spec[name] for name in ("backoffLimit", "completions", "parallelism", "suspend")} == {
        "backoffLimit": 6, "completions": 1, "parallelism": 1, "suspend": False,
    }  # fmt: skip
    assert spec["podReplacementPolicy"] == "TerminatingOrFailed"
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_a_work_queue_job_has_no_completions() -> None:
    assert "completions" not in defaulted("batch", "v1", "Job", spec={"parallelism": 2, "template": template()})["spec"]


def test_other_kinds_get_their_defaults() -> None:
    service = defaulted("", "v1", "Service", spec={"ports": [{"port": 80}]})["spec"]
    assert (service["type"], service["sessionAffinity"]) == ("ClusterIP", "None")
    assert service["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    claim = defaulted("", "v1", "PersistentVolumeClaim", spec={})
    assert (claim["spec"]["volumeMode"], claim["status"]["phase"]) == ("Filesystem", "Pending")
    deployment = defaulted("apps", "v1", "Deployment", spec={"template": template()})["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": "25%"}
    storage = defaulted("storage.k8s.io", "v1", "StorageClass", provisioner="p")
    assert (storage["reclaimPolicy"], storage["volumeBindingMode"]) == ("Delete", "Immediate")


def test_what_is_required_and_typed_is_checked() -> None:
    job = defaulted("batch", "v1", "Job", spec={"backoffLimit": "6", "template": {"spec": {"volumes": [{}]}}})
    assert [str(error) for error in schema_for("batch", "v1", "Job").validate(job)] == [
        'spec.backoffLimit: Invalid value: "string": spec.backoffLimit in body must be of type integer: "string"',
        "spec.template.spec.volumes[0].name: Required value",
        "spec.template.spec.containers: Required value",
    ]


@pytest.mark.spec("FW-515")
def test_a_status_is_taken_with_zero_values_in_place_of_what_is_missing() -> None:
    statuses = [{"name": "c", "image": IMAGE}]
    status = defaulted("", "v1", "Pod", **template(), status={"containerStatuses": statuses})["status"]
    missing = {"imageID": "", "lastState": {}, "ready": False, "restartCount": 0, "state": {}}
    assert status["containerStatuses"] == [statuses[0] | missing]


def test_a_kind_that_was_not_taken_from_upstream_has_no_schema() -> None:
    with pytest.raises(KeyError):
        schema_for("example.com", "v1", "Thing")


def test_unknown_metadata_is_dropped_as_everywhere() -> None:
    obj: JsonObject = {"metadata": {"name": "x", "bogus": 1, "ownerReferences": [{"uid": "u", "bogus": 1}]}}
    assert schema_for("", "v1", "ConfigMap").prune(obj) == ["metadata.bogus", "metadata.ownerReferences[0].bogus"]


def test_two_managers_share_a_deployment() -> None:
    schema = schema_for("apps", "v1", "Deployment")
    base = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "namespace": "d"}}
    live = apply(None, {**base, "spec": {"template": template()}}, "one", schema=schema)
    sidecar = {"spec": {"containers": [{"name": "side", "image": IMAGE}]}}
    live = apply(live, {**base, "spec": {"replicas": 3, "template": sidecar}}, "two", schema=schema)
    names = [container["name"] for container in live["spec"]["template"]["spec"]["containers"]]
    assert names == ["c", "side"]
    assert '.spec.template.spec.containers[name="side"].image' in owned(live, "two")


def test_owner_references_merge_by_uid() -> None:
    schema = schema_for("", "v1", "ConfigMap")

    def config(uid: str) -> JsonObject:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "ownerReferences": [reference]}}

    live = apply(apply(None, config("a"), "one", schema=schema), config("b"), "two", schema=schema)
    assert [reference["uid"] for reference in live["metadata"]["ownerReferences"]] == ["a", "b"]
    assert owned(live, "two") == {'.metadata.ownerReferences[uid="b"]'}


def test_string_data_of_a_secret_becomes_data() -> None:
    secret = defaulted("", "v1", "Secret", data={"a": "YQ=="}, stringData={"b": "b"})
    assert secret["data"] == {"a": "YQ==", "b": "Yg=="}
    assert "stringData" not in secret
    assert secret["type"] == "Opaque"
