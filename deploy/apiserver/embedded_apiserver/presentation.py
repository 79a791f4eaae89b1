"""How objects are written in a response: as they are, as a Table, or as their metadata alone."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final

import orjson

from controller_runtime import JsonObject
from embedded_apiserver.resources import ResourceType
from embedded_apiserver.status import not_acceptable
from embedded_apiserver.store import Event, EventType, Version
from embedded_apiserver.tables import columns_of

_META: Final = "meta.k8s.io/v1"
_MEDIA_TYPES: Final = frozenset({"application/json", "application/*", "*/*"})


class Presenter(ABC):
    """Encodes single objects, lists and watch lines of one resource type in one form."""

    def __init__(self, resource: ResourceType) -> None:
        self.resource = resource

    @abstractmethod
    def one(self, version: Version) -> bytes:
        """A single object."""

    @abstractmethod
    def many(self, versions: Iterable[Version], metadata: JsonObject) -> bytes:
        """A list with the given list metadata."""

    def shares_bytes(self, version: Version) -> bool:  # noqa: ARG002 - what its stored bytes are
        """Whether this form of an object is what is stored, and the same for every watcher."""
        return False

    def line(self, kind: EventType, version: Version, event: Event | None) -> bytes:
        """A watch line; `event` is the one that it is made of, None for initial objects and bookmarks."""
        if event is not None and self.shares_bytes(version):
            return event.line(kind, version)
        return b'{"type":"' + kind.encode() + b'","object":' + self.one(version) + b"}\n"

    def bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        """The BOOKMARK line of a revision."""
        metadata: JsonObject = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": metadata}
        return self.line(EventType.BOOKMARK, Version(("", ""), obj, revision), None)

    def view(self, version: Version) -> JsonObject:
        """The object in this type's API version."""
        convert = self.resource.from_storage
        return version.obj if convert is None else convert(version.obj)


class PlainPresenter(Presenter):
    """Objects as they are; the stored bytes are used as they are, unless the type is a view of another."""

    def __init__(self, resource: ResourceType) -> None:
        super().__init__(resource)
        # Stored objects begin with their type.
        self._identity = orjson.dumps({"apiVersion": resource.api_version, "kind": resource.kind})[:-1] + b","

    def shares_bytes(self, version: Version) -> bool:
        resource = self.resource
        return resource.from_storage is None or (
            resource.custom and version.obj.get("apiVersion") == resource.api_version
        )

    def one(self, version: Version) -> bytes:
        return version.raw if self.shares_bytes(version) else orjson.dumps(self.view(version))

    def many(self, versions: Iterable[Version], metadata: JsonObject) -> bytes:
        if self.resource.custom:
            metadata = {"continue": ""} | metadata
        head = orjson.dumps(
            {"kind": self.resource.kind + "List", "apiVersion": self.resource.api_version, "metadata": metadata}
        )
        return head[:-1] + b',"items":[' + b",".join([self._item(version) for version in versions]) + b"]}"

    def _item(self, version: Version) -> bytes:
        """An object in a list: those of built-in kinds do not repeat their type there."""
        raw = self.one(version)
        if not self.resource.custom and raw.startswith(self._identity):
            return b"{" + raw[len(self._identity) :]
        return raw


def partial(obj: JsonObject) -> JsonObject:
    """The PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": obj["metadata"]}


class PartialPresenter(Presenter):
    """PartialObjectMetadata and its list."""

    def one(self, version: Version) -> bytes:
        return orjson.dumps(partial(version.obj))

    def many(self, versions: Iterable[Version], metadata: JsonObject) -> bytes:
        items = [partial(version.obj) for version in versions]
        return orjson.dumps(
            {"kind": "PartialObjectMetadataList", "apiVersion": _META, "metadata": metadata, "items": items}
        )


class TablePresenter(Presenter):
    """meta.k8s.io/v1 Tables, as kubectl asks for them."""

    def __init__(self, resource: ResourceType, include_object: str, now: Callable[[], float]) -> None:
        super().__init__(resource)
        self._include = include_object
        self._now = now
        self._columns = columns_of(resource)

    def one(self, version: Version) -> bytes:
        return self.many([version], {"resourceVersion": str(version.revision)})

    def many(self, versions: Iterable[Version], metadata: JsonObject) -> bytes:
        definitions = [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            }
            for column in self._columns
        ]
        rows = [self._row(version) for version in versions]
        return orjson.dumps(
            {
                "kind": "Table",
                "apiVersion": _META,
                "metadata": metadata,
                "columnDefinitions": definitions,
                "rows": rows,
            }
        )

    def bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        plain = PlainPresenter(self.resource).bookmark(revision, initial_end=initial_end)
        bookmark = orjson.loads(plain)["object"]
        row = {"cells": [], "object": partial(bookmark)}
        table = {
            "kind": "Table",
            "apiVersion": _META,
            "metadata": {"resourceVersion": str(revision)},
            "columnDefinitions": [],
            "rows": [row],
        }
        return orjson.dumps({"type": "BOOKMARK", "object": table}) + b"\n"

    def _row(self, version: Version) -> JsonObject:
        obj, now = self.view(version), self._now()
        row: JsonObject = {"cells": [column.value(obj, now) for column in self._columns], "object": None}
        if self._include == "Object":
            row["object"] = obj
        elif self._include != "None":
            row["object"] = partial(obj)
        return row


def presenter_for(resource: ResourceType, accept: str, include_object: str, now: Callable[[], float]) -> Presenter:
    """The form that an Accept header asks for; the first known alternative wins.

    Raises:
        ApiError: 406 for a header that names none.
    """
    for alternative in accept.split(",") if accept else ("*/*",):
        kind, *rest = (part.strip() for part in alternative.split(";"))
        form = dict(part.split("=", 1) for part in rest if "=" in part)
        if kind not in _MEDIA_TYPES:
            continue
        if form.get("as") == "Table" and form.get("v") == "v1":
            return TablePresenter(resource, include_object, now)
        if form.get("as") in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return PartialPresenter(resource)
        if "as" not in form:
            return PlainPresenter(resource)
    raise not_acceptable()
