"""AIMClusterServiceTemplate: a template for all namespaces, without caching (CC-090)."""

from __future__ import annotations

from typing import Annotated

from aim_shared.api.meta import API_VERSION, Resource
from aim_shared.api.schema import REQUIRED
from aim_shared.api.service_template import TemplateSpec, TemplateStatus


class AIMClusterServiceTemplate(Resource):
    """A runtime profile of a model for all namespaces."""

    api_version: str = API_VERSION
    kind: str = "AIMClusterServiceTemplate"
    spec: Annotated[TemplateSpec, REQUIRED] = TemplateSpec()
    """How the model runs."""
    status: TemplateStatus = TemplateStatus()
    """What became of the template."""
