"""AIMClusterModel: an AIMModel for all namespaces (CC-080)."""

from __future__ import annotations

from typing import Annotated

from aim_domain.api.group import API_VERSION
from aim_domain.api.model import AIMModelSpec, AIMModelStatus
from controller_runtime import REQUIRED, Resource


class AIMClusterModel(Resource):
    """A model image, available in all namespaces."""

    api_version: str = API_VERSION
    kind: str = "AIMClusterModel"
    spec: Annotated[AIMModelSpec, REQUIRED] = AIMModelSpec()
    """The model image, and how to use it."""
    status: AIMModelStatus = AIMModelStatus()
    """Observed state of the model."""
