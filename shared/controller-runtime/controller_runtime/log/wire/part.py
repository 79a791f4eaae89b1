"""A part: a kind, or a selected portion of a kind, that exactly one service watches and publishes."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from controller_runtime.api.meta import Kind, ObjectKey, Resource
from controller_runtime.json import JsonObject

T = TypeVar("T", bound=Resource)


Key: TypeAlias = ObjectKey
"""Name of an object inside a part; the namespace is empty for cluster-scoped objects."""


GroupId: TypeAlias = tuple[str, str, str]
"""Names of a part, of an index or a summary of it, and of a value or group of that."""


class FieldOwner(NamedTuple):
    """Who owns fields of an object, as an entry of its managedFields says it: operation `Apply` or `Update`."""

    manager: str
    operation: str
    subresource: str = ""


def keep(obj: JsonObject) -> JsonObject:
    """Publish the object as it is (managedFields and last-applied annotation are dropped for every part)."""
    return obj


@dataclass(frozen=True, slots=True, eq=False)
class Part(Generic[T]):
    """What is watched once and published once for the whole platform.

    Attributes:
        name: the subject token, for example ``pods-predictor``.
        kind: group, version, plural, scope, and the type that consumers read.
        label_selector: restricts the watch; an object that leaves the selection counts as deleted.
        field_selector: restricts the watch.
        trim: reduces an object to what consumers read (docs/spec/README.md section 8, row 12).
        read_only: no service writes these objects. So no service waits on the bus for a version of its own, and a
            version that says nothing new need not be published (FW-446).
        optional: the cluster need not know the kind; then there are no objects of it (RC-150).
        predecessors: owners of fields from before this platform, which takes over what they own (FW-209).
    """

    name: str
    kind: Kind[T]
    label_selector: str = ""
    field_selector: str = ""
    trim: Callable[[JsonObject], JsonObject] = keep
    read_only: bool = False
    optional: bool = False
    predecessors: frozenset[FieldOwner] = frozenset()

    @property
    def model(self) -> type[T]:
        return self.kind.model

    def __str__(self) -> str:
        return self.name


class Depth(IntEnum):
    """How far into an object a reader looks; each step includes those before."""

    METADATA = 0
    SPEC = 1
    """Everything but the status, which is half of most objects."""
    WHOLE = 2


@dataclass(frozen=True, slots=True, eq=False)
class Index(Generic[T]):
    """A look-up other than by name: ``values`` tells under which strings an object is found.

    Values of namespaced kinds usually start with the namespace (see `scoped`), because names are only unique
    within one.

    Attributes:
        depth: how far ``values`` looks. A cache that takes in a snapshot decodes no object further than anything looks
            that is derived from its part.
    """

    part: Part[T]
    name: str
    values: Callable[[T], Iterable[str]]
    depth: Depth = Depth.WHOLE

    def __str__(self) -> str:
        return f"{self.part.name}[{self.name}]"


def scoped(namespace: str | None, value: str) -> str:
    """The index value of something that is unique within a namespace only."""
    return f"{namespace or ''}/{value}"


def owner_index(part: Part[T]) -> Index[T]:
    """Objects by namespace and the UID of each of their owners.

    Anybody can write the UID of a stranger's object into the references of an object of his own namespace. So who looks
    for children says where they live (FW-594).
    """

    def values(obj: T) -> list[str]:
        return [scoped(obj.metadata.namespace, ref.uid) for ref in obj.metadata.owner_references]

    return Index(part, "owner", values, depth=Depth.METADATA)


def label_index(part: Part[T], label: str) -> Index[T]:
    """Objects by namespace and value of one label (FW-238)."""

    def values(obj: T) -> list[str]:
        value = obj.metadata.labels.get(label)
        return [] if value is None else [scoped(obj.metadata.namespace, value)]

    return Index(part, f"label:{label}", values, depth=Depth.METADATA)


Dependency: TypeAlias = int
"""Means the same in one process only."""

WHOLE: Final = "*"


def about_object(part: str, key: Key) -> Dependency:
    """What is the object of that name, if there is one?"""
    return hash((part, key))


def about_group(group: GroupId) -> Dependency:
    """Which objects are found under a value of an index; what does one group of a summary say?"""
    return hash(group)


def about_part(part: str) -> Dependency:
    """Which objects are there at all?"""
    return hash((part, WHOLE))


_IDENTITY: Final[tuple[str, ...]] = ("apiVersion", "kind")
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation of client-side apply: a second copy of the whole object, of use to kubectl alone."""


def entries_of(owners: Collection[FieldOwner], obj: JsonObject) -> list[JsonObject]:
    """The entries of managedFields that are of one of these owners."""
    return [
        entry
        for entry in obj["metadata"].get("managedFields") or ()
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) in owners
    ]


def published_form(part: Part[Any], obj: JsonObject) -> JsonObject:
    """The object without managedFields and the last-applied annotation, trimmed as its part says.

    Of managedFields it keeps who of the part's predecessors is in them, so that the object shows that it is to be taken
    over (FW-209).

    Whatever way an object takes into a cache (bus, API server, answer to an own write), it has this form there, with
    its members in the same order, so that equal versions are equal byte by byte. The given object is left as it is.
    """
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    if part.predecessors and (left := entries_of(part.predecessors, obj)):
        metadata["managedFields"] = [
            {name: entry[name] for name in FieldOwner._fields if name in entry} for entry in left
        ]
    annotations = metadata.get("annotations")
    if annotations and LAST_APPLIED in annotations:
        kept = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
        metadata.pop("annotations")
        if kept:
            metadata["annotations"] = kept
    # A list of a built-in kind does not say what its objects are, so the client does, behind everything else.
    identity = {name: obj[name] for name in _IDENTITY if name in obj}
    return part.trim({**identity, **obj, "metadata": metadata})
