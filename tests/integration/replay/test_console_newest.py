"""The newest decisions, from a real broker (FW-736)."""

from datetime import UTC, datetime
from typing import Final

import pytest
from support.nats import TEST_LIMITS

from aim_console import newest
from aim_console.newest import Newest
from aim_domain.parts import SERVICES
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.reading import StreamState, stream_state
from controller_runtime.log.broker.streams import ensure_streams
from controller_runtime.log.history import reader as history
from controller_runtime.log.history.decisions import DecisionRecord, RecordedWrite
from controller_runtime.log.history.reader import History
from controller_runtime.log.wire.subjects import Layout

WRITE: Final = RecordedWrite(verb="apply", kind="InferenceService", namespace="ns", name="chat")


class Deciding:
    """A service that decides."""

    def __init__(self, bus: BusConnection, layout: Layout) -> None:
        self._bus, self._layout, self._count = bus, layout, 0

    async def decide(self, *writes: RecordedWrite, outcome: str = "done", plan: object = None) -> str:
        self._count += 1
        record = DecisionRecord(
            id=f"d{self._count}", service="serving", controller="service", part=SERVICES.name, namespace="ns",
            name="chat", at=datetime.now(UTC), writes=writes, outcome=outcome, plan={"effects": plan} if plan else {},
        )  # fmt: skip
        subject = self._layout.decision("serving", SERVICES.name, record.key)
        await self._bus.publish(subject, record.to_json(), {})
        return record.id


async def ids(of: Newest) -> list[str]:
    return [one.id for one in await of.decisions()]


@pytest.mark.spec("FW-736")
async def test_those_that_did_something_are_kept_and_only_news_are_read(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, deciding = History(bus, layout), Deciding(bus, layout)
    of = Newest(log)
    assert await ids(of) == []
    wrote = await deciding.decide(WRITE)
    await deciding.decide()
    asked = await deciding.decide(plan=[{"kind": "inspect"}])
    failed = await deciding.decide(outcome="the API server refused it")
    assert await ids(of) == [failed, asked, wrote]
    assert await log.newest_decisions(10, known=3) == ((await log.newest_decisions(1))[0], 4), (
        "what is known is not read"
    )
    last = await deciding.decide(WRITE)
    assert await ids(of) == [last, failed, asked, wrote]
    monkeypatch.setattr(newest, "_KEPT", 2)
    assert await ids(Newest(log)) == [last, failed], "no more than so many are read"


@pytest.mark.spec("FW-736")
async def test_a_log_that_began_anew_is_read_from_its_beginning(bus: BusConnection, layout: Layout) -> None:
    of, deciding = Newest(History(bus, layout)), Deciding(bus, layout)
    await deciding.decide(WRITE)
    await deciding.decide(WRITE)
    assert len(await ids(of)) == 2
    await bus.api(f"STREAM.DELETE.{layout.decisions_stream}")
    await ensure_streams(bus, layout, TEST_LIMITS)
    there = await deciding.decide(WRITE)
    assert await ids(of) == [there]


@pytest.mark.spec("FW-736")
async def test_what_comes_between_question_and_answer_is_kept_once(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, deciding, late = Newest(History(bus, layout)), Deciding(bus, layout), list[str]()
    first = await deciding.decide(WRITE)

    async def asked(connection: BusConnection, stream: str) -> StreamState:
        found = await stream_state(connection, stream)
        if not late:
            late.append(await deciding.decide(WRITE))
        return found

    monkeypatch.setattr(history, "stream_state", asked)
    assert await ids(of) == [*late, first]
    assert await ids(of) == [*late, first]
