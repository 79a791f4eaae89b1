"""AIMClusterServiceTemplate: a template for all namespaces, without caching (CC-090)."""

from __future__ import annotations

from typing import Annotated

from aim_domain.api.group import API_VERSION
from aim_domain.api.service_template import TemplateSpec, TemplateStatus
from controller_runtime import REQUIRED, Resource


class AIMClusterServiceTemplate(Resource):
    """A runtime profile of a model, available in all namespaces."""

    api_version: str = API_VERSION
    kind: str = "AIMClusterServiceTemplate"
    spec: Annotated[TemplateSpec, REQUIRED] = TemplateSpec()
    """How to run the model."""
    status: TemplateStatus = TemplateStatus()
    """Observed state of the template."""
