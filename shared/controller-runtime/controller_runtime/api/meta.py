"""What every object has: metadata, owner references, conditions; and how the API names its kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import Field

from controller_runtime.api.base import ApiModel, Int64, Items, StrMap, Time
from controller_runtime.api.enums import ConditionStatus
from controller_runtime.api.schema import REQUIRED, Schema, list_map
from controller_runtime.compact import shared
from controller_runtime.json import JsonObject
from controller_runtime.kind_names import KindName


class ObjectKey(NamedTuple):
    """Namespace and name; the namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def of(cls, obj: JsonObject) -> ObjectKey:
        """The key of an object in JSON.

        Raises:
            ValueError: its metadata tell no name, or something that is no text.
        """
        return cls(_text(obj, "namespace", ""), _text(obj, "name"))


class Identity(NamedTuple):
    """Which version of which object this is."""

    key: ObjectKey
    uid: str
    resource_version: str

    @classmethod
    def of(cls, obj: JsonObject) -> Identity:
        """The identity of an object in JSON.

        Raises:
            ValueError: its metadata tell no name or version, or something that is no text.
        """
        return cls(ObjectKey.of(obj), _text(obj, "uid", ""), version_of(obj))


def version_of(obj: JsonObject) -> str:
    """The resourceVersion of an object in JSON, or of a bookmark.

    Raises:
        ValueError: its metadata tell none.
    """
    return _text(obj, "resourceVersion")


def _text(obj: JsonObject, name: str, default: str | None = None) -> str:
    """A text in an object's metadata; without a default it has to be there."""
    metadata = obj.get("metadata")
    found = (metadata.get(name) if isinstance(metadata, dict) else None) or default
    if not isinstance(found, str):
        raise ValueError(f"an object without {name}: {found!r}")
    return shared(found)


class OwnerReference(ApiModel):
    """One owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedFields(ApiModel):
    """An owner of fields of an object; the published form leaves out which fields (FW-517)."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""


class ObjectMeta(ApiModel):
    """Metadata of an object; `uid` and `resource_version` are empty on an object that was never stored."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: StrMap = Field(default_factory=dict)
    annotations: StrMap = Field(default_factory=dict)
    owner_references: Items[OwnerReference] = ()
    finalizers: Items[str] = ()
    managed_fields: Items[ManagedFields] = ()
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None


class Condition(ApiModel):
    """One observation of the state (CC-021)."""

    type: Annotated[
        str,
        REQUIRED,
        Schema(
            max_length=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ] = ""
    """Type of the condition."""
    status: Annotated[ConditionStatus, REQUIRED] = ConditionStatus.UNKNOWN
    """True, False or Unknown."""
    reason: Annotated[
        str,
        REQUIRED,
        Schema(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    ] = ""
    """Machine-readable cause, in CamelCase."""
    message: Annotated[str, REQUIRED, Schema(max_length=32768)] = ""
    """Human-readable explanation, and what to do."""
    last_transition_time: Annotated[Time | None, REQUIRED] = None
    """When the status of the condition last changed."""
    observed_generation: Annotated[Int64 | None, Schema(minimum=0)] = None
    """Generation of the spec that the condition was computed from."""


Conditions = Annotated[Items[Condition], list_map("type")]


def find_condition(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    """The condition of that type, if any."""
    return next((condition for condition in conditions if condition.type == type_), None)


def ready_words(conditions: tuple[Condition, ...]) -> str:
    """Reason and message of ``Ready``, to be appended to a message about the object; empty without the condition."""
    ready = find_condition(conditions, "Ready")
    return "" if ready is None else f": {ready.reason}: {ready.message}"


class Resource(ApiModel):
    """An object of any Kubernetes kind."""

    stands_alone: ClassVar[bool] = True

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """`metadata.namespace`; empty on cluster-scoped objects."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        return self.metadata.uid

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)

    @property
    def deleting(self) -> bool:
        """Whether a deletion has been requested."""
        return self.metadata.deletion_timestamp is not None


ResourceT = TypeVar("ResourceT", bound=Resource)


@dataclass(frozen=True, slots=True)
class Kind(KindName, Generic[ResourceT]):
    """A kind with the model that decodes its objects."""

    model: type[ResourceT] = field(kw_only=True)

    @classmethod
    def of(cls, name: KindName, model: type[ResourceT]) -> Kind[ResourceT]:
        """The kind of that name."""
        return Kind(name.group, name.version, name.kind, name.plural, name.namespaced, name.short_names, model=model)

    @property
    def name(self) -> KindName:
        """Its name alone."""
        return KindName(self.group, self.version, self.kind, self.plural, self.namespaced, self.short_names)

    def decode(self, data: JsonObject) -> ResourceT:
        """The typed object.

        Raises:
            pydantic.ValidationError: a member has another JSON type than the API gives it.
        """
        return self.model.model_validate(data)
