"""What the server serves: resource types and the registry that finds them by path or by kind."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from controller_runtime import JsonObject
from embedded_apiserver.objects.cel import CelRules
from embedded_apiserver.objects.schema import Schema

Key = tuple[str, str]
"""(namespace, name); the namespace is "" for cluster-scoped objects."""

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS: Final = ("get", "patch", "update")


class Propagation(StrEnum):
    """What a deletion does to the dependents (metav1.DeletionPropagation)."""

    ORPHAN = "Orphan"
    BACKGROUND = "Background"
    FOREGROUND = "Foreground"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a Table; `value` gives the cell for an object and the present time (seconds)."""

    name: str
    value: Callable[[JsonObject, float], object]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a type keeps its replicas; paths as key tuples below the object."""

    spec_replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One served resource in one version.

    Types with the same `storage` are views of the same objects; `to_storage` and `from_storage` convert between them.
    """

    group: str
    version: str
    kind: str
    plural: str
    storage: str
    singular: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    scale: ScalePaths | None = None
    custom: bool = False
    tracks_generation: bool = False
    default_propagation: Propagation = Propagation.BACKGROUND
    unconditional_update: bool = True
    virtual: bool = False
    extra_subresources: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    openapi: JsonObject | None = field(default=None, compare=False)
    schema: Schema | None = field(default=None, compare=False)
    rules: CelRules | None = field(default=None, compare=False)
    to_storage: Callable[[JsonObject], JsonObject] | None = None
    from_storage: Callable[[JsonObject], JsonObject] | None = None

    @property
    def api_version(self) -> str:
        """`v1` for the core group, `group/version` otherwise."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`pods`, `jobs.batch`: the name as error messages spell it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """`Pod`, `Job.batch`: the kind as validation messages spell it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


class Registry:
    """All served types; custom ones come and go with their definitions."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, str, str], ResourceType] = {}
        self._kinds: dict[tuple[str, str], ResourceType] = {}

    def add(self, resource: ResourceType) -> None:
        """Serve a type, replacing a former one of the same group, version and plural."""
        self._types[resource.group, resource.version, resource.plural] = resource
        self._kinds[resource.api_version, resource.kind] = resource

    def remove_storage(self, storage: str) -> None:
        """Stop serving every version of a storage."""
        for key, resource in list(self._types.items()):
            if resource.storage == storage:
                del self._types[key]
                self._kinds.pop((resource.api_version, resource.kind), None)

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The type served under a path, None if there is none."""
        return self._types.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> ResourceType | None:
        """The type of an object or an owner reference, None if it is not served."""
        return self._kinds.get((api_version, kind))

    def storage_type(self, storage: str) -> ResourceType | None:
        """The type whose API version is the stored one."""
        return next((r for r in self if r.storage == storage and r.to_storage is None), None)

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(list(self._types.values()))

    def group_versions(self) -> dict[str, list[str]]:
        """Group → its versions in order of registration; the core group is ""."""
        groups: dict[str, list[str]] = {}
        for resource in self:
            versions = groups.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        return groups

    def of(self, group: str, version: str) -> list[ResourceType]:
        """The types of one group version."""
        return [r for r in self if r.group == group and r.version == version]
