"""Schemas of the kinds that make or scale pods."""

from typing import Final

from aim_local.apiserver.objects.building import (
    ANY_OBJECT,
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    LABEL_SELECTOR,
    STRING,
    TIME,
    choice,
    conditions,
    default,
    listing,
    record,
)
from aim_local.apiserver.objects.builtin_pod import POD_TEMPLATE
from aim_local.apiserver.objects.builtin_storage import CLAIM

_COUNTS: Final = dict.fromkeys(
    ("availableReplicas", "fullyLabeledReplicas", "readyReplicas", "replicas", "unavailableReplicas",
     "updatedReplicas", "currentReplicas"),
    INT32,
)  # fmt: skip
_STATUS: Final = record(conditions=conditions(), observedGeneration=INT64, **_COUNTS)
_ROLLING: Final = default(INT_OR_STRING, "25%")

DEPLOYMENT: Final = record(
    spec=record(
        "selector",
        "template",
        minReadySeconds=INT32,
        paused=BOOL,
        progressDeadlineSeconds=default(INT32, 600),
        replicas=default(INT32, 1),
        revisionHistoryLimit=default(INT32, 10),
        selector=LABEL_SELECTOR,
        strategy=default(
            record(
                rollingUpdate=record(maxSurge=_ROLLING, maxUnavailable=_ROLLING),
                type=default(choice("RollingUpdate", "Recreate"), "RollingUpdate"),
            ),
            {"type": "RollingUpdate", "rollingUpdate": {}},
        ),
        template=POD_TEMPLATE,
    ),
    status=default(_STATUS, {}),
)
REPLICA_SET: Final = record(
    spec=record(
        "selector",
        minReadySeconds=INT32,
        replicas=default(INT32, 1),
        selector=LABEL_SELECTOR,
        template=POD_TEMPLATE,
    ),
    status=default(_STATUS, {}),
)
STATEFUL_SET: Final = record(
    spec=record(
        "selector",
        "template",
        podManagementPolicy=default(choice("OrderedReady", "Parallel"), "OrderedReady"),
        replicas=default(INT32, 1),
        revisionHistoryLimit=default(INT32, 10),
        selector=LABEL_SELECTOR,
        serviceName=STRING,
        template=POD_TEMPLATE,
        updateStrategy=default(ANY_OBJECT, {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        volumeClaimTemplates=listing(CLAIM),
    ),
    status=default(_STATUS, {}),
)
JOB: Final = record(
    spec=record(
        "template",
        activeDeadlineSeconds=INT64,
        backoffLimit=default(INT32, 6),
        completionMode=default(choice("NonIndexed", "Indexed"), "NonIndexed"),
        completions=INT32,
        manualSelector=BOOL,
        parallelism=INT32,
        podFailurePolicy=ANY_OBJECT,
        podReplacementPolicy=default(choice("TerminatingOrFailed", "Failed"), "TerminatingOrFailed"),
        selector=LABEL_SELECTOR,
        suspend=default(BOOL, False),
        template=POD_TEMPLATE,
        ttlSecondsAfterFinished=INT32,
    ),
    status=default(
        record(
            active=INT32,
            # Unlike other kinds, a Job's conditions have a single owner.
            conditions={**listing(ANY_OBJECT), "x-kubernetes-patch-merge-key": "type",
                        "x-kubernetes-patch-strategy": "merge"},
            completionTime=TIME,
            failed=INT32,
            ready=INT32,
            startTime=TIME,
            succeeded=INT32,
            terminating=INT32,
            uncountedTerminatedPods=ANY_OBJECT,
        ),
        {},
    ),
)  # fmt: skip
"""`completions` and `parallelism` have conditional defaults: see `builtin.py`."""

AUTOSCALER: Final = record(
    spec=record(
        "scaleTargetRef",
        "maxReplicas",
        behavior=ANY_OBJECT,
        maxReplicas=INT32,
        metrics=listing(ANY_OBJECT),
        minReplicas=default(INT32, 1),
        scaleTargetRef=record("kind", "name", apiVersion=STRING, kind=STRING, name=STRING),
    ),
    status=record(
        conditions=conditions(),
        currentMetrics=listing(ANY_OBJECT),
        currentReplicas=INT32,
        desiredReplicas=INT32,
        lastScaleTime=TIME,
        observedGeneration=INT64,
    ),
)
DISRUPTION_BUDGET: Final = record(
    spec=record(
        maxUnavailable=INT_OR_STRING,
        minAvailable=INT_OR_STRING,
        selector={**LABEL_SELECTOR, "x-kubernetes-patch-strategy": "replace"},
        unhealthyPodEvictionPolicy=STRING,
    ),
    status=record(conditions=conditions(), observedGeneration=INT64),
)
SCALE: Final = record(
    spec=default(record(replicas=default(INT32, 0)), {}), status=record(replicas=INT32, selector=STRING)
)
PRIORITY_CLASS: Final = record(
    "value",
    description=STRING,
    globalDefault=BOOL,
    preemptionPolicy=default(choice("PreemptLowerPriority", "Never"), "PreemptLowerPriority"),
    value=INT32,
)
