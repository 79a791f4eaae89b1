"""When a model that uses an artifact was last deployed (AR-425…AR-427)."""

from collections.abc import Iterable
from datetime import datetime

from aim_domain import AIMArtifact, InferenceService


def last_used(artifact: AIMArtifact, users: Iterable[InferenceService]) -> datetime | None:
    """The latest creation of an InferenceService that mounts the artifact; never before what is stored."""
    created = (user.metadata.creation_timestamp for user in users)
    return max((moment for moment in (*created, artifact.status.last_used) if moment is not None), default=None)
