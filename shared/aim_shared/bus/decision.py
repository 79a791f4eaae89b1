"""The decision record: what one pass read, what it decided, and what came of it; enough to decide again."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from aim_shared.bus.entry import Version
from aim_shared.bus.part import Key
from aim_shared.bus.view import ReadLog
from aim_shared.errors import AimError, Category
from aim_shared.json import JsonObject, dumps, loads


class _Record(BaseModel):
    """Written once and read by other versions: unknown members are kept, missing ones have defaults."""

    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True)


class RecordedObject(_Record):
    """One object that was read by name; without ``uid`` it was found absent.

    Attributes:
        sequence: in the state stream; ``None`` for what did not come over the bus (an own write, a direct list).
    """

    part: str
    namespace: str = ""
    name: str
    uid: str | None = None
    resource_version: str = ""
    sequence: int | None = None
    epoch: str = ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def version(self) -> Version | None:
        """Which version was read; ``None`` when the object was absent."""
        if self.uid is None:
            return None
        return Version(self.uid, self.resource_version, self.sequence, self.epoch)


RecordedKey = Annotated[Key, BeforeValidator(lambda value: Key(*value))]


class RecordedIndex(_Record):
    """One look-up of many and the keys found; an empty ``index`` stands for all objects of the part."""

    part: str
    index: str = ""
    value: str = ""
    keys: tuple[RecordedKey, ...] = ()


class RecordedReads(_Record):
    """Everything a pass read.

    Attributes:
        stale: names of the parts that were not fresh, where finding nothing was an error (FW-019).
    """

    objects: tuple[RecordedObject, ...] = ()
    indexes: tuple[RecordedIndex, ...] = ()
    stale: tuple[str, ...] = ()


class RecordedFailure(_Record):
    """The failed write of the previous plan that this pass was given (FW-010)."""

    category: Category
    reason: str = ""
    message: str = ""

    @property
    def error(self) -> AimError:
        """As an error value."""
        return AimError(self.category, self.reason, self.message)


class RecordedWrite(_Record):
    """One request of the executor to the API server, and its result."""

    verb: str
    kind: str
    namespace: str = ""
    name: str = ""
    resource_version: str = ""
    result: str = ""


class DecisionRecord(_Record):
    """One pass over one object.

    Attributes:
        id: unique.
        at: the clock that the pass was given.
        generation: of the object.
        failing_since: when passes of the object began to fail, as the pass was told.
        plan: canonical plan, as the reconcile engine writes it.
        outcome: how carrying it out ended.
    """

    id: str
    service: str
    controller: str
    part: str
    namespace: str = ""
    name: str
    uid: str = ""
    at: datetime
    generation: int = 0
    traceparent: str = ""
    reads: RecordedReads = RecordedReads()
    failure: RecordedFailure | None = None
    failing_since: datetime | None = None
    plan: JsonObject = Field(default_factory=dict)
    writes: tuple[RecordedWrite, ...] = ()
    outcome: str = ""

    @property
    def key(self) -> Key:
        """Key of the object in its part."""
        return Key(self.namespace, self.name)

    def to_json(self) -> bytes:
        """The message body."""
        return dumps(self.model_dump(mode="json", by_alias=True))

    @classmethod
    def from_json(cls, data: bytes) -> "DecisionRecord":
        """Read a message body.

        Raises:
            ValueError: it is no decision record.
        """
        return cls.model_validate(loads(data))


def recorded_reads(log: ReadLog) -> RecordedReads:
    """The reads of a pass in their recorded form."""
    return RecordedReads(
        objects=tuple(_recorded(read.part, read.key, read.version) for read in log.objects.values()),
        indexes=tuple(
            RecordedIndex(part=read.part, index=read.index, value=read.value, keys=read.keys)
            for read in log.indexes.values()
        ),
        stale=tuple(sorted(log.stale_parts)),
    )


def _recorded(part: str, key: Key, version: Version | None) -> RecordedObject:
    if version is None:
        return RecordedObject(part=part, namespace=key.namespace, name=key.name)
    return RecordedObject(
        part=part,
        namespace=key.namespace,
        name=key.name,
        uid=version.uid,
        resource_version=version.resource_version,
        sequence=version.sequence,
        epoch=version.epoch,
    )
