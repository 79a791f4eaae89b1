"""What the server checks and fills in for the built-in kinds that the platform writes."""

import pytest
from support.suite import SuiteApi

from controller_runtime import JsonObject

NAMESPACE = "/api/v1/namespaces/$ns"
JOBS = "/apis/batch/v1/namespaces/$ns/jobs"
CLAIMS = f"{NAMESPACE}/persistentvolumeclaims"
PODS = f"{NAMESPACE}/pods"
STRATEGIC = "application/strategic-merge-patch+json"


def _pod_template(**spec: object) -> JsonObject:
    return {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]} | spec}


def _pod_of(resources: JsonObject) -> JsonObject:
    return {"spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}}


def _claim(**spec: object) -> JsonObject:
    resources = {"requests": {"storage": "10Gi"}}
    return {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteMany"], "resources": resources} | spec}


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (PODS, {"spec": {"containers": []}}, "spec.containers: Required value"),
        (PODS, {"spec": {"containers": [{"name": "c"}]}}, "spec.containers[0].image: Required value"),
        (
            PODS,
            _pod_of({"requests": {"memory": "3072Mi"}, "limits": {"memory": "2Gi"}}),
            'containers[0].resources.requests: Invalid value: "3Gi": must be less than or equal to memory limit of 2Gi',
        ),
        (
            PODS,
            _pod_of({"requests": {"amd.com/gpu": "1"}, "limits": {"amd.com/gpu": "2"}}),
            "must be equal to amd.com/gpu limit of 2",
        ),
        (PODS, {"spec": {"containers": [{"name": "A_", "image": "i"}]}}, "a lowercase RFC 1123 label must consist of"),
        (
            JOBS,
            {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}},
            'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        ),
        (
            "/apis/apps/v1/namespaces/$ns/deployments",
            {
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": _pod_template(restartPolicy="Always") | {"metadata": {"labels": {"a": "c"}}},
                }
            },
            "`selector` does not match template `labels`",
        ),
        (CLAIMS, {"spec": {"accessModes": ["ReadWriteMany"]}}, "spec.resources[storage]: Required value"),
        (f"{NAMESPACE}/configmaps", {"data": {"a b": "1"}}, "data[a b]: Invalid value"),
        (
            f"{NAMESPACE}/events",
            {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "other"}},
            'involvedObject.namespace: Invalid value: "other": does not match event.namespace',
        ),
        (
            f"{NAMESPACE}/events",
            {"involvedObject": {"namespace": "$ns"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "R"},
            "reportingComponent: Required value",
        ),
    ],
)
async def test_an_object_is_refused(api: SuiteApi, path: str, body: JsonObject, message: str) -> None:
    refused = await api.post(path, {"metadata": {"name": "x"}} | body)
    assert (refused.status, refused.reason) == (422, "Invalid"), refused.body
    assert message in refused.message


@pytest.mark.spec("FW-515")
async def test_an_unknown_field_of_a_built_in_kind_is_dropped_with_a_warning(api: SuiteApi) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x:1", "flavour": "sweet"}]}}
    strict = await api.post(PODS, body, fieldValidation="Strict")
    assert (strict.status, strict.reason) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.containers[0].flavour"' in strict.message
    made = await api.post(PODS, body)
    assert made.headers["Warning"] == '299 - "unknown field \\"spec.containers[0].flavour\\""'
    assert "flavour" not in made.body["spec"]["containers"][0]


@pytest.mark.spec("FW-515")
async def test_an_unknown_field_of_a_built_in_kind_is_refused_in_an_apply(api: SuiteApi) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "flavour": "sweet"}
    refused = await api.apply(f"{NAMESPACE}/configmaps/a", config, "one")
    assert refused.status == 500
    assert refused.message.endswith(".flavour: field not declared in schema")


@pytest.mark.spec("FW-515")
async def test_a_status_says_zero_where_a_program_says_nothing(api: SuiteApi) -> None:
    containers = [{"name": "c", "image": "x:1"}]
    await api.created(PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers}})
    status = {"status": {"containerStatuses": [{"name": "c", "image": "x:1"}]}}
    written = await api.send("PATCH", f"{PODS}/p/status", status, STRATEGIC)
    [container] = written.body["status"]["containerStatuses"]
    shown = {name: container[name] for name in ("imageID", "ready", "restartCount")}
    assert shown == {"imageID": "", "ready": False, "restartCount": 0}


@pytest.mark.spec("FW-515")
async def test_lists_of_built_in_kinds_merge_by_their_own_keys(api: SuiteApi) -> None:
    mounts = [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]
    container = {"name": "c", "image": "i", "volumeMounts": mounts}
    spec = {"volumes": [{"name": "v", "emptyDir": {}}], "containers": [container]}
    deployment = {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
        },
    }
    path = "/apis/apps/v1/namespaces/$ns/deployments"
    await api.created(path, deployment)
    change = {"name": "c", "volumeMounts": [{"mountPath": "/b", "name": "v", "readOnly": True}]}
    patched = await api.send(
        "PATCH", f"{path}/d", {"spec": {"template": {"spec": {"containers": [change]}}}}, STRATEGIC
    )
    [container] = patched.body["spec"]["template"]["spec"]["containers"]
    assert container["volumeMounts"] == [mounts[0], {**mounts[1], "readOnly": True}]


async def test_a_pod_gets_its_defaults(api: SuiteApi) -> None:
    limits = {"limits": {"memory": "1Gi", "amd.com/gpu": "1"}}
    containers = [{"name": "c", "image": "x:1", "resources": limits}]
    made = await api.created(PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers}})
    spec, (container,) = made["spec"], made["spec"]["containers"]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["resources"]["requests"] == {"memory": "1Gi", "amd.com/gpu": "1"}
    assert (spec["priority"], spec["preemptionPolicy"], spec["enableServiceLinks"]) == (0, "PreemptLowerPriority", True)
    assert {one["key"] for one in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}


async def test_a_job_labels_itself_and_its_pods(api: SuiteApi) -> None:
    made = await api.created(JOBS, {"metadata": {"name": "j"}, "spec": {"template": _pod_template()}})
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == "j"
    assert made["metadata"]["labels"] == labels
    assert (made["spec"]["backoffLimit"], made["spec"]["completions"], made["status"]) == (6, 1, {})


async def test_a_claim_stays_as_it_was_asked_for(api: SuiteApi) -> None:
    await api.created(CLAIMS, _claim())
    for patch in (
        {"resources": {"requests": {"storage": "20Gi"}}},
        {"resources": {"requests": {"storage": "5Gi"}}},
        {"accessModes": ["ReadWriteOnce"]},
    ):
        refused = await api.merge(f"{CLAIMS}/v", {"spec": patch})
        assert refused.status == 422
        assert refused.message.startswith(
            'PersistentVolumeClaim "v" is invalid: spec: Forbidden: spec is immutable after creation except '
            "resources.requests and volumeAttributesClassName for bound claims"
        )
    assert (await api.merge(f"{CLAIMS}/v", {"metadata": {"labels": {"a": "b"}}})).status == 200


async def test_a_service_gets_an_address(api: SuiteApi) -> None:
    made = await api.created(f"{NAMESPACE}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    assert made["spec"]["clusterIPs"] == [made["spec"]["clusterIP"]]
    assert made["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert made["status"] == {"loadBalancer": {}}


async def test_a_role_binding_names_the_group_of_its_role(api: SuiteApi) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/rolebindings"
    subject = {"kind": "ServiceAccount", "name": "s", "namespace": "$ns"}
    body = {"metadata": {"name": "r"}, "roleRef": {"kind": "Role", "name": "x"}, "subjects": [subject]}
    assert (await api.created(path, body))["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
