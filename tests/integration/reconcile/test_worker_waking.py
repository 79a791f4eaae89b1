"""What an answer of a pass, or the lack of one, has to do with its next pass."""

import asyncio
from datetime import timedelta

import pytest
from pydantic import BaseModel, ConfigDict
from structlog.testing import capture_logs
from support.passes import CHAT, running, until
from support.reconcile_bench import CONFIG_MAPS, SERVICES, Bench, config_map, service

from aim_domain import AIMService
from controller_runtime import Category, Change, Child, ClassifiedError, JsonObject, Key, MappingBy, Plan, Summary, View
from controller_runtime.core import ConfigMap
from controller_runtime.reconcile.queue import Priority
from embedded_apiserver.http import Request


class Greeting(BaseModel):
    """What ConfigMaps say."""

    model_config = ConfigDict(frozen=True)

    word: str


GREETINGS = Summary(
    CONFIG_MAPS,
    "greetings",
    Greeting,
    lambda found: [(word, Greeting(word=word)) for word in found.data.values()],
)


@pytest.mark.spec("FW-454")
async def test_who_read_a_summary_is_woken_when_it_changes(bench: Bench) -> None:
    bench.index(GREETINGS)

    def look(_obj: AIMService, view: View) -> Plan:
        view.summary(GREETINGS, "hello")
        return Plan()

    bench.decision = look
    await bench.worker.process(CHAT)

    async def woken(body: JsonObject) -> bool:
        """Whether a new ConfigMap enqueues the service; if so, the pass takes place."""
        await bench.create(CONFIG_MAPS, body)
        if not bench.queue.statistics.depth:
            return False
        bench.queue.done((await bench.queue.get()).key)
        await bench.worker.process(CHAT)
        return True

    assert not await woken(config_map("a", text="good bye")), "another group"
    assert await woken(config_map("b", text="hello"))
    assert not await woken(config_map("c", text="hello")), "nothing new"
    bench.decision = lambda _obj, _view: Plan()
    await bench.worker.process(CHAT)
    for name in ("b", "c"):
        gone = bench.cache.get(CONFIG_MAPS, Key("default", name))
        assert gone is not None
        bench.access.absorb(CONFIG_MAPS, gone.raw, gone=True)
    assert bench.queue.statistics.depth == 0, "its last pass did not look"


@pytest.mark.spec("FW-454", "FW-477")
async def test_who_read_a_summary_and_raised_is_woken_by_what_changes_while_that_is_reported(bench: Bench) -> None:
    bench.index(GREETINGS)
    bench.on_virtual_time()
    woken: list[int] = []

    def stumble(_obj: AIMService, view: View) -> Plan:
        view.summary(GREETINGS, "hello")
        raise ValueError("surprise")

    def somebody_speaks(request: Request) -> bool:
        if request.path.endswith("aimservices/chat/status"):
            body = config_map("c", text="hello")
            metadata = {**body["metadata"], "uid": "u-c", "resourceVersion": "999998"}
            bench.access.absorb(CONFIG_MAPS, {**body, "metadata": metadata})
            woken.append(bench.queue.statistics.depth)
        return False

    bench.decision = stumble
    bench.faults.rules.append((somebody_speaks, 0, {}))
    await bench.worker.process(CHAT)
    assert woken == [1], "by that change alone, before the answer to the own write"


@pytest.mark.spec("FW-490")
async def test_what_was_decided_without_an_answer_is_decided_again_when_there_is_one(bench: Bench) -> None:
    """Whatever the pass made of that: what is not there tells nobody that it is not."""

    def decision(_: AIMService, view: View) -> Plan:
        found = view.get(CONFIG_MAPS, "default", "gone")
        lost = found.error is None and found.value is None
        return Plan(children=(Child(CONFIG_MAPS, config_map("instead")),) if lost else ())

    bench.decision = decision
    bench.cache.mark(CONFIG_MAPS, fresh=False)
    bench.queue.add(CHAT)
    async with running(bench):
        await until(lambda: bool(bench.queue.statistics.taken) and not bench.worker.active)
        assert bench.faults.seen == []
        bench.cache.mark(CONFIG_MAPS, fresh=True)
        bench.worker.hurry({SERVICES.name})
        assert bench.queue.statistics.depth == 0, "another part than the one that did not answer"
        bench.worker.hurry({CONFIG_MAPS.name})
        # What it made is there for it to see, once more.
        await until(lambda: len(bench.faults.seen) == 1 and bench.queue.statistics.taken == 3)
        await until(lambda: not bench.worker.active)
        bench.worker.hurry({CONFIG_MAPS.name})
        assert bench.queue.statistics.depth == 0, "the answer came, and nobody waits for another one"


@pytest.mark.spec("FW-861")
async def test_a_missing_answer_is_an_error_after_ten_seconds(bench: Bench) -> None:
    """A publisher that is only starting costs no write of a status that the next pass takes back."""

    def decision(_: AIMService, view: View) -> Plan:
        error = view.get(CONFIG_MAPS, "default", "gone").error
        return Plan(status={"status": "Running" if error is None else "Degraded"})

    async def status_after(seconds: int) -> tuple[str, int]:
        bench.clock += timedelta(seconds=seconds)
        await bench.worker.process(CHAT)
        return bench.stored_status(), len(bench.writes)

    bench.decision = decision
    bench.cache.mark(CONFIG_MAPS, fresh=False)
    assert await status_after(0) == ("", 0)
    assert bench.records == [], "what is not carried out is no decision"
    assert await status_after(9) == ("", 0)
    bench.cache.mark(CONFIG_MAPS, fresh=True)
    assert await status_after(0) == ("Running", 1)
    bench.cache.mark(CONFIG_MAPS, fresh=False)
    assert await status_after(5) == ("Running", 1), "ten seconds of its own"
    assert await status_after(-3600) == ("Running", 1), "a clock that is set back begins them again"
    assert await status_after(10) == ("Degraded", 2)


@pytest.mark.spec("FW-484")
async def test_what_failed_is_tried_again_when_a_part_that_it_read_is_fresh_again(bench: Bench) -> None:
    def decision(_: AIMService, view: View) -> Plan:
        view.get(CONFIG_MAPS, "default", "needed")
        return Plan(retry=ClassifiedError(Category.INFRASTRUCTURE, "NotNow", "the server is away"))

    bench.on_virtual_time()
    bench.decision = decision
    bench.queue.add(CHAT)
    assert len(await bench.work_for(80)) == 9
    bench.worker.hurry({"another"})
    assert await bench.work_for(2) == []
    bench.worker.hurry({CONFIG_MAPS.name})
    assert len(await bench.work_for(2)) == 1
    assert len(await bench.work_for(60)) == 0, "it failed once more, not for the first time"


@pytest.mark.spec("FW-484", "FW-477")
async def test_a_part_that_becomes_fresh_while_a_pass_writes_is_not_missed(bench: Bench) -> None:
    """The pass has read what was there before, and nothing tells it again."""
    bench.on_virtual_time()

    async def freshened() -> None:
        bench.worker.hurry({CONFIG_MAPS.name})

    def decision(_: AIMService, view: View) -> Plan:
        view.get(CONFIG_MAPS, "default", "needed")
        # Runs as soon as the pass waits for the API server.
        hurrying.append(asyncio.ensure_future(freshened()))
        error = ClassifiedError(Category.INFRASTRUCTURE, "NotNow", "the server is away")
        return Plan(status={"status": "Pending"}, retry=error)

    hurrying: list[asyncio.Future[None]] = []
    bench.decision = decision
    await bench.worker.process(CHAT)
    assert bench.queue.statistics.depth == 1


@pytest.mark.spec("FW-484", "FW-477", "FW-490")
async def test_what_raised_keeps_its_pauses_whatever_is_fresh_again(bench: Bench) -> None:
    bench.on_virtual_time()
    bench.cache.mark(CONFIG_MAPS, fresh=False)

    def stumble(_: AIMService, view: View) -> Plan:
        view.get(CONFIG_MAPS, "default", "needed")
        raise ValueError("exceeds the limit of digits")

    bench.decision = stumble
    bench.queue.add(CHAT)
    passes: list[float] = []
    for _ in range(12):
        passes += await bench.work_for(5)
        bench.worker.hurry({CONFIG_MAPS.name, SERVICES.name})
    assert 5 < len(passes) <= 12


async def test_changes_wake_the_right_keys(bench: Bench) -> None:
    await bench.queue.get()
    bench.queue.done(CHAT)
    bench.woken_by = _other_service
    await bench.create(CONFIG_MAPS, config_map("c"))
    await bench.create(CONFIG_MAPS, config_map("ignored"))
    taken = await bench.queue.get()
    assert (taken.key, taken.priority) == (Key("default", "other"), Priority.DEPENDENCY)
    await bench.create(SERVICES, service("new"))
    taken = await bench.queue.get()
    assert (taken.key, taken.priority) == (Key("default", "new"), Priority.USER)
    assert bench.queue.statistics.depth == 0


def _other_service(change: Change[ConfigMap]) -> list[Key]:
    return [Key("default", "other")] if change.key.name == "c" else []


@pytest.mark.spec("FW-432")
async def test_a_wake_that_raises_suppresses_no_other(bench: Bench) -> None:
    def stumbles(_change: Change[ConfigMap], _view: View) -> list[Key]:
        raise RuntimeError("not foreseen")

    def finds(change: Change[ConfigMap], _view: View) -> list[Key]:
        return [Key(change.key.namespace, "chat")]

    bench.enqueuer(MappingBy(CONFIG_MAPS, stumbles), MappingBy(CONFIG_MAPS, finds))
    with capture_logs() as logs:
        await bench.create(CONFIG_MAPS, config_map("c"))
    assert (await asyncio.wait_for(bench.queue.get(), 5)).key == CHAT
    assert bench.worker.enqueuer.failed == 1
    (reported,) = [line for line in logs if line["event"] == "change handler failed"]
    assert (reported["part"], reported["key"], reported["mapping"].rpartition(".")[2]) == (
        "configmaps",
        "default/c",
        "stumbles",
    )
