"""Reads what pods say about themselves: log tails and Kubernetes Events (AR-352, FW-146, FW-155)."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from aim_domain import trim
from aim_domain.masking import masked
from aim_domain.pods.facts import POD_EVENTS, POD_LOG
from aim_domain.pods.log_patterns import LOG_TAIL_LINES
from controller_runtime import (
    Access,
    ApiVerb,
    ClassifiedError,
    Effect,
    EffectError,
    EffectRunner,
    JsonObject,
    KubeClient,
    KubeError,
    Verb,
    access,
    classify,
)
from controller_runtime.kinds import EVENT, POD

_LARGEST_TAIL: Final = 64 << 10
_MOST_EVENTS: Final = 100

POD_ACCESS: Final[Mapping[str, tuple[Access, ...]]] = MappingProxyType(
    {POD_LOG: (access(POD, ApiVerb.GET, subresource="log"),), POD_EVENTS: (access(EVENT, ApiVerb.LIST),)}
)
"""What both do at the Kubernetes API."""


def pod_readers(kube: KubeClient) -> Mapping[str, EffectRunner]:
    """The runners of both effects."""
    return {POD_LOG: partial(read_pod_log, kube), POD_EVENTS: partial(read_pod_events, kube)}


async def read_pod_log(kube: KubeClient, effect: Effect) -> JsonObject:
    """``{"tail": the end of a container's log}``, credentials masked.

    Raises:
        EffectError: the API server does not give it, for example because the pod is gone.
    """
    namespace, pod, container = (str(effect.params[name]) for name in ("namespace", "pod", "container"))
    previous = bool(effect.params["previous"])
    try:
        text = await kube.pod_log(
            namespace, pod, container, tail_lines=LOG_TAIL_LINES, previous=previous, limit_bytes=_LARGEST_TAIL
        )
    except KubeError as error:
        raise _unreadable(f"log of container {container} of pod {namespace}/{pod}", error) from error
    return {"tail": masked(text)}


async def read_pod_events(kube: KubeClient, effect: Effect) -> JsonObject:
    """``{"events": [trimmed Event, …]}`` of one pod, or of what the parameters select instead, credentials masked.

    Raises:
        EffectError: the API server does not list them.
    """
    namespace, pod, uid = (str(effect.params[name]) for name in ("namespace", "pod", "uid"))
    kind = str(effect.params.get("kind") or "pod")
    selector = str(effect.params.get("selector") or f"involvedObject.uid={uid}")
    try:
        page = await kube.list(EVENT, namespace, field_selector=selector, limit=_MOST_EVENTS)
    except KubeError as error:
        raise _unreadable(f"Events of {kind} {namespace}/{pod}", error) from error
    return {"events": [_masked(trim.event(event)) for event in page.items]}


def _masked(event: JsonObject) -> JsonObject:
    return {**event, "message": masked(str(event.get("message") or ""))}


def _unreadable(what: str, error: KubeError) -> EffectError:
    cause = classify(error, verb=Verb.GET)
    return EffectError(ClassifiedError(cause.category, cause.reason, f"{what}: {cause.message}"))
