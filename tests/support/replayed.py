"""A past for replays, made from what a world holds instead of from a broker."""

from datetime import UTC, datetime

from aim_shared.api import Resource
from aim_shared.bus.chain import Chain, LoggedVersion
from aim_shared.bus.entry import Entry
from aim_shared.bus.envelope import Verb
from aim_shared.bus.part import Key, Part
from aim_shared.bus.world import World
from aim_shared.replay.past import Past

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def logged(entry: Entry[Resource], previous: int = 0, verb: Verb = Verb.UPSERT) -> LoggedVersion:
    version = entry.version
    return LoggedVersion(
        part=entry.part.name,
        key=entry.key,
        verb=verb,
        epoch=version.epoch,
        uid=version.uid,
        resource_version=version.resource_version,
        sequence=version.sequence or 0,
        previous=previous,
        time=NOON,
        traceparent="",
        data=b"" if verb is Verb.DELETE else entry.body,
    )


def past_of(world: World, part: Part[Resource], *later: LoggedVersion, whole: bool = True) -> Past:
    """A history that holds what the world holds, and what came later."""
    chains: dict[Key, Chain] = {}
    for version in (*(logged(entry) for entry in world.all(part)), *later):
        chains[version.key] = Chain((*chains.get(version.key, Chain()).versions, version))
    past = Past()
    past.add({(part.name, key): chain for key, chain in chains.items()})
    if whole:
        past.add_part(part.name, "", chains)
    return past
