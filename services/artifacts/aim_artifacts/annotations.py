"""What a pass writes down in annotations of its artifact."""

from collections.abc import Sequence
from dataclasses import dataclass

from aim_domain import AIMArtifact
from aim_domain.parts import ARTIFACTS
from controller_runtime import Patch


@dataclass(frozen=True, slots=True)
class Annotation:
    """One of them; ``None`` takes it away."""

    name: str
    value: str | None
    why: str


def annotate(artifact: AIMArtifact, annotations: Sequence[Annotation]) -> tuple[Patch, ...]:
    """All of them in one guarded patch: a second one would meet the version that the first has made."""
    if not annotations:
        return ()
    metadata = artifact.metadata
    body = {"metadata": {"annotations": {one.name: one.value for one in annotations}}}
    why = "; ".join(one.why for one in annotations)
    return (Patch(ARTIFACTS, metadata.namespace, metadata.name, metadata.resource_version, body, why),)
