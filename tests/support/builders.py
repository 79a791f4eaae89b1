"""Objects and caches for unit tests of reconcilers: plain data in, a fresh and synced view out.

cache = world_of([parts.SERVICES, parts.MODELS], aim_service("chat"), aim_model("qwen"))
plan = decide(RECONCILER, cache.object(parts.SERVICES, "ml", "chat"), cache.view(), NOW)
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, TypeVar

from aim_domain import NAMESPACE_CONFIGS_BY_NAMESPACE
from aim_domain import kind_names as resources
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, KAIWO_CONFIGS, NAMESPACE_CONFIGS, RUNTIME_CONFIGS
from controller_runtime import FACT, ClassifiedError, JsonObject, Kind, Part, Resource, timestamp
from controller_runtime.core import Pod
from controller_runtime.kinds import POD
from controller_runtime.log.history.facts import fact_key
from controller_runtime.testing import NOW, BuiltCache, cache_of

T = TypeVar("T", bound=Resource)

NAMESPACE = "ml"
"""The usual namespace."""

_versions = count(1000)

RUNNING_REQUESTS: Final[JsonObject] = {
    "type": "PodMetric",
    "podmetric": {
        "metric": {
            "backend": "opentelemetry",
            "metricNames": ["vllm:num_requests_running"],
            "query": "vllm:num_requests_running",
        },
        "target": {"type": "Value", "value": "1"},
    },
}
"""A metric for the autoscaler of an AIMService: one running request per pod."""


def next_version() -> str:
    """A resourceVersion that is newer than all before it, of whatever kind: caches leave older ones aside."""
    return str(next(_versions))


EARLIER = NOW - timedelta(hours=1)
"""When objects came, unless a test says otherwise: long enough ago for all that is told only after a while."""


def make(
    kind: Kind[Any] | resources.KindName,
    name: str,
    *,
    namespace: str | None = None,
    uid: str | None = None,
    generation: int = 1,
    created: datetime = EARLIER,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owners: Iterable[JsonObject] = (),
    finalizers: Iterable[str] = (),
    deleting: datetime | None = None,
    **body: Any,
) -> JsonObject:
    """Stored JSON of an object of any kind; ``body`` are its other members, usually spec and status."""
    scope = {"namespace": namespace or NAMESPACE} if kind.namespaced else {}
    optional = {
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "ownerReferences": list(owners),
        "finalizers": list(finalizers),
        "deletionTimestamp": None if deleting is None else timestamp(deleting),
    }
    metadata = {
        "name": name,
        **scope,
        "uid": uid or f"{kind.singular}-{name}-uid",
        "resourceVersion": next_version(),
        "generation": generation,
        "creationTimestamp": timestamp(created),
        **{key: value for key, value in optional.items() if value},
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}


def owner(obj: JsonObject, *, controller: bool = True) -> JsonObject:
    """An owner reference to an object."""
    metadata = obj["metadata"]
    reference = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**reference, "controller": True} if controller else reference


def condition(
    type_: str, status: bool | str, reason: str = "Because", message: str = "", since: datetime = NOW
) -> JsonObject:
    """A stored condition."""
    text = status if isinstance(status, str) else str(status)
    return {
        "type": type_,
        "status": text,
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(since),
    }


def ready_status(**fields: Any) -> JsonObject:
    """A status with value Ready and the condition of it."""
    return {"status": "Ready", "conditions": [condition("Ready", True, "AllComponentsReady")], **fields}


def waiting(
    container: str, reason: str, message: str = "", *, restarts: int = 0, last_exit: int | None = None
) -> JsonObject:
    """Status of a container that waits."""
    last = {} if last_exit is None else {"terminated": {"exitCode": last_exit}}
    return {
        "name": container,
        "restartCount": restarts,
        "state": {"waiting": {"reason": reason, "message": message}},
        "lastState": last,
    }


def terminated(container: str, exit_code: int, reason: str = "Error", message: str = "") -> JsonObject:
    """Status of a container that has ended."""
    return {"name": container, "state": {"terminated": {"exitCode": exit_code, "reason": reason, "message": message}}}


def pod(
    name: str = "p",
    phase: str = "Running",
    *containers: JsonObject,
    init: Iterable[JsonObject] = (),
    ready: bool | None = None,
    conditions: Iterable[JsonObject] = (),
    reason: str = "",
    **metadata: Any,
) -> Pod:
    """A typed pod; further arguments go to `make`."""
    status = {
        "phase": phase,
        "reason": reason,
        "containerStatuses": list(containers),
        "initContainerStatuses": list(init),
        "conditions": [*conditions, *([] if ready is None else [condition("Ready", ready)])],
    }
    return Pod.model_validate(make(POD, name, status=status, **metadata))


def fact(
    service: str,
    effect: str,
    key: str,
    about: JsonObject,
    part: Part[Any],
    *,
    outcome: JsonObject | None = None,
    failure: ClassifiedError | None = None,
    attempts: int = 0,
    observed: datetime = NOW,
) -> JsonObject:
    """The fact that an effect left behind; put it into a cache that has the part of facts."""
    where = fact_key(service, effect, key)
    metadata = about["metadata"]
    problem = (
        None
        if failure is None
        else {"category": failure.category.value, "reason": failure.reason, "message": failure.message}
    )
    return {
        "apiVersion": FACT.api_version,
        "kind": FACT.kind,
        "metadata": {"namespace": where.namespace, "name": where.name, "uid": where.name},
        "effect": effect,
        "about": key,
        "owner": {
            "part": part.name,
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "observedAt": observed.isoformat(),
        "attempts": attempts,
        "outcome": outcome,
        "failure": problem,
    }


def config_cache(*configs: JsonObject) -> BuiltCache:
    """A cache with every level of the runtime configuration."""
    parts = (RUNTIME_CONFIGS, CLUSTER_RUNTIME_CONFIGS, NAMESPACE_CONFIGS, KAIWO_CONFIGS)
    return cache_of(parts, *configs, indexes=[NAMESPACE_CONFIGS_BY_NAMESPACE])
