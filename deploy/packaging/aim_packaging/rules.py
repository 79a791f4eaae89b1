"""Rules of Kubernetes roles from what services declare (FW-301, FW-404). Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from controller_runtime import (
    Access,
    ApiVerb,
    JsonObject,
    ServiceDefinition,
    Where,
    direct_permissions,
    permissions,
)

_ORDER: Final = tuple(ApiVerb)


def rules_of(definition: ServiceDefinition) -> JsonObject:
    """The rules of one service: its ClusterRole, its Role in the operator namespace, and what direct watch adds."""
    needed = permissions(definition)
    return {
        "cluster": rules(one for one in needed if one.where is Where.CLUSTER),
        "system": rules(one for one in needed if one.where is Where.SYSTEM_NAMESPACE),
        "direct": rules(_beyond(direct_permissions(definition), needed)),
    }


def rules(needs: Iterable[Access]) -> list[JsonObject]:
    """One rule for the resources of a group on which the same is allowed."""
    resources: dict[tuple[str, tuple[ApiVerb, ...], tuple[str, ...]], list[str]] = {}
    for one in needs:
        verbs = tuple(verb for verb in _ORDER if verb in one.verbs)
        resources.setdefault((one.group, verbs, tuple(sorted(one.names))), []).append(one.resource)
    return [
        {
            "apiGroups": [group],
            "resources": sorted(some),
            **({"resourceNames": list(names)} if names else {}),
            "verbs": [verb.value for verb in verbs],
        }
        for (group, verbs, names), some in sorted(resources.items(), key=lambda item: (item[0][0], sorted(item[1])))
    ]


def _beyond(more: Iterable[Access], granted: Iterable[Access]) -> Iterable[Access]:
    known: Mapping[tuple[str, str], frozenset[ApiVerb]] = {
        (one.group, one.resource): one.verbs for one in granted if not one.names and one.where is Where.CLUSTER
    }
    for one in more:
        verbs = one.verbs - known.get((one.group, one.resource), frozenset())
        if verbs:
            yield Access(one.group, one.resource, verbs, one.names, one.where)
