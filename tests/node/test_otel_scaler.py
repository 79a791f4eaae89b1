"""Collector and scaler on the loopback, with the configuration that KServe writes; needs no node."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from support.autoscaled_node import RUNNING, Page, collector
from support.nats import eventually

from aim_local.assets import AssetError, Program, find_toolset
from aim_local.ports import HOST, free_port
from aim_local.supervision.process import Program as Command
from aim_local.supervision.process import Supervised
from controller_runtime import JsonObject

WAITING = "vllm:num_requests_waiting"
QUERY = f'sum({RUNNING}{{namespace="demo", deployment="chat-predictor"}})'


class Engine(Page):
    """An engine with two gauges."""

    def text(self) -> str:
        return super().text() + f"# TYPE {WAITING} gauge\n{WAITING} 7\n"


@dataclass
class Chain:
    """Engine, collector and scaler.

    Attributes:
        queries: URL at which the scaler answers people.
        engine: its metrics.
    """

    queries: str
    engine: Engine

    async def value(self, query: str, operation: str = "last_one") -> float:
        """Present value of a query."""
        body = {"query": query, "operationOverTime": operation}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.queries}/memstore/query", json=body) as reply,
        ):
            found: JsonObject = await reply.json()
        assert found["ok"], found
        return float(found["value"])

    async def until(self, query: str, wanted: float) -> None:
        """Wait until a query has this value."""

        async def matches() -> bool:
            return await self.value(query) == wanted

        await eventually(matches, f"{query} is {wanted}")


@pytest_asyncio.fixture(loop_scope="session")
async def chain(tmp_path: Path) -> AsyncIterator[Chain]:
    """All three running; ends the test run with one line if a program is missing."""
    toolset = find_toolset()
    try:
        toolset.require(Program.OTEL_SCALER, Program.OTEL_SIDECAR)
    except AssetError as error:
        pytest.exit(str(error), returncode=1)
    otlp, scaler, queries = (f"{HOST}:{free_port()}" for _ in range(3))

    async def listens() -> str:
        try:
            _, writer = await asyncio.open_connection(*queries.split(":"))
        except OSError as error:
            return str(error)
        writer.close()
        return ""

    program = str(toolset.program(Program.OTEL_SCALER))
    arguments = [program, f"--otlp-address={otlp}", f"--scaler-address={scaler}", f"--query-address={queries}"]
    command = Command(Program.OTEL_SCALER, arguments, {"PATH": os.defpath}, listens)
    process = Supervised(command, tmp_path / "scaler.log", start_timeout=60, stop_patience=10)
    try:
        await process.start()
        engine = Engine(RUNNING)
        async with collector(tmp_path, engine, otlp, namespace="demo", deployment="chat-predictor"):
            yield Chain(f"http://{queries}", engine)
    finally:
        await process.stop()


async def test_the_engines_metric_reaches_the_scaler_with_the_labels_of_its_deployment(chain: Chain) -> None:
    chain.engine.value = 3
    await chain.until(QUERY, 3)
    chain.engine.value = 5
    await chain.until(QUERY, 5)
    assert await chain.value(QUERY, "max") == 5
    assert 0 < await chain.value(QUERY, "avg") <= 5
    assert await chain.value(QUERY.replace("chat-predictor", "other-predictor")) == 0


async def test_metrics_outside_metric_names_are_dropped(chain: Chain) -> None:
    chain.engine.value = 1
    await chain.until(QUERY, 1)
    assert await chain.value(QUERY.replace(RUNNING, WAITING)) == 0
    async with aiohttp.ClientSession() as session, session.get(f"{chain.queries}/memstore/data") as reply:
        assert list(await reply.json()) == [RUNNING]
