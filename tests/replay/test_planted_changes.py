"""A replay has teeth: of changes planted in the decision modules it finds each that alters a plan, and no other."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from support.mutants import CHOOSERS, HARMLESS, MUTANTS, SERVICES, UNCHANGED, Mutant, Outcome
from support.whole_run import logged_run

from aim_cli.log.connecting import history
from aim_local.nats import NatsServer
from controller_runtime import loads
from controller_runtime.reconcile.record import MOST_BYTES

TESTS = Path(__file__).parents[1]
RUN_SECONDS = 180
REPLAY_SECONDS = 600
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(RUN_SECONDS + REPLAY_SECONDS)]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def log_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A broker with the log of a whole run, and nothing else that runs."""
    store = await logged_run(tmp_path_factory.mktemp("whole-run"))
    async with NatsServer(store) as server:
        yield server.url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def outcomes(log_url: str) -> Mapping[str, Outcome]:
    """What `aim replay` made of each change."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.mutants", log_url,
        env={**os.environ, "PYTHONPATH": str(TESTS)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(REPLAY_SECONDS):
        out, _ = await process.communicate()
    assert process.returncode == 0
    found = [Outcome(**loads(line)) for line in out.splitlines()]
    return {one.what: one for one in found}


def summary(outcome: Outcome) -> str:
    """The line that counts the verdicts."""
    return outcome.reported.splitlines()[-1]


async def test_the_run_has_decisions_of_every_service_and_short_records(log_url: str) -> None:
    async with history(log_url) as log:
        records = [one.record for one in await log.decisions()]
    counts = Counter(f"aim_{record.service.replace('-', '_')}" for record in records)
    assert set(counts) == set(SERVICES)
    assert min(counts.values()) > 3, counts
    assert max(len(record.to_json()) for record in records) <= MOST_BYTES


@pytest.mark.spec("FW-437", "FW-443")
@pytest.mark.parametrize("mutant", [UNCHANGED, HARMLESS], ids=lambda one: one.what)
async def test_what_alters_no_plan_is_the_same_throughout(outcomes: Mapping[str, Outcome], mutant: Mutant) -> None:
    outcome = outcomes[mutant.what]
    assert (outcome.code, ", 0 different, 0 undetermined" in summary(outcome)) == (0, True), outcome.reported


@pytest.mark.spec("FW-437", "FW-438", "FW-443", "FW-481")
@pytest.mark.parametrize("mutant", [*CHOOSERS, *MUTANTS], ids=lambda one: f"{one.module}: {one.what}")
async def test_what_alters_a_plan_is_different(outcomes: Mapping[str, Outcome], mutant: Mutant) -> None:
    outcome = outcomes[mutant.what]
    assert outcome.code == 1, outcome.reported
    assert " 0 different" not in summary(outcome)
    # A summary names no objects, so that the fold of then may have raised as well where the plan is the same.
    assert mutant.what == "a fold that raises" or ", 0 undetermined" in summary(outcome), outcome.reported


@pytest.mark.spec("FW-441", "FW-481")
@pytest.mark.parametrize("what", ["an index that raises", "a fold that raises"])
async def test_an_exception_of_what_finds_objects_is_reported(outcomes: Mapping[str, Outcome], what: str) -> None:
    reported = outcomes[what].reported
    assert "LookupError: planted" in reported
    assert "found otherwise: " in reported


@pytest.mark.spec("FW-441")
async def test_an_exception_is_reported_with_its_traceback(outcomes: Mapping[str, Outcome]) -> None:
    reported = outcomes["code that raises"].reported
    assert "Traceback (most recent call last):" in reported
    assert "LookupError: planted" in reported


@pytest.mark.spec("FW-443")
async def test_every_service_has_planted_changes() -> None:
    counts = Counter(mutant.service for mutant in MUTANTS)
    assert set(counts) == set(SERVICES)
    assert min(counts.values()) >= 4
    assert len({mutant.what for mutant in (*CHOOSERS, *MUTANTS)}) == len(CHOOSERS) + len(MUTANTS)
    assert len(MUTANTS) >= 20
