"""Schemas of pods and pod templates."""

from typing import Final

from aim_local.apiserver.objects.building import (
    ANY_OBJECT,
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    LABEL_SELECTOR,
    LOCAL_REFERENCE,
    QUANTITIES,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    atomic,
    choice,
    conditions,
    default,
    keyed,
    listing,
    record,
)
from aim_local.apiserver.objects.objectmeta import OBJECT_META
from aim_shared.json import JsonObject

_KEY_REFERENCE: Final = atomic(record("key", key=STRING, name=default(STRING, ""), optional=BOOL))
_FIELD_REFERENCE: Final = atomic(record("fieldPath", apiVersion=default(STRING, "v1"), fieldPath=STRING))
_RESOURCE_FIELD: Final = atomic(record("resource", containerName=STRING, divisor=INT_OR_STRING, resource=STRING))

_ENV: Final = record(
    "name",
    name=STRING,
    value=STRING,
    valueFrom=record(
        configMapKeyRef=_KEY_REFERENCE,
        secretKeyRef=_KEY_REFERENCE,
        fieldRef=_FIELD_REFERENCE,
        resourceFieldRef=_RESOURCE_FIELD,
    ),
)
_PORT: Final = record(
    "containerPort",
    containerPort=INT32,
    hostIP=STRING,
    hostPort=INT32,
    name=STRING,
    protocol=default(choice("TCP", "UDP", "SCTP"), "TCP"),
)
_PROBE: Final = record(
    exec=record(command=STRINGS),
    failureThreshold=default(INT32, 3),
    grpc=record("port", port=INT32, service=default(STRING, "")),
    httpGet=record(
        "port",
        path=default(STRING, "/"),
        port=INT_OR_STRING,
        host=STRING,
        scheme=default(STRING, "HTTP"),
        httpHeaders=listing(record("name", "value", name=STRING, value=STRING)),
    ),
    initialDelaySeconds=INT32,
    periodSeconds=default(INT32, 10),
    successThreshold=default(INT32, 1),
    tcpSocket=record("port", host=STRING, port=INT_OR_STRING),
    timeoutSeconds=default(INT32, 1),
)
RESOURCES: Final = record(limits=QUANTITIES, requests=QUANTITIES, claims=keyed(record(name=STRING), "name"))

_CONTAINER: Final = record(
    "name",
    args=STRINGS,
    command=STRINGS,
    env=keyed(_ENV, "name"),
    envFrom=listing(
        record(
            prefix=STRING,
            configMapRef=record(name=STRING, optional=BOOL),
            secretRef=record(name=STRING, optional=BOOL),
        )
    ),
    image=STRING,
    imagePullPolicy=choice("Always", "IfNotPresent", "Never"),
    lifecycle=ANY_OBJECT,
    livenessProbe=_PROBE,
    name=STRING,
    ports=keyed(_PORT, "containerPort", "protocol"),
    readinessProbe=_PROBE,
    resources=default(RESOURCES, {}),
    restartPolicy=STRING,
    securityContext=ANY_OBJECT,
    startupProbe=_PROBE,
    terminationMessagePath=default(STRING, "/dev/termination-log"),
    terminationMessagePolicy=default(choice("File", "FallbackToLogsOnError"), "File"),
    volumeDevices=keyed(record("name", "devicePath", name=STRING, devicePath=STRING), "devicePath"),
    volumeMounts=keyed(
        record("name", "mountPath", mountPath=STRING, name=STRING, readOnly=BOOL, subPath=STRING), "mountPath"
    ),
    workingDir=STRING,
)

_ITEMS: Final = listing(record("key", "path", key=STRING, path=STRING, mode=INT32))
_VOLUME: Final = record(
    "name",
    name=STRING,
    configMap=record(name=STRING, defaultMode=default(INT32, 420), items=_ITEMS, optional=BOOL),
    emptyDir=record(medium=STRING, sizeLimit=INT_OR_STRING),
    hostPath=record("path", path=STRING, type=default(STRING, "")),
    persistentVolumeClaim=record("claimName", claimName=STRING, readOnly=BOOL),
    projected=record(defaultMode=default(INT32, 420), sources=listing(ANY_OBJECT)),
    secret=record(secretName=STRING, defaultMode=default(INT32, 420), items=_ITEMS, optional=BOOL),
)
_TOLERATION: Final = record(effect=STRING, key=STRING, operator=STRING, tolerationSeconds=INT64, value=STRING)
_SPREAD: Final = record(
    "maxSkew",
    "topologyKey",
    "whenUnsatisfiable",
    labelSelector=LABEL_SELECTOR,
    maxSkew=INT32,
    topologyKey=STRING,
    whenUnsatisfiable=STRING,
)

POD_SPEC: Final = record(
    "containers",
    activeDeadlineSeconds=INT64,
    affinity=ANY_OBJECT,
    automountServiceAccountToken=BOOL,
    containers=keyed(_CONTAINER, "name"),
    dnsPolicy=default(STRING, "ClusterFirst"),
    enableServiceLinks=BOOL,
    hostAliases=keyed(record("ip", ip=STRING, hostnames=STRINGS), "ip"),
    hostNetwork=BOOL,
    imagePullSecrets=keyed(LOCAL_REFERENCE, "name"),
    initContainers=keyed(_CONTAINER, "name"),
    nodeName=STRING,
    nodeSelector=atomic(STRING_MAP),
    overhead=QUANTITIES,
    preemptionPolicy=STRING,
    priority=INT32,
    priorityClassName=STRING,
    restartPolicy=default(choice("Always", "OnFailure", "Never"), "Always"),
    runtimeClassName=STRING,
    schedulerName=default(STRING, "default-scheduler"),
    schedulingGates=keyed(record("name", name=STRING), "name"),
    securityContext=default(ANY_OBJECT, {}),
    serviceAccount=STRING,
    serviceAccountName=STRING,
    terminationGracePeriodSeconds=default(INT64, 30),
    tolerations=listing(_TOLERATION),
    topologySpreadConstraints=keyed(_SPREAD, "topologyKey", "whenUnsatisfiable"),
    volumes=keyed(_VOLUME, "name"),
)
"""Defaults are those of a pod; `builtin.py` adds those that depend on other fields."""

_CONTAINER_STATUSES: Final = listing(ANY_OBJECT)
POD_STATUS: Final = record(
    conditions=conditions(),
    containerStatuses=_CONTAINER_STATUSES,
    ephemeralContainerStatuses=_CONTAINER_STATUSES,
    hostIP=STRING,
    initContainerStatuses=_CONTAINER_STATUSES,
    message=STRING,
    phase=default(STRING, "Pending"),
    podIP=STRING,
    podIPs=keyed(record("ip", ip=STRING), "ip"),
    qosClass=STRING,
    reason=STRING,
    startTime=TIME,
)
POD: Final = record("spec", spec=POD_SPEC, status=default(POD_STATUS, {}))

POD_TEMPLATE: Final[JsonObject] = record(metadata=OBJECT_META, spec=POD_SPEC)
