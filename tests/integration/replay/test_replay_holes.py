"""What cannot be told from a log, and why."""

from typing import Any

import pytest
from support.replay_log import PART, Log, by_name, change_everything, first_red, last_red
from support.versions import version_of

from aim_domain import AimSettings
from controller_runtime import JsonObject, Key, Reconciler, ServiceDefinition, dumps, loads
from controller_runtime.log.broker.connection import PubAck
from controller_runtime.log.broker.reading import last_message
from controller_runtime.log.history.reader import History
from controller_runtime.log.history.versions import VersionAnswer, as_of
from controller_runtime.log.wire.messages import LogMessage
from controller_runtime.replay import Replayer, ServiceCode, Verdict
from controller_runtime.replay import past as past_part


@pytest.mark.spec("FW-437", "FW-438")
async def test_what_the_history_lost_is_named(log: Log) -> None:
    await log.decide("c", first_red)
    await change_everything(log)
    await log.bus.api(
        f"STREAM.PURGE.{log.layout.history_stream}", {"filter": log.layout.log(PART.name, Key("ns", "b"))}
    )
    (one,) = await log.replay(first_red)
    assert one.verdict is Verdict.UNKNOWN
    assert one.missing == ("widgets/ns/b: version 102 is not kept",)


@pytest.mark.spec("FW-438")
async def test_a_history_that_begins_after_the_decision_tells_no_absence(log: Log) -> None:
    await log.decide("a", by_name)
    await log.source.delete("c")
    await log.caught_up()
    await log.source.upsert("b", labels={"colour": "blue"})
    await log.bus.api(f"STREAM.PURGE.{log.layout.history_stream}", {"keep": 1})
    (one,) = await log.replay(last_red)
    assert one.verdict is Verdict.UNKNOWN
    # Of what was there and is gone since, as c, no trace may be left.
    assert one.missing[0].startswith("widgets: the history goes back to ")


@pytest.mark.spec("FW-439")
async def test_settings_are_those_of_then(log: Log) -> None:
    log.settings = {**log.settings, "resync_interval": 77.0, "no_longer_known": 1}
    await log.decide("a", by_name)

    def definition(settings: AimSettings) -> ServiceDefinition:
        # By default they are another.
        assert settings.resync_interval == 77.0
        return ServiceDefinition("tester", (), (PART,), reconcilers=(Reconciler("widget", PART, by_name),))

    replayer = Replayer(History(log.bus, log.layout), {"tester": ServiceCode(AimSettings, definition)})
    assert [one.verdict async for one in replayer.decisions()] == [Verdict.SAME]


@pytest.mark.spec("FW-439")
@pytest.mark.parametrize(
    ("settings", "digest", "named"),
    [
        ({}, "lost", "the settings lost of tester are not kept"),
        ({"resync_interval": "never"}, "d1", "the settings are not valid today: resync_interval"),
    ],
)
async def test_without_its_settings_a_decision_cannot_be_reported(
    log: Log, settings: JsonObject, digest: str, named: str
) -> None:
    log.settings = settings
    await log.decide("a", by_name, digest=digest)
    (one,) = await log.replay(by_name)
    assert one.verdict is Verdict.UNKNOWN
    assert one.missing[0].startswith(named)


async def test_what_has_no_code_today_cannot_be_reported(log: Log) -> None:
    await log.decide("a", by_name)
    replayer = Replayer(History(log.bus, log.layout), {})
    (one,) = [one async for one in replayer.decisions()]
    assert (one.verdict, one.missing) == (Verdict.UNKNOWN, ("a service 'tester' today",))


@pytest.mark.spec("FW-440")
async def test_a_digest_that_does_not_agree_is_named(log: Log) -> None:
    for number in range(200):
        await log.source.upsert(f"w{number}", labels={"colour": "red"})
    await log.caught_up()
    await log.decide("c", first_red)
    # Nobody of ours takes away every trace of an object.
    key = Key("ns", "w7")
    for stream, subject in (
        (log.layout.history_stream, log.layout.log(PART.name, key)),
        (log.layout.state_stream, log.layout.state(PART.name, key)),
    ):
        await log.bus.api(f"STREAM.PURGE.{stream}", {"filter": subject})
    (one,) = await log.replay(first_red)
    assert (one.verdict, one.missing) == (
        Verdict.UNKNOWN,
        ("widgets: the history tells of 202 objects, the cache held 203",),
    )


@pytest.mark.spec("FW-438", "FW-496")
async def test_a_version_that_nobody_can_read_is_not_blamed_on_the_code_of_today(log: Log) -> None:
    await log.decide("c", by_name)
    for stream in (log.layout.history_stream, log.layout.state_stream):
        await log.bus.api(f"STREAM.PURGE.{stream}", {"filter": f"*.*.{PART.name}.ns.b"})
    key = Key("ns", "b")
    version = version_of(
        PART.name, key, b"garbage", sequence=2, epoch=log.source.epoch, uid="u2", resource_version="102"
    )
    headers = LogMessage(version.state, version.sequence).headers()
    assert isinstance(await log.bus.publish(log.layout.log(PART.name, key), b"garbage", headers), PubAck)
    (one,) = await log.replay(by_name)
    assert one.verdict is Verdict.UNKNOWN
    assert one.missing == ("widgets/ns/b: the version that was there cannot be read (2)",)


@pytest.mark.spec("FW-438", "FW-441")
async def test_a_replay_that_stumbles_itself_neither_blames_the_code_nor_goes_on_from_halfway(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.decide("c", first_red)
    await log.decide("c", first_red)
    looks = [0]

    def stumbling(*args: Any) -> VersionAnswer:
        looks[0] += 1
        if looks[0] == 2:
            raise RuntimeError("no such place")
        return as_of(*args)

    monkeypatch.setattr(past_part, "as_of", stumbling)
    first, second = await log.replay(first_red)
    assert (first.verdict, first.differences) == (Verdict.UNKNOWN, ())
    assert first.missing == ("looking for widgets in the history raised RuntimeError: no such place",)
    assert (second.verdict, second.missing) == (Verdict.SAME, ())


@pytest.mark.spec("FW-437", "FW-441")
@pytest.mark.parametrize("change", ["nonsense", "a moment without a time zone"])
async def test_a_record_that_nobody_can_read_is_not_passed_over(log: Log, change: str) -> None:
    await log.decide("a", by_name)
    await log.decide("b", by_name)
    subject = log.layout.decision("tester", PART.name, Key("ns", "b"))
    stored = await last_message(log.bus, log.layout.decisions_stream, subject)
    assert stored is not None
    written = {**loads(stored.data), "at": "2026-11-21T12:00:00"}
    await log._publish(subject, b"{" if change == "nonsense" else dumps(written))
    replayer = log.replayer(by_name)
    assert [one.verdict async for one in replayer.decisions()] == [Verdict.SAME, Verdict.SAME]
    assert replayer.unreadable == 1


@pytest.mark.spec("FW-437", "FW-441")
async def test_with_settings_that_are_nonsense_nothing_can_be_reported(log: Log) -> None:
    await log.decide("a", by_name)
    await log._publish(log.layout.settings("tester", "d1"), b"{")
    (reported,) = await log.replay(by_name)
    assert reported.verdict is Verdict.UNKNOWN
    assert "are no JSON" in reported.missing[0]
