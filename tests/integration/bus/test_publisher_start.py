"""How much of the history a publisher reads that starts: nothing of what the last one confirmed (FW-505)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from support.cache_objects import widgets
from support.nats import eventually
from support.publishing import Cluster, history, of, present, publishing, remove_from_history, settles

from controller_runtime import Key
from controller_runtime.log.broker.connection import TOO_LARGE, BusConnection, MessageRefusal, PublishOutcome, Unknown
from controller_runtime.log.broker.reading import delete_message, last_message
from controller_runtime.log.publish.checkpoint import NEVER_READ, UNPROVEN, Checkpoint, decode_checkpoint
from controller_runtime.log.publish.session import Session, StreamContents
from controller_runtime.log.wire.messages import Verb
from controller_runtime.log.wire.subjects import Layout

PART = "widgets"
NAMES = ("a", "b", "c")


async def first_publisher(bus: BusConnection, layout: Layout, cluster: Cluster) -> None:
    """Publishes three objects and ends when it has confirmed them."""
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for name in NAMES:
            publisher.take(cluster.put(name))
        await settles(bus, layout, PART, cluster, publisher)


async def copied_by_next(bus: BusConnection, layout: Layout, cluster: Cluster, source: str) -> int:
    """How many versions another publisher found to be missing in the history."""
    async with publishing(bus, widgets(), layout, source=source) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        return publisher.statistics.copied


async def checkpoint_of(bus: BusConnection, layout: Layout) -> Checkpoint:
    stored = await last_message(bus, layout.state_stream, layout.sync(PART))
    assert stored is not None
    return decode_checkpoint(stored.data)


async def write_checkpoint(bus: BusConnection, layout: Layout, checkpoint: Checkpoint) -> None:
    await bus.publish(
        layout.sync(PART), checkpoint.body(), {**checkpoint.headers(), "Nats-Msg-Id": f"{checkpoint.id}/again"}
    )


@pytest.mark.spec("FW-505")
async def test_what_the_last_publisher_saw_in_the_history_or_logged_is_not_read_again(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]]
) -> None:
    cluster = Cluster()
    await first_publisher(bus, layout, cluster)
    for source in ("second", "third"):
        assert await copied_by_next(bus, layout, cluster, source) == 0
    async with publishing(bus, widgets(), layout, source="fourth") as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a", changed=1))
        publisher.take(cluster.delete("b"))
        await settles(bus, layout, PART, cluster, publisher)
    assert await copied_by_next(bus, layout, cluster, "fifth") == 0
    assert readings == []
    versions = await history(bus, layout, PART)
    assert [len(of(versions, name)) for name in NAMES] == [2, 2, 1]
    assert [one.state.previous for one in of(versions, "a")][1] == of(versions, "a")[0].sequence


async def _purge(bus: BusConnection, layout: Layout) -> None:
    await bus.api(f"STREAM.PURGE.{layout.history_stream}")


async def _remove_the_oldest(bus: BusConnection, layout: Layout) -> None:
    await remove_from_history(bus, layout, PART, "a")


async def _remove_from_the_middle(bus: BusConnection, layout: Layout) -> None:
    await remove_from_history(bus, layout, PART, "b")


async def _remove_the_newest(bus: BusConnection, layout: Layout) -> None:
    await remove_from_history(bus, layout, PART, "c")


async def _make_anew(bus: BusConnection, layout: Layout) -> None:
    config = (await bus.api(f"STREAM.INFO.{layout.history_stream}"))["config"]
    await bus.api(f"STREAM.DELETE.{layout.history_stream}")
    await bus.api(f"STREAM.CREATE.{layout.history_stream}", config)
    # So far the history was, too.
    for number in range(9):
        await bus.publish(layout.log("others", Key("ns", f"x{number}")), b"{}", {})


@pytest.mark.spec("FW-505")
@pytest.mark.parametrize(
    ("lose", "lost"),
    [
        (_purge, 3),
        (_remove_the_oldest, 1),
        (_remove_from_the_middle, 1),
        (_remove_the_newest, 1),
        (_make_anew, 3),
    ],
)
async def test_what_the_history_lost_between_two_publishers_is_copied(
    bus: BusConnection,
    layout: Layout,
    readings: list[Sequence[str]],
    lose: Callable[[BusConnection, Layout], Awaitable[None]],
    lost: int,
) -> None:
    cluster = Cluster()
    await first_publisher(bus, layout, cluster)
    await lose(bus, layout)
    assert await copied_by_next(bus, layout, cluster, "second") == lost
    assert len(readings) == 1
    versions = await history(bus, layout, PART)
    assert [len(of(versions, name)) for name in NAMES] == [1, 1, 1]
    assert await copied_by_next(bus, layout, cluster, "third") == 0
    assert len(readings) == 1, "what was copied is vouched for as well"


def _saw_another_version(reported: Checkpoint) -> Checkpoint:
    return replace(reported, history=replace(reported.history, id="another"))


def _knew_less(reported: Checkpoint) -> Checkpoint:
    return replace(reported, fold=f"{int(reported.fold, 16) ^ 1:016x}")


def _came_less_far(reported: Checkpoint) -> Checkpoint:
    return replace(reported, state_sequence=0)


def _wrote_to_another_stream(reported: Checkpoint) -> Checkpoint:
    return replace(reported, stream_created="another")


def _only_claimed(reported: Checkpoint) -> Checkpoint:
    return replace(reported, objects=UNPROVEN, fold="")


def _reported_nothing_of_the_history(reported: Checkpoint) -> Checkpoint:
    return replace(reported, history=NEVER_READ)


@pytest.mark.spec("FW-505")
@pytest.mark.parametrize(
    "other",
    [
        _saw_another_version,
        _knew_less,
        _came_less_far,
        _wrote_to_another_stream,
        _only_claimed,
        _reported_nothing_of_the_history,
    ],
)
async def test_a_checkpoint_that_does_not_vouch_for_just_this_is_not_believed(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]], other: Callable[[Checkpoint], Checkpoint]
) -> None:
    cluster = Cluster()
    await first_publisher(bus, layout, cluster)
    await write_checkpoint(bus, layout, other(await checkpoint_of(bus, layout)))
    assert await copied_by_next(bus, layout, cluster, "second") == 0
    assert len(readings) == 1


@pytest.mark.spec("FW-505")
@pytest.mark.parametrize("deleted", [False, True])
async def test_what_came_after_the_checkpoint_and_was_not_logged_is_copied(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]], *, deleted: bool
) -> None:
    """As a former leader leaves it that was killed between the two streams, under the checkpoint of its successor."""
    cluster = Cluster()
    await first_publisher(bus, layout, cluster)
    reported = await checkpoint_of(bus, layout)
    held = (await present(bus, layout, PART))[Key("ns", "b")]
    verb = Verb.DELETE if deleted else Verb.UPSERT
    body = b"" if deleted else cluster.put("b", late=True).obj.body
    if deleted:
        cluster.delete("b")
    late = replace(held, verb=verb, body=body, resource_version=str(cluster.version), id=f"{held.id}/late")
    await bus.publish(layout.state(PART, held.key), body, late.headers())
    await write_checkpoint(
        bus, layout, replace(reported, number=reported.number + 1, state_sequence=reported.state_sequence + 100)
    )
    assert await copied_by_next(bus, layout, cluster, "second") == 1
    versions = [version.state for version in of(await history(bus, layout, PART), "b")]
    assert [version.deleted for version in versions] == [False, deleted]
    assert len(readings) == 1


@pytest.mark.spec("FW-505")
async def test_a_tombstone_that_was_swept_meanwhile_changes_nothing(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]]
) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for name in NAMES:
            publisher.take(cluster.put(name))
        publisher.take(cluster.delete("b"))
        await settles(bus, layout, PART, cluster, publisher)
    gone = await last_message(bus, layout.state_stream, layout.state(PART, Key("ns", "b")))
    assert gone is not None
    await delete_message(bus, layout.state_stream, gone.sequence)
    assert await copied_by_next(bus, layout, cluster, "second") == 0
    assert readings == []


@pytest.mark.spec("FW-505")
async def test_a_tombstone_that_came_after_the_checkpoint_and_was_not_logged_is_copied(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]]
) -> None:
    """Of an object that came and went since, so that the same objects live as before."""
    cluster = Cluster()
    await first_publisher(bus, layout, cluster)
    held = (await present(bus, layout, PART))[Key("ns", "b")]
    key = Key("ns", "x")
    late = replace(held, key=key, verb=Verb.DELETE, body=b"", uid="uid-x", previous=0, id="late")
    await bus.publish(layout.state(PART, key), b"", late.headers())
    assert await copied_by_next(bus, layout, cluster, "second") == 1
    assert len(readings) == 1


@pytest.mark.spec("FW-505", "FW-452")
async def test_whoever_believed_a_checkpoint_still_notices_what_becomes_too_old(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]]
) -> None:
    cluster = Cluster()
    await first_publisher(bus, layout, cluster)
    assert await copied_by_next(bus, layout, cluster, "second") == 0
    assert readings == []
    await remove_from_history(bus, layout, PART, "a")
    assert await copied_by_next(bus, layout, cluster, "third") == 1


@pytest.mark.spec("FW-505")
async def test_as_many_gaps_as_before_may_be_others(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    for number in range(3):
        await bus.publish(layout.log("others", Key("ns", f"x{number}")), b"{}", {})
    await delete_message(bus, layout.history_stream, 2)
    await first_publisher(bus, layout, cluster)
    # What is too old goes from the front, and a gap behind it as well.
    await delete_message(bus, layout.history_stream, 1)
    await remove_from_history(bus, layout, PART, "b")
    assert await copied_by_next(bus, layout, cluster, "second") == 1


def answers_to_the_log_of(
    monkeypatch: pytest.MonkeyPatch, layout: Layout, name: str, answer: PublishOutcome, *, stored: bool
) -> list[str]:
    """Let the first write of an object's version to the history be answered so; lists the writes."""
    publish, seen = BusConnection.publish, list[str]()

    async def answered(
        bus: BusConnection, subject: str, body: bytes, headers: Mapping[str, str], *, expected: int | None = None
    ) -> PublishOutcome:
        if subject != layout.log(PART, Key("ns", name)):
            return await publish(bus, subject, body, headers, expected=expected)
        seen.append(subject)
        if stored or len(seen) > 1:
            outcome = await publish(bus, subject, body, headers, expected=expected)
        return answer if len(seen) == 1 else outcome

    monkeypatch.setattr(BusConnection, "publish", answered)
    return seen


@pytest.mark.spec("FW-505")
async def test_what_the_history_refused_is_copied_when_it_no_longer_does(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    answers_to_the_log_of(monkeypatch, layout, "b", MessageRefusal(TOO_LARGE, "larger than max_payload"), stored=False)
    await first_publisher(bus, layout, cluster)
    assert (await checkpoint_of(bus, layout)).history == NEVER_READ
    assert await copied_by_next(bus, layout, cluster, "second") == 1
    assert len(of(await history(bus, layout, PART), "b")) == 1
    assert await copied_by_next(bus, layout, cluster, "third") == 0


@pytest.mark.spec("FW-505")
async def test_the_last_version_is_reported_also_where_the_answer_to_it_was_lost(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a history that was restored from before it would be believed."""
    cluster = Cluster()
    writes = answers_to_the_log_of(monkeypatch, layout, "c", Unknown("no answer in time"), stored=True)
    await first_publisher(bus, layout, cluster)
    assert len(writes) == 2
    last = await last_message(bus, layout.history_stream, layout.log(PART, Key("ns", "c")))
    assert last is not None
    assert (await checkpoint_of(bus, layout)).history.last == last.sequence


@pytest.mark.spec("FW-505")
async def test_a_version_that_was_found_to_be_logged_counts_as_the_last(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]]
) -> None:
    """As after a crash between the two streams, when somebody else had copied it meanwhile."""
    cluster = Cluster()
    await first_publisher(bus, layout, cluster)
    await write_checkpoint(bus, layout, _only_claimed(await checkpoint_of(bus, layout)))
    assert await copied_by_next(bus, layout, cluster, "second") == 0
    last = await last_message(bus, layout.history_stream, layout.log(PART, Key("ns", "c")))
    assert last is not None
    assert (await checkpoint_of(bus, layout)).history.last == last.sequence
    assert len(readings) == 1


@pytest.mark.spec("FW-505")
async def test_while_copies_are_made_an_own_checkpoint_vouches_for_nothing(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies in the middle of it would leave a checkpoint that is not true any more."""
    cluster, seen = Cluster(), list[Checkpoint]()
    mend = Session._mend

    async def mend_and_look(session: Session, found: StreamContents) -> None:
        seen.append(await checkpoint_of(bus, layout))
        await mend(session, found)

    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
        await bus.api(f"STREAM.PURGE.{layout.history_stream}")
        monkeypatch.setattr(Session, "_mend", mend_and_look)
        publisher.reread()
        await eventually(lambda: publisher.statistics.copied == 1, "copied")
    assert seen[0].proof is None
