"""Effects become facts: once per request, with the count of failures, and never at the cost of another effect."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from support.nats import eventually

from controller_runtime import ApiModel, Category, ClassifiedError, Clients, Effect, EffectError, EffectType, Fact
from controller_runtime.log.history.facts import FactOwner
from controller_runtime.log.wire.version import Entry
from controller_runtime.manager.effects import EffectHost

OWNER = FactOwner(part="aimmodels", namespace="ml", name="qwen", uid="u1")
REFUSED = ClassifiedError(Category.AUTH, "Unauthorized", "the registry refused")


class About(ApiModel):
    """What is inspected."""

    about: str


class Labels(ApiModel):
    """What was found."""

    labels: dict[str, str]


def declared(name: str, concurrency: int = 16) -> EffectType[About, Labels, Clients]:
    return EffectType(name, About, Labels, lambda _: Inspector(), concurrency)


def ask(name: str, about: str, not_before: datetime | None = None) -> Effect:
    return declared(name).ask(about, About(about=about), not_before)


class Inspector:
    """A runner that a test can hold back, let fail, or break."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def __call__(self, params: About) -> Labels:
        self.calls.append(params.about)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return Labels(labels={"about": params.about})


class Facts:
    """Facts in the order in which they became known."""

    def __init__(self) -> None:
        self.known: list[Fact] = []
        self.arrived = asyncio.Event()

    async def publish(self, entry: Entry[Fact]) -> None:
        fact = entry.object
        assert fact is not None
        self.known.append(fact)
        self.arrived.set()

    def previous(self, effect: str, about: str) -> Fact | None:
        return next((one for one in reversed(self.known) if (one.effect, one.about) == (effect, about)), None)

    async def next(self) -> Fact:
        async with asyncio.timeout(60):
            await self.arrived.wait()
        self.arrived.clear()
        return self.known[-1]


@asynccontextmanager
async def host(inspector: Inspector, facts: Facts) -> AsyncIterator[EffectHost]:
    async with EffectHost("discovery", [declared("inspect", 16)], {"inspect": inspector}, facts) as running:
        yield running


async def test_an_outcome_becomes_a_fact_of_its_owner() -> None:
    facts = Facts()
    async with host(Inspector(), facts) as running:
        running.submit(ask("inspect", "image:1"), OWNER)
        fact = await facts.next()
    assert (fact.effect, fact.about, fact.owner, fact.attempts) == ("inspect", "image:1", OWNER, 0)
    assert fact.outcome == {"labels": {"about": "image:1"}}
    assert fact.namespace == "discovery"


async def test_asking_again_while_it_runs_changes_nothing() -> None:
    inspector, facts = Inspector(), Facts()
    inspector.gate.clear()
    async with host(inspector, facts) as running:
        for _ in range(3):
            running.submit(ask("inspect", "image:1"), OWNER)
            await asyncio.sleep(0)
        running.submit(ask("inspect", "image:2"), OWNER)
        inspector.gate.set()
        while len(facts.known) < 2:
            await facts.next()
    assert sorted(inspector.calls) == ["image:1", "image:2"]
    assert running.statistics.succeeded == 2


@pytest.mark.spec("FW-004")
async def test_failures_are_facts_and_are_counted_until_a_success() -> None:
    inspector, facts = Inspector(), Facts()
    inspector.error = EffectError(REFUSED)
    async with host(inspector, facts) as running:
        for attempt in (1, 2):
            running.submit(ask("inspect", "image:1"), OWNER)
            failed = await facts.next()
            assert (failed.error, failed.attempts, failed.outcome) == (REFUSED, attempt, None)
        inspector.error = None
        running.submit(ask("inspect", "image:1"), OWNER)
        assert (await facts.next()).attempts == 0


async def test_a_bug_in_a_runner_is_an_unknown_error_and_others_go_on() -> None:
    inspector, facts = Inspector(), Facts()
    inspector.error = RuntimeError("unforeseen")
    async with host(inspector, facts) as running:
        running.submit(ask("inspect", "image:1"), OWNER)
        broken = await facts.next()
        inspector.error = None
        running.submit(ask("inspect", "image:2"), OWNER)
        assert (await facts.next()).outcome is not None
    assert broken.error is not None
    assert broken.error.category is Category.UNKNOWN
    assert "unforeseen" in broken.error.message


async def test_an_earlier_start_replaces_a_later_one_and_not_the_reverse() -> None:
    inspector, facts = Inspector(), Facts()
    later = datetime.now(UTC) + timedelta(hours=1)
    async with host(inspector, facts) as running:
        running.submit(ask("inspect", "image:1", not_before=later), OWNER)
        running.submit(ask("inspect", "image:1", not_before=later + timedelta(hours=1)), OWNER)
        assert (running.statistics.waiting, inspector.calls) == (1, [])
        running.submit(ask("inspect", "image:1"), OWNER)
        await facts.next()
    assert inspector.calls == ["image:1"]


async def test_nothing_is_gathered_for_an_object_that_is_gone() -> None:
    inspector, facts = Inspector(), Facts()
    inspector.gate.clear()
    async with host(inspector, facts) as running:
        running.submit(ask("inspect", "image:1"), OWNER)
        await asyncio.sleep(0)
        running.forget("u1")
        for _ in range(5):
            await asyncio.sleep(0)
        assert (running.statistics.running, running.statistics.waiting) == (0, 0)
    assert facts.known == []


async def test_an_effect_that_was_forgotten_before_it_began_can_be_asked_for_again() -> None:
    inspector, facts = Inspector(), Facts()
    async with host(inspector, facts) as running:
        running.submit(ask("inspect", "image:1"), OWNER)
        running.forget("u1")
        await eventually(lambda: running.statistics.waiting == 0, "the effect is forgotten", interval=0)
        running.submit(ask("inspect", "image:1"), OWNER)
        assert (await facts.next()).outcome is not None


async def test_an_outcome_that_is_none_and_a_type_that_is_not_declared_concern_no_other_effect() -> None:
    facts = Facts()

    async def broken(_: About) -> Labels:
        return ["not an object"]  # type: ignore[return-value]  # that is the bug

    async with EffectHost("discovery", [declared("inspect", 16)], {"inspect": broken}, facts) as running:
        with pytest.raises(KeyError, match="undeclared"):
            running.submit(ask("undeclared", "image:1"), OWNER)
        running.submit(ask("inspect", "image:1"), OWNER)
        fact = await facts.next()
    assert fact.error is not None
    assert fact.error.category is Category.UNKNOWN
    assert (running.statistics.failed, running.statistics.succeeded) == (1, 0)


@pytest.mark.spec("MS-252")
async def test_each_kind_has_its_own_limit() -> None:
    hanging, quick, facts = Inspector(), Inspector(), Facts()
    hanging.gate.clear()
    async with EffectHost(
        "model-sync", [declared("hang", 30), declared("quick", 1)], {"hang": hanging, "quick": quick}, facts
    ) as running:
        for number in range(40):
            running.submit(ask("hang", f"source:{number}"), OWNER)
        running.submit(ask("quick", "source:0"), OWNER)
        assert (await facts.next()).effect == "quick"
        assert (len(hanging.calls), running.statistics.waiting) == (30, 10)


@pytest.mark.spec("FW-595")
async def test_an_effect_does_not_wait_for_all_of_another_namespace() -> None:
    inspector, facts = Inspector(), Facts()
    inspector.gate.clear()
    theirs, mine = OWNER.model_copy(update={"namespace": "flood"}), OWNER.model_copy(update={"namespace": "team"})
    async with EffectHost("discovery", [declared("inspect", 1)], {"inspect": inspector}, facts) as running:
        for number in range(200):
            running.submit(ask("inspect", f"theirs-{number}"), theirs)
        await asyncio.sleep(0)
        running.submit(ask("inspect", "mine"), mine)
        await asyncio.sleep(0)
        inspector.gate.set()
        while "mine" not in inspector.calls:
            await facts.next()
    assert inspector.calls.index("mine") <= 2


@pytest.mark.spec("FW-862")
async def test_an_effect_waits_no_longer_because_the_clock_was_set_back() -> None:
    facts = Facts()
    async with host(Inspector(), facts) as running:
        running.submit(ask("inspect", "image:1"), OWNER)
        ahead = (await facts.next()).model_copy(update={"observed_at": datetime.now(UTC) + timedelta(hours=1)})
        facts.known.append(ahead)
        running.submit(ask("inspect", "image:1", ahead.observed_at + timedelta(milliseconds=20)), OWNER)
        again = await facts.next()
    assert again.observed_at < ahead.observed_at
