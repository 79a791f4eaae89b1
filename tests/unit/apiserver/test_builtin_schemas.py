"""The built-in kinds: defaults, merge keys and leniency."""

from typing import Any

import pytest
from support.apiserver_ownership import apply, owned

from aim_local.apiserver.objects.builtin import builtin_kinds, schema_for
from aim_shared.json import JsonObject

IMAGE = "registry.example/a:1"


def defaulted(group: str, version: str, kind: str, **members: Any) -> JsonObject:
    """An object after defaulting."""
    obj = {"apiVersion": f"{group}/{version}".lstrip("/"), "kind": kind, "metadata": {"name": "x"}, **members}
    schema_for(group, version, kind).default(obj)
    return obj


def template(**container: Any) -> JsonObject:
    return {"spec": {"containers": [{"name": "c", "image": IMAGE, **container}]}}


@pytest.mark.parametrize("kind", builtin_kinds(), ids=lambda kind: kind[2])
def test_every_schema_compiles_and_keeps_unknown_fields(kind: tuple[str, str, str]) -> None:
    schema = schema_for(*kind)
    obj: JsonObject = {"metadata": {"name": "x"}, "future": {"a": [1]}}
    assert schema.prune(obj) == []
    schema.default(obj)
    assert obj["future"] == {"a": [1]}
    assert schema_for(*kind) is schema


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
    schema = schema_for("batch", "v1", "Job")
    assert [str(error) for error in schema.validate({"metadata": {"name": "x"}, "spec": {"backoffLimit": "6"}})] == [
        'spec.backoffLimit: Invalid value: "string": spec.backoffLimit in body must be of type integer: "string"',
        "spec.template: Required value",
    ]


def test_an_unknown_kind_has_a_schema_of_its_metadata() -> None:
    schema = schema_for("example.com", "v1", "Thing")
    obj = {"metadata": {"name": "x", "labels": {"a": 1}}, "spec": {"any": 1}}
    assert [error.path for error in schema.validate(obj)] == ["metadata.labels.a"]


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
