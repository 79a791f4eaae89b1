"""What KServe, KEDA and the autoscaler write, from plain data."""

import pytest

from aim_local.actors.hpa import Outcome, desired_replicas, recommendation
from aim_local.actors.hpa import status_for as hpa_status
from aim_local.actors.keda import hpa_for, replicas_for, scaling_event
from aim_local.actors.keda import status_for as scaled_object_status
from aim_local.actors.kserve import autoscaler_for, collector_for, deployment_for, service_for, status_for
from controller_runtime import JsonObject

SHORT, ENOUGH = ("Available", "False", "MinimumReplicasUnavailable"), ("Available", "True", "MinimumReplicasAvailable")
MOVING, DONE = ("Progressing", "True", "ReplicaSetUpdated"), ("Progressing", "True", "NewReplicaSetAvailable")
LATE = ("Progressing", "False", "ProgressDeadlineExceeded")
NOW = "2026-01-01T12:00:00Z"
METRIC: JsonObject = {
    "type": "PodMetric",
    "podmetric": {
        "metric": {"backend": "opentelemetry", "query": "vllm:running", "serverAddress": "otel:4318"},
        "target": {"type": "Value", "value": "3"},
    },
}


def isvc(scaler: str = "none", status: JsonObject | None = None, **predictor: object) -> JsonObject:
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": "chat",
            "namespace": "ns",
            "uid": "u-2",
            "generation": 7,
            "labels": {"team": "a"},
            "annotations": {"serving.kserve.io/autoscalerClass": scaler, "local.aim/fail": "crash", "own": "yes"},
        },
        "spec": {
            "predictor": {
                "containers": [
                    {"name": "kserve-container", "image": "a/b:1", "ports": [{"name": "http", "containerPort": 8000}]}
                ],
                **predictor,
            }
        },
        "status": status or {},
    }


def deployed(*conditions: tuple[str, str, str]) -> JsonObject:
    made = [{"type": type_, "status": status, "reason": reason, "message": "m"} for type_, status, reason in conditions]
    return {"spec": {"replicas": 1}, "status": {"observedGeneration": 2, "conditions": made}}


def found(status: JsonObject, type_: str) -> JsonObject:
    return next(one for one in status["conditions"] if one["type"] == type_)


def test_a_deployment_has_kserves_labels_and_passes_on_all_but_our_own_annotations() -> None:
    made = deployment_for(isvc(minReplicas=2), None)
    template = made["spec"]["template"]

    assert made["metadata"]["name"] == "chat-predictor"
    assert made["spec"]["selector"]["matchLabels"] == {"app": "isvc.chat-predictor"}
    assert template["metadata"]["labels"] == {
        "team": "a",
        "serving.kserve.io/inferenceservice": "chat",
        "component": "predictor",
        "app": "isvc.chat-predictor",
    }
    assert set(template["metadata"]["annotations"]) == {"serving.kserve.io/autoscalerClass", "own"}
    assert template["spec"]["containers"][0]["readinessProbe"]["tcpSocket"] == {"port": 8000}
    assert made["spec"]["replicas"] == 2


@pytest.mark.parametrize(("scaler", "present", "expected"), [("keda", None, None), ("hpa", 3, 3), ("none", 3, 1)])
def test_replicas_belong_to_the_autoscaler_where_there_is_one(
    scaler: str, present: int | None, expected: int | None
) -> None:
    assert deployment_for(isvc(scaler), present)["spec"].get("replicas") == expected


@pytest.mark.spec("SV-153")
def test_the_service_listens_on_80() -> None:
    ports = service_for(isvc())["spec"]["ports"]

    assert ports == [{"port": 80, "targetPort": 8000, "protocol": "TCP", "name": "http"}]


@pytest.mark.parametrize(
    ("conditions", "status", "reason"),
    [
        ((SHORT, MOVING), "False", "MinimumReplicasUnavailable"),
        ((ENOUGH, MOVING), "Unknown", "ReplicaSetUpdated"),
        ((ENOUGH, DONE), "True", ""),
        ((ENOUGH, LATE), "False", "ProgressDeadlineExceeded"),
        ((), "False", ""),
    ],
)  # fmt: skip
def test_readiness_follows_the_deployment(
    conditions: tuple[tuple[str, str, str], ...], status: str, reason: str
) -> None:
    written = status_for(isvc(), deployed(*conditions), [], NOW)

    for type_ in ("PredictorReady", "Ready"):
        assert (found(written, type_)["status"], found(written, type_).get("reason", "")) == (status, reason)


def test_the_status_is_complete_and_observes_the_deployments_generation() -> None:
    available = (("Available", "True", "x"), ("Progressing", "True", "NewReplicaSetAvailable"))
    pod = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    written = status_for(isvc(), deployed(*available), [pod], NOW)

    assert written["observedGeneration"] == 2
    assert written["url"] == "http://chat-ns.example.com"
    assert written["address"] == {"url": "http://chat-predictor.ns.svc.cluster.local"}
    assert written["components"] == {"predictor": {"url": "http://chat-predictor-ns.example.com"}}
    assert written["deploymentMode"] == "Standard"
    assert written["modelStatus"] == {
        "copies": {"failedCopies": 0, "totalCopies": 1},
        "states": {"activeModelState": "Loaded", "targetModelState": "Loaded"},
        "transitionStatus": "UpToDate",
    }
    assert status_for(isvc(status=written), deployed(*available), [pod], "2027-01-01T00:00:00Z") == written


def test_a_crash_loop_is_a_failed_load() -> None:
    ended = {"exitCode": 1, "reason": "Error", "message": "no memory"}
    container = {
        "name": "kserve-container",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": ended},
    }
    model = status_for(isvc(), None, [{"metadata": {}, "status": {"containerStatuses": [container]}}], NOW)[
        "modelStatus"
    ]

    assert model["transitionStatus"] == "BlockedByFailedLoad"
    assert model["lastFailureInfo"] == {"reason": "ModelLoadFailed", "message": "no memory", "exitCode": 1}


@pytest.mark.spec("SV-185")
def test_kedas_autoscaler_carries_kedas_marks() -> None:
    scaled = autoscaler_for(isvc("keda", minReplicas=1, maxReplicas=4, autoScaling={"metrics": [METRIC]}))
    assert scaled is not None
    scaled["metadata"]["uid"] = "so-1"
    made = hpa_for(scaled)

    assert scaled["kind"] == "ScaledObject"
    assert scaled["metadata"]["labels"]["app"] == "isvc.chat-predictor"
    assert scaled["spec"]["triggers"][0]["metadata"]["metricQuery"] == (
        'sum(vllm:running{namespace="ns", deployment="chat-predictor"})'
    )
    assert made["metadata"]["name"] == "keda-hpa-chat-predictor"
    assert made["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "keda-operator"
    assert made["metadata"]["labels"]["scaledobject.keda.sh/name"] == "chat-predictor"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "ScaledObject"
    assert (made["spec"]["minReplicas"], made["spec"]["maxReplicas"]) == (1, 4)
    (metric,) = made["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] == "s0-ns-chat-predictor"
    assert metric["external"]["metric"]["selector"]["matchLabels"] == {"scaledobject.keda.sh/name": "chat-predictor"}
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "3"}


def test_kserve_creates_a_collector_where_metric_names_are_set() -> None:
    assert collector_for(isvc("keda", autoScaling={"metrics": [METRIC]})) is None
    source = {**METRIC["podmetric"]["metric"], "metricNames": ["vllm:running"]}
    named = isvc("keda", autoScaling={"metrics": [{**METRIC, "podmetric": {"metric": source}}]})
    named["metadata"]["annotations"]["prometheus.kserve.io/port"] = "8000"
    made = collector_for(named)
    assert made is not None
    assert made["metadata"]["name"] == "chat-predictor"
    assert "labels" not in made["metadata"]
    assert made["metadata"]["ownerReferences"][0]["name"] == "chat"
    config = made["spec"]["config"]
    (scraped,) = config["receivers"]["prometheus"]["config"]["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": ["localhost:8000"]}]
    assert config["processors"]["filter/metrics"]["metrics"]["include"]["metric_names"] == ["vllm:running"]


@pytest.mark.parametrize(
    ("asked", "down", "up"),
    [({}, 300, 0), ({"scaleDown": {"stabilizationWindowSeconds": 20}}, 20, 0), ({"scaleUp": {}}, 300, 0)],
)
def test_kserve_sets_the_stabilization_windows_of_kedas_autoscaler(asked: JsonObject, down: int, up: int) -> None:
    scaled = autoscaler_for(isvc("keda", autoScaling={"metrics": [METRIC], "behavior": asked}))
    assert scaled is not None
    scaled["metadata"]["uid"] = "so-1"
    assert hpa_for(scaled)["spec"]["behavior"] == {
        "scaleDown": {"stabilizationWindowSeconds": down},
        "scaleUp": {"stabilizationWindowSeconds": up},
    }
    assert "behavior" not in (autoscaler_for(isvc("hpa")) or {})["spec"]


def test_a_scaled_object_without_its_target_fails_its_check() -> None:
    scaled = autoscaler_for(isvc("keda", autoScaling={"metrics": [METRIC]}))
    assert scaled is not None

    assert found(scaled_object_status(scaled, None, None, active=False), "Ready")["reason"] == "ScaledObjectCheckFailed"
    idle = scaled_object_status(scaled, deployed(), None, active=False)
    assert found(idle, "Ready")["reason"] == "ScaledObjectReady"
    assert found(idle, "Active")["reason"] == "ScalerNotActive"
    assert found(scaled_object_status(scaled, deployed(), None, active=True), "Active")["reason"] == "ScalerActive"


@pytest.mark.parametrize(
    ("active", "holds", "reason"),
    [
        (("True", "ValidMetricFound"), "True", "HPAActive"),
        (("False", "ScalingDisabled"), "True", "ScalingDisabled"),
        (("False", "FailedGetExternalMetric"), "False", "FailedGetExternalMetric"),
    ],
)
def test_a_scaled_object_mirrors_the_condition_of_its_autoscaler(
    active: tuple[str, str], holds: str, reason: str
) -> None:
    scaled = autoscaler_for(isvc("keda", autoScaling={"metrics": [METRIC]}))
    assert scaled is not None
    status, why = active
    conditions = [{"type": "ScalingActive", "status": status, "reason": why, "message": "m"}]
    autoscaler = {"metadata": {"name": "keda-hpa-chat-predictor"}, "status": {"conditions": conditions}}
    written = scaled_object_status(scaled, deployed(), autoscaler, active=True)
    assert (found(written, "HPAActive")["status"], found(written, "HPAActive")["reason"]) == (holds, reason)
    assert written["triggersActivity"] == {"s0-ns-chat-predictor": {"isActive": True}}


def test_keda_reports_scaling_from_and_to_zero() -> None:
    scaled = autoscaler_for(isvc("keda", autoScaling={"metrics": [METRIC]}))
    assert scaled is not None
    what = "apps/v1.Deployment ns/chat-predictor"
    brought = f"Scaled {what} from 0 to 1, triggered by s0-ns-chat-predictor"
    assert scaling_event(scaled, 0, 1) == ("KEDAScaleTargetActivated", brought)
    assert scaling_event(scaled, 2, 0) == ("KEDAScaleTargetDeactivated", f"Deactivated {what} from 2 to 0")


@pytest.mark.parametrize(
    ("least", "present", "active", "wanted"),
    [
        (0, 1, False, 0),
        (0, 3, False, 0),
        (0, 0, False, 0),
        (0, 0, True, 1),
        (0, 3, True, 3),
        (2, 0, True, 2),
        (2, 0, False, 2),
        (2, 3, False, 3),
        (1, 1, True, 1),
    ],
)
def test_keda_alone_takes_the_last_replica_and_brings_the_first(
    least: int, present: int, active: bool, wanted: int
) -> None:
    scaled = autoscaler_for(isvc("keda", minReplicas=least, maxReplicas=3, autoScaling={"metrics": [METRIC]}))
    assert scaled is not None
    assert replicas_for(scaled, present, active=active) == wanted
    scaled["metadata"]["annotations"]["autoscaling.keda.sh/paused"] = "true"
    assert replicas_for(scaled, present, active=active) == present
    assert hpa_for({**scaled, "metadata": {**scaled["metadata"], "uid": "so-1"}})["spec"]["minReplicas"] == max(
        1, least
    )


@pytest.mark.parametrize(
    ("asked", "current", "failed", "desired", "limited"),
    [
        (0, 1, False, 2, "TooFewReplicas"),
        (3, 1, False, 3, "DesiredWithinRange"),
        (9, 1, False, 4, "TooManyReplicas"),
        (9, 3, True, 3, ""),
        (9, 0, False, 0, ""),
        (9, 0, True, 0, ""),
    ],
)
def test_the_autoscaler_stays_within_its_bounds(
    asked: int, current: int, failed: bool, desired: int, limited: str
) -> None:
    made = autoscaler_for(isvc("hpa", minReplicas=2, maxReplicas=4))
    assert made is not None

    assert desired_replicas(made, asked, current, failed=failed) == desired
    outcome = Outcome(current, desired, asked, rescaled=desired != current, failed=failed)
    written = hpa_status(made, outcome, NOW)
    reasons = {one["type"]: one["reason"] for one in written["conditions"]}
    assert reasons.get("ScalingLimited", "") == limited
    expected = "FailedGetResourceMetric" if failed else "ValidMetricFound"
    assert reasons["ScalingActive"] == (expected if current else "ScalingDisabled")


def test_cpu_asks_for_one_replica_at_least() -> None:
    by_cpu = autoscaler_for(isvc("hpa", minReplicas=1, maxReplicas=4))
    scaled = autoscaler_for(isvc("keda", minReplicas=1, maxReplicas=4, autoScaling={"metrics": [METRIC]}))
    assert by_cpu is not None
    assert scaled is not None
    scaled["metadata"]["uid"] = "so-1"
    assert [recommendation(by_cpu, asked) for asked in (0, 3)] == [1, 3]
    assert [recommendation(hpa_for(scaled), asked) for asked in (0, 3)] == [0, 3]
