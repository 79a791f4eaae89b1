"""core/v1 Namespace: annotations and termination (FW-186, AR-444)."""

from __future__ import annotations

from controller_runtime.api.base import ApiModel
from controller_runtime.api.meta import Resource


class NamespaceStatus(ApiModel):
    """Whether the namespace is in use."""

    phase: str = ""


class Namespace(Resource):
    """core/v1 Namespace."""

    api_version: str = "v1"
    kind: str = "Namespace"
    status: NamespaceStatus = NamespaceStatus()
