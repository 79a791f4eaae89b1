"""What KServe makes of an InferenceService in its Standard mode: Deployment, Service, autoscaler. Pure functions."""

from collections.abc import Mapping
from typing import Final

from aim_domain import labels
from aim_domain.naming import predictor_name
from aim_local.actors.kinds import COLLECTOR, DEPLOYMENT, SCALED_OBJECT, SERVICE
from aim_local.actors.objects import LOCAL_PREFIX, annotations_of, controlled_by, labels_of
from controller_runtime import JsonObject
from controller_runtime.kinds import HORIZONTAL_POD_AUTOSCALER

SERVING_CONTAINER: Final = "kserve-container"
_POD_SPEC: Final = frozenset(
    {
        "containers", "initContainers", "volumes", "imagePullSecrets", "serviceAccountName", "priorityClassName",
        "affinity", "nodeSelector", "tolerations", "securityContext", "terminationGracePeriodSeconds", "hostNetwork",
        "runtimeClassName", "schedulerName", "topologySpreadConstraints", "dnsPolicy", "automountServiceAccountToken",
    }
)  # fmt: skip
"""Members of a predictor that are its pods'."""
_HTTP_PORT: Final = 8080
_ENOUGH: Final = 80
"""Percent of utilisation that is aimed at unless said otherwise."""
_WINDOW: Final = "stabilizationWindowSeconds"
_WINDOWS: Final = {"scaleDown": 300, "scaleUp": 0}
"""Defaults in seconds of the ConfigMap that KServe ships, key `autoscaler`; class `keda` only."""
_SCRAPE_INTERVAL: Final = "5s"
_RECEIVER: Final = "keda-otel-scaler.keda.svc:4317"
_SCALER: Final = "keda-otel-scaler.keda.svc:4318"
_COLLECTOR_RESOURCES: Final = {
    "limits": {"cpu": "1", "memory": "2Gi"},
    "requests": {"cpu": "200m", "memory": "512Mi"},
}
"""Defaults of that ConfigMap, key `opentelemetryCollector`."""
_METRICS_PORT: Final = "prometheus.kserve.io/port"
_PROBE_TIMES: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_LABELLED: Final = [
    f'set(attributes["{name}"], resource.attributes["k8s.{name}.name"])' for name in ("namespace", "deployment", "pod")
]
_CLASS_NONE, _CLASS_HPA, _CLASS_KEDA = "none", "hpa", "keda"
_NOT_PASSED_ON: Final = ("kubectl.kubernetes.io/last-applied-configuration",)


def autoscaler_class(isvc: JsonObject) -> str:
    """Who scales: `none`, `hpa` (unless said otherwise), `keda` or `external`."""
    return annotations_of(isvc).get(labels.ANNOTATION_AUTOSCALER_CLASS, _CLASS_HPA)


def deployment_for(isvc: JsonObject, replicas: int | None) -> JsonObject:
    """The predictor's Deployment; ``replicas`` are those that an autoscaler gave it, None if it does not exist."""
    meta, predictor = _component(isvc), isvc["spec"]["predictor"]
    app = {"app": _app(isvc)}
    pod_labels = {**meta["labels"], **app}
    spec: JsonObject = {
        "selector": {"matchLabels": app},
        "template": {"metadata": {"labels": pod_labels, "annotations": meta["annotations"]}, "spec": _pod_spec(isvc)},
        "strategy": predictor.get("deploymentStrategy")
        or {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }
    if autoscaler_class(isvc) == _CLASS_NONE:
        spec["replicas"] = predictor.get("minReplicas", 1)
    elif replicas is not None:
        # A field that is left out of an apply goes back to its default, and pods with it.
        spec["replicas"] = replicas
    return _object(DEPLOYMENT.api_version, DEPLOYMENT.kind, {**meta, "labels": pod_labels}, spec)


def service_for(isvc: JsonObject) -> JsonObject:
    """The Service in front of the predictor's pods (SV-153)."""
    ports = _first_container(isvc).get("ports") or ()
    served = [_service_port(port, port["containerPort"] if index else 80) for index, port in enumerate(ports)]
    nameless = {"name": predictor_name(isvc["metadata"]["name"]), "port": 80, "targetPort": _HTTP_PORT}
    spec = {"selector": {"app": _app(isvc)}, "ports": served or [{**nameless, "protocol": "TCP"}]}
    return _object("v1", SERVICE.kind, _component(isvc), spec)


def autoscaler_for(isvc: JsonObject) -> JsonObject | None:
    """Its HorizontalPodAutoscaler or ScaledObject, by its class; None without autoscaling."""
    makers = {_CLASS_HPA: _hpa_for, _CLASS_KEDA: _scaled_object_for}
    maker = makers.get(autoscaler_class(isvc))
    if maker is None:
        return None
    made = maker(isvc)
    # KServe shares the labels with the Deployment's template, which also has this one.
    made["metadata"]["labels"]["app"] = _app(isvc)
    return made


def collector_for(isvc: JsonObject) -> JsonObject | None:
    """Its OpenTelemetryCollector; None unless a metric has `metricNames`."""
    meta, scaling = _component(isvc), isvc["spec"]["predictor"].get("autoScaling") or {}
    sources = [(one.get("podmetric") or {}).get("metric") or {} for one in scaling.get("metrics") or ()]
    names = [name for source in sources for name in source.get("metricNames") or ()]
    if not names:
        return None
    target = f"localhost:{meta['annotations'].get(_METRICS_PORT, _HTTP_PORT)}"
    scraped = {
        "job_name": "otel-collector",
        "scrape_interval": _SCRAPE_INTERVAL,
        "static_configs": [{"targets": [target]}],
    }
    config = {
        "receivers": {"prometheus": {"config": {"scrape_configs": [scraped]}}},
        "processors": {
            "resourcedetection/env": {"detectors": ["env"], "timeout": "2s", "override": False},
            "transform": {"metric_statements": [{"context": "datapoint", "statements": _LABELLED}]},
            "filter/metrics": {"metrics": {"include": {"match_type": "strict", "metric_names": names}}},
        },
        "exporters": {"otlp": {"endpoint": _RECEIVER, "compression": "none", "tls": {"insecure": True}}},
        "service": {
            "pipelines": {
                "metrics": {
                    "receivers": ["prometheus"],
                    "processors": ["resourcedetection/env", "transform", "filter/metrics"],
                    "exporters": ["otlp"],
                }
            }
        },
    }
    # KServe sets no labels on it.
    metadata = {name: value for name, value in meta.items() if name != "labels"}
    spec = {"mode": "sidecar", "config": config, "resources": _COLLECTOR_RESOURCES}
    return _object(COLLECTOR.api_version, COLLECTOR.kind, metadata, spec)


def loses_hpa(isvc: JsonObject) -> bool:
    """Whether an HPA that the InferenceService owns is removed; a ScaledObject never is (SV-272)."""
    return autoscaler_class(isvc) in (_CLASS_NONE, "external")


def model_name(container: Mapping[str, object], default: str) -> str:
    """The name under which the engine serves: what the container is told, else its image."""
    env = container.get("env") or ()
    assert isinstance(env, list | tuple)
    told = next((one.get("value", "") for one in env if one["name"] == "AIM_MODEL_ID"), "")
    image = str(container.get("image", ""))
    return told or image.rsplit("/", 1)[-1].split(":", maxsplit=1)[0] or default


def _object(api_version: str, kind: str, metadata: JsonObject, spec: JsonObject) -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _component(isvc: JsonObject) -> JsonObject:
    metadata, predictor = isvc["metadata"], isvc["spec"]["predictor"]
    passed_on = {
        name: value
        for name, value in annotations_of(isvc).items()
        if name not in _NOT_PASSED_ON and not name.startswith(LOCAL_PREFIX)
    }
    return {
        "name": predictor_name(metadata["name"]),
        "namespace": metadata["namespace"],
        "labels": {
            **labels_of(isvc),
            **(predictor.get("labels") or {}),
            labels.KSERVE_INFERENCE_SERVICE: metadata["name"],
            "component": "predictor",
        },
        "annotations": {**passed_on, **(predictor.get("annotations") or {})},
        "ownerReferences": [controlled_by(isvc)],
    }


def _app(isvc: JsonObject) -> str:
    return f"isvc.{predictor_name(isvc['metadata']['name'])}"


def _first_container(isvc: JsonObject) -> JsonObject:
    containers: list[JsonObject] = isvc["spec"]["predictor"].get("containers") or [{}]
    return containers[0]


def _pod_spec(isvc: JsonObject) -> JsonObject:
    predictor = isvc["spec"]["predictor"]
    spec = {name: value for name, value in predictor.items() if name in _POD_SPEC and value not in (None, [], {})}
    containers = [_with_probe(one) for one in spec.get("containers") or ()]
    defaults = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "securityContext": {}}
    return {**defaults, **spec, "containers": containers}


def _with_probe(container: JsonObject) -> JsonObject:
    if container["name"] != SERVING_CONTAINER or container.get("readinessProbe"):
        return container
    ports = container.get("ports") or [{"containerPort": _HTTP_PORT}]
    return {**container, "readinessProbe": {"tcpSocket": {"port": ports[0]["containerPort"]}, **_PROBE_TIMES}}


def _service_port(port: JsonObject, number: int) -> JsonObject:
    made = {"port": number, "targetPort": port["containerPort"], "protocol": port.get("protocol", "TCP")}
    name = str(port.get("name", ""))
    if name:
        made["name"] = name
    if "grpc" in name or "h2c" in name:
        made["appProtocol"] = "kubernetes.io/h2c"
    return made


def _bounds(isvc: JsonObject) -> tuple[int, int]:
    predictor = isvc["spec"]["predictor"]
    least = max(1, int(predictor.get("minReplicas", 1)))
    return least, max(least, int(predictor.get("maxReplicas") or 0))


def _hpa_for(isvc: JsonObject) -> JsonObject:
    least, most = _bounds(isvc)
    meta, predictor = _component(isvc), isvc["spec"]["predictor"]
    wanted = [one["resource"] for one in (predictor.get("autoScaling") or {}).get("metrics") or () if "resource" in one]
    if not wanted and "autoScaling" not in predictor:
        utilisation = predictor.get("scaleTarget", _ENOUGH)
        target = {"type": "Utilization", "averageUtilization": utilisation}
        wanted = [{"name": predictor.get("scaleMetric", "cpu"), "target": target}]
    spec = {
        "scaleTargetRef": {"apiVersion": DEPLOYMENT.api_version, "kind": DEPLOYMENT.kind, "name": meta["name"]},
        "minReplicas": least,
        "maxReplicas": most,
        "metrics": [{"type": "Resource", "resource": one} for one in wanted],
    }
    return _object(HORIZONTAL_POD_AUTOSCALER.api_version, HORIZONTAL_POD_AUTOSCALER.kind, meta, spec)


def _scaled_object_for(isvc: JsonObject) -> JsonObject:
    meta, predictor = _component(isvc), isvc["spec"]["predictor"]
    scaling = predictor.get("autoScaling") or {}
    least = int(predictor.get("minReplicas", 1))
    spec: JsonObject = {
        "scaleTargetRef": {"name": meta["name"]},
        "triggers": [_trigger(one, meta) for one in scaling.get("metrics") or ()],
        "minReplicaCount": least,
        "maxReplicaCount": max(least, int(predictor.get("maxReplicas") or 0)),
    }
    asked = scaling.get("behavior") or {}
    behavior = {name: {_WINDOW: (asked.get(name) or {}).get(_WINDOW, default)} for name, default in _WINDOWS.items()}
    spec["advanced"] = {"horizontalPodAutoscalerConfig": {"behavior": behavior}}
    return _object(SCALED_OBJECT.api_version, SCALED_OBJECT.kind, meta, spec)


def _trigger(metric: JsonObject, meta: JsonObject) -> JsonObject:
    return _TRIGGERS.get(metric.get("type", ""), _resource_trigger)(metric, meta)


def _resource_trigger(metric: JsonObject, _: JsonObject) -> JsonObject:
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    kind = target.get("type", "Utilization")
    default = _ENOUGH if resource.get("name") == "cpu" else 0
    values = {"Utilization": target.get("averageUtilization", default), "AverageValue": target.get("averageValue", 0)}
    value = values.get(kind, target.get("value", 0))
    return {"type": resource.get("name", "cpu"), "metricType": kind, "metadata": {"value": str(value)}}


def _external_trigger(metric: JsonObject, _: JsonObject) -> JsonObject:
    external = metric.get("external") or {}
    source = external.get("metric") or {}
    told = {
        "serverAddress": source.get("serverAddress", ""),
        "query": source.get("query", ""),
        "threshold": str((external.get("target") or {}).get("value", 0)),
    }
    if source.get("namespace"):
        told["namespace"] = source["namespace"]
    return {"type": source.get("backend", "prometheus"), "metadata": told}


def _pod_trigger(metric: JsonObject, meta: JsonObject) -> JsonObject:
    pod_metric = metric.get("podmetric") or {}
    source = pod_metric.get("metric") or {}
    where = f'namespace="{meta["namespace"]}", deployment="{meta["name"]}"'
    told = {
        "metricQuery": f"sum({source.get('query', '')}{{{where}}})",
        "targetValue": str((pod_metric.get("target") or {}).get("value", 0)),
        "scalerAddress": source.get("serverAddress") or _SCALER,
    }
    if source.get("operationOverTime"):
        told["operationOverTime"] = source["operationOverTime"]
    return {"type": "external", "metadata": told}


_TRIGGERS: Final = {"Resource": _resource_trigger, "External": _external_trigger, "PodMetric": _pod_trigger}
