"""A past for replays, made from what a cache holds instead of from a broker, and the records of passes over it."""

from collections.abc import Mapping
from uuid import uuid4

from support.versions import NOON, version_of

from controller_runtime import Cache, Key, Part, Resource
from controller_runtime.log.cache.view import CacheView
from controller_runtime.log.history.decisions import DecisionRecord, RecordedFailure, recorded_position, recorded_reads
from controller_runtime.log.history.versions import Chain, LoggedVersion
from controller_runtime.log.wire.messages import Verb
from controller_runtime.log.wire.version import Entry
from controller_runtime.replay.past import Past


def logged(entry: Entry[Resource], previous: int = 0, verb: Verb = Verb.UPSERT) -> LoggedVersion:
    version = entry.version
    return version_of(
        entry.part.name,
        entry.key,
        entry.body,
        sequence=version.sequence or 0,
        previous=previous,
        verb=verb,
        epoch=version.epoch,
        uid=version.uid,
        resource_version=version.resource_version,
    )


def past_of(cache: Cache, part: Part[Resource], *later: LoggedVersion) -> Past:
    """A history that holds what the cache holds, and what came later."""
    chains: dict[Key, Chain] = {}
    for version in (*(logged(entry) for entry in cache.all(part)), *later):
        chains[version.key] = Chain((*chains.get(version.key, Chain()).versions, version))
    return past_with(part, chains)


def past_with(part: Part[Resource], chains: Mapping[Key, Chain]) -> Past:
    """A history of which all was read."""
    past = Past()
    past.add({(part.name, key): chain for key, chain in chains.items()})
    past.add_part((part.name, ""), chains)
    return past


def record_of(view: CacheView, cache: Cache, failure: RecordedFailure | None = None) -> DecisionRecord:
    """The record of a pass over the widget ``ns/a``, through JSON and back, as a real one comes."""
    record = DecisionRecord(
        id=uuid4().hex,
        service="tester",
        controller="widget",
        part="widgets",
        namespace="ns",
        name="a",
        at=NOON,
        world=recorded_position(cache.position(), view.reads.searched_parts),
        reads=recorded_reads(view.reads),
        failure=failure,
        failing_since=view.failing_since,
    )
    return DecisionRecord.from_json(record.to_json())
