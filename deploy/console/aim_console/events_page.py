"""Events and the last lines of logs of an object and its pods, asked for as its viewer (FW-872)."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_cli.cluster.refs import Cluster, JsonObject, Ref
from aim_cli.errors import UnreachableError
from aim_cli.objects.tree import Node
from aim_cli.objects.tree import tree as grown
from aim_cli.units import age
from aim_cli.why.blockers import last_seen
from aim_console.pages import RANGES, href, since
from aim_domain.kind_names import (
    EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    HTTP_ROUTE,
    INFERENCE_SERVICE,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
)
from controller_runtime import ApiError, KubeClient, KubeError

OBJECTS: Final = 12
"""Objects whose Events are asked for, in a request each."""
_EVENTS: Final = 50
"""Events of one object."""
LOGS: Final = 6
"""Containers whose logs are asked for."""
LINES: Final = 40
_BYTES: Final = 64 * 1024
_SECONDS: Final = 15.0
"""For all of it: the page holds one of the few places of FW-682."""
_TELLING: Final = (JOB, POD, PERSISTENT_VOLUME_CLAIM, INFERENCE_SERVICE, HORIZONTAL_POD_AUTOSCALER, HTTP_ROUTE)
"""Kinds of which others than the platform's services write Events."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container whose last lines are shown.

    Attributes:
        previous: it waits for its next start, so its last lines are those of the start before.
    """

    pod: Ref
    name: str
    previous: bool


def subjects_of(node: Node) -> list[Ref]:
    """The object, then what was made for it that tells most: pods first."""
    below = dict.fromkeys(one.ref for one in _all(node) if one.ref.kind in _TELLING and one.state != "missing")
    pods = sorted(below, key=lambda ref: ref.kind != POD)
    return list(dict.fromkeys((node.ref, *pods)))[:OBJECTS]


def _all(node: Node) -> Iterator[Node]:
    yield node
    for below in node.below:
        yield from _all(below)


def containers_of(pod: Ref, obj: JsonObject) -> Iterator[Container]:
    """The containers of a pod that matter now: its own once one of them has begun, before that its init containers."""
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    own = list(status.get("containerStatuses") or ())
    # Sidecars are init containers that go on running beside the others.
    init = [one for one in status.get("initContainerStatuses") or () if _has_begun(one) and not _has_completed(one)]
    chosen = own if any(map(_has_begun, own)) else init or own
    for one in chosen or [{"name": one["name"]} for one in spec.get("containers") or ()]:
        state, before = one.get("state") or {}, one.get("lastState") or {}
        yield Container(pod, str(one.get("name") or ""), "waiting" in state and "terminated" in before)


def _has_begun(status: JsonObject) -> bool:
    return bool(status.get("lastState")) or any(one in (status.get("state") or {}) for one in ("running", "terminated"))


def _has_completed(status: JsonObject) -> bool:
    ended = (status.get("state") or {}).get("terminated")
    return ended is not None and ended.get("exitCode") == 0


async def events_page(
    client: AbstractAsyncContextManager[KubeClient],
    cluster: Cluster,
    ref: Ref,
    now: datetime,
    last: str = "",
) -> JsonObject | None:
    """The content; ``None`` if there is no such object. What the API server refuses is reported in its place.

    Args:
        last: the range of time, one of `RANGES`, in which an Event was last seen; empty for all.

    Raises:
        KubeError: there is no way to the API server as this viewer.
        UnreachableError: it does not answer in time.
    """
    node = grown(cluster, ref)
    if node is None:
        return None
    subjects = subjects_of(node)
    pods = [(one, cluster.find(one)) for one in subjects if one.kind == POD]
    speakers = [one for pod, obj in pods if obj is not None for one in containers_of(pod, obj)]
    try:
        async with client as kube, asyncio.timeout(_SECONDS):
            events, logs = await asyncio.gather(_events(kube, subjects), _logs(kube, speakers[:LOGS]))
    except TimeoutError:
        raise UnreachableError(f"the API server does not answer within {_SECONDS:g} s; try again") from None
    found, refused = events
    begun = since(last, now)
    shown = [one for one in found if begun is None or _seen_since(one, begun)]
    return {
        "ref": ref,
        "events": [_event_data(one, now) for one in sorted(shown, key=last_seen, reverse=True)],
        "earlier": len(found) - len(shown),
        "last": last,
        "ranges_of": RANGES,
        "refused": refused,
        "logs": logs,
        "silent": len(speakers) - len(logs),
    }


async def _events(kube: KubeClient, subjects: Iterable[Ref]) -> tuple[list[JsonObject], list[str]]:
    async def about(ref: Ref) -> list[JsonObject] | str:
        selector = f"involvedObject.kind={ref.kind.kind},involvedObject.name={ref.name}"
        # Events of what is in no namespace are in that of the one who writes them.
        where = ref.namespace or None
        try:
            page = await kube.list(EVENT, where, field_selector=selector, limit=_EVENTS)
        except (KubeError, ValueError) as error:
            return f"Events of {ref} cannot be read: {_message(error)}"
        return list(page.items)

    answers = await asyncio.gather(*(about(ref) for ref in subjects))
    found = [event for one in answers if not isinstance(one, str) for event in one]
    return found, list(dict.fromkeys(one for one in answers if isinstance(one, str)))


async def _logs(kube: KubeClient, speakers: Iterable[Container]) -> list[JsonObject]:
    async def log_of(one: Container) -> JsonObject:
        known = {"pod": one.pod, "href": href(one.pod), "container": one.name, "previous": one.previous, "error": ""}
        try:
            text = await kube.pod_log(
                one.pod.namespace,
                one.pod.name,
                one.name,
                tail_lines=LINES,
                previous=one.previous,
                limit_bytes=_BYTES,
            )
        except KubeError as error:
            return {**known, "lines": [], "error": f"cannot be read: {_message(error)}"}
        return {**known, "lines": text.splitlines()}

    return list(await asyncio.gather(*(log_of(one) for one in speakers)))


def _seen_since(event: JsonObject, begun: datetime) -> bool:
    """Whether it was last seen later; one that says no time may have been."""
    try:
        return datetime.fromisoformat(last_seen(event)) >= begun
    except (TypeError, ValueError):
        return True


def _message(error: Exception) -> str:
    return error.message if isinstance(error, ApiError) else str(error)


def _event_data(event: JsonObject, now: datetime) -> JsonObject:
    about = event.get("involvedObject") or {}
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    return {
        "warns": event.get("type") == "Warning",
        "reason": event.get("reason") or "",
        "about": f"{about.get('kind', '')} {about.get('name', '')}",
        "message": event.get("message") or "",
        "at": last_seen(event),
        "age": age(last_seen(event), now),
        "count": count,
        "source": event.get("reportingComponent") or (event.get("source") or {}).get("component") or "",
    }
