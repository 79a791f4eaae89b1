"""core/v1 Secret: read on demand, never published."""

from __future__ import annotations

from base64 import b64decode

from pydantic import Field

from controller_runtime.api.base import StrMap
from controller_runtime.api.meta import Resource


class Secret(Resource):
    """core/v1 Secret; `data` is base64 text and not shown by `repr`."""

    api_version: str = "v1"
    kind: str = "Secret"
    type: str = ""
    data: StrMap = Field(default_factory=dict, repr=False)

    def value(self, key: str) -> bytes | None:
        """The decoded value of a key, None when there is no such key.

        Raises:
            ValueError: the stored text is not base64.
        """
        encoded = self.data.get(key)
        return None if encoded is None else b64decode(encoded, validate=True)
