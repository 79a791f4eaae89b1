"""Whole passes over the objects of a bench, and what tests of them look at."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from support.reconcile_bench import CONFIG_MAPS, Bench, config_map

from aim_domain import AIMService
from controller_runtime import (
    Child,
    Component,
    Delete,
    JsonObject,
    Key,
    Plan,
    State,
    View,
    assemble,
    evaluate,
    status_json,
)
from controller_runtime.kinds import EVENT

CHAT = Key("default", "chat")


@asynccontextmanager
async def running(bench: Bench, workers: int = 2) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        group.create_task(bench.worker.run(workers))
        try:
            yield
        finally:
            bench.queue.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that passes bring about."""
    async with asyncio.timeout(60):
        for _ in iter(condition, True):
            await asyncio.sleep(0.005)


def serve(obj: AIMService, view: View) -> Plan:
    """A small reconciler: one ConfigMap, one component, one status."""
    child = view.get(CONFIG_MAPS, "default", "c")
    component = Component("InferenceService", State.READY if child.value else State.PROGRESSING)
    evaluation = evaluate(
        AIMService.components,
        [component],
        generation=obj.metadata.generation,
        stored=obj.status.conditions,
        stored_status=obj.status.status,
        now=Bench.clock,
        failure=view.failure,
    )
    running_ = {"Ready": "Running", "Progressing": "Starting"}
    status = {**status_json(evaluation), "status": running_.get(evaluation.status, evaluation.status)}
    return assemble(evaluation, status=status, children=[Child(CONFIG_MAPS, config_map("c", a="1"))])


def deletion(obj: JsonObject) -> Delete:
    return Delete(CONFIG_MAPS, "default", obj["metadata"]["name"], obj["metadata"]["uid"], "unused")


def conditions(obj: JsonObject) -> dict[str, tuple[str, str, str]]:
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in obj["status"]["conditions"]}


async def events(bench: Bench) -> list[tuple[str, int]]:
    listed = await bench.kube.list(EVENT, "default")
    return sorted((one["reason"], one["count"]) for one in listed.items)
