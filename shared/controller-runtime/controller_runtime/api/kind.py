"""How the API names a kind, and what decodes its objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from controller_runtime.api.meta import Resource
from controller_runtime.json import JsonObject

ResourceT = TypeVar("ResourceT", bound=Resource)


@dataclass(frozen=True, slots=True)
class Kind(Generic[ResourceT]):
    """One kind: how the API names it and which model decodes it. The core group is the empty string."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    model: type[ResourceT]
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The kind in lower case."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """Kind of a list of these objects (CC-006)."""
        return f"{self.kind}List"

    @property
    def resource(self) -> str:
        """`plural.group`, or the plural alone in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def decode(self, data: JsonObject) -> ResourceT:
        """The typed object.

        Raises:
            pydantic.ValidationError: a member has another JSON type than the API gives it.
        """
        return self.model.model_validate(data)

    def __str__(self) -> str:
        return self.kind
