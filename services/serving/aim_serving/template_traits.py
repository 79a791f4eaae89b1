"""The attributes of a template that selection looks at, and where each comes from (SV-094)."""

from dataclasses import dataclass

from aim_domain import Profile, ProfileMetadata
from aim_serving.references import Template
from controller_runtime import StatusValue


@dataclass(frozen=True, slots=True)
class Traits:
    """Plain values; unknown ones are empty or zero."""

    name: str
    namespaced: bool
    status: StatusValue
    type: str = ""
    metric: str = ""
    precision: str = ""
    gpu_model: str = ""
    gpu_count: int = 0


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
    )


def metadata_of(profile: Profile | None) -> ProfileMetadata:
    """What the discovered profile is made for; empty before discovery."""
    return (profile.metadata if profile else None) or ProfileMetadata()
