"""core/v1 ConfigMap: custom profiles (DI-250)."""

from __future__ import annotations

from pydantic import Field

from controller_runtime.api.base import StrMap
from controller_runtime.api.meta import Resource


class ConfigMap(Resource):
    """core/v1 ConfigMap."""

    api_version: str = "v1"
    kind: str = "ConfigMap"
    data: StrMap = Field(default_factory=dict)
    binary_data: StrMap = Field(default_factory=dict)
    immutable: bool = False
