"""Schemas of volumes, claims and storage classes."""

from typing import Final

from aim_local.apiserver.objects.building import (
    ANY_OBJECT,
    BOOL,
    LABEL_SELECTOR,
    OBJECT_REFERENCE,
    QUANTITIES,
    STRING,
    STRING_MAP,
    STRINGS,
    atomic,
    choice,
    conditions,
    default,
    listing,
    record,
)

_MODE: Final = default(choice("Filesystem", "Block"), "Filesystem")
_TYPED_REFERENCE: Final = atomic(record("kind", "name", apiGroup=STRING, kind=STRING, name=STRING))

CLAIM: Final = record(
    spec=record(
        accessModes=STRINGS,
        dataSource=_TYPED_REFERENCE,
        dataSourceRef=record(apiGroup=STRING, kind=STRING, name=STRING, namespace=STRING),
        resources=record(limits=QUANTITIES, requests=QUANTITIES),
        selector=LABEL_SELECTOR,
        storageClassName=STRING,
        volumeAttributesClassName=STRING,
        volumeMode=_MODE,
        volumeName=STRING,
    ),
    status=default(
        record(
            accessModes=STRINGS,
            capacity=QUANTITIES,
            conditions=conditions(),
            phase=default(choice("Pending", "Bound", "Lost"), "Pending"),
        ),
        {},
    ),
)
VOLUME: Final = record(
    spec=record(
        accessModes=STRINGS,
        capacity=QUANTITIES,
        claimRef=OBJECT_REFERENCE,
        csi=ANY_OBJECT,
        hostPath=record("path", path=STRING, type=default(STRING, "")),
        nodeAffinity=ANY_OBJECT,
        persistentVolumeReclaimPolicy=default(choice("Retain", "Delete", "Recycle"), "Retain"),
        storageClassName=STRING,
        volumeMode=_MODE,
    ),
    status=default(record(message=STRING, phase=default(STRING, "Pending"), reason=STRING), {}),
)
STORAGE_CLASS: Final = record(
    "provisioner",
    allowVolumeExpansion=BOOL,
    allowedTopologies=listing(ANY_OBJECT),
    mountOptions=STRINGS,
    parameters=STRING_MAP,
    provisioner=STRING,
    reclaimPolicy=default(choice("Retain", "Delete", "Recycle"), "Delete"),
    volumeBindingMode=default(choice("Immediate", "WaitForFirstConsumer"), "Immediate"),
)
