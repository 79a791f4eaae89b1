"""The work queue on virtual time."""

import asyncio
import random
from dataclasses import replace

import pytest
from support.virtual_clock import VirtualClock

from controller_runtime import Key
from controller_runtime.backoff import Backoff
from controller_runtime.reconcile.queue import (
    DEFAULT_BACKOFF,
    DURATIONS,
    Priority,
    QueueClosedError,
    TakenKey,
    TokenBucket,
    WorkQueue,
)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(clock: VirtualClock) -> WorkQueue[str]:
    return WorkQueue(clock, backoff=replace(DEFAULT_BACKOFF, jitter=0.0), randomness=random.Random(1))


async def take(queue: WorkQueue[str]) -> TakenKey[str] | None:
    """The next key, if one is ready now."""
    try:
        async with asyncio.timeout(0.001):
            return await queue.get()
    except TimeoutError:
        return None


async def keys(queue: WorkQueue[str]) -> list[str]:
    taken = []
    while (next_ := await take(queue)) is not None:
        taken.append(next_.key)
    return taken


async def test_what_a_user_did_goes_first(queue: WorkQueue[str]) -> None:
    queue.add("resync", Priority.RESYNC)
    queue.add("dependency", Priority.DEPENDENCY)
    queue.add("promoted", Priority.RESYNC)
    queue.add("user", Priority.USER)
    queue.add("promoted", Priority.USER)
    assert await keys(queue) == ["user", "promoted", "dependency", "resync"]


@pytest.mark.spec("DI-365", "SV-255")
async def test_requests_for_one_key_are_joined(queue: WorkQueue[str]) -> None:
    for _ in range(5):
        queue.add("a")
    assert queue.statistics.depth == 1
    assert await keys(queue) == ["a"]


@pytest.mark.spec("FW-015", "DI-365", "SV-255")
async def test_one_worker_per_key(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert await take(queue) is not None
    queue.add("a")
    assert await take(queue) is None
    queue.done("a")
    assert await keys(queue) == ["a"]
    queue.done("a")
    assert await take(queue) is None


async def test_a_waiting_worker_is_woken(queue: WorkQueue[str]) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
    assert waiting.result().key == "a"


async def test_the_earliest_of_several_timers_counts(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add_after("a", 10)
    queue.add_after("a", 5)
    queue.add_after("a", 60)
    clock.advance(4.9)
    assert await take(queue) is None
    clock.advance(0.1)
    assert await keys(queue) == ["a"]
    queue.done("a")
    clock.advance(100)
    assert await take(queue) is None
    queue.add_after("a", 0)
    assert await keys(queue) == ["a"]


@pytest.mark.spec("FW-097")
async def test_a_pass_ends_the_delay_that_an_earlier_one_asked_for(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add_after("a", 5)
    queue.add("a")
    assert await keys(queue) == ["a"]
    queue.done("a")
    clock.advance(100)
    assert await take(queue) is None
    queue.add("a")
    assert await keys(queue) == ["a"]
    queue.add_after("a", 5)
    queue.done("a")
    clock.advance(5)
    assert await keys(queue) == ["a"], "what the pass itself asks for stays"


@pytest.mark.spec("FW-098")
def test_backoff_doubles_up_to_its_maximum_and_starts_anew(queue: WorkQueue[str], clock: VirtualClock) -> None:
    delays = [queue.retry("a") for _ in range(15)]
    assert delays[:4] == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert delays[-1] == 1000.0
    queue.succeeded("a")
    assert queue.retry("a") == pytest.approx(0.2)
    assert queue.statistics.retries == 16


@pytest.mark.spec("FW-474", "FW-477")
def test_what_always_fails_is_tried_twelve_times_in_the_first_minute_at_most(clock: VirtualClock) -> None:
    queue = WorkQueue[str](clock, randomness=random.Random(2))
    tries, waited = 1, queue.retry("a")
    while waited <= 60:
        tries, waited = tries + 1, waited + queue.retry("a")
    assert tries == 9


@pytest.mark.spec("FW-098")
def test_jitter_is_ten_percent_either_way() -> None:
    randomness = random.Random(4)
    delays = [DEFAULT_BACKOFF.delay(1, randomness) for _ in range(500)]
    assert 0.18 <= min(delays) < 0.185
    assert 0.215 < max(delays) <= 0.22


@pytest.mark.spec("FW-098")
def test_the_overall_retry_rate() -> None:
    bucket = TokenBucket()
    assert [bucket.reserve(0.0) for _ in range(100)] == [0.0] * 100
    assert [bucket.reserve(0.0) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    assert bucket.reserve(100.0) == 0.0


@pytest.mark.spec("FW-484")
async def test_what_failed_is_tried_at_once_when_it_may_succeed(queue: WorkQueue[str], clock: VirtualClock) -> None:
    for _ in range(10):
        queue.retry("failing")
    queue.retry("told to wait", at_least=60)
    queue.add_after("waiting for its time", 100)
    for key in ("failing", "told to wait"):
        queue.hurry(key)
    clock.advance(1)
    assert await keys(queue) == ["failing"]
    assert queue.retry("failing") > 100, "a failure more, not the first"
    clock.advance(60)
    assert await keys(queue) == ["told to wait"]


@pytest.mark.spec("FW-484")
async def test_a_pass_under_way_that_fails_is_followed_by_another(queue: WorkQueue[str], clock: VirtualClock) -> None:
    for _ in range(14):
        queue.retry("a")
    clock.advance(1200)
    assert await take(queue) is not None
    queue.hurry("a")
    queue.retry("a")
    queue.done("a")
    assert await keys(queue) == ["a"]


@pytest.mark.spec("FW-484", "FW-098")
async def test_what_comes_back_is_not_met_by_everybody_at_once(clock: VirtualClock) -> None:
    patient = Backoff(base=1000.0, cap=1000.0, jitter=0.0)
    queue: WorkQueue[int] = WorkQueue(clock, backoff=patient, rate=TokenBucket, randomness=random.Random(1))
    for key in range(500):
        queue.retry(key)
    clock.advance(600)
    for _ in range(3):
        # Parts become fresh one after the other; whoever waits for a turn does not take another one.
        for key in range(500):
            queue.hurry(key)
    clock.advance(1)
    assert queue.statistics.depth == 110
    clock.advance(39)
    assert queue.statistics.depth == 500
    assert queue.statistics.delayed == 0


@pytest.mark.spec("FW-490")
async def test_what_did_not_fail_has_its_pass_at_once(queue: WorkQueue[str]) -> None:
    queue.hurry("a")
    assert await keys(queue) == ["a"]


@pytest.mark.spec("FW-068")
async def test_a_retry_comes_no_later_than_the_grace_period_ends(queue: WorkQueue[str], clock: VirtualClock) -> None:
    for _ in range(8):
        queue.retry("a")
    queue.forget("a")
    for _ in range(8):
        queue.retry("b", within=3.0)
    clock.advance(3.0)
    assert await keys(queue) == ["b"]


async def test_a_key_that_is_gone_is_forgotten(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add("a")
    queue.retry("b")
    queue.forget("a")
    queue.forget("b")
    clock.advance(10)
    assert await take(queue) is None
    assert (queue.statistics.depth, queue.statistics.delayed) == (0, 0)
    queue.add("a")
    assert await keys(queue) == ["a"]


async def test_statistics(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add("a")
    clock.advance(2)
    queue.add("b")
    assert queue.statistics.oldest_seconds == 2.0
    taken = await queue.get()
    assert queue.statistics.oldest_seconds == 0.0
    queue.forget("b")
    assert (taken.waited, taken.attempt) == (2.0, 0)
    clock.advance(3)
    running = queue.statistics
    assert (running.processing, running.unfinished_seconds, running.longest_running_seconds) == (1, 3.0, 3.0)
    queue.done("a")
    done = queue.statistics
    assert (done.queue_seconds, done.work_seconds, done.taken, done.adds, done.processing) == (2.0, 3.0, 1, 2, 0)
    ten = DURATIONS.index(10.0)
    assert (done.waits[ten], sum(done.waits), done.works[ten], sum(done.works)) == (1, 1, 1, 1)


async def test_closing_ends_waiting(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add_after("a", 1)
    queue.close()
    clock.advance(2)
    with pytest.raises(QueueClosedError):
        await queue.get()


@pytest.mark.spec("FW-098")
async def test_a_key_that_a_server_sent_away_is_held_back(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add("a")
    assert await take(queue) is not None
    queue.add("a")
    assert queue.retry("a", at_least=5) == 5
    queue.done("a")
    queue.add("a")
    queue.add("b")
    assert await keys(queue) == ["b"]
    clock.advance(4.9)
    assert await keys(queue) == []
    clock.advance(0.2)
    assert await keys(queue) == ["a"]
    queue.done("a")
    queue.add("a")
    assert await keys(queue) == ["a"], "held back only once"


@pytest.mark.spec("FW-595")
@pytest.mark.parametrize("theirs", [Priority.USER, Priority.DEPENDENCY])
@pytest.mark.parametrize("mine", [Priority.USER, Priority.DEPENDENCY])
async def test_ten_thousand_objects_of_one_namespace_hold_up_no_other(
    clock: VirtualClock, theirs: Priority, mine: Priority
) -> None:
    """A pass takes 10 ms: first come, first served would be 100 s."""
    queue: WorkQueue[Key] = WorkQueue(clock, lane=lambda key: key.namespace)
    for number in range(10_000):
        queue.add(Key("flood", str(number)), theirs)
    began = await queue.get()
    queue.add(Key("team", "chat"), mine)
    waited: dict[str, float] = {}
    taken = began
    while "team" not in waited:
        clock.advance(0.01)
        queue.done(taken.key)
        taken = await queue.get()
        waited[taken.key.namespace] = taken.waited
    assert waited["team"] <= 0.02


@pytest.mark.spec("FW-595")
async def test_namespaces_take_turns_and_each_keeps_its_own_order(clock: VirtualClock) -> None:
    queue: WorkQueue[Key] = WorkQueue(clock, lane=lambda key: key.namespace)
    for namespace, name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.add(Key(namespace, name))
    queue.add(Key("c", "0"), Priority.RESYNC)
    queue.add(Key("a", "0"), Priority.DEPENDENCY)
    order = [await queue.get() for _ in range(8)]
    assert [f"{one.key.namespace}{one.key.name}" for one in order] == [
        "a1", "b1", "c1", "a2", "b2", "a3", "a0", "c0",
    ]  # fmt: skip


@pytest.mark.spec("FW-595", "FW-098")
def test_a_namespace_in_which_everything_fails_delays_no_retry_of_another(clock: VirtualClock) -> None:
    queue: WorkQueue[Key] = WorkQueue(clock, randomness=random.Random(1), lane=lambda key: key.namespace)
    theirs = [queue.retry(Key("flood", str(number))) for number in range(10_000)]
    assert max(theirs) > 900
    assert queue.retry(Key("team", "chat")) < 1


@pytest.mark.spec("FW-595")
def test_what_is_remembered_of_retries_does_not_grow_with_namespaces(clock: VirtualClock) -> None:
    queue: WorkQueue[Key] = WorkQueue(clock, lane=lambda key: key.namespace)
    for number in range(5_000):
        queue.retry(Key(f"team-{number}", "chat"))
        clock.advance(0.2)
    assert len(queue._rates) <= 1_001
