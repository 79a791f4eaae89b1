"""What Kubernetes has of a part, as its watch reports it: the truth that the streams are compared with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from controller_runtime.api.meta import Identity
from controller_runtime.compact import Packed, Packer, unpacked
from controller_runtime.json import JsonObject, dumps
from controller_runtime.kube.reflector_state import Bookmark, Delete, Event, Restarted, Upsert
from controller_runtime.log.wire.messages import NOTHING, Verb, digest_of, is_own, trace_of
from controller_runtime.log.wire.part import Key, Part, published_form


@dataclass(frozen=True, slots=True)
class SourceVersion:
    """One version of an object, to be published; made by `of` and `gone`.

    Attributes:
        held: the JSON that is published, packed until it is asked for; empty for a deletion.
        digest: short hash of its content.
        traceparent: that of the whole object, whose annotation trimming may take away; empty where unknown.
        begins: whether its trace begins with it.
    """

    key: Key
    verb: Verb
    uid: str
    resource_version: str
    held: Packed | bytes
    digest: bytes
    traceparent: str
    begins: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, key: Key, uid: str, resource_version: str, body: bytes, traceparent: str) -> Self:
        """A version that is to be published under this body."""
        return cls(key, Verb.UPSERT, uid, resource_version, body, digest_of(body, resource_version), traceparent)

    @classmethod
    def deletion(cls, key: Key, uid: str, resource_version: str, traceparent: str = "") -> Self:
        """A deletion."""
        return cls(key, Verb.DELETE, uid, resource_version, b"", NOTHING, traceparent)

    @property
    def body(self) -> bytes:
        """The bytes that are published."""
        return unpacked(self.held)

    @property
    def deleted(self) -> bool:
        """Whether this is a deletion."""
        return self.verb is Verb.DELETE


def nothing_known(_: Key) -> None:
    """What is known of an object where nothing is."""


def published(
    part: Part[Any], known: Callable[[Key], SourceVersion | None] = nothing_known
) -> Callable[[JsonObject], SourceVersion]:
    """What makes of the part's objects, as Kubernetes sends them, the versions that they are, packed.

    Args:
        known: the version that is held of an object; it is yielded again instead of an equal one.
    """
    packer = Packer()

    def version(obj: JsonObject) -> SourceVersion:
        # Unread fields are not kept either: a pod is ten times what is published of it.
        body = dumps(published_form(part, obj))
        key, uid, resource_version = Identity.of(obj)
        digest = digest_of(body, resource_version)
        held = known(key)
        if held is not None and (held.uid, held.resource_version, held.digest) == (uid, resource_version, digest):
            return held
        traceparent = trace_of(obj)
        begins = is_own(obj) and (held is None or held.traceparent != traceparent)
        return SourceVersion(key, Verb.UPSERT, uid, resource_version, packer.pack(body), digest, traceparent, begins)

    return version


class Source:
    """The present objects of a part, and the newest version seen. No I/O."""

    def __init__(self, part: Part[Any]) -> None:
        self._part = part
        self._present: dict[Key, SourceVersion] = {}
        self._packer = Packer()
        self._version = self._list_version = ""
        self._lists = 0
        self._rewinds = 0
        self._store_lists = 0

    @property
    def present(self) -> Mapping[Key, SourceVersion]:
        """The objects that exist."""
        return self._present

    @property
    def version(self) -> str:
        """Newest resourceVersion seen; empty before the first list and for facts."""
        return self._version

    @property
    def list_version(self) -> str:
        """resourceVersion of the last list; empty before the first one and for facts."""
        return self._list_version

    @property
    def lists(self) -> int:
        """Lists seen; 0 means that nothing is known yet."""
        return self._lists

    @property
    def rewinds(self) -> int:
        """How often the server was found behind what it had shown before."""
        return self._rewinds

    @property
    def store_lists(self) -> int:
        """Lists seen that were read from the store itself, not from a server's cache."""
        return self._store_lists

    def take(self, event: Event[SourceVersion]) -> SourceVersion | None:
        """Take in what the watch says; returns the version to publish, if it is one the watch has seen happen."""
        match event:
            case Upsert(found, version):
                self._version = version
                return None if self._says_nothing_new(found) else self.put(found)
            case Delete(synthetic=True):
                # A deletion found by comparison is published by comparison: versions may be missing before it. Until
                # the list itself is here, no checkpoint may state its version.
                pass
            case Delete(obj, version):
                self._version = version
                return self.remove(Key.of(obj), obj["metadata"].get("uid", ""), version)
            case Bookmark(version):
                self._version = version
            case Restarted(objects, version, rewound, from_store):
                # In place: a list repeats nearly all of what is known, which is not to be there twice.
                for key in self._present.keys() - {found.key for found in objects}:
                    del self._present[key]
                for found in objects:
                    if not self._says_nothing_new(found):
                        self._present[found.key] = found
                self._version = self._list_version = version
                self._lists += 1
                self._rewinds += rewound
                self._store_lists += from_store
        return None

    def put(self, version: SourceVersion) -> SourceVersion:
        """An object exists in this version."""
        held = version.held
        known = replace(version, held=self._packer.pack(held)) if isinstance(held, bytes) else version
        self._present[version.key] = known
        return known

    def remove(self, key: Key, uid: str, resource_version: str) -> SourceVersion:
        """An object is gone."""
        known = self._present.pop(key, None)
        if known is None:
            return SourceVersion.deletion(key, uid, resource_version)
        return SourceVersion.deletion(key, uid or known.uid, resource_version, known.traceparent)

    def _says_nothing_new(self, found: SourceVersion) -> bool:
        """Whether only unread fields have changed, in an object that no service writes (FW-446).

        Such a version is as if it had never been, so that a node's heartbeat costs the broker nothing. An older one is
        none of these: the cluster's store went back, and what is known of it has to be published again.
        """
        known = self._present.get(found.key)
        return (
            self._part.read_only
            and known is not None
            and known.uid == found.uid
            and int(known.resource_version) <= int(found.resource_version)
            and known.digest == found.digest
        )
