"""A part as the API server tells of it: listed, and watched from there."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from controller_runtime.kube.client import KubeClient, WatchEventType
from controller_runtime.kube.reflector import Reflector
from controller_runtime.log.publish.missed import CATCH_UP_SECONDS
from controller_runtime.log.publish.source import SourceVersion, nothing_known, published
from controller_runtime.log.wire.part import Key, Part


async def changes_since(kube: KubeClient, part: Part[Any], version: str) -> AsyncGenerator[SourceVersion, None]:
    """The versions of a part after one, as long as the API server has them (FW-896).

    Raises:
        KubeError: it has them no longer, or does not answer.
        ValueError: an event names no version or no object.
    """
    last: dict[Key, SourceVersion] = {}
    form = published(part, last.get)
    watch = kube.watch(
        part.kind,
        resource_version=version,
        label_selector=part.label_selector,
        field_selector=part.field_selector,
        timeout_seconds=CATCH_UP_SECONDS,
    )
    async with watch as events:
        async for event in events:
            if event.type is WatchEventType.BOOKMARK:
                continue
            found = form(event.object)
            if event.type is WatchEventType.DELETED:
                found = SourceVersion.deletion(found.key, found.uid, found.resource_version, found.traceparent)
            last[found.key] = found
            yield found


def reflect(
    kube: KubeClient, part: Part[Any], known: Callable[[Key], SourceVersion | None] = nothing_known
) -> Reflector[SourceVersion]:
    """List and watch a part's selection; what is kept of an object is what is published of it.

    Args:
        known: as for `published`.
    """
    return Reflector(
        kube,
        part.kind,
        published(part, known),
        label_selector=part.label_selector,
        field_selector=part.field_selector,
        optional=part.optional,
    )
