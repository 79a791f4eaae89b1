"""The attributes of a template that selection looks at, and where each comes from (SV-094)."""

from dataclasses import dataclass
from datetime import datetime

from aim_domain import Profile, ProfileMetadata
from aim_serving.references import Template, is_ready
from controller_runtime import ParentCondition, StatusValue, find_condition


@dataclass(frozen=True, slots=True)
class Traits:
    """Plain values; unknown ones are empty or zero.

    Attributes:
        since: when it became Ready; of one that is not, when it was created.
    """

    name: str
    namespaced: bool
    status: StatusValue
    type: str = ""
    metric: str = ""
    precision: str = ""
    gpu_model: str = ""
    gpu_count: int = 0
    since: datetime | None = None


def traits_of(template: Template) -> Traits:
    """Metric and precision as discovered, else as specified; type and GPU as specified, else as discovered."""
    spec, found = template.spec, metadata_of(template.status.profile)
    gpu = spec.hardware.gpu if spec.hardware else None
    return Traits(
        name=template.name,
        namespaced=bool(template.namespace),
        status=template.status.status,
        type=(spec.type or found.type or ""),
        metric=(found.metric or spec.metric or ""),
        precision=(found.precision or spec.precision or ""),
        gpu_model=((gpu.model if gpu else None) or (found.gpu or "").strip()),
        gpu_count=((gpu.requests if gpu else None) or found.gpu_count or 0),
        since=_since(template),
    )


def _since(template: Template) -> datetime | None:
    ready = find_condition(template.status.conditions, ParentCondition.READY)
    if is_ready(template) and ready is not None and ready.last_transition_time is not None:
        return ready.last_transition_time
    return template.metadata.creation_timestamp


def metadata_of(profile: Profile | None) -> ProfileMetadata:
    """What the discovered profile is made for; empty before discovery."""
    return (profile.metadata if profile else None) or ProfileMetadata()
