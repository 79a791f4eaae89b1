"""In which epoch a publisher goes on, and how it finds out."""

import asyncio
from datetime import UTC, datetime

from aim_domain.parts import DISCOVERY_PODS
from controller_runtime.kube.reflector_state import ListFrom, Restarted
from controller_runtime.log.broker.reading import StreamState
from controller_runtime.log.publish.epoch import Scoping
from controller_runtime.log.publish.intake import Intake
from controller_runtime.log.publish.judgement import StoredVersion
from controller_runtime.log.wire.messages import Verb


async def test_a_list_from_the_store_is_asked_for_until_it_comes() -> None:
    asked: list[ListFrom] = []

    def relist(source: ListFrom) -> None:
        asked.append(source)
        # The first two requests get lost; for all that anybody knows, the cache may lag for ever.
        if len(asked) == 3:
            intake.take(Restarted((), "6", from_store=True))
        else:
            intake.take(Restarted((), "5"))

    intake = Intake(DISCOVERY_PODS, lambda: True, relist)
    intake.take(Restarted((), "5"))
    scoping = Scoping("discovery.pods", intake, "", list_grace=0.01)
    state = StreamState(created="c", now=datetime(2026, 1, 1, tzinfo=UTC), last_sequence=1)
    held = StoredVersion(1, Verb.UPSERT, "20260101T000000.000Z-aaaaaa", "u", "9", b"", 1)
    async with asyncio.timeout(60):
        assert await scoping.choose(state, None, [held], 1)
    assert asked == [ListFrom.STORE] * 3
