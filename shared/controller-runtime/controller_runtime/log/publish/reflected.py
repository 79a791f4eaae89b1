"""A part as the API server tells of it: listed, and watched from there."""

from collections.abc import Callable
from typing import Any

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.reflector import Reflector
from controller_runtime.log.publish.source import SourceVersion, nothing_known, published
from controller_runtime.log.wire.part import Key, Part


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
