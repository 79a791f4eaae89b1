"""Schemas of namespaces, nodes, configuration, services, events, leases, roles and CRDs."""

from typing import Final

from aim_local.apiserver.objects.building import (
    ANY_OBJECT,
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    LABEL_SELECTOR,
    LOCAL_REFERENCE,
    OBJECT_REFERENCE,
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
    set_of,
)

NAMESPACE: Final = record(
    spec=record(finalizers=STRINGS),
    status=default(record(conditions=conditions(), phase=default(STRING, "Active")), {}),
)
_ADDRESS: Final = record("type", "address", type=STRING, address=STRING)
NODE: Final = record(
    spec=record(
        podCIDR=STRING,
        podCIDRs=set_of(STRING),
        providerID=STRING,
        taints=listing(record("key", "effect", key=STRING, effect=STRING, value=STRING, timeAdded=TIME)),
        unschedulable=BOOL,
    ),
    status=record(
        addresses=keyed(_ADDRESS, "type"),
        allocatable=QUANTITIES,
        capacity=QUANTITIES,
        conditions=conditions(),
        images=listing(ANY_OBJECT),
        nodeInfo=ANY_OBJECT,
    ),
)
CONFIG_MAP: Final = record(binaryData=STRING_MAP, data=STRING_MAP, immutable=BOOL)
SECRET: Final = record(data=STRING_MAP, immutable=BOOL, stringData=STRING_MAP, type=default(STRING, "Opaque"))
SERVICE_ACCOUNT: Final = record(
    automountServiceAccountToken=BOOL,
    imagePullSecrets=listing(LOCAL_REFERENCE),
    secrets=keyed(OBJECT_REFERENCE, "name"),
)

_SERVICE_PORT: Final = record(
    "port",
    appProtocol=STRING,
    name=STRING,
    nodePort=INT32,
    port=INT32,
    protocol=default(STRING, "TCP"),
    targetPort=INT_OR_STRING,
)
SERVICE: Final = record(
    spec=record(
        clusterIP=STRING,
        clusterIPs=STRINGS,
        externalIPs=STRINGS,
        externalName=STRING,
        internalTrafficPolicy=default(STRING, "Cluster"),
        ipFamilies=STRINGS,
        ipFamilyPolicy=STRING,
        ports=keyed(_SERVICE_PORT, "port", "protocol"),
        selector=atomic(STRING_MAP),
        sessionAffinity=default(choice("None", "ClientIP"), "None"),
        type=default(choice("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"), "ClusterIP"),
    ),
    status=default(record(conditions=conditions(), loadBalancer=default(ANY_OBJECT, {})), {}),
)
ENDPOINTS: Final = record(subsets=listing(ANY_OBJECT))
ENDPOINT_SLICE: Final = record(
    "addressType", "endpoints", addressType=STRING, endpoints=listing(ANY_OBJECT), ports=listing(ANY_OBJECT)
)
EVENT: Final = record(
    "involvedObject",
    action=STRING,
    count=INT32,
    eventTime=TIME,
    firstTimestamp=TIME,
    involvedObject=OBJECT_REFERENCE,
    lastTimestamp=TIME,
    message=STRING,
    reason=STRING,
    related=OBJECT_REFERENCE,
    reportingComponent=default(STRING, ""),
    reportingInstance=default(STRING, ""),
    series=ANY_OBJECT,
    source=default(record(component=STRING, host=STRING), {}),
    type=STRING,
)
EVENTS_V1: Final = record(
    action=STRING,
    deprecatedCount=INT32,
    deprecatedFirstTimestamp=TIME,
    deprecatedLastTimestamp=TIME,
    deprecatedSource=default(ANY_OBJECT, {}),
    eventTime=TIME,
    note=STRING,
    reason=STRING,
    regarding=OBJECT_REFERENCE,
    related=OBJECT_REFERENCE,
    reportingController=STRING,
    reportingInstance=STRING,
    series=ANY_OBJECT,
    type=STRING,
)
LEASE: Final = record(
    spec=record(
        acquireTime=TIME,
        holderIdentity=STRING,
        leaseDurationSeconds=INT32,
        leaseTransitions=INT32,
        preferredHolder=STRING,
        renewTime=TIME,
        strategy=STRING,
    )
)
NETWORK_POLICY: Final = record(
    spec=record(
        egress=listing(ANY_OBJECT), ingress=listing(ANY_OBJECT), podSelector=LABEL_SELECTOR, policyTypes=STRINGS
    )
)
RESOURCE_QUOTA: Final = record(
    spec=record(hard=QUANTITIES, scopeSelector=atomic(ANY_OBJECT), scopes=STRINGS),
    status=record(hard=QUANTITIES, used=QUANTITIES),
)

_RULE: Final = record(
    "verbs",
    apiGroups=STRINGS,
    nonResourceURLs=STRINGS,
    resourceNames=STRINGS,
    resources=STRINGS,
    verbs=STRINGS,
)
_ROLE_REFERENCE: Final = atomic(record("apiGroup", "kind", "name", apiGroup=STRING, kind=STRING, name=STRING))
_SUBJECT: Final = atomic(record("kind", "name", apiGroup=STRING, kind=STRING, name=STRING, namespace=STRING))
ROLE: Final = record(rules=listing(_RULE))
CLUSTER_ROLE: Final = record(aggregationRule=ANY_OBJECT, rules=listing(_RULE))
ROLE_BINDING: Final = record("roleRef", roleRef=_ROLE_REFERENCE, subjects=listing(_SUBJECT))

_NAMES: Final = record(
    "plural", "kind", categories=STRINGS, kind=STRING, listKind=STRING, plural=STRING, shortNames=STRINGS,
    singular=STRING,
)  # fmt: skip
_COLUMN: Final = record(
    "name", "type", "jsonPath", description=STRING, format=STRING, jsonPath=STRING, name=STRING, priority=INT32,
    type=STRING,
)  # fmt: skip
_VERSION: Final = record(
    "name",
    "served",
    "storage",
    additionalPrinterColumns=listing(_COLUMN),
    deprecated=BOOL,
    name=STRING,
    schema=record(openAPIV3Schema=ANY_OBJECT),
    selectableFields=listing(record("jsonPath", jsonPath=STRING)),
    served=BOOL,
    storage=BOOL,
    subresources=record(
        scale=record(
            "specReplicasPath",
            "statusReplicasPath",
            labelSelectorPath=STRING,
            specReplicasPath=STRING,
            statusReplicasPath=STRING,
        ),
        status=ANY_OBJECT,
    ),
)
CUSTOM_RESOURCE_DEFINITION: Final = record(
    "spec",
    spec=record(
        "group",
        "names",
        "scope",
        "versions",
        conversion=default(ANY_OBJECT, {"strategy": "None"}),
        group=STRING,
        names=_NAMES,
        preserveUnknownFields=BOOL,
        scope=choice("Cluster", "Namespaced"),
        versions=listing(_VERSION),
    ),
    status=record(acceptedNames=_NAMES, conditions=conditions(), observedGeneration=INT64, storedVersions=STRINGS),
)
