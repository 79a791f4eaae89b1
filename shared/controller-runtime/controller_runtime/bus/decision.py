"""The decision record: what one pass read, what it decided, and what came of it; enough to decide again."""

from pydantic import AwareDatetime, Field

from controller_runtime.bus.part import Key
from controller_runtime.bus.recorded import Recorded, RecordedReads, RecordedStanding
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.json import JsonObject, dumps, loads


class RecordedFailure(Recorded):
    """The failed write of the previous plan that this pass was given (FW-010)."""

    category: Category
    reason: str = ""
    message: str = ""

    @property
    def error(self) -> ClassifiedError:
        """As an error value."""
        return ClassifiedError(self.category, self.reason, self.message)


class RecordedWrite(Recorded):
    """One request of the executor to the API server, and its result."""

    verb: str
    kind: str
    namespace: str = ""
    name: str = ""
    resource_version: str = ""
    result: str = ""
    error: str = ""


class DecisionRecord(Recorded):
    """One pass over one object.

    Attributes:
        id: unique.
        at: the clock that the pass was given.
        generation: of the object.
        woken_by: the change that brought the pass, in words; empty when it was none, as at a resync or a retry.
        failing_since: when passes of the object began to fail, as the pass was told.
        settings: digest of the effective settings; their values are in the log under it.
        world: how far the world was, for questions that were not asked then.
        plan: canonical plan, as the reconcile engine writes it.
        abridged: members of the plan of which digests stand instead of the content.
        outcome: how carrying it out ended.
    """

    id: str
    service: str
    controller: str
    part: str
    namespace: str = ""
    name: str
    uid: str = ""
    at: AwareDatetime
    generation: int = 0
    woken_by: str = ""
    traceparent: str = ""
    settings: str = ""
    world: RecordedStanding = RecordedStanding()
    reads: RecordedReads = RecordedReads()
    failure: RecordedFailure | None = None
    failing_since: AwareDatetime | None = None
    plan: JsonObject = Field(default_factory=dict)
    abridged: tuple[str, ...] = ()
    writes: tuple[RecordedWrite, ...] = ()
    outcome: str = ""

    @property
    def key(self) -> Key:
        """Key of the object in its part."""
        return Key(self.namespace, self.name)

    def to_json(self) -> bytes:
        """The message body."""
        return dumps(self.model_dump(mode="json", by_alias=True, exclude_defaults=True))

    @classmethod
    def from_json(cls, data: bytes) -> "DecisionRecord":
        """Read a message body.

        Raises:
            ValueError: it is no decision record.
        """
        return cls.model_validate(loads(data))
