"""``aim state`` and ``aim diff`` over a real log: pods of several parts, and a log whose beginning was dropped."""

from datetime import UTC, datetime

import pytest
from support.bus_source import Source

from aim_cli.errors import Exit
from aim_cli.log.past import Scope, diff, state
from aim_cli.log.targets import LOGGED, Target
from aim_domain.kind_names import AIM_SERVICE, POD
from controller_runtime import Key
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.wire.subjects import Layout

CHAT = Key("ns", "chat")
SERVICES = next(part for part in LOGGED if part.kind.kind == AIM_SERVICE.kind)
PODS = [part for part in LOGGED if part.kind.kind == POD.kind]


@pytest.fixture(autouse=True)
def root(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIM_NATS_ROOT", layout.root)


@pytest.mark.spec("FW-615")
async def test_an_object_is_found_in_whichever_part_of_its_kind_holds_it(
    bus: BusConnection, layout: Layout, nats_server: str
) -> None:
    assert len(PODS) > 1
    await Source(bus, layout, PODS[-1].name).upsert(CHAT.name, namespace=CHAT.namespace)
    reported = await state(nats_server, Scope(Target(PODS[0], CHAT), None), datetime.now(UTC))
    assert (reported.code, reported.lines[1].split()[:2]) == (Exit.WELL, ["Pod", "ns/chat"])


@pytest.mark.spec("FW-615")
async def test_what_was_before_the_log_is_complete_is_not_known(
    bus: BusConnection, layout: Layout, nats_server: str
) -> None:
    scope, before = Scope(Target(SERVICES, CHAT), None), datetime.now(UTC)
    assert (await state(nats_server, scope, before)).lines == ("AIMService ns/chat was not there",)
    source = Source(bus, layout, SERVICES.name)
    await source.upsert("other")
    await bus.api(f"STREAM.PURGE.{layout.history_stream}")
    await source.upsert("other")
    reported = await state(nats_server, scope, before)
    assert reported.lines == ("whether AIMService ns/chat was there is not known",)
    assert reported.remarks[0].startswith("the log of versions is complete since ")
    assert (await diff(nats_server, scope, before, datetime.now(UTC))).remarks == reported.remarks
    assert (await state(nats_server, scope, datetime.now(UTC))).lines == ("AIMService ns/chat was not there",)
