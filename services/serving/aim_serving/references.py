"""References to what a service resolved to (SV-227…SV-231), and the kinds that come in two scopes."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from aim_domain import (
    AIMClusterModel,
    AIMClusterServiceTemplate,
    AIMModel,
    AIMProfileCache,
    AIMServiceTemplate,
    AIMTemplateCache,
    ResolutionScope,
    ResolvedReference,
)
from aim_domain.component_names import NO_TEMPLATES_EXPECTED, ComponentName
from aim_domain.kind_names import AIM_CLUSTER_PROFILE, AIM_PROFILE
from controller_runtime import Resource, StatusValue, find_condition

Model: TypeAlias = AIMModel | AIMClusterModel
Template: TypeAlias = AIMServiceTemplate | AIMClusterServiceTemplate
Cache: TypeAlias = AIMTemplateCache | AIMProfileCache

PROFILE_KINDS: Final = frozenset({AIM_PROFILE.kind, AIM_CLUSTER_PROFILE.kind})
MOST_NAMED: Final = 8
"""Objects that a message names one by one."""


def scope_of(obj: Resource) -> ResolutionScope:
    """Whether an object of a two-scoped kind belongs to a namespace or to the cluster."""
    return ResolutionScope.NAMESPACE if obj.namespace else ResolutionScope.CLUSTER


def reference_to(obj: Resource) -> ResolvedReference:
    """The reference as it is stored: complete, with the qualified kind (SV-231)."""
    return ResolvedReference(
        name=obj.name,
        **({"namespace": obj.namespace} if obj.namespace else {}),
        scope=scope_of(obj),
        kind=f"{obj.api_version}/{obj.kind}",
        uid=obj.uid,
    )


def name_of(obj: Resource) -> str:
    """Kind and name for messages."""
    return f"{obj.kind} {obj.key}"


def names_of(objects: Iterable[Resource]) -> str:
    """Several objects for messages, in the order of their names; of many the first ones and how many more."""
    names = sorted(name_of(obj) for obj in objects)
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def expects_no_template(model: Model) -> str:
    """Why the model has no template and makes none, in its own words; empty when it says no such thing (DI-422)."""
    types = (ComponentName.SERVICE_TEMPLATES.condition, ComponentName.CLUSTER_SERVICE_TEMPLATES.condition)
    for type_ in types:
        reported = find_condition(model.status.conditions, type_)
        if (
            reported is not None
            and reported.reason == NO_TEMPLATES_EXPECTED
            and reported.observed_generation in (None, 0, model.metadata.generation)
        ):
            return reported.message or reported.reason
    return ""


def is_profile(obj: Resource) -> bool:
    """Whether what stands for a template is a profile (PR-070)."""
    return obj.kind in PROFILE_KINDS


def is_ready(obj: Model | Template) -> bool:
    """Whether the object's own status says Ready."""
    return obj.status.status is StatusValue.READY
