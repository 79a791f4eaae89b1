"""Every object is decided about once more, by the code of the services over the cache as the bus has it.

Where all is done, no plan wants to write. The services' own executor judges that: one that may not write stops at the
first write that it would have sent.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from matrix.oracle import ObjectKey
from matrix.site import Site
from support.deciding import decide

from aim_cli.services import services
from controller_runtime import Cache, ClassifiedError, JsonObject, Key, KubeClient, Reconciler, ServiceDefinition
from controller_runtime.log.broker.connection import BusSettings, connect
from controller_runtime.log.cache.feed import CacheFeed
from controller_runtime.log.cache.view import CacheView
from controller_runtime.log.wire.part import published_form
from controller_runtime.log.wire.version import Entry
from controller_runtime.manager.effects import FACTS_BY_OWNER
from controller_runtime.manager.settings import load_settings
from controller_runtime.reconcile.cache_access import Admission, CacheAccess
from controller_runtime.reconcile.child import Target
from controller_runtime.reconcile.events import EventWriter
from controller_runtime.reconcile.executor import Executor
from controller_runtime.reconcile.plan import Drop

_FRESH_SECONDS = 45.0


@dataclass(slots=True)
class Judged:
    """What deciding again has come to."""

    plans: int
    wanted: list[str]


@contextmanager
def settings_of(site: Site) -> Iterator[None]:
    """This process has the settings of the services, without those of single processes."""
    env: dict[str, str] = {}
    for process in site.stack.processes:
        env |= {name: value for name, value in process.program.env.items() if name.startswith("AIM_")}
    with patch.dict(os.environ, env):
        yield


def declared(site: Site) -> tuple[ServiceDefinition, ...]:
    """The declarations of all services, as they run there."""
    with settings_of(site):
        return tuple(code.definition(load_settings(code.settings, [])) for code in services().values())


async def judge(site: Site) -> Judged:
    """Decide about every object of every reconciler."""
    judged = Judged(0, [])
    for definition in declared(site):
        async with _cache(site, definition) as cache:
            if cache is None:
                judged.wanted.append(f"the world of {definition.name} does not become fresh")
                continue
            judged.wanted += behind(cache, site.mirror.objects)
            for reconciler in definition.reconcilers:
                await _judge_reconciler(site, definition, reconciler, cache, judged)
    return judged


@asynccontextmanager
async def _cache(site: Site, definition: ServiceDefinition) -> AsyncIterator[Cache | None]:
    """What a service that starts now knows; ``None``: it gets to know nothing."""
    cache = Cache(definition.consumes, (*definition.indexes, FACTS_BY_OWNER))
    async with connect(BusSettings.of_urls(site.stack.nats_url, "matrix")) as bus:
        feed = CacheFeed(cache, bus, definition.name, lambda _: None, None)
        feeding = asyncio.create_task(feed.run())
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FRESH_SECONDS * site.patience):
                    await feed.wait_synced()
            yield cache if all(part.fresh for part in feed.statistics.parts) else None
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


def behind(cache: Cache, present: Mapping[ObjectKey, JsonObject]) -> list[str]:
    """Objects that the bus lacks, or of which it holds something else than the API server."""
    found = []
    for part in cache.parts:
        held = {entry.key: entry for entry in cache.all(part)}
        for key, obj in present.items():
            if key.kind != part.kind.kind or obj["apiVersion"] != part.kind.api_version:
                continue
            entry = held.get(Key(key.namespace, key.name))
            # What a selector leaves out is not told here.
            if entry is None and not (part.label_selector or part.field_selector):
                found.append(f"no {key} on the bus")
            elif entry is not None and _content(entry.raw or {}) != _content(published_form(part, obj)):
                found.append(f"another {key} on the bus")
    return found


def _content(obj: JsonObject) -> JsonObject:
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}


async def _judge_reconciler(
    site: Site, definition: ServiceDefinition, reconciler: Reconciler[Any], cache: Cache, judged: Judged
) -> None:
    executor = _executor(site.client, definition, reconciler, cache)
    for entry in cache.all(reconciler.part):
        if wanted := await _wanted(executor, reconciler, cache, entry):
            judged.wanted.append(f"{reconciler.controller} would write for {entry.key}: {wanted}")
        judged.plans += 1


def _executor(client: KubeClient, definition: ServiceDefinition, reconciler: Reconciler[Any], cache: Cache) -> Executor:
    guarded = client.guarded(lambda: 0.0)
    access = CacheAccess(cache, lambda _: None)
    return Executor(
        guarded,
        reconciler,
        field_manager=definition.field_manager,
        cache=access,
        admission=Admission(access, guarded),
        events=EventWriter(guarded, definition.field_manager),
    )


async def _wanted(executor: Executor, reconciler: Reconciler[Any], cache: Cache, entry: Entry[Any]) -> str:
    """What the plan wants to write; empty if nothing."""
    obj = entry.decode()
    if isinstance(obj, ClassifiedError):
        return ""
    plan = replace(decide(reconciler, obj, CacheView(cache), datetime.now(UTC)), events=())
    execution = await executor.execute(Target(reconciler.part, entry.raw), plan)
    if execution.drop is not Drop.NOT_LEADER:
        return ""
    parts = {
        "patches": [one.body for one in plan.patches],
        "deletes": [one.name for one in plan.deletes],
        "children": [f"{one.body['kind']} {one.name}" for one in plan.children],
        "status": plan.status,
    }
    return str({name: value for name, value in parts.items() if value})[:600]
