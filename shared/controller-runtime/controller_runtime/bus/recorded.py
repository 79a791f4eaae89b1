"""What a pass read, in the form in which its decision record keeps it.

Item by item while that is little. Of much that was read in one way only number and digest are kept, because the history
can tell it again: the world was the state stream up to a sequence, and the digest shows whether it was told alike.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

from controller_runtime.bus.entry import Version
from controller_runtime.bus.part import Key
from controller_runtime.bus.standing import Position, Standing
from controller_runtime.bus.view import IndexRead, ObjectRead, ReadLog
from controller_runtime.json import JsonObject

LISTED: Final = 100
"""Reads of one sort that are kept item by item: objects of a part, or look-ups in an index with what they found."""


class Recorded(BaseModel):
    """Written once and read by other versions: unknown members are kept, missing ones have defaults."""

    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True)


class RecordedObject(Recorded):
    """One object that was read by name; without ``uid`` it was found absent.

    Attributes:
        sequence: in the state stream; ``None`` for what did not come over the bus (an own write, a direct list).
        epoch: that of the sequence.
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


class RecordedIndex(Recorded):
    """One look-up of many and the keys found; an empty ``index`` stands for all objects of the part."""

    part: str
    index: str = ""
    value: str = ""
    keys: tuple[RecordedKey, ...] = ()


class RecordedSummary(Recorded):
    """One group of a summary, by value: nothing else has to be kept to know it again (FW-455)."""

    part: str
    summary: str
    group: str
    items: tuple[JsonObject, ...] = ()


class RecordedGroup(Recorded):
    """Many reads of one sort, which are not listed.

    Attributes:
        index: the one looked up in; ``None`` = objects of the part, however they were found.
        count: of objects read, or of look-ups.
        asked: digest of the questions: the names, or the values looked up.
        found: digest of the answers: which version each object had, or which keys each value led to.
    """

    part: str
    index: str | None = None
    count: int
    asked: str
    found: str


class RecordedReads(Recorded):
    """Everything a pass read.

    Attributes:
        stale: names of the parts that were not fresh, where finding nothing was an error (FW-019).
        groups: reads of which there were too many to list; a part or index stands either here or in the lists.
    """

    objects: tuple[RecordedObject, ...] = ()
    indexes: tuple[RecordedIndex, ...] = ()
    summaries: tuple[RecordedSummary, ...] = ()
    stale: tuple[str, ...] = ()
    groups: tuple[RecordedGroup, ...] = ()


class RecordedStanding(Recorded):
    """How far the world was, for questions that were not asked then; see `Standing`.

    Attributes:
        sequence: of the state stream, up to which everything was taken.
        epochs: the epoch of every part.
        apart: the sequence of the parts that were not so far; ``None`` = it cannot be told.
        own: objects without ``uid`` were removed by an own write.
        objects: how many the world held of each part in which a look-up depends on what every object says.
    """

    sequence: int | None = None
    epochs: Mapping[str, str] = {}
    apart: Mapping[str, int | None] = {}
    own: tuple[RecordedObject, ...] = ()
    stale: tuple[str, ...] = ()
    objects: Mapping[str, int] = {}

    def position(self, part: str) -> Position | None:
        """How far a part was; ``None`` when the world did not hold it."""
        epoch = self.epochs.get(part)
        return None if epoch is None else Position(epoch, self.apart.get(part, self.sequence), self.objects.get(part))


def recorded_reads(log: ReadLog, listed: int = LISTED) -> RecordedReads:
    """The reads of a pass in their recorded form.

    Args:
        listed: how many reads of one sort are kept item by item.
    """
    objects, indexes = _by_part(log), _by_index(log)
    groups = [
        RecordedGroup(part=part, count=len(reads), **_digests_of_objects(reads))
        for part, reads in objects.items()
        if len(reads) > listed
    ]
    groups += [
        RecordedGroup(part=part, index=index, count=len(reads), **_digests_of_look_ups(reads))
        for (part, index), reads in indexes.items()
        if _length(reads) > listed
    ]
    return RecordedReads(
        objects=tuple(
            _object(read.part, read.key, read.version)
            for reads in objects.values()
            if len(reads) <= listed
            for read in reads
        ),
        indexes=tuple(
            RecordedIndex(part=read.part, index=read.index, value=read.value, keys=read.keys)
            for reads in indexes.values()
            if _length(reads) <= listed
            for read in reads
        ),
        summaries=tuple(
            RecordedSummary(
                part=part,
                summary=summary,
                group=group,
                items=tuple(recorded_item(item) for item in items),
            )
            for (part, summary, group), items in log.summaries.items()
        ),
        stale=tuple(sorted(log.stale_parts)),
        groups=tuple(groups),
    )


def recorded_standing(standing: Standing, counted: Iterable[str] = ()) -> RecordedStanding:
    """A moment of a world in its recorded form.

    Args:
        counted: names of the parts whose number of objects is worth a place in the record.
    """
    sequences = {name: where.sequence for name, where in standing.parts.items()}
    furthest = max((one for one in sequences.values() if one is not None), default=None)
    own = Counter(change.part for change in standing.own)
    # So many own writes under way are not worth a record of every pass that happens among them.
    crowded = {part for part, count in own.items() if count > LISTED}
    return RecordedStanding(
        sequence=furthest,
        epochs={name: where.epoch for name, where in standing.parts.items()},
        apart={
            name: None if name in crowded else one
            for name, one in sequences.items()
            if one != furthest or name in crowded
        },
        own=tuple(_object(one.part, one.key, one.version) for one in standing.own if one.part not in crowded),
        stale=standing.stale,
        objects={name: standing.parts[name].objects or 0 for name in sorted(counted) if name in standing.parts},
    )


def recorded_item(item: BaseModel) -> JsonObject:
    """One item of a summary in its recorded form."""
    return item.model_dump(mode="json", exclude_defaults=True)


def digest_of_questions(questions: Iterable[str]) -> str:
    """Digest of names or values, in whatever order."""
    return _digest(sorted(questions))


def digest_of_objects(found: Mapping[Key, Version | None]) -> str:
    """Digest of which version each object had."""
    return _digest(f"{key} {_token(version)}" for key, version in sorted(found.items()))


def digest_of_look_ups(found: Mapping[str, Iterable[Key]]) -> str:
    """Digest of what each value led to."""
    return _digest(f"{value} {' '.join(str(key) for key in sorted(keys))}" for value, keys in sorted(found.items()))


def _by_part(log: ReadLog) -> dict[str, list[ObjectRead]]:
    grouped: defaultdict[str, list[ObjectRead]] = defaultdict(list)
    for read in log.objects.values():
        grouped[read.part].append(read)
    return grouped


def _by_index(log: ReadLog) -> dict[tuple[str, str], list[IndexRead]]:
    grouped: defaultdict[tuple[str, str], list[IndexRead]] = defaultdict(list)
    for read in log.indexes.values():
        grouped[read.part, read.index].append(read)
    return grouped


def _length(reads: list[IndexRead]) -> int:
    return sum(1 + len(read.keys) for read in reads)


def _digests_of_objects(reads: list[ObjectRead]) -> dict[str, str]:
    return {
        "asked": digest_of_questions(str(read.key) for read in reads),
        "found": digest_of_objects({read.key: read.version for read in reads}),
    }


def _digests_of_look_ups(reads: list[IndexRead]) -> dict[str, str]:
    return {
        "asked": digest_of_questions(read.value for read in reads),
        "found": digest_of_look_ups({read.value: read.keys for read in reads}),
    }


def _object(part: str, key: Key, version: Version | None) -> RecordedObject:
    if version is None:
        return RecordedObject(part=part, namespace=key.namespace, name=key.name)
    return RecordedObject(
        part=part,
        namespace=key.namespace,
        name=key.name,
        uid=version.uid,
        resource_version=version.resource_version,
        sequence=version.sequence,
        epoch="" if version.local else version.epoch,
    )


def _token(version: Version | None) -> str:
    if version is None:
        return "-"
    where = version.resource_version if version.sequence is None else f"#{version.sequence}"
    return f"{version.uid} {where}"


def _digest(lines: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=12).hexdigest()
