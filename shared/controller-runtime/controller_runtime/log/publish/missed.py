"""Versions that came between the last publisher's checkpoint and the list of the next one (FW-896)."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from itertools import dropwhile
from typing import Any, Final

import structlog

from controller_runtime.kube.errors import KubeError
from controller_runtime.log.publish.intake import KEPT_WHILE_AWAY, Intake
from controller_runtime.log.publish.judgement import StoredVersion
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.wire.part import Key, Part

Changes = Callable[[str], AsyncGenerator[SourceVersion, None]]
"""The versions of a part after a resourceVersion, as a watch from there brings them, for a while."""

CATCH_UP_SECONDS: Final = 2
"""Seconds for which the API server is asked; without an answer a new epoch names the gap."""

_log = structlog.get_logger(__name__)


class MissedVersions:
    """What a watch from a checkpoint brought of each object, up to the list, in order.

    Args:
        stored: what the state stream holds; what is not newer was published.
    """

    def __init__(self, part: Part[Any], intake: Intake, stored: Mapping[Key, StoredVersion]) -> None:
        self._part = part
        self._intake = intake
        self._stored = stored
        self._chains: dict[Key, list[SourceVersion]] = {}
        self._count = 0

    async def read(self, changes: Changes, since: str, keys: Collection[Key]) -> None:
        """Take what the API server still has, until nothing is missing of these objects, or it cannot be had."""
        lacking = set(keys)
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS), aclosing(changes(since)) as versions:
                async for version in versions:
                    self._take(version)
                    if self._leads_up(version.key):
                        lacking.discard(version.key)
                    elif version.key in self._chains:
                        lacking.add(version.key)
                    if not lacking or self._count > KEPT_WHILE_AWAY:
                        return
        except (KubeError, ValueError, TimeoutError) as error:
            # That of a timeout has no text.
            cause = str(error) or f"they did not come within {CATCH_UP_SECONDS} s"
            _log.info("versions before the list are not available", part=self._part.name, error=cause)

    def is_whole(self, keys: Collection[Key]) -> bool:
        """Whether the versions of these objects, and of all others that were found, lead up to the list."""
        return all(self._leads_up(key) for key in {*keys, *self._chains})

    def versions(self) -> Iterator[tuple[Key, list[SourceVersion]]]:
        """The versions to publish of each object, before those that the watch has brought since the list."""
        for key, chain in self._chains.items():
            yield key, self._from_news(key, chain)

    def _take(self, version: SourceVersion) -> None:
        held, number = self._stored.get(version.key), int(version.resource_version)
        published = held is not None and number <= int(held.resource_version)
        # What came after the list is in its lane, or comes into it.
        if published or self._came_after_list(version):
            return
        self._chains.setdefault(version.key, []).append(version)
        self._count += 1

    def _leads_up(self, key: Key) -> bool:
        chain, waiting = self._chains.get(key), self._intake.lanes.oldest_of(key)
        # What waits since before the list, while the broker was away, would be published twice.
        if not chain or (waiting is not None and not self._came_after_list(waiting)):
            return False
        last = chain[-1]
        identity = None if last.deleted else (last.uid, last.resource_version)
        return identity == self._intake.in_list(key)

    def _came_after_list(self, version: SourceVersion) -> bool:
        return int(version.resource_version) > int(self._intake.source.list_version)

    def _from_news(self, key: Key, chain: list[SourceVersion]) -> list[SourceVersion]:
        """Of an object that no service writes, from the first version on in which fields changed that are read."""
        held = self._stored.get(key)
        if held is None or not self._part.read_only:
            return chain
        return [*dropwhile(lambda one: (one.uid, one.digest) == (held.uid, held.digest), chain)]
