"""The key of an object."""

from typing import NamedTuple


class Key(NamedTuple):
    """Namespace (empty for cluster-scoped objects) and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
