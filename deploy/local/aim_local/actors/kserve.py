"""KServe in its Standard mode: Deployment, Service and autoscaler of every InferenceService, and its status."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

from aim_domain import labels
from aim_domain.kinds import INFERENCE_SERVICE
from aim_domain.naming import predictor_name
from aim_local.actors.objects import (
    COLLECTOR,
    LOCAL_PREFIX,
    SCALED_OBJECT,
    SERVICE,
    annotations_of,
    condition,
    controlled_by,
    controller_name,
    controller_uid,
    is_going,
    is_ready,
    labels_of,
    now_text,
    predictor_group,
    short_hash,
    uid_of,
)
from aim_local.actors.runtime import Informer, Workers, Writer
from aim_local.actors.settings import ActorSettings
from controller_runtime import ApiError, JsonObject, Key
from controller_runtime.kind_names import DEPLOYMENT, KindName
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
    """The name under which the engine serves: the container's argument, else its image."""
    env = container.get("env") or ()
    assert isinstance(env, list | tuple)
    reported = next((one.get("value", "") for one in env if one["name"] == "AIM_MODEL_ID"), "")
    image = str(container.get("image", ""))
    return reported or image.rsplit("/", 1)[-1].split(":", maxsplit=1)[0] or default


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
    reported = {
        "serverAddress": source.get("serverAddress", ""),
        "query": source.get("query", ""),
        "threshold": str((external.get("target") or {}).get("value", 0)),
    }
    if source.get("namespace"):
        reported["namespace"] = source["namespace"]
    return {"type": source.get("backend", "prometheus"), "metadata": reported}


def _pod_trigger(metric: JsonObject, meta: JsonObject) -> JsonObject:
    pod_metric = metric.get("podmetric") or {}
    source = pod_metric.get("metric") or {}
    where = f'namespace="{meta["namespace"]}", deployment="{meta["name"]}"'
    reported = {
        "metricQuery": f"sum({source.get('query', '')}{{{where}}})",
        "targetValue": str((pod_metric.get("target") or {}).get("value", 0)),
        "scalerAddress": source.get("serverAddress") or _SCALER,
    }
    if source.get("operationOverTime"):
        reported["operationOverTime"] = source["operationOverTime"]
    return {"type": "external", "metadata": reported}


_TRIGGERS: Final = {"Resource": _resource_trigger, "External": _external_trigger, "PodMetric": _pod_trigger}


_DOMAIN: Final = "example.com"
_AVAILABLE, _PROGRESSING, _REPLICA_FAILURE = "Available", "Progressing", "ReplicaFailure"
_ERROR: Final = "Error"


def status_for(isvc: JsonObject, deployment: JsonObject | None, pods: Sequence[JsonObject], now: str) -> JsonObject:
    """The status; equal to the present one when nothing is new."""
    metadata, present = isvc["metadata"], isvc.get("status") or {}
    state = (deployment or {}).get("status") or {}
    predictor = _predictor_ready(state)
    ready = predictor if predictor["status"] != "True" else condition("Ready", True)
    conditions = [
        condition("IngressReady", True),
        predictor,
        {**ready, "type": "Ready"},
        condition("Stopped", False, severity="Info"),
    ]
    name, host = metadata["name"], f"{metadata['namespace']}.{_DOMAIN}"
    component = (present.get("components") or {}).get("predictor") or {}
    if predictor["status"] == "True":
        component = {"url": f"http://{predictor_name(name)}-{host}"}
    status = {
        "conditions": _timed(conditions, present.get("conditions") or (), now),
        "url": f"http://{name}-{host}",
        "address": {"url": f"http://{predictor_name(name)}.{metadata['namespace']}.svc.cluster.local"},
        "components": {"predictor": component},
        "deploymentMode": "Standard",
        "modelStatus": _model_status(present.get("modelStatus") or {}, pods, ready=ready["status"] == "True"),
    }
    # KServe repeats what the Deployment has seen, which says nothing about the InferenceService's own generation.
    observed = state.get("observedGeneration")
    return {**status, "observedGeneration": observed} if observed else status


def _predictor_ready(state: JsonObject) -> JsonObject:
    """The predictor's condition from the Deployment's; later rules outweigh earlier ones."""
    found = {one["type"]: one for one in state.get("conditions") or ()}
    available, progress = found.get(_AVAILABLE, {}), found.get(_PROGRESSING, {})
    if found.get(_REPLICA_FAILURE, {}).get("status") == "True":
        return _copied(found[_REPLICA_FAILURE], False)
    if available.get("status") == "False":
        return _copied(available, False)
    if progress.get("status") == "False":
        return _copied(progress, False)
    if progress.get("status") == "True" and progress["reason"] != "NewReplicaSetAvailable":
        return _copied(progress, None)
    return condition("PredictorReady", bool(available or progress))


def _copied(source: JsonObject, holds: bool | None) -> JsonObject:
    return condition("PredictorReady", holds, source.get("reason", ""), source.get("message", ""))


def _model_status(present: JsonObject, pods: Sequence[JsonObject], *, ready: bool) -> JsonObject:
    serving = sum(is_ready(pod) for pod in pods)
    failure = None if ready or not pods else _load_failure(pods[0])
    loaded = ready and bool(pods)
    states = {"activeModelState": (present.get("states") or {}).get("activeModelState", "")}
    if loaded:
        states = {"activeModelState": "Loaded", "targetModelState": "Loaded"}
        transition = "UpToDate"
    elif failure is not None:
        states["targetModelState"] = "FailedToLoad"
        transition = "BlockedByFailedLoad"
    else:
        states["targetModelState"] = "Pending"
        transition = "InProgress"
    made: JsonObject = {
        "copies": {"failedCopies": 0, **({"totalCopies": serving} if serving else {})},
        "states": states,
        "transitionStatus": transition,
    }
    last = failure or present.get("lastFailureInfo")
    return {**made, "lastFailureInfo": last} if last else made


def _load_failure(pod: JsonObject) -> JsonObject | None:
    """Why the first pod's engine does not come up, as far as its container has ended already."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    own: JsonObject = next((one for one in statuses if one["name"] == SERVING_CONTAINER), {})
    state = own.get("state") or {}
    ended = state.get("terminated")
    if (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        ended = (own.get("lastState") or {}).get("terminated")
    elif ended and ended.get("reason") != _ERROR:
        ended = None
    if not ended:
        return None
    info = {"reason": "ModelLoadFailed", "message": ended.get("message", ""), "exitCode": ended.get("exitCode", 0)}
    return {name: value for name, value in info.items() if value}


def _timed(wanted: Sequence[JsonObject], present: Sequence[JsonObject], now: str) -> list[JsonObject]:
    """Knative's conditions: any change of content is a transition."""
    before = {one["type"]: one for one in present}
    result = []
    for one in wanted:
        old = before.get(one["type"], {})
        same = {name: value for name, value in old.items() if name != "lastTransitionTime"} == one
        result.append({**one, "lastTransitionTime": old["lastTransitionTime"] if same else now})
    return result


FINALIZER: Final = "inferenceservice.finalizers"
_INVALID: Final = 422


class _Child(NamedTuple):
    kind: KindName
    key: Key
    obj: JsonObject
    digest: str


def _children_of(isvc: JsonObject, replicas: int | None) -> tuple[_Child, ...]:
    wished: list[tuple[KindName, JsonObject]] = [
        (DEPLOYMENT, deployment_for(isvc, replicas)),
        (SERVICE, service_for(isvc)),
    ]
    autoscaler = autoscaler_for(isvc)
    if autoscaler is not None:
        keda = autoscaler["kind"] == SCALED_OBJECT.kind
        wished.append((SCALED_OBJECT if keda else HORIZONTAL_POD_AUTOSCALER, autoscaler))
    collector = collector_for(isvc)
    if collector is not None:
        # Before the Deployment: the webhook looks it up when a pod is created.
        wished.insert(0, (COLLECTOR, collector))
    return tuple(_Child(kind, Key.of(obj), obj, short_hash(obj)) for kind, obj in wished)


@final
class KServe:
    """Acts on each InferenceService when it or one of its children changes."""

    def __init__(
        self,
        writer: Writer,
        settings: ActorSettings,
        *,
        inference_services: Informer,
        deployments: Informer,
        services: Informer,
        autoscalers: Informer,
        scaled_objects: Informer,
        collectors: Informer,
        pods: Informer,
    ) -> None:
        """``pods`` are grouped with `pod_groups`."""
        self._writer = writer
        self._settings = settings
        self._inference_services = inference_services
        self._held: dict[KindName, Informer] = {
            DEPLOYMENT: deployments,
            SERVICE: services,
            HORIZONTAL_POD_AUTOSCALER: autoscalers,
            SCALED_OBJECT: scaled_objects,
            COLLECTOR: collectors,
        }
        self._pods = pods
        self._applied: dict[tuple[str, Key], tuple[str, object]] = {}
        self._wishes: dict[Key, tuple[tuple[object, ...], tuple[_Child, ...]]] = {}
        self.workers = Workers("kserve", self._handle)
        inference_services.listen(lambda key, _: self.workers.add(key))
        for children in self._held.values():
            children.listen(self._on_child)
        pods.listen(self._on_pod)

    def _on_child(self, key: Key, child: JsonObject) -> None:
        name = labels_of(child).get(labels.KSERVE_INFERENCE_SERVICE) or controller_name(child, INFERENCE_SERVICE.kind)
        if name:
            self.workers.add(Key(key.namespace, name))

    def _on_pod(self, key: Key, pod: JsonObject) -> None:
        # Of pods that serve the Deployment tells in a moment, and one write does for both.
        if not is_ready(pod):
            self._on_child(key, pod)

    async def _handle(self, key: Key) -> None:
        isvc = self._inference_services.get(key)
        if isvc is None:
            self._forget(key)
            return
        if is_going(isvc):
            await self._finalize(isvc, [])
            return
        if FINALIZER not in (isvc["metadata"].get("finalizers") or ()):
            await asyncio.sleep(self._settings.delay)
            await self._finalize(isvc, [FINALIZER])
        try:
            if not await self._ensure_children(isvc):
                return
        except ApiError as error:
            if error.code != _INVALID:
                raise
            why = f"fails to reconcile predictor: {error.message}"
            await self._writer.event(INFERENCE_SERVICE, isvc, "InternalError", why, warning=True)
            return
        await self._report(self._inference_services.get(key) or isvc)

    async def _report(self, isvc: JsonObject) -> None:
        key = Key.of(isvc)
        deployment = self._held[DEPLOYMENT].get(Key(key.namespace, predictor_name(key.name)))
        pods = list(self._pods.group(predictor_group(key)).values())
        if not isvc.get("status") and not (deployment or {}).get("status"):
            # The Deployment's first word comes in a moment, and one write does for both.
            return
        status = status_for(isvc, deployment, pods, now_text())
        if status != isvc.get("status"):
            self._inference_services.put_if(await self._writer.status(INFERENCE_SERVICE, isvc, status))

    async def _ensure_children(self, isvc: JsonObject) -> bool:
        """Bring the children in order; False while one of the same name belongs to a predecessor."""
        name = Key(isvc["metadata"]["namespace"], predictor_name(isvc["metadata"]["name"]))
        deployment = self._held[DEPLOYMENT].get(name)
        wanted = self._children(isvc, deployment["spec"].get("replicas") if deployment else None)
        hpa = self._held[HORIZONTAL_POD_AUTOSCALER].get(name)
        if hpa is not None and loses_hpa(isvc) and controller_uid(hpa) == uid_of(isvc):
            await self._writer.delete(HORIZONTAL_POD_AUTOSCALER, hpa)
        return all([await self._ensure(isvc, child) for child in wanted])

    def _children(self, isvc: JsonObject, replicas: int | None) -> tuple[_Child, ...]:
        """The wished children, made again when what they are made of changes: most looks come for a status."""
        metadata, key = isvc["metadata"], Key.of(isvc)
        source = (metadata["uid"], metadata.get("generation"), labels_of(isvc), annotations_of(isvc), replicas)
        known = self._wishes.get(key)
        if known is None or known[0] != source:
            known = self._wishes[key] = (source, _children_of(isvc, replicas))
        return known[1]

    async def _ensure(self, isvc: JsonObject, child: _Child) -> bool:
        """Apply what changed: our wish since the last time, or another client's change of the object."""
        held = self._held[child.kind].get(child.key)
        if held is not None and controller_uid(held) != uid_of(isvc):
            return False
        wish = (child.digest, held["metadata"].get("generation") if held else None)
        if held is not None and self._applied.get((child.kind.kind, child.key)) == wish:
            return True
        applied = await self._writer.apply(child.kind, child.obj)
        self._held[child.kind].put(applied)
        self._applied[child.kind.kind, child.key] = (child.digest, applied["metadata"].get("generation"))
        return True

    async def _finalize(self, isvc: JsonObject, finalizers: list[str]) -> None:
        others = [one for one in isvc["metadata"].get("finalizers") or () if one != FINALIZER]
        if [*others, *finalizers] != (isvc["metadata"].get("finalizers") or []):
            change = {"metadata": {"finalizers": [*others, *finalizers]}}
            self._inference_services.put_if(await self._writer.patch(INFERENCE_SERVICE, isvc, change))

    def _forget(self, key: Key) -> None:
        self._wishes.pop(key, None)
        child = Key(key.namespace, predictor_name(key.name))
        for kind in self._held:
            self._applied.pop((kind.kind, child), None)
